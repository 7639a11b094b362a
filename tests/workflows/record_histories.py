"""Records the histories that `test_histories.py` replays and that are not there yet.

`python -m tests.workflows.record_histories` is run when a scenario is added, never to make a failing replay pass: a
running approval keeps the behaviour that it started with, so a change of the workflow's commands goes behind
`workflow.patched`.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle

from adapters.embedded import TemporalServer
from core.approvals import Outcome, Verdict
from core.buttons import Verb
from core.rules import Scope, ScopeKind
from tests.workflows.callers import Listener, Refunds, failing
from tests.workflows.test_approval import a_hasty_decision
from tests.workflows.test_drafts import AGO, a_draft, a_listener
from tests.workflows.test_pausing import at_rest
from tests.workflows.test_resets import reset, tasks_until_the_call
from tests.workflows.world import World, a_caller, a_run, a_world, an_ask, serving, until

HISTORIES = Path(__file__).parents[1] / "histories"
Handle = WorkflowHandle[Any, Any]


async def asked(world: World, name: str, **ask: Any) -> Handle:
    handle = await world.ask(an_ask(**ask), id=f"ask-{name}")
    await world.row(handle.id)
    await until(lambda: world.desk.posted)
    await asyncio.sleep(0.5)
    return handle


async def allow(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await asked(world, "allow", run=a_run(queue))
        await world.decide(await world.row(handle.id))
        await handle.result()
    return handle


async def decline(world: World) -> Handle:
    handle = await asked(world, "decline")
    await world.decide(await world.row(handle.id), Verdict.DECLINE, "Ask her first")
    await handle.result()
    return handle


async def expire(world: World) -> Handle:
    handle = await asked(world, "expire", timeout_s=10)
    await handle.result()
    return handle


async def cancel(world: World) -> Handle:
    handle = await asked(world, "cancel")
    await handle.cancel()
    try:
        await handle.result()
    except WorkflowFailureError:
        return handle
    raise AssertionError("a cancelled workflow answered")


async def reset_to_the_call(world: World) -> Handle:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await asked(world, "reset", run=a_run(queue))
        await world.decide(await world.row(handle.id))
        await refunds.started.wait()
        again = await reset(world, handle, (await tasks_until_the_call(handle))[-1])
        await again.result()
    return again


async def draft(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue), runtime="draft"), id="ask-draft")
        await handle.result()
    return handle


async def draft_allowed(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide(row)
        await world.own(row).result()
    return world.own(row)


async def draft_undone(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide(row)
        await asyncio.sleep(0.5)
        await world.press(row, Verb.UNDO)
        await asyncio.sleep(0.5)
        await world.decide_before(row, AGO)
        await world.own(row).result()
    return world.own(row)


async def draft_restored(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide(row, Verdict.DECLINE)
        await asyncio.sleep(0.5)
        await world.press(row, Verb.RESTORE)
        await asyncio.sleep(0.5)
        await world.decide_before(row, AGO, Verdict.DECLINE)
        await world.own(row).result()
    return world.own(row)


async def sent_again(world: World) -> Handle:
    answers: list[Callable[[], Any]] = [failing("the bank is closed", "NotSent"), lambda: {"refund": "re_2"}]
    async with a_caller(world.client, [Refunds(answer=lambda: answers.pop(0)()).refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO)
        await world.own(row).result()
        await world.press(row, Verb.AGAIN_SURE)
        await world.became(row, Outcome.SENT)
        await world.own(row).result()
    return world.own(row)


async def notified(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        await world.decide_before(row, AGO)
        await listener.result()
        await world.own(row).result()
    return world.own(row)


async def notified_in_vain(world: World) -> Handle:
    row = await a_draft(world, "nobody", notify={"workflow_id": "nobody"})
    await world.own(row).cancel()
    with suppress(WorkflowFailureError):
        await world.own(row).result()
    return world.own(row)


async def auto(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        await world.apply({"runs": [{"tool": "chat.post", "activity": "refund", "task_queue": queue}]})
        await world.agents.add_rule("billing", Scope(ScopeKind.TOOL, "chat.post", ""))
        ask = an_ask(tool="chat.post", operation=None, effect=None, run=a_run(queue))
        handle = await world.ask(ask, id="ask-auto")
        await handle.result()
    return handle


async def auto_while_paused(world: World) -> Handle:
    await world.apply({"mode": "money_only"})
    await world.agents.pause("billing")
    ask = an_ask(tool="chat.post", operation=None, effect=None, run=a_run("nobody"), runtime="draft")
    handle = await world.ask(ask, id="ask-auto-while-paused")
    await handle.result()
    return handle


async def paused_and_resumed(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await asked(world, "paused", run=a_run(queue))
        await world.agents.pause("billing")
        await world.decide(await world.row(handle.id))
        await at_rest(world, handle.id, 1)
        await world.agents.resume("billing")
        await handle.result()
    return handle


async def agent_reset(world: World) -> Handle:
    handle = await asked(world, "agent-reset", run=a_run("nobody"))
    await world.agents.pause("billing")
    await world.decide(await world.row(handle.id))
    await at_rest(world, handle.id, 1)
    await world.agents.reset("billing")
    await handle.result()
    return handle


async def escalated(world: World) -> Handle:
    await world.apply(escalate={"after_s": 2, "ask": ["role:lead"], "at": ["telegram:-1002"]})
    handle = await asked(world, "escalated")
    await until(lambda: len(world.desk.posted) == 2)
    await asyncio.sleep(0.5)
    await world.decide(await world.row(handle.id), by="ola")
    await handle.result()
    return handle


async def quorum(world: World) -> Handle:
    await world.apply(ask=["role:approver", "role:lead"], needed=2)
    handle = await asked(world, "quorum")
    await world.decide(await world.row(handle.id))
    await asyncio.sleep(0.5)
    await world.decide(await world.row(handle.id), by="ola")
    await handle.result()
    return handle


SCENARIOS: dict[str, Callable[[World], Awaitable[Handle]]] = {
    "allow": allow,
    "decline": decline,
    "expire": expire,
    "cancel": cancel,
    "reset": reset_to_the_call,
    "draft": draft,
    "draft-allowed": draft_allowed,
    "draft-undone": draft_undone,
    "draft-restored": draft_restored,
    "sent-again": sent_again,
    "notified": notified,
    "notified-in-vain": notified_in_vain,
    "auto": auto,
    "auto-while-paused": auto_while_paused,
    "paused-and-resumed": paused_and_resumed,
    "agent-reset": agent_reset,
    "escalated": escalated,
    "quorum": quorum,
}
# Of workers of their own.
STALE, SWEEP = "decided-before-the-wait", "sweep"


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = TemporalServer(Path(folder))
        await server.start()
        try:
            for name, scenario in SCENARIOS.items():
                if there(name):
                    continue
                async with a_world(server.address, f"sqlite:///{folder}/{name}.db") as world, serving(world):
                    await keep(name, await scenario(world))
            if not there(STALE):
                async with a_world(server.address, f"sqlite:///{folder}/decided.db") as world:
                    await keep(STALE, await a_hasty_decision(world, stale=True))
            if not there(SWEEP):
                async with a_world(server.address, f"sqlite:///{folder}/sweep.db") as world, serving(world):
                    await world.sweep(id="sweep")
                    await keep(SWEEP, world.client.get_workflow_handle("sweep"))
        finally:
            await server.stop()


def there(name: str) -> bool:
    return (HISTORIES / f"{name}.json").exists()


async def keep(name: str, handle: Handle) -> None:
    history = (await handle.fetch_history()).to_json()
    # No worker's own names: a process id, a host, or what the queues of one run were called.
    history = re.sub(r"placet-[0-9a-f]{32}", "placet-sticky", history)
    (HISTORIES / f"{name}.json").write_text(json.dumps(json.loads(history), indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())

"""Records the histories that `test_histories.py` replays: `python -m tests.workflows.record_histories`.

To be run when a scenario is added, never to make a failing replay pass: a running approval keeps the behaviour that
it started with, so a change of the workflow's commands goes behind `workflow.patched`.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle

from adapters.embedded import TemporalServer
from core.approvals import Verdict
from tests.workflows.callers import Refunds
from tests.workflows.test_approval import a_hasty_decision
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


SCENARIOS: dict[str, Callable[[World], Awaitable[Handle]]] = {
    "allow": allow,
    "decline": decline,
    "expire": expire,
    "cancel": cancel,
    "reset": reset_to_the_call,
    "draft": draft,
}


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = TemporalServer(Path(folder))
        await server.start()
        try:
            for name, scenario in SCENARIOS.items():
                async with a_world(server.address, f"sqlite:///{folder}/{name}.db") as world, serving(world):
                    await keep(name, await scenario(world))
            async with a_world(server.address, f"sqlite:///{folder}/decided.db") as world:
                await keep("decided-before-the-wait", await a_hasty_decision(world, stale=True))
            async with a_world(server.address, f"sqlite:///{folder}/sweep.db") as world, serving(world):
                await world.sweep(id="sweep")
                await keep("sweep", world.client.get_workflow_handle("sweep"))
        finally:
            await server.stop()


async def keep(name: str, handle: Handle) -> None:
    history = (await handle.fetch_history()).to_json()
    # No worker's own names: a process id, a host, or what the queues of one run were called.
    history = re.sub(r"placet-[0-9a-f]{32}", "placet-sticky", history)
    (HISTORIES / f"{name}.json").write_text(json.dumps(json.loads(history), indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())

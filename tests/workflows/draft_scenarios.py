"""What a draft may go through: one way through the workflow each, to be recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from temporalio.client import WorkflowFailureError

from core.approvals import Outcome, Verdict
from core.buttons import Verb
from tests.workflows.callers import Listener, Refunds, failing
from tests.workflows.scenarios import Handle, Scenario
from tests.workflows.test_drafts import AGO, a_draft, a_listener, lost_from_sight
from tests.workflows.test_pausing import at_rest
from tests.workflows.test_resets import completed_tasks, reset
from tests.workflows.world import World, a_caller, a_run, an_ask, until


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


async def taken_back(world: World, first: Verdict, verb: Verb, *, then: Verdict) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide(row, first)
        await asyncio.sleep(0.5)
        await world.press(row, verb)
        await asyncio.sleep(0.5)
        await world.decide_before(row, AGO, then)
        await world.own(row).result()
    return world.own(row)


async def draft_undone(world: World) -> Handle:
    return await taken_back(world, Verdict.ALLOW, Verb.UNDO, then=Verdict.ALLOW)


async def draft_restored(world: World) -> Handle:
    return await taken_back(world, Verdict.DECLINE, Verb.RESTORE, then=Verdict.DECLINE)


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


async def auto_while_paused(world: World) -> Handle:
    await world.apply({"mode": "money_only"})
    await world.agents.pause("billing")
    ask = an_ask(tool="chat.post", operation=None, effect=None, run=a_run("nobody"), runtime="draft")
    handle = await world.ask(ask, id="ask-auto-while-paused")
    await handle.result()
    return handle


async def draft_auto(world: World) -> Handle:
    """Nobody has to be asked: it runs where it was asked, and its asker hears of it."""
    await world.apply({"mode": "money_only"})
    async with a_caller(world.client, [Refunds().refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        ask = an_ask(tool="chat.post", operation=None, effect=None, run=a_run(queue), runtime="draft",
                     notify={"workflow_id": listener.id})  # fmt: skip
        handle = await world.ask(ask, id="ask-draft-auto")
        await handle.result()
        await listener.result()
    return handle


async def draft_asked_again(world: World) -> Handle:
    """The run that asked is reset: the row has its workflow already."""
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue), runtime="draft"), id="ask-draft-asked-again")
        await handle.result()
        again = await reset(world, handle, (await completed_tasks(handle))[0])
        await again.result()
    return again


async def draft_over_http(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await world.ask_over_http(run=a_run(queue), runtime="draft")
        await until(lambda: world.desk.posted)
        await asyncio.sleep(0.5)
        await world.decide_before(row, AGO)
        await world.own(row).result()
    return world.own(row)


async def draft_expired(world: World) -> Handle:
    row = await a_draft(world, "nobody", timeout_s=10)
    await world.own(row).result()
    return world.own(row)


async def draft_declined(world: World) -> Handle:
    row = await a_draft(world, "nobody")
    await world.decide(row, Verdict.DECLINE)
    await world.own(row).result()
    return world.own(row)


async def draft_restored_and_allowed(world: World) -> Handle:
    return await taken_back(world, Verdict.DECLINE, Verb.RESTORE, then=Verdict.ALLOW)


async def draft_paused_and_resumed(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await a_draft(world, queue)
        await world.agents.pause("billing")
        await world.decide_before(row, AGO)
        await at_rest(world, f"approval-{row.id}", 1)
        await world.agents.resume("billing")
        await world.own(row).result()
    return world.own(row)


async def draft_agent_reset(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        await world.agents.pause("billing")
        await world.decide_before(row, AGO)
        await at_rest(world, f"approval-{row.id}", 1)
        await world.agents.reset("billing")
        await world.own(row).result()
        await listener.result()
    return world.own(row)


async def draft_withdrawn(world: World) -> Handle:
    row = await a_draft(world, "nobody")
    await world.approvals.withdraw(row.id, by="agent:billing")
    await world.own(row).result()
    return world.own(row)


async def draft_unknown(world: World) -> Handle:
    async with a_caller(world.client, [Refunds(answer=failing("no money left", "BankError")).refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO)
        await world.own(row).result()
    return world.own(row)


async def draft_cancelled_in_the_call(world: World) -> Handle:
    row, _ = await lost_from_sight(world, Refunds(waits=True))
    with suppress(WorkflowFailureError):
        await world.own(row).result()
    return world.own(row)


async def draft_not_needed(world: World) -> Handle:
    """A run for a row whose call has ended."""
    async with a_caller(world.client, [Refunds().refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO)
        await world.own(row).result()
        first = (await world.own(row).describe()).run_id
        await world.bell.start(row)
        await world.own(row).result()
        assert (await world.own(row).describe()).run_id != first
    return world.own(row)


DRAFTS: Mapping[str, Scenario] = {
    "draft": draft,
    "draft-allowed": draft_allowed,
    "draft-undone": draft_undone,
    "draft-restored": draft_restored,
    "draft-restored-and-allowed": draft_restored_and_allowed,
    "draft-declined": draft_declined,
    "draft-expired": draft_expired,
    "draft-withdrawn": draft_withdrawn,
    "draft-unknown": draft_unknown,
    "draft-cancelled-in-the-call": draft_cancelled_in_the_call,
    "draft-not-needed": draft_not_needed,
    "draft-auto": draft_auto,
    "draft-asked-again": draft_asked_again,
    "draft-over-http": draft_over_http,
    "draft-paused-and-resumed": draft_paused_and_resumed,
    "draft-agent-reset": draft_agent_reset,
    "sent-again": sent_again,
    "notified": notified,
    "notified-in-vain": notified_in_vain,
    "auto-while-paused": auto_while_paused,
}

"""What a call in a turn may go through, and a round of the sweep: one way through the workflow each, to be recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from temporalio import activity
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from core.approvals import Outcome, Verdict
from core.rules import Scope, ScopeKind
from tests.workflows.callers import Refunds, failing
from tests.workflows.test_approval import a_hasty_decision
from tests.workflows.test_calls import waits_for_the_database
from tests.workflows.test_pausing import at_rest
from tests.workflows.test_resets import reset, tasks_until_the_call
from tests.workflows.world import DIRECTORY, World, a_caller, a_run, an_ask, serving, until
from workflows import retries
from workflows.activities import Bookkeeping
from workflows.approval import ApprovalWorkflow
from workflows.payloads import Round, Row
from workflows.sweep import SweepWorkflow

Handle = WorkflowHandle[Any, Any]
Scenario = Callable[[World], Awaitable[Handle]]


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


async def auto(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        await world.apply({"runs": [{"tool": "chat.post", "activity": "refund", "task_queue": queue}]})
        await world.agents.add_rule("billing", Scope(ScopeKind.TOOL, "chat.post", ""))
        ask = an_ask(tool="chat.post", operation=None, effect=None, run=a_run(queue))
        handle = await world.ask(ask, id="ask-auto")
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


async def answered(world: World, name: str, refunds: Refunds, **run: Any) -> Handle:
    """A call that was allowed, once it has ended."""
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await asked(world, name, run=a_run(queue, **run))
        await world.decide(await world.row(handle.id))
        await handle.result()
    return handle


async def cancelled(handle: Handle) -> Handle:
    await handle.cancel()
    return await failed(handle)


async def failed(handle: Handle) -> Handle:
    with suppress(WorkflowFailureError):
        await handle.result()
        raise AssertionError("the workflow answered")
    return handle


async def allow_without_run(world: World) -> Handle:
    handle = await asked(world, "allow-without-run")
    await world.decide(await world.row(handle.id))
    await handle.result()
    return handle


async def edited(world: World) -> Handle:
    shown = {"title": "Refund", "lines": [["Reason", "/reason"]], "editable": ["/reason"]}
    arguments = {"charge": "ch_1", "reason": "twice"}
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await asked(world, "edited", run=a_run(queue), arguments=arguments, presentation=shown)
        row = await world.row(handle.id)
        await world.approvals.edit(row.id, "dana", {"/reason": "a duplicate"}, content_revision=1, via="cli")
        await asyncio.sleep(0.5)
        await world.decide(await world.now(row))
        await handle.result()
    return handle


async def settled_by_a_rule(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        await world.apply({"runs": [{"tool": "chat.post", "activity": "refund", "task_queue": queue}]})
        handle = await asked(world, "rule", tool="chat.post", operation=None, effect=None, run=a_run(queue))
        await world.agents.add_rule("billing", Scope(ScopeKind.TOOL, "chat.post", ""))
        await handle.result()
    return handle


async def run_closed(world: World) -> Handle:
    handle = await asked(world, "run-closed", run=a_run("nobody"), run_id="run-7")
    await world.agents.close_run("billing", "run-7")
    await handle.result()
    return handle


async def reminded(world: World) -> Handle:
    await world.apply(escalate={"after_s": 2, "ask": ["role:lead"], "at": ["telegram:-1002"]}, remind_s=8)
    handle = await asked(world, "reminded", timeout_s=12)
    await until(lambda: world.desk.reminded)
    await asyncio.sleep(0.5)
    await world.decide(await world.row(handle.id))
    await handle.result()
    return handle


async def seen_later(world: World) -> Handle:
    """Nobody can be reached until the directory says where."""
    route = DIRECTORY["routes"][0] | {"at": ["dm"]}
    nowhere = {"people": {"dana": {"name": "Dana Reyes"}}, "members": {"approver": ["dana"]}, "routes": [route]}
    await world.store.write(lambda ledger: ledger.replace_directory(DIRECTORY | nowhere))
    handle = await world.ask(an_ask(), id="ask-seen-later")
    row = await world.row(handle.id)
    await asyncio.sleep(0.5)
    assert world.desk.posted == []
    await world.store.write(lambda ledger: ledger.replace_directory(DIRECTORY | {"routes": [route]}))
    world.approvals.after_change_of_directory()
    await until(lambda: world.desk.posted)
    await asyncio.sleep(0.5)
    await world.decide(row)
    await handle.result()
    return handle


async def never_seen(world: World) -> Handle:
    """No card can be posted, and the call begins while that is still tried."""
    world.desk.stuck = True
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)), id="ask-never-seen")
        row = await world.row(handle.id)
        await asyncio.sleep(1)
        await world.decide(row)
        await handle.result()
    return handle


async def call_failed(world: World) -> Handle:
    return await answered(world, "call-failed", Refunds(answer=failing("no money left", "BankError")))


async def call_not_sent(world: World) -> Handle:
    return await answered(world, "call-not-sent", Refunds(answer=failing("the bank is closed", "NotSent")))


async def call_not_registered(world: World) -> Handle:
    return await answered(world, "call-not-registered", Refunds(), activity="refnud")


async def call_not_ended(world: World) -> Handle:
    return await answered(world, "call-not-ended", Refunds(waits=True), start_to_close_s=1)


async def call_not_taken_up(world: World) -> Handle:
    handle = await asked(world, "call-not-taken-up", run=a_run("nobody-serves-this", schedule_to_start_s=1))
    await world.decide(await world.row(handle.id))
    await handle.result()
    return handle


async def cancelled_at_once(world: World) -> Handle:
    return await cancelled(await world.ask(an_ask(), id="ask-cancelled-at-once"))


async def cancelled_before_the_claim(world: World) -> Handle:
    handle = await asked(world, "cancelled-before-the-claim", run=a_run("nobody"))
    world.bell.muted = True
    await world.decide(await world.row(handle.id))
    return await cancelled(handle)


async def cancelled_in_the_call(world: World) -> Handle:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await asked(world, "cancelled-in-the-call", run=a_run(queue))
        row = await world.row(handle.id)
        await world.decide(row)
        await refunds.started.wait()
        await handle.cancel()
        await world.became(row, Outcome.UNKNOWN)
        refunds.proceed.set()
        return await failed(handle)


async def refused(world: World) -> Handle:
    return await failed(await world.ask(an_ask(agent=7), id="ask-refused"))


async def away_when_asked(world: World) -> Handle:
    """The database is away for longer than anybody waits within a workflow task."""
    world.store.down = True
    handle = await world.ask(an_ask(), id="ask-away-when-asked")
    await until(lambda: waits_for_the_database(handle))
    world.store.down = False
    row = await world.row(handle.id)
    await until(lambda: world.desk.posted)
    await asyncio.sleep(0.5)
    await world.decide(row, Verdict.DECLINE)
    await handle.result()
    return handle


async def away_when_decided(world: World) -> Handle:
    async with a_caller(world.client, [Refunds().refund]) as queue:
        handle = await asked(world, "away-when-decided", run=a_run(queue))
        await world.decide(await world.row(handle.id))
        world.store.down = True
        await until(lambda: waits_for_the_database(handle))
        world.store.down = False
        await handle.result()
    return handle


async def away_when_sent(world: World) -> Handle:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await asked(world, "away-when-sent", run=a_run(queue))
        await world.decide(await world.row(handle.id))
        await refunds.started.wait()
        world.store.down = True
        refunds.proceed.set()
        await until(lambda: waits_for_the_database(handle))
        world.store.down = False
        await handle.result()
    return handle


async def away_when_cancelled(world: World) -> Handle:
    handle = await asked(world, "away-when-cancelled")
    world.store.down = True
    await handle.cancel()
    await until(lambda: waits_for_the_database(handle))
    world.store.down = False
    return await failed(handle)


async def cancelled_while_away(world: World) -> Handle:
    """It is claimed before the cancel is heeded, and does not begin."""
    handle = await asked(world, "cancelled-while-away", run=a_run("nobody"))
    await world.decide(await world.row(handle.id))
    world.store.down = True
    await until(lambda: waits_for_the_database(handle))
    await handle.cancel()
    world.store.down = False
    await failed(handle)
    assert (await world.row(handle.id)).outcome is Outcome.NOT_SENT
    return handle


async def external(world: World) -> Handle:
    row = await world.ask_over_http()
    await until(lambda: world.desk.posted)
    await asyncio.sleep(0.5)
    await world.decide(row)
    await world.own(row).result()
    return world.own(row)


async def external_expired(world: World) -> Handle:
    row = await world.ask_over_http(timeout_s=10)
    await until(lambda: world.desk.posted)
    await world.own(row).result()
    return world.own(row)


class Failing(Bookkeeping):
    """Takes no row for two times as long as anybody waits within a workflow task, though the database is there."""

    times = 0

    @activity.defn(name="take")
    async def take(self, approval_id: str) -> Row:
        self.times += 1
        if self.times <= 2 * (retries.AT_HAND.maximum_attempts or 0):
            raise ApplicationError("not now")
        return await super().take(approval_id)


async def taken_late(idle: World) -> Handle:
    idle.books = Failing(idle.approvals, idle.temporal.describe)
    async with serving(idle):
        return await decline(idle)


# Rounds


async def sweep(world: World) -> Handle:
    await world.sweep(id="sweep")
    return world.client.get_workflow_handle("sweep")


class Broken(Bookkeeping):
    """A round that fails as a whole."""

    @activity.defn(name="sweep")
    async def sweep(self) -> Round:
        raise ApplicationError("broken")


async def sweep_broken(idle: World) -> Handle:
    """Its one activity fails, and no process of the bots runs."""
    books = Broken(idle.approvals, idle.temporal.describe)
    worker = idle.temporal.worker("placet", workflows=[ApprovalWorkflow, SweepWorkflow], activities=books.activities)
    running = asyncio.create_task(worker.run())
    assert (await idle.sweep(id="sweep-broken"))["failed"] == ["rows", "redrawn"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return idle.client.get_workflow_handle("sweep-broken")


async def decided_before_the_wait(idle: World) -> Handle:
    return await a_hasty_decision(idle, stale=True)


SCENARIOS: Mapping[str, Scenario] = {
    "allow": allow,
    "allow-without-run": allow_without_run,
    "decline": decline,
    "expire": expire,
    "cancel": cancel,
    "reset": reset_to_the_call,
    "auto": auto,
    "edited": edited,
    "settled-by-a-rule": settled_by_a_rule,
    "paused-and-resumed": paused_and_resumed,
    "agent-reset": agent_reset,
    "run-closed": run_closed,
    "escalated": escalated,
    "reminded": reminded,
    "quorum": quorum,
    "seen-later": seen_later,
    "never-seen": never_seen,
    "call-failed": call_failed,
    "call-not-sent": call_not_sent,
    "call-not-registered": call_not_registered,
    "call-not-ended": call_not_ended,
    "call-not-taken-up": call_not_taken_up,
    "cancelled-at-once": cancelled_at_once,
    "cancelled-before-the-claim": cancelled_before_the_claim,
    "cancelled-in-the-call": cancelled_in_the_call,
    "refused": refused,
    "away-when-asked": away_when_asked,
    "away-when-decided": away_when_decided,
    "away-when-sent": away_when_sent,
    "away-when-cancelled": away_when_cancelled,
    "cancelled-while-away": cancelled_while_away,
    "external": external,
    "external-expired": external_expired,
    "sweep": sweep,
}
# With workers of their own.
APART: Mapping[str, Scenario] = {
    "decided-before-the-wait": decided_before_the_wait,
    "sweep-broken": sweep_broken,
    "taken-late": taken_late,
}

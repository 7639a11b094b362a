"""Asks that cannot be taken fail the workflow at once, naming the field and never the value."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from core.asks import read_ask
from core.service import Opened, Origin
from tests.workflows.callers import raw
from tests.workflows.world import World, a_run, an_ask

SECRET = "sk-4f9d2c"


async def refusal(world: World, *arguments: Any, id: str = "") -> ApplicationError:
    handle = await world.client.start_workflow(
        "ApprovalWorkflow", args=arguments, id=id or f"ask-{uuid4()}", task_queue="placet"
    )
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 10)
    cause = failure.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.non_retryable) == ("InvalidAsk", True)
    assert SECRET not in str(cause)
    assert await world.store.read(lambda ledger: ledger.approvals()) == []
    return cause


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (an_ask(agnet=SECRET), "agnet: unknown field"),
        (an_ask(agent=None), "agent: required and missing"),
        (an_ask(tool=None), "tool: required"),
        (an_ask(arguments=None), "arguments: required"),
        (an_ask(timeout_s=SECRET), "timeout_s: "),
        (an_ask(timeout_s=9), "timeout_s: must be greater than or equal to 10"),
        (an_ask(arguments=[SECRET]), "arguments: must be an object"),
        (an_ask(effect=SECRET), "effect: must be one of read, write, send, money"),
        (an_ask(runtime="external"), "runtime: external is for HTTP"),
        (an_ask(runtime="draft"), "run: a draft is sent by Placet"),
        (an_ask(run=a_run("placet")), "run.task_queue: this task queue is Placet's own"),
        (an_ask(run=a_run("/_sys/billing")), "run.task_queue: names that begin with /_sys/"),
        (an_ask(run={"activity": "refund"}), "run.task_queue: required"),
        (an_ask(run=a_run("billing", start_to_close=SECRET)), "run.start_to_close: unknown field"),
        (an_ask(presentation={"lines": [["Amount", "/amuont"]]}), "presentation.lines.0: /amuont points at nothing"),
        (an_ask(arguments={"amount": 2**60}), "arguments.amount: this number cannot be carried exactly"),
        (an_ask(arguments={"text": SECRET + "x" * 300_000}), "arguments: larger than 256 KB"),
        (an_ask(arguments={"text": SECRET + "x" * 1_500_000}), "arguments: "),
        (an_ask(reasoning="x" * 1_500_000), "reasoning: "),
        ([SECRET], "(the whole ask): not a JSON object"),
        (SECRET, "(the whole ask): not a JSON object"),
        ({}, "agent: required"),
        ({"approval_id": SECRET}, "approval_id: only the workflow approval-<id>"),
    ],
)
async def test_an_ask_that_cannot_be_taken_names_its_field(world: World, document: Any, field: str) -> None:
    assert str((await refusal(world, document)).message).startswith(field)


@pytest.mark.parametrize(
    "argument",
    [
        SECRET.encode(),
        raw(b"\x00" + SECRET.encode(), "binary/encrypted"),
        raw(SECRET.encode(), "something/else"),
        raw(b'{"agent": "billing"', "json/plain"),
        raw(b'{"agent": "\xff"}', "json/plain"),
        raw(b"[" * 200_000, "json/plain"),
        raw(b"", "json/plain"),
        None,
    ],
)
async def test_an_argument_that_cannot_be_decoded_fails_at_once(world: World, argument: Any) -> None:
    assert (await refusal(world, argument)).message.startswith("(the whole ask): ")


@pytest.mark.parametrize("arguments", [[], [an_ask(), an_ask()], [an_ask(), raw(b"?", "something/else")]])
async def test_one_argument_is_needed(world: World, arguments: list[Any]) -> None:
    assert (await refusal(world, *arguments)).message.startswith("(the whole ask): one JSON object is needed")


async def test_no_row_of_that_id(world: World) -> None:
    cause = await refusal(world, {"approval_id": "01980000"}, id="approval-01980000")
    assert cause.message == "approval_id: no approval has this id"


async def test_a_turns_row_is_not_taken_over_by_its_id(world: World) -> None:
    asked = read_ask(json.dumps(an_ask()), over="temporal")
    opened = await world.approvals.open(asked, Origin(workflow_id="turn", first_run_id="run"))
    assert isinstance(opened, Opened)
    handle = await world.client.start_workflow(
        "ApprovalWorkflow", {"approval_id": opened.approval.id}, id=f"approval-{opened.approval.id}",
        task_queue="placet",
    )  # fmt: skip
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 10)
    assert (await world.now(opened.approval)).pending

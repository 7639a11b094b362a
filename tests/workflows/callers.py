"""Programs that ask: workflows and activities that import nothing of Placet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError


@workflow.defn
class Agent:
    """Asks for each of its asks at once, in children of its own, and hands the answers on."""

    @workflow.run
    async def run(self, asks: list[dict[str, Any]]) -> list[Any]:
        children = [
            workflow.execute_child_workflow(
                "ApprovalWorkflow",
                ask,
                id=f"{workflow.info().workflow_id}-{number}",
                task_queue="placet",
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            for number, ask in enumerate(asks)
        ]
        return list(await asyncio.gather(*children))


@workflow.defn
class Loop:
    """An agent's loop: what the model wants is asked for in a child, and what came of it is what the model reads next.

    The activity `model` stands for the model: it is given everything it has read, and answers the next ask or None.
    """

    @workflow.run
    async def run(self) -> list[Any]:
        read: list[Any] = []
        while True:
            wanted: dict[str, Any] | None = await workflow.execute_activity(
                "model", read, start_to_close_timeout=timedelta(seconds=30)
            )
            if wanted is None:
                return read
            answer: dict[str, Any] = await workflow.execute_child_workflow(
                "ApprovalWorkflow",
                wanted,
                id=f"{workflow.info().workflow_id}-{len(read)}",
                task_queue="placet",
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            read.append({"said": answer["text"], "result": answer["result"]})


@dataclass
class Model:
    """Wants one thing after another; keeps what it was given to read."""

    wants: list[dict[str, Any]]
    inputs: list[list[Any]] = field(default_factory=list)

    @activity.defn(name="model")
    async def model(self, read: list[Any]) -> dict[str, Any] | None:
        self.inputs.append(read)
        return self.wants[len(read)] if len(read) < len(self.wants) else None


@workflow.defn
class Listener:
    """Hears what became of drafts, by the signal that an ask names or by the usual one, until it has heard enough."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @workflow.signal
    def placet_update(self, update: dict[str, Any]) -> None:
        self.heard.append(update)

    @workflow.signal
    def another(self, update: dict[str, Any]) -> None:
        self.heard.append({"by": "another"} | update)

    @workflow.run
    async def run(self, enough: int) -> list[Any]:
        await workflow.wait_condition(lambda: len(self.heard) >= enough)
        return self.heard


@workflow.defn
class Leaver:
    """Starts a refund and ends without waiting for it."""

    @workflow.run
    async def run(self) -> None:
        workflow.start_activity("refund", {}, start_to_close_timeout=timedelta(seconds=30))
        await workflow.sleep(1)


@dataclass
class Refunds:
    """A refund activity that keeps the bytes it was given; `answer` is what it does."""

    answer: Callable[[], Any] = lambda: {"refund": "re_1"}
    calls: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    proceed: asyncio.Event = field(default_factory=asyncio.Event)
    waits: bool = False
    heartbeats: bool = False

    @activity.defn(name="refund")
    async def refund(self, arguments: RawValue) -> Any:
        self.calls.append(arguments.payload.data)
        self.ids.append(activity.info().activity_id)
        self.started.set()
        if self.heartbeats:
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.05)
        if self.waits:
            await self.proceed.wait()
        return self.answer()


def raw(data: bytes, encoding: str = "json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding.encode()}, data=data))


def failing(message: str, kind: str | None = None, *details: Any) -> Callable[[], Any]:
    def fail() -> Any:
        raise ApplicationError(message, *details, type=kind)

    return fail

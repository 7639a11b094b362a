"""How a workflow keeps its books: within the workflow task while that works, then patiently outside it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from workflows import retries
from workflows.payloads import Fault

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# The activities answer raw payloads, which are read here: a converter's own reader would be kept for every workflow
# that waits.


async def locally(activity: str, *args: object) -> RawValue:
    """A local activity: in the workflow task, five seconds at most."""
    answer: RawValue = await workflow.execute_local_activity(
        activity,
        args=args,
        result_type=RawValue,
        schedule_to_close_timeout=retries.AT_HAND_FOR,
        retry_policy=retries.AT_HAND,
    )
    return answer


async def patiently(activity: str, *args: object) -> RawValue:
    """An ordinary activity, retried until it works; however long that takes, it is three events."""
    answer: RawValue = await workflow.execute_activity(
        activity,
        args=args,
        result_type=RawValue,
        start_to_close_timeout=retries.BOOKKEEPING_FOR,
        retry_policy=retries.UNTIL_IT_WORKS,
        priority=retries.ASKED,
    )
    return answer


async def keep(activity: str, *args: object) -> RawValue:
    """Bookkeeping that is done however long the database is away."""
    try:
        return await locally(activity, *args)
    except ActivityError as error:
        if final(error):
            raise
    return await patiently(activity, *args)


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work` also when this workflow is cancelled meanwhile; the cancel is raised after it."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def final(error: ActivityError) -> bool:
    """Whether trying again is in vain."""
    return isinstance(error.cause, ApplicationError) and error.cause.non_retryable


def read(model: type[M], answer: RawValue) -> M:
    return model.model_validate_json(answer.payload.data)


def refused(fault: Fault) -> ApplicationError:
    return ApplicationError(f"{fault.field}: {fault.problem}", type="InvalidAsk", non_retryable=True)

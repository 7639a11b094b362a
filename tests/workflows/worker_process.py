"""A process that a test kills: Placet's worker (ADDRESS URL FAULT), or a caller's (ADDRESS caller QUEUE)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from tests.workflows.world import a_world, serving
from workflows.activities import Bookkeeping
from workflows.payloads import Ended, Row


class Doomed(Bookkeeping):
    """Ends its process as a crash would, after the claim was committed or before the outcome is recorded."""

    fault = ""

    @activity.defn(name="take")
    async def take(self, approval_id: str) -> Row:
        row = await super().take(approval_id)
        if self.fault == "after-claim" and row.call is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    @activity.defn(name="record")
    async def record(self, ended: Ended) -> Row:
        if self.fault == "before-record":
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().record(ended)


async def placet(address: str, url: str, fault: str) -> None:
    async with a_world(address, url) as world:
        world.books = Doomed(world.approvals, world.temporal.describe)
        world.books.fault = fault
        async with serving(world):
            await asyncio.Event().wait()


@activity.defn(name="refund")
async def refund(arguments: dict[str, Any]) -> None:
    print("started", flush=True)
    await asyncio.Event().wait()


async def caller(address: str, queue: str) -> None:
    client = await Client.connect(address)
    async with Worker(client, task_queue=queue, activities=[refund]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    where, what, third = sys.argv[1:4]
    asyncio.run(caller(where, third) if what == "caller" else placet(where, what, third))

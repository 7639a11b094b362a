"""A worker in a process of its own, whose memory is read: `waiting_process placet|bare ADDRESS URL CACHE`.

Both load the same program and open the same database, so that the difference is what waits.
"""

from __future__ import annotations

import asyncio
import sys

from temporalio.worker import Worker

from tests.bench.callers import ACTIVITIES, BARE, WORKFLOWS
from tests.workflows.world import a_world, serving


async def main(what: str, address: str, url: str, cache: int) -> None:
    async with a_world(address, url) as world:
        if what == "placet":
            async with serving(world, cache=cache):
                await asyncio.Event().wait()
        worker = Worker(
            world.client, task_queue=BARE, workflows=WORKFLOWS, activities=ACTIVITIES, max_cached_workflows=cache
        )
        await worker.run()


if __name__ == "__main__":
    kind, server, database, size = sys.argv[1:5]
    asyncio.run(main(kind, server, database, int(size)))

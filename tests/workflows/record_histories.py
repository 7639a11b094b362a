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
from pathlib import Path

from adapters.embedded import TemporalServer
from tests.workflows.draft_scenarios import DRAFTS
from tests.workflows.scenarios import APART, SCENARIOS, Handle
from tests.workflows.world import a_world, serving

HISTORIES = Path(__file__).parents[1] / "histories"
ALL = {**SCENARIOS, **DRAFTS, **APART}


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = TemporalServer(Path(folder))
        await server.start()
        try:
            for name, scenario in ALL.items():
                if (HISTORIES / f"{name}.json").exists():
                    continue
                async with a_world(server.address, f"sqlite:///{folder}/{name}.db") as world:
                    if name in APART:
                        await keep(name, await scenario(world))
                        continue
                    async with serving(world):
                        await keep(name, await scenario(world))
        finally:
            await server.stop()


async def keep(name: str, handle: Handle) -> None:
    history = (await handle.fetch_history()).to_json()
    # No worker's own names: a process id, a host, where its code lies, or what the queues of one run were called.
    history = re.sub(r"placet-[0-9a-f]{32}", "placet-sticky", history)
    history = re.sub(r'"stackTrace": "(?:[^"\\]|\\.)*"', '"stackTrace": ""', history)
    (HISTORIES / f"{name}.json").write_text(json.dumps(json.loads(history), indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())

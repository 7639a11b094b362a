"""Measures Placet beside its floors: prints a table, writes bench.json.

make bench [ARGS="--only press"]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from adapters.embedded import Server, ValkeyServer
from adapters.logs import configure_logs
from tests.bench import presses
from tests.bench.figures import Figure, show, write
from tests.services import PostgresServer

Measure = Callable[[Path], Coroutine[Any, Any, Sequence[Figure]]]


async def press_postgres(folder: Path) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        # The server's own defaults: every commit reaches the disk.
        postgres, valkey = PostgresServer(folder, settings=()), ValkeyServer(folder)
        await started(stack, postgres, valkey)
        return await presses.measure_postgres(postgres.url(await postgres.create_database()), valkey.url)


async def press_sqlite(folder: Path) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        valkey = ValkeyServer(folder)
        await started(stack, valkey)
        return await presses.measure_sqlite(folder, valkey.url)


async def started(stack: AsyncExitStack, *servers: Server) -> None:
    for server in servers:
        stack.push_async_callback(server.stop)
        await server.start()


MEASURES: dict[str, Measure] = {
    "press-postgresql": press_postgres,
    "press-sqlite": press_sqlite,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Placet's figures beside their floors.")
    parser.add_argument("--only", metavar="NAME", help=f"those whose name begins so: {', '.join(MEASURES)}")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="where the figures are written")
    chosen = parser.parse_args()
    console = Console()
    figures: list[Figure] = []
    for name, measure in MEASURES.items():
        if not name.startswith(chosen.only or ""):
            continue
        with (
            tempfile.TemporaryDirectory(prefix="placet-bench-", ignore_cleanup_errors=True) as folder,
            (Path(folder) / "placet.log").open("w") as log,
            console.status(name),
        ):
            # Logs go to a file as JSON, as they do in production: a press pays for its lines.
            configure_logs("info", json=True, stream=log)
            figures += uvloop.run(measure(Path(folder)))
    show(figures, console)
    write(figures, chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

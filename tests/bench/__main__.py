"""Measures Placet beside its floors: prints a table, writes bench.json.

make bench [ARGS="--only press"]
"""

from __future__ import annotations

import argparse
import os
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
from tests.bench import chats, deciding, demo, presses, redraws, settling, temporal
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


async def redraws_telegram(folder: Path) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        valkey = ValkeyServer(folder)
        await started(stack, valkey)
        return await redraws.measure_redraws(folder, valkey.url)


async def chats_all(folder: Path) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        valkey = ValkeyServer(folder)
        await started(stack, valkey)
        measures = (settling.measure_settling, chats.measure_chats, chats.measure_memory)
        return [figure for measure in measures for figure in await measure(folder, valkey.url)]


async def started(stack: AsyncExitStack, *servers: Server) -> None:
    for server in servers:
        stack.push_async_callback(server.stop)
        await server.start()


MEASURES: dict[str, Measure] = {
    "press-postgresql": press_postgres,
    "press-sqlite": press_sqlite,
    "deciding": deciding.measure_deciding,
    "redraws": redraws_telegram,
    "chats": chats_all,
    "demo": demo.measure_demo,
    "temporal": temporal.measure_temporal,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Placet's figures beside their floors.")
    parser.add_argument("--only", metavar="NAME", help=f"those whose name begins so: {', '.join(MEASURES)}")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="where the figures are written")
    chosen = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; other work on the machine shows in the figures"
    )
    figures: list[Figure] = []
    failed: list[str] = []
    for name, measure in MEASURES.items():
        if name.startswith(chosen.only or ""):
            with console.status(name):
                try:
                    figures += measured(measure)
                except Exception:
                    console.print_exception()
                    failed.append(name)
    show(figures, console)
    write(figures, chosen.out)
    for name in failed:
        console.print(f"not measured: {name}, for the fault above", style="red")
    return 1 if failed else 0


def measured(measure: Measure) -> Sequence[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="placet-bench-", ignore_cleanup_errors=True) as folder,
        (Path(folder) / "placet.log").open("w") as log,
    ):
        # Logs go to a file as JSON, as they do in production: a press pays for its lines.
        configure_logs("info", json=True, stream=log)
        return uvloop.run(measure(Path(folder)))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # As every command of Placet ends: the Temporal SDK crashes some processes while the interpreter winds down.
    os._exit(code)

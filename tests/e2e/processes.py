"""Processes of Placet, started as an operator starts them and ended as an operator or a crash would."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from adapters.embedded import HOST
from tests.deploy.files import DEPLOY, services
from tests.services import free_port

T = TypeVar("T")

PLACET = Path(sys.executable).with_name("placet")
PATIENCE_S = 60.0


async def until(check: Callable[[], Awaitable[T | None]], within: float = PATIENCE_S) -> T:
    """Ask again and again until the answer is true; a fault of the network means not yet."""
    async with asyncio.timeout(within):
        while True:
            try:
                if found := await check():
                    return found
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)


class Process:
    """One process of Placet, its log in a file; as a context it lives from "started" to its orderly end."""

    def __init__(
        self,
        name: str,
        folder: Path,
        environment: Mapping[str, str],
        command: Sequence[str | Path] = (PLACET, "serve"),
        grace_s: float = 20.0,
    ) -> None:
        """`environment` holds its settings, PLACET_HTTP_BIND among them; it has no other."""
        self.name, self.log = name, folder / f"{name}.log"
        self.url = f"http://{environment['PLACET_HTTP_BIND']}"
        self._folder, self._command, self._grace_s = folder, command, grace_s
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("PLACET_")}
        self._environment |= environment
        self._running: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self.start()

        async def started() -> bool:
            self._lives()
            return '"event": "started", "logger": "placet.app"' in self.log.read_text()

        try:
            await until(started)
        except BaseException:
            self.end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is None or self._running.poll() is not None:
            return
        try:
            await self.stop()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop: {self._last_words()}") from None

    def start(self) -> None:
        assert self._running is None
        with self.log.open("ab") as output:
            self._running = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """As the kernel ends a process that is out of memory."""
        assert self._running is not None
        self._running.kill()
        self._running.wait()
        self._running = None

    async def stop(self) -> int:
        """As an orderly deployment does; the exit code, within the time that it is given."""
        assert self._running is not None
        self._running.terminate()
        return await self.ended(self._grace_s)

    async def ended(self, within: float = PATIENCE_S) -> int:
        """Wait until it ends; the exit code."""
        assert self._running is not None
        code = await asyncio.to_thread(self._running.wait, within)
        self._running = None
        return code

    async def killed(self) -> None:
        """Wait until it has killed itself."""
        assert await self.ended() == -signal.SIGKILL, self._last_words()

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._running is not None:
            self.kill()

    async def ready(self) -> dict[str, str]:
        """Start if need be, and wait until every check is well; the checks."""
        if self._running is None:
            self.start()

        async def well() -> dict[str, str] | None:
            self._lives()
            checks = await self.checks()
            return checks if set(checks.values()) == {"ok"} else None

        return await until(well)

    async def checks(self) -> dict[str, str]:
        """What /readyz says of the services that the process stands on."""
        found: dict[str, str] = (await self._get("/readyz")).json()["checks"]
        return found

    async def status(self) -> int:
        return (await self._get("/readyz")).status_code

    async def metrics(self) -> str:
        return (await self._get("/metrics")).text

    def healthy(self) -> bool:
        """Whether the image's own health check finds the process well."""
        check = [sys.executable, "-I", "-S", str(DEPLOY / "healthcheck.py")]
        return subprocess.run(check, env=self._environment, capture_output=True).returncode == 0

    async def run(self, *words: str, **settings: str) -> str:
        """Run another command with this process's settings, as `docker compose exec` does; what it printed."""
        done = await asyncio.create_subprocess_exec(
            PLACET, *words, cwd=self._folder, env=self._environment | settings,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, complained = await done.communicate()
        assert done.returncode == 0, complained.decode()
        return said.decode()

    def events(self) -> list[dict[str, Any]]:
        """The log, a JSON object a line."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def _lives(self) -> None:
        assert self._running is not None
        assert self._running.poll() is None, f"{self.name} ended: {self._last_words()}"

    def _last_words(self) -> str:
        return self.log.read_text()[-3000:]

    async def _get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=10, trust_env=False) as client:
            return await client.get(f"{self.url}{path}")


def service(name: str, folder: Path, settings: Mapping[str, str]) -> Process:
    """One service of compose.yaml on this machine: its command, and its settings save for the addresses given."""
    told = services()[name]
    # What the service is not given there, it is not given here: each process has its own settings.
    known = {*told["environment"], "PLACET_TELEGRAM_BASE_URL", "PLACET_DATA_DIR"}
    environment = told["environment"] | {key: value for key, value in settings.items() if key in known}
    return Process(
        name, folder, environment | {"PLACET_HTTP_BIND": f"{HOST}:{free_port()}"},
        command=(PLACET, *told["command"]), grace_s=float(told["stop_grace_period"].removesuffix("s")),
    )  # fmt: skip

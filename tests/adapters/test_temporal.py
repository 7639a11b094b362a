"""The client, the bell, the schedule and the codec over a real Temporal server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.processors import JSONRenderer
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, ScheduleOverlapPolicy, ScheduleUpdate, ScheduleUpdateInput, WorkflowFailureError
from temporalio.converter import DataConverter, PayloadCodec

from adapters.logs import Lines
from adapters.temporal import SWEEP_ID, Temporal, TemporalBell, load_codec, workflow_of
from core.approvals import Runtime
from core.ports import BadSetting, Unavailable
from tests.builders import an_approval
from tests.services import temporal_in
from tests.workflows.callers import Leaver, Refunds
from tests.workflows.world import Quiet, World, a_caller, a_run, a_world, an_ask, history_of, serving, until


class Reversing(PayloadCodec):
    """An encryption of sorts: the bytes backwards, under an encoding of its own; a wrong key cannot read them."""

    def __init__(self, key: bytes = b"k1", writes: bytes = b"") -> None:
        self.key, self.writes = key, writes or key

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": b"binary/reversed", "key": self.writes}, data=p.SerializeToString()[::-1])
            for p in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._decode(p) for p in payloads]

    def _decode(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != b"binary/reversed":
            return payload
        if payload.metadata.get("key") != self.key:
            raise ValueError("the key is not mine")
        return Payload.FromString(payload.data[::-1])


async def encrypting(address: str, key: bytes = b"k1", writes: bytes = b"") -> Client:
    return await Client.connect(address, data_converter=DataConverter(payload_codec=Reversing(key, writes)))


async def test_a_codec_reaches_the_ask_the_call_and_the_result(temporal_address: str, sqlite_url: str) -> None:
    refunds = Refunds(answer=lambda: {"refund": "re_secret"})
    async with a_world(temporal_address, sqlite_url, codec=Reversing()) as world, serving(world):
        world.client = await encrypting(temporal_address)
        async with a_caller(world.client, [refunds.refund]) as queue:
            handle = await world.ask(an_ask(arguments={"charge": "ch_secret"}, run=a_run(queue)))
            await world.decide(await world.row(handle.id))
            answer = await asyncio.wait_for(handle.result(), 60)
        history = await history_of(handle)
    assert (answer["outcome"], answer["result"]) == ("sent", {"refund": "re_secret"})
    assert json.loads(refunds.calls[0]) == {"charge": "ch_secret"}
    assert "ch_secret" not in history
    assert "re_secret" not in history


async def test_an_ask_under_a_key_that_placet_lacks_fails_at_once(temporal_address: str, sqlite_url: str) -> None:
    async with a_world(temporal_address, sqlite_url, codec=Reversing()) as world, serving(world):
        world.client = await encrypting(temporal_address, b"k2")
        handle = await world.ask(an_ask())
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), 60)
    assert "give Placet's worker the same payload codec" in str(failure.value.cause)


async def test_a_result_under_a_key_that_placet_lacks_is_null(temporal_address: str, sqlite_url: str) -> None:
    refunds = Refunds()
    async with a_world(temporal_address, sqlite_url, codec=Reversing()) as world, serving(world):
        other = await encrypting(temporal_address, writes=b"k2")
        world.client = await encrypting(temporal_address)
        async with a_caller(other, [refunds.refund]) as queue:
            handle = await world.ask(an_ask(run=a_run(queue)))
            await world.decide(await world.row(handle.id))
            answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["outcome"], answer["result"]) == ("sent", None)
    assert "binary/reversed" in answer["error"]


async def test_what_the_sdks_core_says_is_a_log_line_without_its_fields(
    temporal_address: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    refunds = Refunds(waits=True)
    client = await Temporal(temporal_address).ready()
    async with a_caller(client, [refunds.refund], [Leaver]) as queue:
        await client.execute_workflow("Leaver", id=f"leaver-{uuid4()}", task_queue=queue)
        await asyncio.wait_for(refunds.started.wait(), 10)
        refunds.proceed.set()
        await until(lambda: "temporalio.core" in [each.name for each in caplog.records])
    said = next(each for each in caplog.records if each.name == "temporalio.core")
    assert said.getMessage().startswith("Activity not found on completion")
    assert "leaver-" not in said.getMessage()
    line = json.loads(Lines([], JSONRenderer()).format(said))
    assert sorted(line) == ["event", "level", "logger", "timestamp"]
    assert capfd.readouterr().out == ""


def test_a_codec_is_loaded_by_name() -> None:
    assert isinstance(load_codec(f"{__name__}:Reversing"), Reversing)
    for name in ("no.such.module:codec", f"{__name__}:Nothing", "json:dumps", f"{__name__}:Path"):
        with pytest.raises(BadSetting, match="PLACET_TEMPORAL_CODEC"):
            load_codec(name)


def test_the_workflow_of_a_row_is_the_one_that_waits_for_it() -> None:
    turn = an_approval(workflow_id="ask-1")
    assert workflow_of(turn) == "ask-1"
    draft = an_approval(runtime=Runtime.DRAFT, workflow_id="ask-2")
    assert workflow_of(draft) == f"approval-{draft.id}"


async def test_the_schedule_is_made_once_and_brought_up_to_date(temporal_address: str) -> None:
    temporal = Temporal(temporal_address)
    handle = (await temporal.client()).get_schedule_handle(SWEEP_ID)
    try:
        assert await temporal.ensure_schedule() == "created"
        assert await temporal.ensure_schedule() == "unchanged"
        made = (await handle.describe()).schedule
        assert made.policy.overlap is ScheduleOverlapPolicy.SKIP
        assert [interval.every for interval in made.spec.intervals] == [timedelta(seconds=30)]

        def slower(input: ScheduleUpdateInput) -> ScheduleUpdate:
            schedule = input.description.schedule
            schedule.spec.intervals[0].every = timedelta(minutes=5)
            return ScheduleUpdate(schedule)

        async def now(every: timedelta, *, paused: bool) -> bool:
            schedule = (await handle.describe()).schedule
            return [interval.every for interval in schedule.spec.intervals] == [
                every
            ] and schedule.state.paused is paused

        # The server shows what it was told a moment later, and a pause beside an update may be lost in it.
        await handle.update(slower)
        await until(lambda: now(timedelta(minutes=5), paused=False))
        await handle.pause(note="by an operator")
        await until(lambda: now(timedelta(minutes=5), paused=True))
        assert await temporal.ensure_schedule() == "updated"
        await until(lambda: now(timedelta(seconds=30), paused=True))
    finally:
        await handle.delete()


async def test_a_nudge_to_nobody_is_counted_and_raises_nothing(temporal_address: str) -> None:
    meter = Quiet()
    bell = TemporalBell(Temporal(temporal_address), meter)
    await bell.ring(an_approval(workflow_id=f"nobody-{uuid4()}"))
    assert meter.nudges == ["gone"]


async def test_a_claimed_row_is_not_rung(temporal_address: str) -> None:
    meter = Quiet()
    await TemporalBell(Temporal(temporal_address), meter).ring(an_approval(workflow_id="any", claim_token="t"))
    assert meter.nudges == []


async def test_ac56_while_the_server_is_down_everything_else_goes_on_and_it_is_found_again(
    tmp_path: Path, sqlite_url: str
) -> None:
    server = temporal_in(tmp_path)
    await server.start()
    address = server.address
    await server.stop()
    refunds = Refunds()
    try:
        async with a_world(address, sqlite_url, lazy=True) as world:
            began = time.monotonic()
            await world.bell.bell.ring(an_approval(workflow_id="any"))
            await world.bell.bell.start(an_approval(runtime=Runtime.EXTERNAL))
            assert time.monotonic() - began < 10
            assert world.meter.nudges == ["failed"]
            assert "does not answer" in (await world.temporal.check() or "")
            with pytest.raises(Unavailable):
                await world.temporal.describe(an_approval(workflow_id="any"))
            async with serving(world):
                await asyncio.sleep(0.5)
                await server.start()
                world.client = await Client.connect(address)
                async with a_caller(world.client, [refunds.refund]) as queue:
                    handle = await world.ask(an_ask(run=a_run(queue)))
                    row = await world.row(handle.id)
                    await until(lambda: world.desk.posted)
                    # Down again while it is decided: the press stands, and the call runs when the server is back.
                    await server.kill()
                    await world.decide(row)
                    await world.approvals.close()
                    await server.start()
                    await until(lambda: is_up(world), 60)
                    world.clock.set = world.clock.now() + timedelta(seconds=6)
                    await world.approvals.ring_unconsumed()
                    assert (await asyncio.wait_for(handle.result(), 30))["outcome"] == "sent"
        assert len(refunds.calls) == 1
    finally:
        await server.stop()


async def is_up(world: World) -> bool:
    return await world.temporal.check() is None

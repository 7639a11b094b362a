"""The Redis gate: one answer per press, a rate per person and chat, and no harm when Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from adapters import gate as gate_module
from adapters.embedded import ValkeyServer
from adapters.gate import Limits, RedisGate, key, recalled
from core.approvals import Actor, Button, Field, Form, Message, Press, Reply, Tone
from core.ports import Admission
from tests.services import run

DANA = Actor("telegram", "", "1001", "Dana")
OLA = Actor("telegram", "", "1002", "Ola")
CARD = Message("telegram", "bot1", "-100", "31", "7")
ALLOWED = Reply("Allowed.", Tone.GOOD, redraw=True, approval_id="a-1", result="approved")
NOT_YOURS = Reply("Only approvers may answer.", Tone.ALERT, refused=True, result="not_entitled")


def press(event: str = "", actor: Actor = DANA, message: Message = CARD) -> Press:
    return Press(key=event or uuid4().hex, actor=actor, message=message, verb="a", token="t", content_revision=1)


@pytest.fixture
async def gate(valkey_url: str) -> AsyncIterator[RedisGate]:
    async with RedisGate(valkey_url) as made:
        yield made


async def test_a_new_press_passes(gate: RedisGate) -> None:
    assert await gate.admit(press()) == Admission()


async def test_a_duplicate_of_the_same_person_gets_the_stored_answer(gate: RedisGate) -> None:
    await gate.admit(press("e1"))
    await gate.settle(press("e1"), ALLOWED)
    assert (await gate.admit(press("e1"))).answer == ALLOWED
    assert (await gate.admit(press("e2"))).answer is None


async def test_a_menu_is_given_again_and_a_form_is_made_anew(gate: RedisGate, valkey_url: str) -> None:
    menu = Reply("Which?", menu=(Button("w", "Everything", "danger", token="R" * 16, number=3),))
    await gate.admit(press("e1"))
    await gate.settle(press("e1"), menu)
    assert (await gate.admit(press("e1"))).answer == menu
    field = Field("1", "Reason", "what only the database holds", multiline=True, limit=9)
    await gate.admit(press("e2"))
    await gate.settle(press("e2"), Reply("Change it.", form=Form("Edit", (field,), "e", "t" * 16, 1, "")))
    assert (await gate.admit(press("e2"))).answer is None
    async with Redis.from_url(valkey_url) as redis:
        kept = [await redis.hgetall(each) for each in await redis.keys("placet:press:*")]
    assert field.value not in str(kept)


async def test_a_duplicate_of_another_person_never_sees_the_answer_nor_replaces_it(gate: RedisGate) -> None:
    await gate.admit(press("e1"))
    await gate.settle(press("e1"), ALLOWED)
    assert (await gate.admit(press("e1", OLA))).answer is None
    await gate.settle(press("e1", OLA), NOT_YOURS)
    assert (await gate.admit(press("e1", OLA))).answer is None
    assert (await gate.admit(press("e1"))).answer == ALLOWED


async def test_the_same_event_id_of_another_bot_is_another_press(gate: RedisGate) -> None:
    await gate.settle(press("e1"), ALLOWED)
    assert (await gate.admit(press("e1", message=replace(CARD, account="bot2")))).answer is None


async def test_a_repeat_before_the_answer_goes_on_and_is_not_charged(valkey_url: str) -> None:
    async with RedisGate(valkey_url, Limits(person_per_minute=2)) as gate:
        for _ in range(5):
            assert await gate.admit(press("e1")) == Admission()
        assert (await gate.admit(press())).wait_s == 0
        assert (await gate.admit(press())).wait_s > 0


async def test_an_admission_is_a_lease_of_30_s_and_an_answer_is_kept_24_h(gate: RedisGate, valkey_url: str) -> None:
    async with Redis.from_url(valkey_url) as redis:
        await gate.admit(press("e1"))
        kept = [name async for name in redis.scan_iter("placet:press:*")]
        assert len(kept) == 1
        assert 29_000 < await redis.pttl(kept[0]) <= 30_000
        await gate.settle(press("e1"), ALLOWED)
        assert 86_390_000 < await redis.pttl(kept[0]) <= 86_400_000


async def test_over_the_rate_the_seconds_to_wait_are_told_and_not_remembered(valkey_url: str) -> None:
    async with RedisGate(valkey_url, Limits(person_per_minute=120)) as gate:
        for _ in range(120):
            assert (await gate.admit(press())).wait_s == 0
        assert await gate.admit(press("late")) == Admission(wait_s=1)
        await asyncio.sleep(0.55)
        assert await gate.admit(press("late")) == Admission()


async def test_by_default_a_person_has_30_presses_and_waits_2_s_for_the_next(gate: RedisGate) -> None:
    for _ in range(30):
        assert (await gate.admit(press())).wait_s == 0
    assert (await gate.admit(press())).wait_s == 2
    assert (await gate.admit(press(actor=OLA))).wait_s == 0


async def test_the_same_id_of_another_tenant_is_another_person(valkey_url: str) -> None:
    async with RedisGate(valkey_url, Limits(person_per_minute=1)) as gate:
        assert (await gate.admit(press(actor=Actor("slack", "T1", "U1")))).wait_s == 0
        assert (await gate.admit(press(actor=Actor("slack", "T2", "U1")))).wait_s == 0
        assert (await gate.admit(press(actor=Actor("slack", "T1", "U1")))).wait_s > 0


async def test_only_refused_presses_empty_the_chat_and_it_refills(valkey_url: str) -> None:
    limits = Limits(person_per_minute=10_000, chat_refusals_per_minute=120)
    async with RedisGate(valkey_url, limits) as gate:
        await asyncio.gather(*(gate.settle(press(), ALLOWED) for _ in range(150)))
        assert not (await gate.admit(press())).chat_empty
        await asyncio.gather(*(gate.settle(press(actor=OLA), NOT_YOURS) for _ in range(120)))
        emptied = await gate.admit(press())
        assert emptied == Admission(chat_empty=True)
        assert not (await gate.admit(press(message=replace(CARD, chat="-200")))).chat_empty
        await asyncio.sleep(0.55)
        assert not (await gate.admit(press())).chat_empty


async def test_one_refused_press_settled_twice_is_charged_once(valkey_url: str) -> None:
    async with RedisGate(valkey_url, Limits(chat_refusals_per_minute=2)) as gate:
        for _ in range(3):
            await gate.settle(press("e1"), NOT_YOURS)
        assert not (await gate.admit(press())).chat_empty
        await gate.settle(press("e2"), NOT_YOURS)
        assert (await gate.admit(press())).chat_empty


async def test_64_presses_at_once_take_exactly_the_persons_bucket(gate: RedisGate) -> None:
    admissions = await asyncio.gather(*(gate.admit(press()) for _ in range(64)))
    assert sum(admission.wait_s == 0 for admission in admissions) == 30
    assert not gate.open


async def test_a_rush_of_presses_queues_fairly_and_opens_nothing(valkey_url: str) -> None:
    async with RedisGate(valkey_url, Limits(person_per_minute=100_000)) as gate:

        async def press_on() -> None:
            for _ in range(20):
                assert await gate.admit(press()) == Admission()

        await asyncio.gather(*(press_on() for _ in range(64)))
        assert not gate.open


async def test_one_event_64_times_at_once_is_charged_once(valkey_url: str) -> None:
    async with RedisGate(valkey_url, Limits(person_per_minute=2)) as gate:
        admissions = await asyncio.gather(*(gate.admit(press("e1")) for _ in range(64)))
        assert admissions == [Admission()] * 64
        assert (await gate.admit(press())).wait_s == 0


async def test_admit_is_one_round_trip(gate: RedisGate, valkey_url: str) -> None:
    await gate.admit(press())
    async with Redis.from_url(valkey_url) as watching, Redis.from_url(valkey_url) as redis:
        await redis.ping()
        async with watching.monitor() as monitor:
            await gate.admit(press())
            await redis.echo("end")
            sent = []
            async for command in monitor.listen():
                if command["command"].startswith("ECHO"):
                    break
                if command["client_type"] != "lua":
                    sent.append(command["command"].split()[0])
    assert sent == ["EVALSHA"]


async def test_a_forgotten_script_is_sent_again(gate: RedisGate, valkey_url: str) -> None:
    await gate.settle(press("e1"), ALLOWED)
    async with Redis.from_url(valkey_url) as redis:
        await redis.script_flush()
    assert (await gate.admit(press("e1"))).answer == ALLOWED
    assert not gate.open


async def test_all_keys_carry_the_prefix_and_end_by_themselves(gate: RedisGate, valkey_url: str) -> None:
    await gate.admit(press("e1"))
    await gate.settle(press("e1"), NOT_YOURS)
    async with Redis.from_url(valkey_url) as redis:
        names = [name async for name in redis.scan_iter()]
        assert {name.split(b":")[1] for name in names} == {b"press", b"person", b"chat"}
        assert all(name.startswith(b"placet:") for name in names)
        assert all([await redis.pttl(name) > 0 for name in names])


async def test_redis_stopped_lets_through_and_says_so_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "PROBE_S", 0.1)
    server = ValkeyServer(tmp_path)
    await server.start()
    states: list[bool] = []
    try:
        async with RedisGate(server.url, Limits(person_per_minute=1), on_state=states.append) as gate:
            await gate.admit(press("e1"))
            await gate.settle(press("e1"), ALLOWED)
            await server.kill()
            assert [await gate.admit(press()) for _ in range(5)] == [Admission()] * 5
            await gate.settle(press(), NOT_YOURS)
            assert gate.open
            assert states == [True]
            await server.start()
            await until_shut(gate)
            assert states == [True, False]
            # What was stored before the crash is there after it, the empty bucket of the person too.
            assert (await gate.admit(press("e1"))).answer == ALLOWED
            assert (await gate.admit(press())).wait_s > 0
    finally:
        await server.stop()


async def test_a_restart_between_two_presses_opens_nothing(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    await server.start()
    try:
        async with RedisGate(server.url) as gate:
            await asyncio.gather(*(gate.admit(press()) for _ in range(8)))
            await server.stop()
            await server.start()
            assert await gate.admit(press()) == Admission()
            assert not gate.open
    finally:
        await server.stop()


async def test_a_silent_redis_is_given_up_on_and_costs_only_the_first_press() -> None:
    connections: list[asyncio.StreamWriter] = []

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    listener = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        async with RedisGate(f"redis://127.0.0.1:{port}/0") as gate:
            assert await gate.admit(press()) == Admission()
            tried = len(connections)
            assert gate.open
            await asyncio.gather(*(gate.admit(press()) for _ in range(64)))
            assert len(connections) == tried
    finally:
        for writer in connections:
            writer.close()
        listener.close()


async def until_shut(gate: RedisGate) -> None:
    async with asyncio.timeout(10):
        while gate.open:
            await asyncio.sleep(0.02)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(["e1", "e2", "e3"]), st.sampled_from([DANA, OLA]), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_whatever_is_pressed_everyone_only_gets_the_first_answer_given_to_them(
    valkey_url: str, steps: list[tuple[str, Actor, bool]]
) -> None:
    bot = uuid4().hex

    async def drive() -> None:
        owner: dict[str, str] = {}
        answers: dict[str, Reply] = {}
        async with RedisGate(valkey_url, Limits(person_per_minute=100_000)) as gate:
            for number, (event, actor, settled) in enumerate(steps):
                one = press(event, actor, replace(CARD, account=bot))
                owner.setdefault(event, actor.id)
                expected = answers.get(event) if owner[event] == actor.id else None
                assert (await gate.admit(one)).answer == expected
                if settled:
                    reply = Reply(f"{actor.id} {number}")
                    await gate.settle(one, reply)
                    if owner[event] == actor.id:
                        answers.setdefault(event, reply)

    run(drive())


@given(st.lists(st.text(st.characters(codec=None)), min_size=2, max_size=2), st.text(), st.text())
def test_different_ids_never_share_a_key(parts: list[str], left: str, right: str) -> None:
    assert key("press", *parts).isascii()
    assert (key("press", left, right) == key("press", left + right)) is False
    assert (key("press", left, right) == key("press", right, left)) is (left == right)


def test_an_answer_of_another_version_is_no_answer() -> None:
    assert recalled(b'{"text": "x", "tone": "quiet", "unheard_of": 1}') is None
    assert recalled(b"not json") is None
    assert recalled(b"[]") is None


@pytest.mark.parametrize("field", ["person_per_minute", "chat_refusals_per_minute"])
def test_a_limit_below_one_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least 1, not 0"):
        Limits(**{field: 0})

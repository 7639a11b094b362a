"""The contract of a surface, run over every platform that `PLATFORMS` names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from bots import PLATFORMS
from core.approvals import Card, Reply, Tone
from core.buttons import ButtonData, new_token, unpack
from core.ports import Gone, Moved, Refused, Slow, Unavailable
from tests.bots.contract import CARDS, FILE, PLAIN, Bench, Door, bench_of, settled

TOKEN = new_token()
ERRORS: dict[str, type[Exception]] = {
    "gone": Gone,
    "moved": Moved,
    "slow": Slow,
    "refused": Refused,
    "unavailable": Unavailable,
}


@pytest.fixture(params=sorted(PLATFORMS))
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with bench_of(request.param) as opened:
        yield opened


@pytest.fixture
async def door(bench: Bench) -> AsyncIterator[Door]:
    door = Door()
    listening = asyncio.create_task(bench.surface.listen(door.on_press))
    yield door
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening


@pytest.mark.parametrize("kind", CARDS)
async def test_every_kind_of_card_is_taken_and_shows_what_it_must(bench: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await bench.surface.post(bench.place, card, token=TOKEN)
    shown = bench.shown(message)
    assert (message.platform, message.account, message.chat) == (bench.surface.name, *_place(bench))
    assert list(shown.buttons) == [button.label for button in card.buttons]
    for text in (card.pill, card.digest, card.expiry, *(line.label for line in card.lines)):
        assert text in shown.text
    if bench.surface.fits(card):
        for text in (card.title, card.body, card.claim, card.status, *(line.value for line in card.lines)):
            assert text in shown.text


def _place(bench: Bench) -> tuple[str, str]:
    return bench.place.account, bench.place.chat


@pytest.mark.parametrize("kind", CARDS)
async def test_d2_every_button_parses_back_to_what_it_means(bench: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await bench.surface.post(bench.place, card, token=TOKEN)
    read = {label: unpack(data) for label, data in bench.shown(message).buttons.items()}
    assert read == {button.label: ButtonData(button.verb, TOKEN, card.content_revision) for button in card.buttons}


@pytest.mark.parametrize("kind", ["five thousand characters", "everything long", "emoji"])
async def test_what_is_cut_says_how_much_and_does_not_fit(bench: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await bench.surface.post(bench.place, card, token=TOKEN)
    shown = bench.shown(message).text
    if card.body not in shown or card.claim not in shown:
        assert not bench.surface.fits(card)
        assert "more character" in shown


async def test_plain_cards_fit(bench: Bench) -> None:
    assert bench.surface.fits(PLAIN)


@pytest.mark.parametrize("kind", [kind for kind in CARDS if kind.startswith("a row: ")])
async def test_what_core_makes_of_a_row_fits_and_is_dead(bench: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await bench.surface.post(bench.place, card, token=TOKEN)
    assert bench.surface.fits(card)
    assert bench.shown(message).live == []


async def test_t3_nothing_of_the_agents_is_live_and_it_is_shown_literally(bench: Bench) -> None:
    card = CARDS["hostile"]
    message = await bench.surface.post(bench.place, card, token=TOKEN)
    shown = bench.shown(message)
    assert shown.live == []
    assert card.lines[0].value in shown.text


@pytest.mark.parametrize("kind", CARDS)
async def test_w5_a_settled_card_is_the_same_body_without_buttons(bench: Bench, kind: str) -> None:
    card = replace(CARDS[kind], status="")
    message = await bench.surface.post(bench.place, card, token=TOKEN)
    before = bench.shown(message).text
    await bench.surface.redraw(message, settled(card), token=TOKEN)
    after = bench.shown(message)
    assert after.buttons == {}
    assert "Allowed by Dana Reyes" in after.text
    if bench.surface.fits(card) and bench.surface.fits(settled(card)):
        assert after.text.replace("Allowed by Dana Reyes", "").split() == before.split()


async def test_a_redraw_of_what_is_shown_already_is_done(bench: Bench) -> None:
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    await bench.surface.redraw(message, PLAIN, token=TOKEN)
    assert list(bench.shown(message).buttons) == ["Allow", "Decline", "Decline with a note"]


async def test_a_redraw_binds_the_buttons_to_the_new_content(bench: Bench) -> None:
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    await bench.surface.redraw(message, replace(PLAIN, content_revision=2), token=TOKEN)
    data = unpack(bench.shown(message).buttons["Allow"])
    assert data is not None
    assert data.content_revision == 2


async def test_a_file_arrives_whole_under_its_card(bench: Bench) -> None:
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    await bench.surface.attach(message, FILE)
    assert bench.files(message) == [(FILE.name, FILE.text)]


@pytest.mark.parametrize("trouble", sorted(ERRORS))
@pytest.mark.parametrize("verb", ["post", "redraw", "attach"])
async def test_vendor_errors_become_ours(bench: Bench, verb: str, trouble: str) -> None:
    if trouble not in bench.troubles:
        pytest.skip(f"{bench.surface.name} has no such trouble")
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    to = bench.meet(trouble)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "post": lambda: bench.surface.post(bench.place, PLAIN, token=TOKEN),
        "redraw": lambda: bench.surface.redraw(message, settled(PLAIN), token=TOKEN),
        "attach": lambda: bench.surface.attach(message, FILE),
    }
    with pytest.raises(ERRORS[trouble]) as raised:
        await calls[verb]()
    assert _is_plain(str(raised.value), PLAIN)
    if isinstance(raised.value, Moved):
        assert raised.value.to == to
    if isinstance(raised.value, Slow):
        assert 30 <= raised.value.after <= 33


def _is_plain(text: str, card: Card) -> bool:
    return not any(secret in text for secret in (TOKEN, card.title, card.claim, "sandbox-token"))


async def test_a_press_reaches_the_door_and_its_answer_the_presser(bench: Bench, door: Door) -> None:
    door.reply = Reply("Allowed. It runs now.", Tone.GOOD)
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Allow")
    (press,) = await door.pressed()
    assert (press.verb, press.token, press.content_revision, press.text) == ("a", TOKEN, 1, None)
    assert press.message == message
    assert (press.actor.platform, press.actor.name) == (bench.surface.name, "Dana Reyes")
    assert await bench.told() == "Allowed. It runs now."


async def test_a_reply_reaches_the_door_as_a_text(bench: Bench, door: Door) -> None:
    door.reply = Reply("Declined with your note.", Tone.GOOD)
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.reply(message, "Wrong customer <b>")
    (press,) = await door.pressed()
    assert (press.verb, press.text) == ("", "Wrong customer <b>")
    assert press.message == message
    assert await bench.told() == "Declined with your note."


async def test_two_presses_have_two_keys(bench: Bench, door: Door) -> None:
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Decline")
    await door.pressed(1)
    bench.press(message, "Decline")
    presses = await door.pressed(2)
    assert len({press.key for press in presses}) == 2


async def test_a_long_answer_is_cut_to_what_the_platform_takes(bench: Bench, door: Door) -> None:
    door.reply = Reply("No: " + "é😀" * 3000, Tone.ALERT)
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Allow")
    assert (await bench.told()).startswith("No: é😀é😀")

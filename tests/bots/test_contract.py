"""The contract of a surface, run over every platform that `PLATFORMS` names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest
import pytest_asyncio

from bots import PLATFORMS
from core.approvals import Button, Card, Field, Form, Reply, Tone
from core.buttons import ButtonData, Verb, new_token, unpack
from core.ports import Forming, Gone, Moved, Refused, Slow, Unavailable
from core.wording import LANGUAGES, fill, say
from tests.bots.contract import CARDS, FILE, PLAIN, ROWS, Bench, Door, bench_of, eventually, settled

TOKEN = new_token()
LOOP = pytest.mark.asyncio(loop_scope="module")
ERRORS: dict[str, type[Exception]] = {
    "gone": Gone,
    "moved": Moved,
    "slow": Slow,
    "refused": Refused,
    "unavailable": Unavailable,
}


@pytest_asyncio.fixture(params=sorted(PLATFORMS), scope="module", loop_scope="module")
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A bench that the tests of this file share, where they only post and look."""
    async with bench_of(request.param) as opened:
        yield opened


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
@LOOP
async def test_every_kind_of_card_is_taken_and_shows_what_it_must(stand: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    shown = stand.shown(message)
    assert (message.platform, message.account, message.chat) == (stand.surface.name, *_place(stand))
    assert list(shown.buttons) == [button.label for button in card.buttons]
    for text in (card.pill, card.digest, card.expiry, *(line.label for line in card.lines)):
        assert text in shown.text
    if stand.surface.fits(card):
        for text in (card.title, card.body, card.claim, card.status, *(line.value for line in card.lines)):
            assert text in shown.text


def _place(stand: Bench) -> tuple[str, str]:
    return stand.place.account, stand.place.chat


@pytest.mark.parametrize("kind", CARDS)
@LOOP
async def test_d2_every_button_parses_back_to_what_it_means(stand: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    read = {label: unpack(data) for label, data in stand.shown(message).buttons.items()}
    assert read == {
        button.label: ButtonData(button.verb, button.token or TOKEN, button.number or card.content_revision)
        for button in card.buttons
    }


@pytest.mark.parametrize("kind", ["five thousand characters", "everything long", "emoji"])
@LOOP
async def test_what_is_cut_says_how_much_and_does_not_fit(stand: Bench, kind: str) -> None:
    card = CARDS[kind]
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    shown = stand.shown(message).text
    if card.body not in shown or card.claim not in shown:
        assert not stand.surface.fits(card)
        assert "more character" in shown


@pytest.mark.parametrize("language", LANGUAGES)
@LOOP
async def test_what_a_surface_says_itself_is_in_the_cards_language(stand: Bench, language: str) -> None:
    card = replace(CARDS["everything long"], language=language)
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    said = say("cut", locale=language, count=2).partition("2")[2]
    assert said in stand.shown(message).text
    message = await stand.surface.post(stand.place, replace(PLAIN, language=language), token=TOKEN)
    shown = stand.shown(message).text
    for key in ("claim_label", "claimed"):
        assert fill(key, locale=language).strip() in shown
    assert fill("digest", locale=language, digest=PLAIN.digest) in shown


@LOOP
async def test_plain_cards_fit(stand: Bench) -> None:
    assert stand.surface.fits(PLAIN)


@pytest.mark.parametrize("kind", ROWS)
@LOOP
async def test_what_core_makes_of_a_row_fits_and_is_dead(stand: Bench, kind: str) -> None:
    card = ROWS[kind]
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    assert stand.surface.fits(card)
    assert stand.shown(message).live == []


@LOOP
async def test_t3_nothing_of_the_agents_is_live_and_it_is_shown_literally(stand: Bench) -> None:
    card = CARDS["hostile"]
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    shown = stand.shown(message)
    assert shown.live == []
    assert card.lines[0].value in shown.text


@pytest.mark.parametrize("kind", CARDS)
@LOOP
async def test_w5_a_settled_card_is_the_same_body_without_buttons(stand: Bench, kind: str) -> None:
    card = replace(CARDS[kind], status="")
    message = await stand.surface.post(stand.place, card, token=TOKEN)
    before = stand.shown(message).text
    await stand.surface.redraw(message, settled(card), token=TOKEN)
    after = stand.shown(message)
    assert after.buttons == {}
    assert "Allowed by Dana Reyes" in after.text
    if stand.surface.fits(card) and stand.surface.fits(settled(card)):
        assert after.text.replace("Allowed by Dana Reyes", "").split() == before.split()


@LOOP
async def test_a_redraw_of_what_is_shown_already_is_done(stand: Bench) -> None:
    message = await stand.surface.post(stand.place, PLAIN, token=TOKEN)
    await stand.surface.redraw(message, PLAIN, token=TOKEN)
    assert list(stand.shown(message).buttons) == ["Allow", "Decline", "Decline with a note"]


@LOOP
async def test_a_redraw_binds_the_buttons_to_the_new_content(stand: Bench) -> None:
    message = await stand.surface.post(stand.place, PLAIN, token=TOKEN)
    await stand.surface.redraw(message, replace(PLAIN, content_revision=2), token=TOKEN)
    data = unpack(stand.shown(message).buttons["Allow"])
    assert data is not None
    assert data.content_revision == 2


@LOOP
async def test_a_file_arrives_whole_under_its_card(stand: Bench) -> None:
    message = await stand.surface.post(stand.place, PLAIN, token=TOKEN)
    await stand.surface.attach(message, FILE)
    assert stand.files(message) == [(FILE.name, FILE.text)]


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


# Menus

MENU = (
    Button(Verb.ALWAYS_RECIPIENT, "Refunds to Ada Lovelace"),
    Button(Verb.ALWAYS_TOOL, "Everything stripe.refund does", "danger"),
)
ASKS = Reply("Always allow what?", menu=MENU)


async def test_a_menu_is_shown_and_what_is_picked_comes_back_about_the_card(bench: Bench, door: Door) -> None:
    door.reply = ASKS
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Allow")
    menu = await bench.menu()
    assert "Always allow what?" in menu.text
    assert list(menu.buttons) == [button.label for button in MENU]
    assert menu.live == []
    door.reply = Reply("From now on refunds to Ada Lovelace run by themselves.", Tone.GOOD)
    bench.pick("Refunds to Ada Lovelace")
    (_, pick) = await door.pressed(2)
    assert (pick.verb, pick.token, pick.content_revision) == (Verb.ALWAYS_RECIPIENT, TOKEN, 1)
    assert pick.message == message
    assert pick.actor.name == "Dana Reyes"
    assert await bench.told() == "From now on refunds to Ada Lovelace run by themselves."
    await eventually(lambda: bench.menu_now().buttons == {})
    assert "From now on" in bench.menu_now().text
    assert list(bench.shown(message).buttons) == [button.label for button in PLAIN.buttons]


async def test_a_menu_may_lead_to_another_one(bench: Bench, door: Door) -> None:
    door.reply = ASKS
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Allow")
    await bench.menu()
    page = Button(Verb.RULES_PAGE, "More", token="R" * 16, number=3)
    door.reply = Reply("The second page", menu=(page,))
    bench.pick("Everything stripe.refund does")
    await eventually(lambda: list(bench.menu_now().buttons) == ["More"])
    assert "The second page" in bench.menu_now().text
    bench.pick("More")
    turned = (await door.pressed(3))[-1]
    assert (turned.verb, turned.token, turned.content_revision) == (Verb.RULES_PAGE, "R" * 16, 3)


async def test_a_pick_that_is_refused_leaves_the_menu(bench: Bench, door: Door) -> None:
    door.reply = ASKS
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Allow")
    await bench.menu()
    door.reply = Reply("That was too many presses.", Tone.ALERT, refused=True)
    bench.pick("Everything stripe.refund does")
    assert await bench.told() == "That was too many presses."
    assert list(bench.menu_now().buttons) == [button.label for button in MENU]


async def test_a_label_that_is_too_long_for_a_button_is_said_whole(bench: Bench, door: Door) -> None:
    label = f"Exactly: {'stripe.refund to acct_1 & <b>Ada</b> ' * 6}"
    door.reply = Reply("Always allow what?", menu=(Button(Verb.ALWAYS_ARGUMENTS, label), MENU[1]))
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.press(message, "Allow")
    menu = await bench.menu()
    assert f"1. {label.strip()}" in menu.text
    assert [shown[:3] for shown in menu.buttons] == ["1. ", "2. "]
    assert menu.live == []


# Forms

FORM = Form(
    title="Change the text",
    fields=(
        Field("1", "Reason", "duplicate", multiline=False, limit=2000),
        Field("2", "Message", "Dear Ada,\nit was charged twice & paid back.", multiline=True, limit=2000),
    ),
    verb=Verb.EDIT, token=TOKEN, content_revision=1, prompt="Reply with the new texts.",
)  # fmt: skip
EDITABLE = replace(PLAIN, buttons=(*PLAIN.buttons, Button(Verb.EDIT, "Edit")))


async def test_an_edit_opens_a_form_and_what_is_filled_in_reaches_the_door(bench: Bench, door: Door) -> None:
    if bench.opened is None or bench.submit is None:
        pytest.skip(f"{bench.surface.name} has no forms; the prompt is in its own tests")
    door.reply = Reply("Change it.", form=FORM)
    message = await bench.surface.post(bench.place, EDITABLE, token=TOKEN)
    bench.press(message, "Edit")
    title, values = await bench.opened()
    assert title == FORM.title
    assert values == {field.label: field.value for field in FORM.fields}
    door.reply = Reply("Changed; look again, then answer.", Tone.GOOD)
    bench.submit(["fraud", ""])
    (press, filled) = await door.pressed(2)
    assert (press.verb, press.fields) == (Verb.EDIT, None)
    assert (filled.verb, filled.token, filled.content_revision) == (Verb.EDIT, TOKEN, 1)
    assert filled.fields == {"1": "fraud", "2": ""}
    assert filled.text is None
    assert (filled.message, filled.actor.id) == (message, press.actor.id)
    assert filled.key != press.key
    assert await bench.told() == "Changed; look again, then answer."


async def test_a_form_as_large_as_the_surface_says_is_taken(bench: Bench, door: Door) -> None:
    assert isinstance(bench.surface, Forming)
    if bench.opened is None:
        pytest.skip(f"{bench.surface.name} has no forms; the prompt is in its own tests")
    size = bench.surface.form_characters
    fields = tuple(
        Field(str(number), f"Text {number}", "x" * size, multiline=True, limit=20_000)
        for number in range(1, bench.surface.form_fields + 1)
    )
    door.reply = Reply("Change it.", form=replace(FORM, title="t" * 80, fields=fields))
    message = await bench.surface.post(bench.place, EDITABLE, token=TOKEN)
    bench.press(message, "Edit")
    _, values = await bench.opened()
    assert [len(value) for value in values.values()] == [size] * bench.surface.form_fields


async def test_an_edit_that_is_refused_is_told_instead_of_a_form(bench: Bench, door: Door) -> None:
    door.reply = Reply("Not yours to answer.", Tone.ALERT, refused=True)
    message = await bench.surface.post(bench.place, EDITABLE, token=TOKEN)
    bench.press(message, "Edit")
    assert await bench.told() == "Not yours to answer."


# People


async def test_r8_three_people_who_press_at_once_are_each_heard(bench: Bench, door: Door) -> None:
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    for number in range(3):
        bench.press(message, "Allow", number)
    presses = await door.pressed(3)
    assert {press.actor.name for press in presses} == set(bench.people)
    assert len({press.key for press in presses}) == 3
    assert {(press.verb, press.token, press.message) for press in presses} == {("a", TOKEN, message)}


async def test_a_press_says_which_groups_the_presser_is_in(bench: Bench, door: Door) -> None:
    if not bench.group:
        pytest.skip(f"{bench.surface.name} has no groups")
    message = await bench.surface.post(bench.place, PLAIN, token=TOKEN)
    bench.join()
    bench.press(message, "Allow")
    (dana,) = await door.pressed(1)
    bench.press(message, "Allow", 1)
    ola = (await door.pressed(2))[-1]
    assert bench.group in dana.actor.groups
    assert bench.group not in ola.actor.groups

"""Everybody reads their own language: cards, files and reminders that of the place, answers that of the presser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from core.approvals import Actor, Destination, Message, Press, Reply
from core.languages import Spoken
from core.ports import Admission
from tests.core.office import BOT, DANA, DIRECTORY, FORUM, GROUP, OLA, SMALL, STRANGER, TOPIC, Office, office

LONG = {"charge": "ch_1", "amount": 4900, "why": "x" * 900}


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Office]:
    async with office(sqlite_url) as made:
        yield made


def directory(place: str = f"telegram:{GROUP}", *, chats: str = "", dana: str = "") -> str:
    """The office's directory with languages: of chats as `place: language`, and Dana's."""
    text = DIRECTORY % place
    if dana:
        text = text.replace("{name: Dana Reyes,", f"{{name: Dana Reyes, language: {dana},")
    return f"{text}chats:\n  {chats}\n" if chats else text


GERMAN_CHAT = directory(chats=f"'telegram:{GROUP}': {{language: de}}")


async def test_a_german_chat_gets_a_german_card_file_and_reminder(here: Office) -> None:
    await here.apply(GERMAN_CHAT)
    approval, card = await here.card(arguments=LONG)
    assert "billing möchte refund verwenden" in card.text
    assert "Frist: " in card.text
    assert "… (noch " in card.text
    assert card.labels == ["Erlauben", "Ablehnen", "Mit Notiz ablehnen"]
    (file,) = here.files()
    assert "Alle Argumente, als JSON:" in file
    here.clock.ahead = timedelta(days=4)
    await here.desk.remind(approval.id)
    reminder = await here.until(lambda: next((m for m in here.seen().messages if "Wartet noch" in m.text), None))
    assert reminder.text == "Wartet noch: billing möchte refund verwenden. Die Frist endet in 3 Tagen."
    press = here.press(card, "Erlauben")
    assert await here.told(press) == "Erlaubt. billing darf mit refund weitermachen."
    settled = await here.settled(card, "Erlaubt von Dana Reyes über Telegram")
    assert "Allowed" not in settled.text
    line = next(line for line in await here.audit(approval) if line.action == "allow")
    shown = await here.store.read(lambda ledger: ledger.shown(line.shown_id or ""))
    assert shown is not None
    assert "billing möchte refund verwenden" in shown


async def test_a_german_person_reads_german_while_the_card_stays_english(here: Office) -> None:
    await here.apply(directory(dana="de"))
    approval, card = await here.card()
    assert card.labels == ["Allow", "Decline", "Decline with a note"]
    allow = card.buttons[0][0].data
    press = here.press(card, "Decline")
    assert await here.told(press) == "Abgelehnt. billing erfährt, dass refund nicht ausgeführt wurde."
    settled = await here.settled(card, "Declined by Dana Reyes through Telegram")
    assert "Abgelehnt" not in settled.text
    late = await here.told(here.press(card, by=OLA, data=allow))
    assert late.startswith("Already decided: declined by Dana Reyes, ")
    mine = await here.told(here.press(card, data=allow))
    assert mine.startswith("Schon entschieden: abgelehnt von Dana Reyes, ")
    assert mine.endswith("über Telegram.")
    assert (await here.row(approval)).decided_by == "dana"


async def test_a_reply_to_a_card_is_answered_in_the_language_of_who_wrote_it(here: Office) -> None:
    await here.apply(directory(dana="de"))
    _, card = await here.card()
    answer = await here.answered(here.say("ja", to=card))
    assert answer.text == "Zum Erlauben bitte „Erlauben“ auf der Karte drücken. Die Nachricht hat nichts entschieden."
    answer = await here.answered(here.say("yes", to=card, by=OLA))
    assert answer.text.startswith("To allow this, press Allow")


async def test_who_is_nobody_here_reads_the_language_of_the_chat(here: Office) -> None:
    await here.apply(GERMAN_CHAT)
    _, card = await here.card()
    told = await here.told(here.press(card, "Erlauben", by=STRANGER))
    assert told.startswith("Dieses Telegram-Konto ist hier mit niemandem verknüpft.")


async def test_a_private_card_is_in_the_persons_language(here: Office) -> None:
    here.world.start(DANA)
    await here.apply(directory("dm", dana="de"))
    approval = await here.ask()
    places = await here.approvals.places(approval.id)
    mine = next(place for place in places if place.person == "dana")
    assert await here.desk.post(approval.id, mine.destination, mine.person) == "posted"
    (card,) = [message for message in here.world.chat(DANA).messages if message.labels]
    assert "billing möchte refund verwenden" in card.text


async def test_a_topic_may_have_a_language_of_its_own(sqlite_url: str) -> None:
    async with office(sqlite_url, chat=FORUM, place=f"telegram:{FORUM}/{TOPIC}") as here:
        chats = f"'telegram:{FORUM}': {{language: de}}\n  'telegram:{FORUM}/{TOPIC}': {{language: en}}"
        await here.apply(directory(f"telegram:{FORUM}/{TOPIC}", chats=chats))
        _, card = await here.card()
        assert "billing wants to use refund" in card.text
        await here.apply(directory(f"telegram:{FORUM}", chats=chats))
        _, card = await here.card()
        assert "billing möchte refund verwenden" in card.text


async def test_a_chat_that_moved_keeps_its_language(sqlite_url: str) -> None:
    async with office(sqlite_url, chat=SMALL) as here:
        await here.apply(directory(f"telegram:{SMALL}", chats=f"'telegram:{SMALL}': {{language: de}}"))
        _, card = await here.card()
        data = card.buttons[0][0].data
        to = here.world.migrate(SMALL)
        await here.confirmed()
        told = await here.told(here.world.press(OLA, to, 1000 + card.id, data=data))
        assert told == "Erlaubt. billing darf mit refund weitermachen."
        await here.until(lambda: here.world.calls_of("editMessageText", chat=to) or None)
        later = await here.ask()
        assert await here.post(later) == ["posted"]
        assert "billing möchte refund verwenden" in here.world.chat(to).last("refund").text


async def test_where_nobody_chose_the_default_is_spoken(here: Office) -> None:
    here.approvals.directory.default_language = "de"
    _, card = await here.card()
    assert "billing möchte refund verwenden" in card.text
    assert await here.told(here.press(card, "Ablehnen")) == (
        "Abgelehnt. billing erfährt, dass refund nicht ausgeführt wurde."
    )


# From memory


async def test_what_the_directory_says_is_known_before_anybody_pressed(here: Office) -> None:
    await here.apply(directory(chats=f"'telegram:{GROUP}': {{language: de}}", dana="de"))
    spoken = Spoken()
    await here.store.read(spoken.learn)
    here_and_now = Message("telegram", str(BOT), str(GROUP), "", "7")
    assert spoken.to(Actor("telegram", "", str(DANA))) == "de"
    assert spoken.to(Actor("telegram", "", str(OLA)), here_and_now) == "de"
    assert spoken.to(Actor("telegram", "", str(OLA))) == "en"


def test_a_persons_own_language_comes_before_the_chats_and_a_topics_before_its_chats() -> None:
    spoken, dana = Spoken("de"), Actor("telegram", "", "1001")
    chat, topic = Destination("telegram", "", "-100"), Destination("telegram", "", "-100", "31")
    assert spoken.to(dana, topic) == "de"
    spoken.note_chat(chat, "en")
    assert spoken.to(dana, topic) == "en"
    spoken.note_chat(topic, "de")
    assert (spoken.to(dana, topic), spoken.to(dana, chat)) == ("de", "en")
    spoken.note(dana, "en")
    assert spoken.to(dana, topic) == "en"
    spoken.note(dana, "")
    assert spoken.to(dana, topic) == "de"


async def test_a_press_that_comes_too_fast_is_turned_away_in_the_pressers_language(here: Office) -> None:
    await here.apply(directory(dana="de"))
    _, card = await here.card()
    await here.told(here.press(card, data="a.AAAAAAAAAAAAAAAA.1"))
    assert (await here.told(here.press(card, "Decline with a note"))) == "Was soll billing stattdessen tun?"

    class Shut:
        async def admit(self, press: Press) -> Admission:
            return Admission(wait_s=7)

        async def settle(self, press: Press, reply: Reply) -> None: ...

    here.approvals.gate = Shut()
    assert await here.told(here.press(card, "Allow")) == (
        "Das ging zu schnell hintereinander. Es wurde nichts entschieden; bitte in 7 s noch einmal."
    )
    assert (await here.told(here.press(card, "Allow", by=OLA))).startswith("That was too many presses.")


async def test_the_form_for_a_note_is_in_a_language_before_the_database_was_asked(here: Office) -> None:
    await here.apply(GERMAN_CHAT)
    _, card = await here.card()
    ola, at = Actor("telegram", "", str(OLA)), Message("telegram", str(BOT), str(GROUP), "", str(card.id))
    # Its card was drawn in German a moment ago, so that much is known of the chat.
    assert here.approvals.spoken.to(ola, at) == "de"


async def test_linking_and_listing_are_in_the_persons_language(here: Office) -> None:
    await here.apply(directory(dana="de").replace(", identities: {telegram: 1001}", ""))
    code = await here.store.write(
        lambda ledger: here.approvals.directory.issue_pairing(ledger, "dana", "admin", here.clock.now())
    )
    here.world.start(DANA, code or "")
    await here.until(lambda: here.world.chat(DANA).last("Verknüpft. Willkommen, Dana Reyes"))
    await here.card()
    here.world.say(DANA, DANA, "/pending")
    listed = await here.until(lambda: here.world.chat(DANA).last("Es wartet auf Sie: 1"))
    assert "1. refund (billing, Frist: " in listed.text
    here.world.say(DANA, DANA, "/help")
    await here.until(lambda: here.world.chat(DANA).last("Ja oder Nein von einem Menschen"))


async def test_an_applied_directory_is_known_at_once_and_the_one_before_is_forgotten(here: Office) -> None:
    ola, dana = Actor("telegram", "", str(OLA)), Actor("telegram", "", str(DANA))
    here.approvals.spoken.note(ola, "de")
    await here.apply(directory(dana="de"))
    here.approvals.after_change_of_directory()
    await here.approvals.close()
    assert (here.approvals.spoken.to(dana), here.approvals.spoken.to(ola)) == ("de", "en")

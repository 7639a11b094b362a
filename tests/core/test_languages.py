"""The catalogues: the same keys and placeholders in every language, nothing unfinished, nothing too long or unused."""

from __future__ import annotations

import ast
import re
import string
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po

from core.approvals import Approval, Card, Effect, Mode, Outcome, Status
from core.cards import Surroundings, card_of, text_of
from core.redaction import Redaction
from core.visible import units
from core.wording import (
    LANGUAGES,
    LOCALES,
    fill,
    moment_text,
    relative_text,
    say,
    say_on,
    sentence_for,
    when_text,
    words_of,
)
from tests.builders import NOW, REFUND, an_approval

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = ("telegram", "slack", "discord")
SAYING = {"say", "fill", "say_on", "words_of"}


def catalogue(language: str) -> Catalog:
    with (LOCALES / language / "LC_MESSAGES" / "placet.po").open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def messages(language: str) -> dict[str, Message]:
    return {key_of(message): message for message in catalogue(language) if message.id}


def key_of(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def forms(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


def placeholders(words: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(words) if name}


ENGLISH = messages("en")


def test_english_and_german_are_there() -> None:
    assert {"en", "de"} <= set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_everything_with_the_same_placeholders(language: str) -> None:
    spoken = messages(language)
    assert spoken.keys() == ENGLISH.keys()
    for key, message in spoken.items():
        assert isinstance(message.id, str) == isinstance(ENGLISH[key].id, str), f"{key} has a plural in one language"
        assert len(forms(message)) == (1 if isinstance(message.id, str) else catalogue(language).num_plurals), key
        assert all(words.strip() for words in forms(message)), f"{key} is empty"
        wanted = placeholders(forms(ENGLISH[key])[-1])
        # A singular may say "one" in words, but nothing else may be left out.
        assert all(placeholders(words) >= wanted - {"count"} for words in forms(message)), key
        assert all(placeholders(words) <= wanted for words in forms(message)), key
        assert placeholders(forms(message)[-1]) == wanted, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_entry_is_fuzzy_obsolete_or_there_twice(language: str) -> None:
    held = catalogue(language)
    assert not [key_of(message) for message in held if message.fuzzy and message.id]
    assert not held.obsolete
    text = (LOCALES / language / "LC_MESSAGES" / "placet.po").read_text()
    keys = re.findall(r'^msgid "(\w+)"$', text, re.MULTILINE)
    assert sorted(keys) == sorted(ENGLISH), "twice, or split over lines"
    assert f'"Language: {language}\\n"' in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_typographically_clean(language: str) -> None:
    for key, message in messages(language).items():
        for words in forms(message):
            assert "  " not in words, key
            assert "..." not in words, key
            assert '"' not in words, f"{key}: typographic quotation marks, please"
            ends_here, ends_there = (text.rstrip()[-1] in ".?!" for text in (words, forms(ENGLISH[key])[0]))
            assert ends_here == ends_there or words.endswith("?"), f"{key} ends otherwise than in English"


# Every key is said, and what is said has a key


def patterns_and_constants() -> tuple[set[str], list[re.Pattern[str]]]:
    """What may be a key in the code: every written-out text, and the shape of every key that is put together."""
    constants: set[str] = set()
    shapes: list[re.Pattern[str]] = []
    for room in ("core", "bots", "adapters", "workflows"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    constants.add(node.value)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYING:
                    shapes += [shape(part) for part in node.args if isinstance(part, ast.JoinedStr)]
    return constants, shapes


def shape(text: ast.JoinedStr) -> re.Pattern[str]:
    parts = (re.escape(part.value) if isinstance(part, ast.Constant) and isinstance(part.value, str) else r"\w+"
             for part in text.values)  # fmt: skip
    return re.compile("".join(parts))


def test_every_key_is_said_somewhere() -> None:
    constants, shapes = patterns_and_constants()
    own = {
        key.removesuffix(f"_{platform}") for key in ENGLISH for platform in PLATFORMS if key.endswith(f"_{platform}")
    }

    def is_said(key: str) -> bool:
        if key in constants or any(pattern.fullmatch(key) for pattern in shapes) or key.startswith("place_"):
            return True
        return any(key == f"{base}_{platform}" and is_said(base) for base in own for platform in PLATFORMS)

    assert [key for key in ENGLISH if not is_said(key)] == []


def test_a_key_that_no_language_has_is_an_error() -> None:
    with pytest.raises(KeyError):
        say("no_such_words")
    with pytest.raises(KeyError):
        fill("no_such_words", locale="de")


# What has little room

LABELS = {
    # Slack: 75 a button, 30 a confirm's button, 24 a modal's title and its buttons; Discord: 80, 45, 45.
    "button_allow": 24, "button_decline": 24, "button_note": 24, "confirm_title": 100, "confirm_no": 30,
    "form_cancel": 24, "form_save": 24, "edit_title": 24, "note_label": 45, "note_form_hint": 100,
    **{key: 100 for key in ENGLISH if key.startswith("command_")},
    **{key: 30 for key in ENGLISH if key.startswith(("line_", "pill_", "status_"))},
    "claimed": 30, "claim_label": 40,
}  # fmt: skip
BUTTON_ROOM = 30


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_label_fits_where_a_platform_shows_it(language: str) -> None:
    long = {key: words_of(key, language) for key in LABELS if units(words_of(key, language)) > LABELS[key]}
    assert not long
    for key in ENGLISH:
        if key.startswith("button_"):
            assert units(words_of(key, language)) <= BUTTON_ROOM, f"{key}: a button's label"


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_confirms_money_fits_slacks_300_characters(language: str) -> None:
    assert units(say("confirm_money", locale=language, agent="a" * 500, tool="t" * 500)) <= 300


REPLIES = (
    "allowed declined declined_with_note already_decided already_expired already_cancelled not_linked "
    "not_entitled not_asked anonymous unknown_card wrong_place changed_look_again still_attaching press_allow_instead "
    "too_fast refused_short try_again note_prompt note_empty note_too_long nothing_waiting link_bad_code "
    "link_private_only already_linked went_wrong not_saved"
)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", REPLIES.split())
def test_a_reply_fits_telegrams_alert_of_200_characters(key: str, language: str) -> None:
    values: dict[str, Any] = {
        "agent": "billing-assistant", "tool": "stripe.refund.create", "who": "Dana Reyes, Ola Berg, Kim Sato, Lee Ito",
        "what": say("status_approved", locale=language), "when": when_text(NOW, NOW + timedelta(days=3), language),
        "where": "cli", "platform": "telegram", "seconds": 60, "limit": 4000,
    }  # fmt: skip
    assert units(say(key, locale=language, **values)) <= 200


def test_the_question_for_a_note_fits_telegrams_placeholder_of_64_characters() -> None:
    for language in LANGUAGES:
        assert units(say("note_prompt", locale=language, agent="billing-assistant")) <= 64


# What is said in a language


def test_words_numbers_dates_and_times_are_said_in_german() -> None:
    assert say("declined", locale="de", agent="billing", tool="stripe.refund") == (
        "Abgelehnt. billing erfährt, dass stripe.refund nicht ausgeführt wurde."
    )
    assert say("cut", locale="de", count=12_345) == "… (noch 12.345 Zeichen)"
    assert moment_text(NOW, locale="de") == "09.03.2026, 12:00 UTC"
    assert relative_text(NOW + timedelta(hours=3), NOW, "de") == "in 3 Stunden"
    assert when_text(NOW, NOW + timedelta(minutes=2), "de") == "12:00 UTC (vor 2 Minuten)"
    what = say("status_approved", locale="de")
    assert say("already_decided", locale="de", what=what, who="Dana", when="12:05 UTC", where="cli") == (
        "Schon entschieden: erlaubt von Dana, 12:05 UTC, über die Kommandozeile."
    )


def test_a_count_chooses_singular_or_plural() -> None:
    assert say("cut", count=1) == "… (1 more character)"
    assert say("cut", count=0) == "… (0 more characters)"
    assert say("cut", count=1_200) == "… (1,200 more characters)"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("platform", "link", "before"),
    [
        ("telegram", "/start CODE", "/"),
        ("slack", "/placet link CODE", "/placet "),
        ("discord", "/placet link CODE", "/placet "),
    ],
)
def test_the_help_of_every_platform_names_the_link_the_commands_and_the_modes(
    language: str, platform: str, link: str, before: str
) -> None:
    lines = say_on(platform, "help", locale=language).splitlines()
    assert link in lines[1]
    assert lines[2].startswith(f"{before}pending ")
    assert all(f"{before}{name} AGENT" in lines[3] for name in ("rules", "pause", "resume"))
    assert lines[4].startswith(f"{before}mode AGENT ")
    assert all(mode.value in lines[4] for mode in Mode)
    assert f"{before}help" in say_on(platform, "unknown_command", locale=language)


def test_a_platforms_own_words_are_said_in_every_language() -> None:
    assert "/placet pending" in say_on("slack", "help", locale="de")
    assert "/placet" not in say_on("telegram", "help", locale="de")


def test_a_language_that_is_not_there_is_said_in_english() -> None:
    assert say("nothing_waiting", locale="tlh") == "Nothing waits for you."


# A card in German, while it waits and after


def a_card(approval: Approval, now: datetime = NOW, locale: str = "de") -> Card:
    return card_of(approval, Surroundings({"dana": "Dana Reyes"}), now, locale, redaction=Redaction(b"k" * 32))


def test_a_card_and_its_file_are_in_the_language_of_its_chat() -> None:
    arguments = {**REFUND, "note": "x" * 1_400, "size": 1_500_000}
    card = a_card(an_approval(effect=Effect.MONEY, arguments=arguments, presentation={
        "lines": [["Betrag", "/amount", "money"], ["Größe", "/size", "bytes"], ["Notiz", "/note"]]}))  # fmt: skip
    assert card.language == "de"
    assert [button.label for button in card.buttons] == ["Erlauben", "Ablehnen", "Mit Notiz ablehnen"]
    text = text_of(card)
    assert "billing möchte stripe.refund verwenden" in text
    assert "[Geld oder Löschen]" in text
    assert "1,5 MB (1.500.000 Byte)" in text
    assert re.search(r"… \(noch 1\.\d{3} Zeichen\)", text)
    assert "Frist: 16.03.2026, 12:00 UTC" in text
    assert f"Angehängt: {card.attachments[0].name}" in text
    assert "Gefragt: 09.03.2026, 12:00 UTC" in card.attachments[0].text
    assert "Alle Argumente, als JSON:" in card.attachments[0].text


BY = "Erlaubt von Dana Reyes über die Kommandozeile, 09.03.2026, 12:00 UTC. "
ANSWERED: dict[str, Any] = {"decided_by": "dana", "decided_via": "cli", "decided_at": NOW}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": Status.APPROVED, **ANSWERED}, BY + "Noch nicht ausgeführt."),
        ({"status": Status.APPROVED, "outcome": Outcome.SENT, **ANSWERED},
         BY + "Erledigt."),
        # What the row holds in English as the reason is said in the card's language; what others wrote is not.
        ({"status": Status.APPROVED, "outcome": Outcome.NOT_SENT, "outcome_note": say("claim_too_late"), **ANSWERED},
         BY + "Es ließ sich nicht starten: niemand hat "
         "den Aufruf rechtzeitig übernommen. Es wurde nichts ausgeführt."),
        ({"status": Status.APPROVED, "outcome": Outcome.UNKNOWN, "outcome_note": "ValueError: no", **ANSWERED},
         BY + "Es ist fehlgeschlagen: ValueError: no. "
         "Ein Teil kann geschehen sein."),
        ({"status": Status.APPROVED, "outcome": Outcome.UNKNOWN, "outcome_note": say("outcome_overdue"), **ANSWERED},
         BY + "Es ist abgebrochen. Ob es geschehen ist, "
         "steht nicht fest."),
        ({"status": Status.EXPIRED, "decided_at": NOW}, "Abgelaufen, 09.03.2026, 12:00 UTC: Niemand hat rechtzeitig "
         "entschieden. Es wurde nichts ausgeführt."),
        ({"undeliverable": say("undeliverable_retrying", platform="slack")},
         "Nicht zustellbar: Slack ist nicht erreichbar; es wird weiter versucht."),
        ({"undeliverable": "somebody's own words"}, "Nicht zustellbar: somebody's own words."),
    ],
)  # fmt: skip
def test_what_became_of_a_call_is_told_in_german(changes: dict[str, Any], told: str) -> None:
    assert a_card(an_approval(**changes)).status == told


def test_the_model_is_told_in_english_whatever_the_people_read() -> None:
    row = an_approval(status=Status.APPROVED, outcome=Outcome.UNKNOWN, outcome_note=say("outcome_overdue"), **ANSWERED)
    a_card(row)
    assert sentence_for(row) == (
        "Approved and started, but it broke off. It may or may not have happened. Do not repeat it unasked."
    )

"""What recorded Discord events mean, each read into what Placet does with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bots.delivery import Command, Hint, NoteForm
from bots.discord import read
from core.approvals import Actor, Message, Press

PAYLOADS = Path(__file__).parents[1] / "payloads" / "discord"
BOT = "8000000001"
DANA = Actor("discord", "", "4201", "Dana Reyes")
# In a server with the roles that the event says they have.
THERE = replace(DANA, groups=frozenset({"discord:1080000000000000500/900"}))
TOKEN = "A" * 16
KEY = f"dc:{BOT}:1300000000000000077"
CARD = "1300000000000000042"
CHANNEL, THREAD, PRIVATE = "1080000000000000600", "1080000000000000601", "1080000000000000700"


def at(chat: str) -> Message:
    return Message("discord", BOT, chat, "", CARD)


def pressed(chat: str, verb: str = "a", token: str = TOKEN, revision: int = 1) -> Press:
    return Press(KEY, DANA if chat == PRIVATE else THERE, at(chat), verb=verb, token=token, content_revision=revision)


def typed(chat: str, text: str) -> Press:
    return Press(KEY, DANA if chat == PRIVATE else THERE, at(chat), text=text)


READINGS = {
    "press_in_channel": pressed(CHANNEL),
    "press_in_private": pressed(PRIVATE, verb="d"),
    "press_in_thread": pressed(THREAD, revision=35),
    "press_forged": pressed(CHANNEL, verb="?", token="", revision=0),
    "press_note": NoteForm(pressed(CHANNEL, verb="n")),
    "press_edit": pressed(CHANNEL, verb="e", revision=3),
    "menu_picked": pressed(CHANNEL, verb="q", revision=3),
    "edit_submitted": replace(pressed(CHANNEL, verb="e", revision=3), fields={"1": "fraud", "2": ""}),
    "mode": Command("mode", THERE, "billing", "everything"),
    "press_of_another_application": None,
    "note_submitted": replace(typed(CHANNEL, "Wrong customer, ask Ada first"), token=TOKEN),
    "note_submitted_under_a_label": replace(typed(CHANNEL, "Not this month"), token=TOKEN),
    "note_submitted_with_half_an_emoji": replace(typed(PRIVATE, "no \ufffd really"), token=TOKEN),
    "submitted_forged": pressed(CHANNEL, verb="?", token="", revision=0),
    "link_in_private": Command("link", DANA, "Qm9vdHN0cmFw"),
    "link_in_channel": Hint("link_private_only"),
    "pending": Command("pending", THERE),
    "help": Hint("help"),
    "rules": Command("rules", THERE, "billing"),
    "command_of_another_name": None,
    "ping": None,
    "reply_in_channel": typed(CHANNEL, "No"),
    "reply_in_private": typed(PRIVATE, "Wrong customer"),
    "reply_without_ping": Hint("note_unreadable"),
    "reply_with_file": Hint("note_needs_text"),
    "reply_with_sticker": Hint("note_needs_text"),
    "reply_to_a_deleted_card": None,
    "reply_to_somebody_else": None,
    "reply_across_channels": None,
    "reply_by_a_bot": None,
    "reply_by_a_webhook": None,
    "forwarded": None,
    "forwarded_in_private": Hint("note_needs_text"),
    "plain_in_channel": None,
    "plain_in_private": replace(typed(PRIVATE, "Hello"), message=replace(at(PRIVATE), id="")),
    "mistyped_command_in_private": Hint("unknown_command"),
    "own_card": None,
    "joined": None,
    "thread_started": None,
    "message_edited": None,
}


def test_every_recorded_payload_has_its_reading() -> None:
    assert {path.stem for path in PAYLOADS.glob("*.json")} == set(READINGS)


@pytest.mark.parametrize("name", READINGS)
def test_a_recorded_payload_is_read(name: str) -> None:
    event = json.loads((PAYLOADS / f"{name}.json").read_text())
    assert read(BOT, event["t"], event["d"]) == READINGS[name]

"""What recorded Telegram updates mean, each read by the real library into what Placet does with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from telegram import Update

from bots.delivery import Command, Hint, Migrated
from bots.telegram import Membership, read
from core.approvals import Actor, Message, Press

PAYLOADS = Path(__file__).parents[1] / "payloads" / "telegram"
BOT = "7000000001"
DANA = Actor("telegram", "", "1001", "Dana Reyes")
TOKEN = "A" * 16
GROUP = "-1001234567890"
PRESS_KEY = f"tg:{BOT}:4382bfdwdsb323b2d9"


def at(chat: str, id: str, thread: str = "") -> Message:
    return Message("telegram", BOT, chat, thread, id)


def pressed(message: Message, verb: str = "a", token: str = TOKEN, revision: int = 1) -> Press:
    return Press(PRESS_KEY, DANA, message, verb=verb, token=token, content_revision=revision)


def typed(message: Message, text: str) -> Press:
    return Press(f"tg:{BOT}:{message.chat}:77", DANA, message, text=text)


READINGS = {
    "press_private": pressed(at("1001", "42")),
    "press_in_topic_without_is_forum": pressed(at(GROUP, "42", "31"), verb="d"),
    "press_inaccessible_message": pressed(at(GROUP, "42")),
    "press_forged_data": pressed(at("1001", "42"), verb="?", token="", revision=0),
    "press_foreign_game": pressed(at("", ""), verb="?", token="", revision=0),
    "menu_picked": pressed(at("1001", "42"), verb="q", revision=3),
    "menu_picked_after_its_card_was_deleted": pressed(at("1001", "60"), verb="q", revision=3),
    "mode": Command("mode", DANA, "billing", "everything"),
    "pause_in_group": Hint("private_only"),
    "press_by_anonymous_admin": pressed(at(GROUP, "42")),
    "reply_private": typed(at("1001", "42"), "Wrong customer, ask Ada first"),
    "reply_in_group": typed(at(GROUP, "42"), "No"),
    "reply_in_topic": typed(at(GROUP, "42", "31"), "Not this month"),
    "reply_with_half_an_emoji": typed(at("1001", "42"), "no \ufffd really"),
    "plain_in_topic_made_by_the_bot": None,
    "reply_to_somebody_else": None,
    "reply_to_another_bot": None,
    "reply_by_anonymous_admin": Hint("anonymous"),
    "reply_by_a_channel": Hint("anonymous"),
    "reply_by_the_linked_channel": Hint("anonymous"),
    "reply_by_a_bot": Hint("note_needs_text"),
    "reply_via_a_bot": Hint("note_needs_text"),
    "reply_forwarded": Hint("note_needs_text"),
    "reply_with_photo": Hint("note_needs_text"),
    "edited_reply": None,
    "channel_post": None,
    "plain_private": typed(at("1001", ""), "Are you there?"),
    "mistyped_command_private": Hint("unknown_command"),
    "sticker_private": Hint("note_needs_text"),
    "plain_in_group": None,
    "service_private": None,
    "start": Hint("help"),
    "start_with_code": Command("link", DANA, "Qm9vdHN0cmFwLWNvZGU_x-"),
    "start_with_code_in_group": Hint("link_private_only"),
    "help_in_group": Hint("help"),
    "pending": Command("pending", DANA),
    "pending_in_group": Hint("private_only"),
    "pending_of_another_bot": None,
    "migrated_to": Migrated("-4455", GROUP),
    "migrated_from": Migrated("-4455", GROUP),
    "kicked": Membership(GROUP, "kicked"),
}


def test_every_recorded_payload_has_its_reading() -> None:
    assert {path.stem for path in PAYLOADS.glob("*.json")} == set(READINGS)


@pytest.mark.parametrize("name", READINGS)
def test_a_recorded_payload_is_read(name: str) -> None:
    update = Update.de_json(json.loads((PAYLOADS / f"{name}.json").read_text()), None)
    assert read(BOT, update, "placet_bot") == READINGS[name]


def test_t8_a_press_in_a_topic_is_placed_there_without_is_forum() -> None:
    raw = json.loads((PAYLOADS / "press_in_topic_without_is_forum.json").read_text())
    assert "is_forum" not in raw["callback_query"]["message"]["chat"]
    reading = read(BOT, Update.de_json(raw, None))
    assert isinstance(reading, Press)
    assert reading.message.thread == "31"

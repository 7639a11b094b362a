"""What recorded Slack payloads mean, each read into what Placet does with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bots.delivery import Command, Hint, Migrated, NoteForm
from bots.slack import read
from core.approvals import Actor, Message, Press

PAYLOADS = Path(__file__).parents[1] / "payloads" / "slack"
BOTS = {"T01": "UB01"}
DANA = Actor("slack", "T01", "U01", "dana.reyes")
TOKEN = "A" * 16
CARD, TYPED, MENU, PRESSED = "1700000000.000100", "1700000200.000300", "1700000050.000200", "1700000100.123456"


def at(chat: str = "C01", thread: str = "") -> Message:
    return Message("slack", "T01", chat, thread, CARD)


def pressed(
    message: Message, verb: str = "a", token: str = TOKEN, revision: int = 1, actor: Actor = DANA, action: str = ""
) -> Press:
    key = f"sl:T01:{message.chat}:{CARD}:{actor.id}:{action or f'placet_{verb}'}:{PRESSED}"
    return Press(key, actor, message, verb=verb, token=token, content_revision=revision)


def typed(text: str = "Wrong customer", chat: str = "C01", tenant: str = "T01", user: str = "U01") -> Press:
    return Press(f"sl:T01:{chat}:{TYPED}", Actor("slack", tenant, user), at(chat), text=text)


def submitted(text: str) -> Press:
    return Press("sl:T01:view:V0123", DANA, at(), token=TOKEN, text=text)


OTTO = Actor("slack", "T99", "U91", "otto")
READINGS: dict[str, Any] = {
    "press": pressed(at()),
    "press_in_a_private_chat": pressed(at("D0101")),
    "press_on_a_card_with_a_thread": pressed(at()),
    "press_on_a_card_in_a_thread": pressed(at(thread="1699999999.000001"), verb="d"),
    "press_by_an_external_member": pressed(at(), actor=OTTO),
    "press_with_forged_data": pressed(at(), verb="?", token="", revision=0, action="placet_a"),
    "press_in_an_app_home": None,
    "press_edit": pressed(at(), verb="e", revision=3),
    "menu_picked": replace(
        pressed(at(thread="1699999999.000001"), verb="q", revision=3), key=f"sl:T01:C01:{MENU}:U01:placet_q_0:{PRESSED}"
    ),
    "rule_taken_back": replace(
        pressed(replace(at(), id=MENU), verb="k", token="R" * 16), key=f"sl:T01:C01:{MENU}:U01:placet_k_1:{PRESSED}"
    ),
    "edit_submitted": Press(
        "sl:T01:view:V0123", DANA, at(), verb="e", token=TOKEN, content_revision=3, fields={"1": "fraud", "2": ""}
    ),
    "command_mode": Command("mode", DANA, "billing", "everything"),
    "command_rules_without_an_agent": Command("rules", DANA),
    "note_button": NoteForm(pressed(at(), verb="n"), "Refund a duplicate charge"),
    "note_submitted": submitted("Wrong customer"),
    "note_submitted_empty": submitted(""),
    "form_of_another_app": None,
    "form_closed": None,
    "reply": typed(),
    "reply_with_escapes": typed("a <b> &amp; c"),
    "reply_also_sent_to_the_channel": typed(),
    "reply_in_a_private_chat": typed(chat="D0101"),
    "reply_under_somebody_elses_message": None,
    "reply_with_a_file": Hint("note_needs_text"),
    "reply_by_a_bot": None,
    "reply_by_this_app": None,
    "reply_by_an_external_member": typed(tenant="T99", user="U91"),
    "reply_in_a_shared_channel_without_a_team": typed(tenant="?"),
    "edited_reply": None,
    "deleted_reply": None,
    "plain_in_a_channel": None,
    "plain_in_a_private_chat": replace(typed(chat="D0101"), message=replace(at("D0101"), id="")),
    "mistyped_command_in_a_private_chat": Hint("unknown_command"),
    "first_message_of_a_thread": None,
    "channel_id_changed": Migrated("G02", "C0NEW"),
    "channel_renamed": None,
    "command_pending": Command("pending", DANA),
    "command_link": Command("link", DANA, "Qm9vdHN0cmFwLWNvZGU_x-"),
    "command_link_in_a_channel": Hint("link_private_only"),
    "command_link_without_a_code": Hint("help"),
    "command_pause": Command("pause", DANA, "billing"),
    "command_help": Hint("help"),
    "command_unknown": Hint("unknown_command"),
    "shortcut": None,
}


def test_every_recorded_payload_has_its_reading() -> None:
    assert {path.stem for path in PAYLOADS.glob("*.json")} == set(READINGS)


@pytest.mark.parametrize("name", READINGS)
def test_a_recorded_payload_is_read(name: str) -> None:
    payload = json.loads((PAYLOADS / f"{name}.json").read_text())
    assert read(payload, BOTS) == READINGS[name]

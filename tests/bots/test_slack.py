"""Slack over the wire: the real library against the sandbox, as the person and the operator see it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from adapters.sandbox.slack import Message as Kept
from bots import PLATFORMS
from bots.slack import SCOPES, Slack, units
from core.approvals import Button, Destination, Field, Form, Line, Message, Press, Reply, Tone
from core.buttons import Verb, new_token
from core.ports import BadSetting, Gone, Refused, Unavailable
from core.wording import say
from tests.bots.contract import CARDS, FILE, HOSTILE, PLAIN, Door, eventually, settled, whence
from tests.bots.slack_bench import (
    APP_TOKEN,
    CHANNEL,
    DANA,
    GUEST,
    OLA,
    OTHER_TEAM,
    OTHER_TOKEN,
    OUTSIDER,
    PRIVATE,
    SECRET,
    SHARED,
    TEAM,
    TOKEN,
    Setting,
    slack,
)
from tests.bots.telegram_bench import Chores, hooks

MANIFEST = Path(__file__).parents[2] / "deploy" / "slack-manifest.yaml"
HERE = Destination("slack", "", CHANNEL)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    async with slack() as opened:
        yield opened


@pytest.fixture
async def door(setting: Setting) -> AsyncIterator[Door]:
    door = Door()
    async with listening(setting, door.on_press):
        yield door


@asynccontextmanager
async def listening(
    setting: Setting, on_press: Callable[[Press], Coroutine[Any, Any, Reply]], *, sockets: int = 1
) -> AsyncIterator[None]:
    task = asyncio.create_task(setting.surface.listen(on_press))
    try:
        await setting.world.until(lambda: setting.world.connected == sockets)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def kept(setting: Setting, message: Message) -> Kept:
    return setting.world.channels[message.chat].message(message.id)


async def posted(setting: Setting, destination: Destination = HERE) -> Message:
    return await setting.surface.post(destination, PLAIN, token=new_token())


# Cards


async def test_markup_arrives_literally_and_dead_in_cards_words_and_notifications(setting: Setting) -> None:
    message = await setting.surface.post(HERE, replace(PLAIN, title=HOSTILE[:150], body=HOSTILE), token=new_token())
    word = await setting.surface.tell(HERE, HOSTILE)
    assert kept(setting, message).live == kept(setting, word).live == []
    assert HOSTILE in kept(setting, message).shown
    assert kept(setting, word).shown == HOSTILE
    assert "<!channel>" not in kept(setting, message).text + kept(setting, word).text


async def test_labels_and_the_verdict_are_bold_code_is_code_and_the_agents_words_are_quoted(setting: Setting) -> None:
    lines = (
        Line("To", HOSTILE[:100]),
        Line("Command", "find . -name '*.csv'", code=True),
        Line("Note", "x", claim=True),
    )
    card = replace(PLAIN, lines=lines, claim=f":rocket: {HOSTILE}", status="Allowed by Dana Reyes.")
    message = kept(setting, await setting.surface.post(HERE, card, token=new_token()))
    drawn = [
        (stretch["type"], each["text"], each.get("style", {}).get("bold", False))
        for block in message.blocks
        if block["type"] == "rich_text"
        for stretch in block["elements"]
        for each in stretch["elements"]
    ]
    assert drawn == [
        ("rich_text_section", "To:", True),
        ("rich_text_section", f" {HOSTILE[:100]}", False),
        ("rich_text_section", "Command:", True),
        ("rich_text_preformatted", "find . -name '*.csv'", False),
        ("rich_text_section", "Note (agent's words):", True),
        ("rich_text_section", " x", False),
        ("rich_text_section", "In the agent's own words:", True),
        ("rich_text_quote", f":rocket: {HOSTILE}", False),
        ("rich_text_section", "Allowed by Dana Reyes.", True),
    ]
    assert message.live == []


async def test_an_allow_of_money_asks_once_more_within_the_limits_of_the_dialog(setting: Setting) -> None:
    allow = replace(PLAIN.buttons[0], label="A" * 100, confirm="ß&" * 300)
    card = replace(PLAIN, buttons=(allow, *PLAIN.buttons[1:]))
    message = await setting.surface.post(HERE, card, token=new_token())
    button = kept(setting, message).buttons[0]
    assert button["style"] == "primary"
    assert button["confirm"]["title"]["text"] == "Allow this?"
    assert units(button["confirm"]["text"]["text"]) <= 300
    assert "confirm" not in kept(setting, message).buttons[1]


async def test_t1_what_is_cut_is_cut_within_slacks_limits_and_says_so(setting: Setting) -> None:
    card = replace(PLAIN, body="<&>" * 5000, claim="&" * 20_000, status="s" * 9000, title="t" * 151)
    message = await setting.surface.post(HERE, card, token=new_token())
    assert not setting.surface.fits(card)
    assert kept(setting, message).shown.count("more characters") >= 3


async def test_a_settled_card_has_no_blocks_of_the_old_one_left(setting: Setting) -> None:
    message = await posted(setting)
    await setting.surface.redraw(message, settled(PLAIN))
    assert kept(setting, message).buttons == []
    assert "Allowed by Dana Reyes" in kept(setting, message).shown


async def test_a_private_chat_is_opened_for_a_person_and_the_card_is_there(setting: Setting) -> None:
    message = await posted(setting, Destination("slack", TEAM, DANA))
    assert message.chat.startswith("D")
    assert setting.world.channels[message.chat].im == DANA


async def test_a_file_and_a_reminder_go_into_the_thread_of_the_card(setting: Setting) -> None:
    message = await posted(setting)
    await setting.surface.attach(message, FILE)
    await setting.surface.say(message, "Still waiting.")
    file, word = setting.world.channels[CHANNEL].thread(message.id)
    assert setting.world.content(file.files[0]).decode() == FILE.text
    assert word.shown == "Still waiting."


async def test_a_card_goes_to_the_workspace_that_its_place_names() -> None:
    async with slack(TOKEN, OTHER_TOKEN) as setting:
        setting.world.add_person("U21", "Bo Bolt", team=OTHER_TEAM)
        setting.world.add_channel("C21", "bolts", ["U21"], team=OTHER_TEAM)
        message = await posted(setting, Destination("slack", OTHER_TEAM, "C21"))
        assert message.account == OTHER_TEAM
        with pytest.raises(Gone):
            await posted(setting, Destination("slack", TEAM, "C21"))
        with pytest.raises(Refused, match="no token in PLACET_SLACK_BOT_TOKEN belongs to the workspace T77"):
            await posted(setting, Destination("slack", "T77", "C21"))


async def test_a_workspace_whose_token_is_bad_leaves_the_others_alone() -> None:
    async with slack(OTHER_TOKEN, TOKEN) as setting:
        setting.world.revoke(OTHER_TEAM)
        door = Door()
        async with listening(setting, door.on_press):
            message = await posted(setting, Destination("slack", TEAM, CHANNEL))
            setting.world.press(DANA, CHANNEL, message.id, label="Allow")
            assert (await door.pressed())[0].message == message
            with pytest.raises(Refused, match="token_revoked"):
                await posted(setting, HERE)
            levels = [finding.level for finding in await setting.surface.check()]
            assert levels == ["fail", "ok", "ok"]


async def test_a_workspace_that_could_not_be_asked_is_asked_again(setting: Setting) -> None:
    setting.world.fail("auth.test", status=503)
    with pytest.raises(Unavailable):
        await posted(setting)
    await posted(setting)


@pytest.mark.parametrize("how", ["archived", "removed", "deleted", "nobody"])
async def test_places_that_are_gone(setting: Setting, how: str) -> None:
    message = await posted(setting)
    if how == "archived":
        setting.world.archive(CHANNEL)
    elif how == "removed":
        setting.world.remove_bot(CHANNEL)
    elif how == "deleted":
        setting.world.delete_message(CHANNEL, message.id)
        with pytest.raises(Gone):
            await setting.surface.redraw(message, settled(PLAIN))
        return
    with pytest.raises(Gone):
        await posted(setting, Destination("slack", "", "U0NOBODY") if how == "nobody" else HERE)


async def test_a_revoked_token_is_refused_by_name(setting: Setting) -> None:
    await posted(setting)
    setting.world.revoke()
    with pytest.raises(Refused, match="token_revoked"):
        await posted(setting)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_send_whose_answer_was_lost_leaves_one_card(setting: Setting, when: Any) -> None:
    await posted(setting)
    token = new_token()
    setting.world.drop("chat.postMessage", when=when)
    with pytest.raises(Unavailable):
        await setting.surface.post(HERE, PLAIN, token=token)
    message = await setting.surface.post(HERE, PLAIN, token=token)
    cards = [each.ts for each in setting.world.channels[CHANNEL].messages if token in json.dumps(each.buttons)]
    assert cards == [message.id]
    assert len(setting.world.calls_of("chat.postMessage")) == (2 if when == "after" else 3)


async def test_a_short_wait_that_slack_asks_for_is_waited(setting: Setting) -> None:
    await posted(setting)
    setting.world.fail("chat.postMessage", retry_after=0)
    await posted(setting)
    assert [call.status for call in setting.world.calls_of("chat.postMessage")] == [200, 429, 200]


async def test_slacks_own_pace_is_kept() -> None:
    async with slack(pace=0.05, rate_scale=20) as setting:
        await asyncio.gather(*(posted(setting) for _ in range(8)))
        assert {call.status for call in setting.world.calls_of("chat.postMessage")} == {200}


# Presses


async def test_a_press_is_acknowledged_after_it_is_decided_and_told_to_the_presser_alone(
    setting: Setting, door: Door
) -> None:
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    await setting.world.until(lambda: press.words == ["Allowed."])
    assert setting.world.acked(press)
    told = setting.world.channels[CHANNEL].messages[-1]
    assert told.only == DANA
    assert door.presses[0].actor.tenant == TEAM


async def test_a_slow_database_is_acknowledged_in_time_and_told_later(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.slack.ACK_S", 0.05)
    decide = asyncio.Event()

    async def slow(press: Press) -> Reply:
        await decide.wait()
        return Reply("Allowed at last.", Tone.GOOD)

    async with listening(setting, slow):
        message = await posted(setting)
        press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
        await setting.world.until(lambda: setting.world.acked(press))
        assert press.words == []
        decide.set()
        await setting.world.until(lambda: press.words == ["Allowed at last."])


async def test_a_press_is_tried_again_while_the_database_is_away(setting: Setting, door: Door) -> None:
    # Slack tells of a press once.
    door.down = 3
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    assert await setting.world.until(lambda: press.words) == ["Allowed."]
    assert (len(door.presses), door.tries) == (1, 4)


async def test_a_press_that_cannot_be_saved_is_said_and_decides_nothing(setting: Setting, door: Door) -> None:
    door.down = 99
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    assert await setting.world.until(lambda: press.words) == [say("not_saved")]
    assert (door.presses, door.tries) == ([], 5)


async def test_a_reply_while_the_database_is_down_comes_again_and_counts_once(setting: Setting, door: Door) -> None:
    door.down = 2
    message = await posted(setting)
    setting.world.reply(DANA, CHANNEL, message.id, "no")
    await setting.world.until(lambda: setting.world.told(DANA))
    setting.world.skip(4)
    await eventually(lambda: door.tries == 2)
    setting.world.skip(61)
    (press,) = await door.pressed()
    assert press.text == "no"
    await setting.world.until(lambda: len(setting.world.told(DANA)) == 2)
    setting.world.skip(400)
    await asyncio.sleep(0.3)
    assert door.tries == 3


async def test_a_bug_is_tried_five_times_then_told_without_its_value(
    setting: Setting, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    door.failing = 9
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    (told,) = await setting.world.until(lambda: press.words)
    assert "Something went wrong" in told
    assert door.tries == 5
    assert "a secret value" not in caplog.text


async def test_a_repeated_press_has_the_same_key(setting: Setting, door: Door) -> None:
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    setting.world.repeat(press)
    first, second = await door.pressed(2)
    assert first.key == second.key


@pytest.mark.parametrize(("person", "tenant"), [(GUEST, TEAM), (OUTSIDER, "T99")])
async def test_guests_and_external_members_come_to_the_door_as_who_they_are(
    setting: Setting, door: Door, person: str, tenant: str
) -> None:
    message = await posted(setting, Destination("slack", TEAM, SHARED))
    setting.world.press(person, SHARED, message.id, label="Allow")
    setting.world.reply(person, SHARED, message.id, "no")
    presses = await door.pressed(2)
    assert {(press.actor.tenant, press.actor.id) for press in presses} == {(tenant, person)}
    assert {press.message.account for press in presses} == {TEAM}


async def test_data_of_no_button_of_ours_reaches_the_door_as_unknown(setting: Setting, door: Door) -> None:
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, value="a.forged")
    assert (await door.pressed())[0].verb == "?"
    await setting.world.until(lambda: setting.world.acked(press))


async def test_everything_is_acknowledged_also_what_means_nothing(setting: Setting, door: Door) -> None:
    payload = {"type": "shortcut", "callback_id": "x", "team": {"id": TEAM}, "user": {"id": DANA, "team_id": TEAM}}
    odd = setting.world.tell("interactive", payload)
    broken = setting.world.tell("interactive", {"type": "block_actions", "actions": [{"type": "button"}]})
    setting.world.announce()
    await setting.world.until(lambda: odd.acked_at and broken.acked_at)
    assert door.presses == []


# Notes


async def test_decline_with_a_note_opens_a_form_and_the_door_judges_what_is_submitted(
    setting: Setting, door: Door
) -> None:
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Decline with a note")
    view = await setting.world.opened(press)
    assert door.tries == 0
    assert PLAIN.title in json.dumps(view.view)
    setting.world.submit(view, "Wrong customer <b>")
    (decided,) = await door.pressed()
    assert (decided.text, decided.message, decided.verb) == ("Wrong customer <b>", message, "")
    assert decided.actor.name == "Dana Reyes"
    await setting.world.until(lambda: setting.world.told(DANA) == ["Allowed."])


async def test_a_form_and_a_hint_are_in_the_language_that_the_person_is_known_to_read(
    setting: Setting, door: Door
) -> None:
    setting.chores.speaks = "de"
    message = await posted(setting)
    view = await setting.world.opened(setting.world.press(DANA, CHANNEL, message.id, label="Decline with a note"))
    shown = json.dumps(view.view, ensure_ascii=False)
    assert all(word in shown for word in ("Mit Notiz ablehnen", "Ablehnen", "Abbrechen", "Was stattdessen zu tun ist"))
    setting.world.direct_message(DANA, "/placet pausiere billing")
    (told,) = await setting.world.until(lambda: setting.world.told(DANA))
    assert told == say("unknown_command_slack", locale="de")


async def test_a_money_cards_question_is_in_the_cards_language(setting: Setting) -> None:
    card = replace(PLAIN, language="de")
    message = await setting.surface.post(HERE, card, token=new_token())
    blocks = json.dumps(kept(setting, message).blocks, ensure_ascii=False)
    assert "Wirklich erlauben?" in blocks
    assert "Noch nicht" in blocks


async def test_a_form_whose_trigger_is_gone_sends_the_person_to_the_thread(setting: Setting, door: Door) -> None:
    message = await posted(setting)
    setting.world.fail("views.open", error="expired_trigger_id")
    press = setting.world.press(DANA, CHANNEL, message.id, label="Decline with a note")
    (told,) = await setting.world.until(lambda: press.words)
    assert "Reply in the thread" in told
    setting.world.reply(DANA, CHANNEL, message.id, "no")
    assert (await door.pressed())[0].text == "no"


async def test_a_reply_under_another_message_and_plain_talk_decide_nothing(setting: Setting, door: Door) -> None:
    other = setting.world.say(OLA, CHANNEL, "lunch?")
    setting.world.reply(DANA, CHANNEL, other.ts, "no")
    message = await posted(setting)
    note = setting.world.reply(DANA, CHANNEL, message.id, "first")
    await door.pressed()
    setting.world.edit(DANA, CHANNEL, note.ts, "second")
    setting.world.say(DANA, CHANNEL, "", thread=message.id, file="note.txt")
    await setting.world.until(lambda: any("Only new text messages" in each for each in setting.world.told(DANA)))
    assert [press.text for press in door.presses] == ["first"]


async def test_a_plain_word_in_private_reaches_the_door_as_a_reply_to_nothing(setting: Setting, door: Door) -> None:
    said = setting.world.direct_message(DANA, "Not today")
    (press,) = await door.pressed()
    assert (press.text, press.message.id) == ("Not today", "")
    assert setting.world.channels[press.message.chat].message(said.ts) is said
    await setting.world.until(lambda: setting.world.told(DANA) == ["Allowed."])


# Groups

APPROVERS = f"slack:{TEAM}/S01"


async def test_a_group_is_read_once_for_many_presses_and_only_where_it_gives_a_role(
    setting: Setting, door: Door
) -> None:
    setting.world.set_usergroup("S01", [DANA])
    message = await posted(setting)
    for label in ("Allow", "Decline"):
        setting.world.press(DANA, CHANNEL, message.id, label=label)
    await door.pressed(2)
    assert setting.world.calls_of("usergroups.users.list") == []
    setting.chores.mapped = frozenset({APPROVERS, "slack:T99/S09", "discord:500/900"})
    for person in (DANA, DANA, OLA, GUEST):
        setting.world.press(person, CHANNEL, message.id, label="Allow")
    presses = (await door.pressed(6))[2:]
    groups = {press.actor.id: press.actor.groups for press in presses}
    assert groups == {DANA: {APPROVERS}, OLA: set(), GUEST: set()}
    assert len(setting.world.calls_of("usergroups.users.list")) == 1


async def test_l3_an_external_member_is_in_none_of_our_groups(setting: Setting, door: Door) -> None:
    setting.world.set_usergroup("S01", [OUTSIDER])
    setting.chores.mapped = frozenset({APPROVERS})
    message = await posted(setting, Destination("slack", TEAM, SHARED))
    setting.world.press(OUTSIDER, SHARED, message.id, label="Allow")
    (press,) = await door.pressed()
    assert (press.actor.tenant, press.actor.groups) == ("T99", frozenset())


@pytest.mark.parametrize("fault", [{"error": "missing_scope"}, {"status": 503}, {"retry_after": 33}])
async def test_a_group_that_cannot_be_read_has_nobody_in_it(
    setting: Setting, door: Door, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    setting.world.set_usergroup("S01", [DANA])
    setting.chores.mapped = frozenset({APPROVERS})
    setting.world.fail("usergroups.users.list", times=None, **fault)
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    (got,) = await door.pressed()
    assert got.actor.groups == frozenset()
    assert await setting.world.until(lambda: press.words) == ["Allowed."]
    # A press waits for a group for a moment only.
    await eventually(lambda: ("group not read", "slack") in whence(caplog))


async def test_a_group_is_read_again_and_its_last_members_count_for_a_while_only(
    setting: Setting, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.groups.KEPT_S", 0.0)
    monkeypatch.setattr("bots.groups.AGAIN_S", 0.0)
    setting.world.set_usergroup("S01", [DANA])
    setting.chores.mapped = frozenset({APPROVERS})
    message, seen = await posted(setting), list[Press]()

    async def pressed() -> bool:
        setting.world.press(DANA, CHANNEL, message.id, label="Allow")
        seen.append((await door.pressed(len(seen) + 1))[-1])
        return APPROVERS in seen[-1].actor.groups

    assert await pressed()
    setting.world.fail("usergroups.users.list", status=503)
    assert await pressed()
    setting.world.set_usergroup("S01", [OLA])
    assert not await pressed()
    setting.world.set_usergroup("S01", [DANA])
    assert await pressed()
    monkeypatch.setattr("bots.groups.STALE_S", 0.0)
    setting.world.fail("usergroups.users.list", status=503)
    assert not await pressed()


async def test_a_press_does_not_wait_for_a_slow_group(
    setting: Setting, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.groups.PATIENCE_S", 0.05)
    setting.world.set_usergroup("S01", [DANA])
    setting.chores.mapped = frozenset({APPROVERS})
    setting.world.delay("usergroups.users.list", 0.5)
    message = await posted(setting)
    setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    assert (await door.pressed())[0].actor.groups == frozenset()
    await eventually(lambda: any(call.status for call in setting.world.calls_of("usergroups.users.list")))
    # The answer is on its way still.
    monkeypatch.setattr("bots.groups.PATIENCE_S", 10.0)
    setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    assert (await door.pressed(2))[1].actor.groups == {APPROVERS}


async def test_while_the_mapping_cannot_be_read_nobody_is_in_a_group(setting: Setting, door: Door) -> None:
    setting.chores.mapped, setting.chores.down = frozenset({APPROVERS}), 1
    setting.world.set_usergroup("S01", [DANA])
    message = await posted(setting)
    setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    assert (await door.pressed())[0].actor.groups == frozenset()


async def test_doctor_asks_for_the_scope_of_groups_where_one_gives_a_role(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.sandbox.slack.server.SCOPES", ",".join(SCOPES))
    assert [finding.level for finding in await setting.surface.check()] == ["ok", "ok"]
    again = Slack(setting.settings, hooks(setting.chores), pace=0)
    setting.chores.mapped = frozenset({APPROVERS})
    try:
        wrong = (await again.check())[0]
        assert (wrong.level, "usergroups:read" in wrong.what) == ("fail", True)
    finally:
        await again.close()


async def test_l6_somebody_who_left_the_workspace_is_gone_and_the_other_still_gets_the_card(setting: Setting) -> None:
    setting.world.deactivate(OLA)
    with pytest.raises(Gone):
        await posted(setting, Destination("slack", TEAM, OLA))
    assert (await posted(setting, Destination("slack", TEAM, DANA))).chat.startswith("D")


# Forms and menus

EDIT = replace(PLAIN, buttons=(*PLAIN.buttons, Button(Verb.EDIT, "Edit")))
FORM = Form(
    title="Change the text of this call", fields=(Field("1", "Reason", "a & <b>", multiline=False, limit=9000),),
    verb=Verb.EDIT, token="T" * 16, content_revision=7, prompt="",
)  # fmt: skip


async def test_an_edit_that_is_sent_after_a_restart_still_counts(setting: Setting) -> None:
    message = await setting.surface.post(HERE, EDIT, token=FORM.token)
    first, second = Door(Reply("", form=FORM)), Door(Reply("Changed."))
    async with listening(setting, first.on_press):
        view = await setting.world.opened(setting.world.press(DANA, CHANNEL, message.id, label="Edit"))
    await setting.surface.close()
    setting.surface = Slack(setting.settings, hooks(setting.chores), pace=0)
    async with listening(setting, second.on_press):
        sent = setting.world.submit(view, "another reason")
        (press,) = await second.pressed()
        await setting.world.until(lambda: setting.world.told(DANA) == ["Changed."])
        assert setting.world.acked(sent)
    assert (press.verb, press.token, press.content_revision) == (Verb.EDIT, FORM.token, 7)
    assert (press.fields, press.message) == ({"1": "another reason"}, message)


@pytest.mark.parametrize("error", ["expired_trigger_id", "invalid_arguments"])
async def test_a_form_that_cannot_be_opened_is_said(setting: Setting, door: Door, error: str) -> None:
    door.reply = Reply("", form=FORM)
    message = await setting.surface.post(HERE, EDIT, token=FORM.token)
    setting.world.fail("views.open", error=error)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Edit")
    (told,) = await setting.world.until(lambda: press.words)
    assert told == say("form_gone")


async def test_a_form_that_comes_when_the_trigger_ran_out_is_said(setting: Setting) -> None:
    message = await setting.surface.post(HERE, EDIT, token=FORM.token)

    async def late(press: Press) -> Reply:
        setting.world.skip(4)
        return Reply("", form=FORM)

    async with listening(setting, late):
        press = setting.world.press(DANA, CHANNEL, message.id, label="Edit")
        assert await setting.world.until(lambda: press.words) == [say("form_gone")]


async def test_a_command_may_be_answered_with_a_menu(setting: Setting, door: Door) -> None:
    rules = tuple(Button(Verb.REMOVE_RULE, f"Take back {n}", token=f"{n:016}", number=1) for n in range(30))
    setting.chores.reply = Reply("Rules of billing", menu=rules)
    setting.world.command(DANA, CHANNEL, "rules billing")
    menu = await setting.world.until(lambda: setting.world.channels[CHANNEL].last("Rules of billing"))
    assert menu.only == DANA
    assert menu.labels == [rule.label for rule in rules]
    door.reply = Reply("Taken back.", Tone.GOOD)
    setting.world.press(DANA, CHANNEL, menu.ts, label="Take back 27")
    (press,) = await door.pressed()
    assert (press.verb, press.token, press.content_revision) == (Verb.REMOVE_RULE, f"{27:016}", 1)
    await setting.world.until(lambda: menu.shown == "Taken back." and not menu.buttons)


# Commands


async def test_commands_are_answered_to_the_person_alone(setting: Setting, door: Door) -> None:
    world = setting.world
    private = world.direct(world.people[DANA], world.teams[TEAM]).id
    answers = []
    for channel, text in ((CHANNEL, "pending"), (private, "link abc"), (CHANNEL, "link abc"), (CHANNEL, ""),
                          (CHANNEL, "pause"), (CHANNEL, "mode billing everything"), (CHANNEL, "mode billing"),
                          (CHANNEL, "pause billing"), (CHANNEL, "resume billing"), (CHANNEL, "rules billing"),
                          ):  # fmt: skip
        used = world.command(DANA, channel, text)
        answers += await world.until(lambda used=used: used.words)  # type: ignore[misc]
        assert world.acked(used)
    assert setting.chores.asked == [
        ("pending", DANA), ("link", DANA, "abc"), ("pause", DANA, ""),
        ("mode", DANA, "billing", "everything"), ("mode", DANA, "billing", ""),
        ("pause", DANA, "billing"), ("resume", DANA, "billing"), ("rules", DANA, "billing"),
    ]  # fmt: skip
    assert answers[0] == "Nothing waits for you."
    assert answers[1] == "You are linked."
    assert "private chat" in answers[2]
    assert "/placet pending" in answers[3]
    assert answers[4] == answers[7]
    assert answers[5] == "It asks for everything."


async def test_a_private_channel_that_is_shared_is_followed_to_its_new_id(setting: Setting, door: Door) -> None:
    message = await posted(setting, Destination("slack", TEAM, PRIVATE))
    to = setting.world.change_channel_id(PRIVATE)
    await setting.world.until(lambda: ("moved", "slack", TEAM, PRIVATE, to) in setting.chores.asked or None, 10)
    with pytest.raises(Gone):
        await setting.surface.redraw(message, settled(PLAIN))
    await setting.surface.redraw(replace(message, chat=to), settled(PLAIN))


# Socket Mode


@pytest.mark.parametrize("warn", [False, True])
async def test_a_socket_that_is_lost_is_opened_again_with_a_new_address(
    setting: Setting, door: Door, warn: bool, caplog: pytest.LogCaptureFixture
) -> None:
    message = await posted(setting)
    setting.world.cut_sockets(refuse=2, warn=warn)
    await setting.world.until(lambda: setting.world.connected == 0)
    await setting.world.until(lambda: setting.world.connected == 1, 20)
    assert "socket not open" not in caplog.messages
    assert setting.world.sockets_refused == 0
    assert len(setting.world.calls_of("apps.connections.open")) >= 4
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    await setting.world.until(lambda: press.words == ["Allowed."])


async def test_a_socket_that_stays_away_is_told_once(
    setting: Setting, door: Door, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.slack.AWAY_S", 0.5)
    caplog.set_level(logging.INFO, "placet.bots")
    setting.world.cut_sockets(refuse=4)
    await eventually(lambda: "socket not open" in caplog.messages)
    await eventually(lambda: "connected" in caplog.messages[caplog.messages.index("socket not open") :])
    (away,) = (line for line in caplog.records if line.message == "socket not open")
    assert 0.5 <= away.__dict__["seconds"] < 10


async def test_what_came_while_no_socket_was_open_is_taken_when_there_is_one(setting: Setting) -> None:
    message = await posted(setting)
    setting.world.reply(DANA, CHANNEL, message.id, "no")
    await asyncio.sleep(0.3)
    door = Door()
    async with listening(setting, door.on_press):
        setting.world.skip(4)
        assert (await door.pressed())[0].text == "no"


# HTTP


@asynccontextmanager
async def over_http(door: Door) -> AsyncIterator[Setting]:
    async with slack(over_http=True) as setting, listening(setting, door.on_press, sockets=0):
        await asyncio.sleep(0)
        yield setting


async def payload_of(setting: Setting) -> dict[str, Any]:
    message = await posted(setting)
    press = setting.world.press(DANA, CHANNEL, message.id, label="Allow")
    return setting.world.envelopes[press.envelope].payload


async def test_a_signed_request_is_taken_once_and_its_copy_refused() -> None:
    door = Door()
    async with over_http(door) as setting:
        headers, body = setting.world.signed(await payload_of(setting))
        assert await setting.surface.receive("events", headers, body) == 200
        assert await setting.surface.receive("events", headers, body) == 401
        assert len(door.presses) == 1


@pytest.mark.parametrize("fault", ["old", "future", "other secret", "no number", "no headers", "other body"])
async def test_a_request_that_is_not_slacks_is_refused_cleanly(fault: str) -> None:
    door = Door()
    async with over_http(door) as setting:
        payload, now = await payload_of(setting), setting.world.now()
        at = {"old": now - 301, "future": now + 302}.get(fault)
        headers, body = setting.world.signed(payload, at=at, secret="guessed" if fault == "other secret" else "")
        if fault == "no number":
            headers["x-slack-request-timestamp"] = "soon"
        elif fault == "no headers":
            headers = {}
        elif fault == "other body":
            body += b" "
        assert await setting.surface.receive("events", headers, body) == 401
        assert door.presses == []


async def test_an_unsigned_ssl_check_is_refused_and_a_signed_challenge_answered() -> None:
    async with over_http(Door()) as setting:
        assert await setting.surface.receive("events", {}, b"ssl_check=1&token=x") == 401
        headers, body = setting.world.signed({"type": "url_verification", "challenge": "3eZbrw1aB"})
        assert await setting.surface.receive("events", headers, body) == (200, "3eZbrw1aB")


async def test_an_event_that_was_not_committed_is_refused_so_that_it_comes_again() -> None:
    door = Door(down=1)
    async with over_http(door) as setting:
        message = await posted(setting)
        setting.world.reply(DANA, CHANNEL, message.id, "no")
        (event,) = setting.world.envelopes.values()
        headers, body = setting.world.signed(event.payload)
        assert await setting.surface.receive("events", headers, body) == 503
        assert await setting.surface.receive("events", headers, body) == 200
        assert [press.text for press in door.presses] == ["no"]


async def test_nothing_is_taken_before_the_process_listens() -> None:
    async with slack(over_http=True) as setting:
        headers, body = setting.world.signed({"type": "event_callback", "team_id": TEAM, "event": {"type": "message"}})
        assert await setting.surface.receive("events", headers, body) == 503


# Settings and checks


def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **variables: str) -> object:
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(f"PLACET_SLACK_{name}", value)
    chores = Chores()
    return PLATFORMS["slack"](hooks(chores))


def test_without_a_token_slack_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert built(monkeypatch, tmp_path) is None


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"BOT_TOKEN": "123"}, "PLACET_SLACK_BOT_TOKEN: token 1 is not of the form xoxb-"),
        ({"BOT_TOKEN": f"{TOKEN},{TOKEN}"}, "PLACET_SLACK_BOT_TOKEN: a token is there twice"),
        ({"BOT_TOKEN": TOKEN}, "PLACET_SLACK_APP_TOKEN: must be set for Socket Mode"),
        ({"BOT_TOKEN": TOKEN, "APP_TOKEN": TOKEN}, "PLACET_SLACK_APP_TOKEN: must be of the form xapp-"),
        ({"BOT_TOKEN": TOKEN, "SIGNING_SECRET": "short"}, "PLACET_SLACK_SIGNING_SECRET: must be the signing secret"),
        ({"BOT_TOKEN": TOKEN, "APP_TOKEN": APP_TOKEN, "BASE_URL": "slack"}, "PLACET_SLACK_BASE_URL: must be the Web"),
        ({"TOKEN": TOKEN}, "PLACET_SLACK_TOKEN: there is no such setting"),
    ],
)
def test_a_bad_setting_is_named_and_never_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], told: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        built(monkeypatch, tmp_path, **variables)
    assert str(caught.value).startswith(told)
    assert TOKEN not in str(caught.value)


def test_the_manifest_asks_for_what_the_bot_needs() -> None:
    manifest = YAML(typ="safe").load(MANIFEST.read_text())
    assert set(manifest["oauth_config"]["scopes"]["bot"]) >= SCOPES
    assert {"message.channels", "message.groups", "message.im", "channel_id_changed"} == set(
        manifest["settings"]["event_subscriptions"]["bot_events"]
    )
    assert [command["command"] for command in manifest["features"]["slash_commands"]] == ["/placet"]


async def test_a_check_of_what_is_well_says_so(setting: Setting, door: Door) -> None:
    await posted(setting)
    assert [(finding.level, finding.what) for finding in await setting.surface.check()] == [
        ("ok", "Slack bot token 1: the app in T01 answers"),
        ("ok", "the socket to Slack is open"),
    ]


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [("token_revoked", 200, "does not accept it (token_revoked)"), ("internal_error", 500, "does not answer")],
)
async def test_a_check_names_what_is_wrong_and_the_fix(setting: Setting, error: str, status: int, told: str) -> None:
    setting.world.fail("auth.test", error=error, status=status)
    finding, way_in = await setting.surface.check()
    assert finding.level == "fail"
    assert told in finding.what
    assert finding.fix
    assert (way_in.level, "accepts the app token" in way_in.what) == ("ok", True)


async def test_no_token_and_no_text_is_in_any_log_line(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    door = Door()
    async with listening(setting, door.on_press):
        message = await setting.surface.post(HERE, CARDS["hostile"], token=new_token())
        setting.world.press(DANA, CHANNEL, message.id, label="Allow")
        await door.pressed()
        setting.world.cut_sockets()
        setting.world.fail("*", error="invalid_blocks")
        with pytest.raises(Refused):
            await setting.surface.redraw(message, PLAIN)
    # The sandbox's own server is no part of Placet's processes.
    ours = [record for record in caplog.records if not record.name.startswith(("uvicorn", "websockets"))]
    mine = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in ours)
    assert "connected" in mine
    assert not [secret for secret in (TOKEN, APP_TOKEN, SECRET, "evil.example", "ticket=") if secret in mine]

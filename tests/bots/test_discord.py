"""Discord's surface over the wire: the real library against the sandbox, which is as strict as Discord."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from discord.gateway import DiscordWebSocket
from discord.http import Route

from adapters.sandbox.discord import Interaction, markdown, token_of
from bots import PLATFORMS
from bots.discord import DEFER_S, Discord, Settings, inert, render
from core.approvals import Button, Card, Destination, Field, Form, Line, Message, Press, Reply, Tone
from core.buttons import Verb, new_token
from core.ports import BadSetting, Gone, Refused, Slow, Unavailable
from core.wording import say
from tests.bots.contract import CARDS, FILE, HOSTILE, PLAIN, Door, eventually, settled, whence
from tests.bots.discord_bench import (
    CHANNEL,
    DANA,
    FORUM,
    GUILD,
    ID,
    OLA,
    OTHER_ID,
    POST,
    ROLE,
    THREAD,
    Setting,
    discord,
    seen,
)
from tests.bots.telegram_bench import Chores, hooks

TOKEN = new_token()
PLACE = Destination("discord", "", str(CHANNEL))
NOBODY: dict[str, list[str]] = {"parse": []}


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    async with discord() as opened:
        yield opened


@asynccontextmanager
async def listening(setting: Setting, door: Door, surface: Discord | None = None) -> AsyncIterator[None]:
    task = asyncio.create_task((surface or setting.surface).listen(door.on_press))
    try:
        await setting.world.until(setting.world.online, 10)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def door(setting: Setting) -> AsyncIterator[Door]:
    door = Door()
    async with listening(setting, door):
        yield door


async def card(setting: Setting, place: Destination = PLACE, what: Card = PLAIN) -> Message:
    return await setting.surface.post(place, what, token=TOKEN)


async def told(setting: Setting, interaction: Interaction) -> str:
    answer = await setting.world.answer(interaction, 10)
    assert answer.ephemeral
    return markdown.read(answer.text)[0]


def press(setting: Setting, message: Message, label: str = "Allow", person: int = DANA) -> Interaction:
    return setting.world.press(person, int(message.chat), int(message.id), label=label)


# Presses


async def test_s6_a_press_works_400_s_later_and_after_a_restart(setting: Setting) -> None:
    message = await card(setting)
    await setting.surface.close()
    setting.world.skip(400)
    again = Discord(setting.settings, hooks(setting.chores, setting.lease), pace=0)
    door = Door()
    try:
        async with listening(setting, door, again):
            pressed = press(setting, message)
            (got,) = await door.pressed()
            assert (got.verb, got.token, got.message) == ("a", TOKEN, message)
            assert await told(setting, pressed) == "Allowed."
    finally:
        await again.close()


async def test_a_restart_leaves_no_session_behind_that_keeps_presses(setting: Setting) -> None:
    message = await card(setting)
    first, second = Door(), Door()
    async with listening(setting, first):
        pass
    async with listening(setting, second):
        assert await told(setting, press(setting, message)) == "Allowed."
    assert (len(first.presses), len(second.presses)) == (0, 1)


async def test_a_press_is_acknowledged_within_3_s_when_the_database_is_slow(setting: Setting) -> None:
    message, free = await card(setting), asyncio.Event()

    class Slowly(Door):
        async def on_press(self, press: Press) -> Reply:
            await free.wait()
            return await super().on_press(press)

    door = Slowly()
    async with listening(setting, door):
        pressed = press(setting, message)
        await setting.world.until(lambda: pressed.answered, DEFER_S + 3)
        assert pressed.answered == 5
        assert not setting.world.failed(pressed)
        free.set()
        assert await told(setting, pressed) == "Allowed."


async def test_a_press_is_tried_again_while_the_database_is_away(setting: Setting, door: Door) -> None:
    message = await card(setting)
    door.down = 3
    assert await told(setting, press(setting, message)) == "Allowed."
    assert (door.tries, len(door.presses)) == (4, 1)


async def test_what_cannot_be_saved_is_said_and_decides_nothing(setting: Setting, door: Door) -> None:
    message = await card(setting)
    door.down = 99
    assert await told(setting, press(setting, message)) == say("not_saved")
    assert door.presses == []


async def test_a_bug_is_said_without_its_words(setting: Setting, door: Door, caplog: pytest.LogCaptureFixture) -> None:
    message = await card(setting)
    door.failing = 99
    assert await told(setting, press(setting, message)) == say("went_wrong")
    assert "a secret value" not in caplog.text
    assert token_of(ID) not in caplog.text


async def test_a_forged_custom_id_goes_to_the_door_as_nothing(setting: Setting, door: Door) -> None:
    message = await card(setting)
    setting.world.press(DANA, CHANNEL, int(message.id), custom_id="a.forged.1")
    (got,) = await door.pressed()
    assert (got.verb, got.token, got.content_revision) == ("?", "", 0)


async def test_an_event_that_comes_twice_has_one_key_and_one_answer(setting: Setting, door: Door) -> None:
    message = await card(setting)
    pressed = press(setting, message)
    await told(setting, pressed)
    setting.world.repeat(pressed)
    first, second = await door.pressed(2)
    assert first.key == second.key == f"dc:{ID}:{pressed.id}"
    await setting.world.until(lambda: len(setting.world.calls_of("respond")) == 2)
    await eventually(lambda: all(call.status for call in setting.world.calls_of("respond")))
    assert [call.error for call in setting.world.calls_of("respond")] == ["", "40060"]


async def test_a_press_while_the_connection_is_lost_comes_with_the_resume(setting: Setting, door: Door) -> None:
    message = await card(setting)
    await setting.world.disconnect()
    pressed = press(setting, message)
    assert await told(setting, pressed) == "Allowed."
    assert setting.world.gateway.resumed == [ID]


async def test_the_gateway_may_ask_to_reconnect(setting: Setting, door: Door) -> None:
    message = await card(setting)
    await setting.world.ask_to_reconnect()
    await setting.world.until(lambda: setting.world.gateway.resumed, 10)
    assert await told(setting, press(setting, message)) == "Allowed."


async def test_after_a_long_outage_it_begins_anew_soon(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    message, door = await card(setting), Door()
    async with listening(setting, door):
        monkeypatch.setattr("bots.discord.OFFLINE_S", 0.8)
        await setting.world.shut_gateway()
        await setting.world.until(lambda: not setting.world.online())
        await eventually(lambda: ("gateway failed", "discord") in whence(caplog))
        findings = await setting.surface.check()
        assert [finding.level for finding in findings] == ["ok", "warn"]
        setting.world.open_gateway()
        await setting.world.until(setting.world.online, 10)
        assert setting.world.gateway.resumed == []
        assert await told(setting, press(setting, message)) == "Allowed."


async def test_a_late_answer_is_let_go(setting: Setting, door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "placet.bots")
    message = await card(setting)
    setting.world.fail("respond", status=404, code=10062)
    press(setting, message)
    await door.pressed()
    await setting.world.until(lambda: setting.world.calls_of("respond")[0].status)
    await eventually(lambda: ("answer too late", "discord") in whence(caplog))


# The note


async def test_the_note_form_opens_before_any_other_work(setting: Setting, door: Door) -> None:
    message = await card(setting)
    pressed = press(setting, message, "Decline with a note")
    modal = (await setting.world.answer(pressed)).modal
    assert modal is not None
    assert modal["title"] == "Decline with a note"
    assert door.tries == 0


async def test_a_form_and_a_hint_are_in_the_language_that_the_person_is_known_to_read(
    setting: Setting, door: Door
) -> None:
    setting.chores.speaks = "de"
    modal = (await setting.world.answer(press(setting, await card(setting), "Decline with a note"))).modal
    assert modal is not None
    assert modal["title"] == "Mit Notiz ablehnen"
    assert modal["components"][0]["components"][0]["label"] == "Was stattdessen zu tun ist"
    await setting.world.until(lambda: setting.world.bots[ID].commands)
    aloud = setting.world.command(DANA, "placet link", {"code": "Qm9v"}, channel=CHANNEL)
    assert (await told(setting, aloud)).startswith("Schicken Sie mir den Code in einem privaten Chat.")


async def test_commands_are_described_in_every_language(setting: Setting, door: Door) -> None:
    (placet,) = await setting.world.until(lambda: setting.world.bots[ID].commands)
    assert placet["description_localizations"]["de"] == say("command_placet", locale="de")
    names = [each["name"] for each in placet["options"]]
    assert names == ["link", "pending", "rules", "mode", "pause", "resume", "help"]
    link = next(each for each in placet["options"] if each["name"] == "link")
    assert link["description_localizations"]["de"] == "Dieses Konto mit einem Code verknüpfen"
    assert link["options"][0]["description_localizations"]["de"] == "Der Code, den Sie bekommen haben"


async def test_a_note_that_is_sent_after_a_restart_still_counts(setting: Setting) -> None:
    message, door = await card(setting), Door(Reply("Declined with your note.", Tone.GOOD))
    async with listening(setting, Door()):
        opened = press(setting, message, "Decline with a note")
        await setting.world.answer(opened)
    await setting.surface.close()
    again = Discord(setting.settings, hooks(setting.chores, setting.lease), pace=0)
    try:
        async with listening(setting, door, again):
            sent = setting.world.submit(DANA, opened, {"note": "Wrong *customer* <@1>"})
            (got,) = await door.pressed()
            assert (got.text, got.verb, got.message) == ("Wrong *customer* <@1>", "", message)
            assert got.key == f"dc:{ID}:{sent.id}"
            assert await told(setting, sent) == "Declined with your note."
    finally:
        await again.close()


EDIT = replace(PLAIN, buttons=(*PLAIN.buttons, Button(Verb.EDIT, "Edit")))
FORM = Form(
    title="Change the text", fields=(Field("1", "Reason", "a *b* <@1>", multiline=True, limit=9000),),
    verb=Verb.EDIT, token=TOKEN, content_revision=7, prompt="",
)  # fmt: skip


async def test_an_edit_that_is_sent_after_a_restart_still_counts(setting: Setting) -> None:
    message, door = await card(setting, what=EDIT), Door(Reply("Changed."))
    async with listening(setting, Door(Reply("", form=FORM))):
        opened = press(setting, message, "Edit")
        modal = (await setting.world.answer(opened)).modal
    assert modal is not None
    assert modal["custom_id"] == f"e.{TOKEN}.7"
    await setting.surface.close()
    again = Discord(setting.settings, hooks(setting.chores, setting.lease), pace=0)
    try:
        async with listening(setting, door, again):
            sent = setting.world.submit(DANA, opened, {"1": "another *reason*"})
            (got,) = await door.pressed()
            assert (got.verb, got.token, got.content_revision) == (Verb.EDIT, TOKEN, 7)
            assert (got.fields, got.message) == ({"1": "another *reason*"}, message)
            assert await told(setting, sent) == "Changed."
    finally:
        await again.close()


async def test_a_form_that_would_come_too_late_is_said_in_time(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.discord.FORM_S", 0.05)
    message, free = await card(setting, what=EDIT), asyncio.Event()

    class Slowly(Door):
        async def on_press(self, press: Press) -> Reply:
            await free.wait()
            return Reply("", form=FORM)

    async with listening(setting, Slowly()):
        pressed = press(setting, message, "Edit")
        assert await told(setting, pressed) == say("form_gone")
        assert pressed.answered == 4
        free.set()


async def test_a_pick_from_a_slow_database_takes_the_place_of_the_menu(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.discord.DEFER_S", 0.05)
    free = asyncio.Event()

    class Slowly(Door):
        async def on_press(self, press: Press) -> Reply:
            if press.verb == Verb.ALLOW:
                return Reply("Always allow what?", menu=(Button(Verb.ALWAYS_TOOL, "Everything"),))
            await free.wait()
            return Reply("From now on it runs by itself.")

    async with listening(setting, Slowly()):
        message = await card(setting)
        asked = await setting.world.answer(press(setting, message))
        assert asked.ephemeral
        menu = setting.world.channel(CHANNEL).last("Always allow what?")
        picked = setting.world.press(DANA, CHANNEL, menu.id, label="Everything")
        await setting.world.until(lambda: picked.answered)
        assert picked.answered == 6
        free.set()
        assert await told(setting, picked) == "From now on it runs by itself."
    assert (menu.content, menu.buttons) == ("From now on it runs by itself.", [])


async def test_a_menu_works_after_a_restart(setting: Setting) -> None:
    message = await card(setting)
    async with listening(setting, Door(Reply("Which?", menu=(Button(Verb.ALWAYS_TOOL, "Everything"),)))):
        await setting.world.answer(press(setting, message))
    await setting.surface.close()
    again, door = Discord(setting.settings, hooks(setting.chores, setting.lease), pace=0), Door()
    menu = setting.world.channel(CHANNEL).last("Which?")
    try:
        async with listening(setting, door, again):
            setting.world.press(DANA, CHANNEL, menu.id, label="Everything")
            (got,) = await door.pressed()
            assert (got.verb, got.message) == (Verb.ALWAYS_TOOL, message)
    finally:
        await again.close()


async def test_roles_count_in_their_server_alone(setting: Setting, door: Door) -> None:
    setting.world.give_role(DANA, GUILD, ROLE)
    setting.world.press(DANA, CHANNEL, int((await card(setting)).id), label="Allow")
    private = await card(setting, Destination("discord", "", str(DANA)))
    (there,) = await door.pressed()
    setting.world.press(DANA, int(private.chat), int(private.id), label="Allow")
    alone = (await door.pressed(2))[-1]
    setting.world.say(DANA, CHANNEL, "no", reply_to=int(there.message.id))
    typed = (await door.pressed(3))[-1]
    assert there.actor.groups == typed.actor.groups == {f"discord:{GUILD}/{ROLE}"}
    assert alone.actor.groups == frozenset()


async def test_a_reply_counts_by_its_reference(setting: Setting, door: Door) -> None:
    message = await card(setting)
    said = setting.world.say(DANA, CHANNEL, "No", reply_to=int(message.id))
    (got,) = await door.pressed()
    assert (got.text, got.message, got.key) == ("No", message, f"dc:{ID}:{said.id}")
    answer = await setting.world.until(lambda: setting.world.channel(CHANNEL).last("Allowed"))
    assert answer.reference == said.id


async def test_a_reply_without_the_ping_is_unreadable_and_says_so(setting: Setting, door: Door) -> None:
    message = await card(setting)
    setting.world.say(DANA, CHANNEL, "No", reply_to=int(message.id), ping=False)
    await setting.world.until(lambda: setting.world.channel(CHANNEL).last("I cannot read that reply"))
    assert door.tries == 0


async def test_a_reply_that_is_delivered_twice_is_answered_once(setting: Setting, door: Door) -> None:
    message = await card(setting)
    said = setting.world.say(DANA, CHANNEL, "No", reply_to=int(message.id))
    await setting.world.until(lambda: setting.world.channel(CHANNEL).last("Allowed"))
    setting.world.repeat(said)
    await door.pressed(2)
    await setting.world.until(lambda: len(setting.world.calls_of("create_message")) == 3)
    answers = [each for each in setting.world.channel(CHANNEL).messages if each.reference == said.id]
    assert len(answers) == 1


async def test_other_talk_in_a_channel_is_nothing(setting: Setting, door: Door) -> None:
    message = await card(setting)
    mine = setting.world.say(OLA, CHANNEL, "What is this?")
    setting.world.say(DANA, CHANNEL, "No idea", reply_to=mine.id)
    setting.world.say(DANA, CHANNEL, "", reply_to=int(message.id), forward=True)
    await told(setting, press(setting, message))
    assert [got.text for got in door.presses] == [None]


# Commands


async def test_link_works_in_private_only(setting: Setting, door: Door) -> None:
    await setting.world.until(lambda: setting.world.bots[ID].commands)
    aloud = setting.world.command(DANA, "placet link", {"code": "Qm9v"}, channel=CHANNEL)
    assert await told(setting, aloud) == say("link_private_only")
    private = setting.world.command(DANA, "placet link", {"code": "Qm9v"})
    assert await told(setting, private) == "You are linked."
    assert setting.chores.asked == [("link", str(DANA), "Qm9v")]


async def test_commands_are_told_to_the_asker_alone(setting: Setting, door: Door) -> None:
    await setting.world.until(lambda: setting.world.bots[ID].commands)
    asked = setting.world.command(DANA, "placet pending", channel=CHANNEL)
    assert await told(setting, asked) == "Nothing waits for you."
    for name in ("rules", "pause", "resume"):
        await told(setting, setting.world.command(DANA, f"placet {name}", {"agent": "billing"}, channel=CHANNEL))
    await told(setting, setting.world.command(DANA, "placet mode", {"agent": "billing", "to": "everything"}))
    await told(setting, setting.world.command(DANA, "placet mode", {"agent": "billing"}))
    for name in ("rules", "pause"):
        await told(setting, setting.world.command(DANA, f"placet {name}"))
    await told(setting, setting.world.command(DANA, "placet mode", {"to": "everything"}))
    assert setting.chores.asked[1:] == [
        *((name, str(DANA), "billing") for name in ("rules", "pause", "resume")),
        ("mode", str(DANA), "billing", "everything"), ("mode", str(DANA), "billing", ""),
        ("rules", str(DANA), ""), ("pause", str(DANA), ""), ("mode", str(DANA), "", "everything"),
    ]  # fmt: skip


# Places


@pytest.mark.parametrize(("parent", "thread"), [(CHANNEL, THREAD), (FORUM, POST)])
async def test_a_card_in_a_thread_or_a_forum_post_is_pressed_and_replied_to_there(
    setting: Setting, door: Door, parent: int, thread: int
) -> None:
    message = await card(setting, Destination("discord", str(ID), str(parent), str(thread)))
    assert (message.chat, message.thread) == (str(thread), "")
    press(setting, message)
    setting.world.say(DANA, thread, "No", reply_to=int(message.id))
    assert [got.message for got in await door.pressed(2)] == [message, message]


async def test_a_thread_that_fell_asleep_is_woken_for_the_redraw(setting: Setting) -> None:
    message = await card(setting, Destination("discord", "", str(CHANNEL), str(THREAD)))
    setting.world.archive(THREAD)
    await setting.surface.redraw(message, settled(PLAIN), token=TOKEN)
    assert "Allowed by Dana Reyes" in setting.world.channel(THREAD).message(int(message.id)).text


async def test_a_locked_thread_is_gone(setting: Setting) -> None:
    message = await card(setting, Destination("discord", "", str(CHANNEL), str(THREAD)))
    setting.world.archive(THREAD, locked=True)
    with pytest.raises(Gone):
        await setting.surface.redraw(message, settled(PLAIN), token=TOKEN)


async def test_a_persons_id_is_the_private_chat(setting: Setting, door: Door) -> None:
    message = await card(setting, Destination("discord", "", str(DANA)))
    private = setting.world.private_of(DANA)
    assert message.chat == str(private.id)
    assert setting.chores.asked == [("moved", "discord", str(ID), str(DANA), message.chat)]
    assert await told(setting, press(setting, message)) == "Allowed."
    setting.world.say(DANA, private.id, "No", reply_to=int(message.id))
    assert (await door.pressed(2))[1].message == message
    await setting.surface.tell(Destination("discord", "", str(DANA)), "A word")
    assert private.last("A word")


async def test_plain_words_in_private_reach_the_door_as_a_reply_to_nothing(setting: Setting, door: Door) -> None:
    private = setting.world.private_of(DANA)
    setting.world.say(DANA, private.id, "Not today")
    (press,) = await door.pressed()
    assert (press.text, press.message.chat, press.message.id) == ("Not today", str(private.id), "")
    await setting.world.until(lambda: private.last("Allowed."))


@pytest.mark.parametrize("code", [50007, 50278])
async def test_a_person_who_takes_no_messages_is_gone(setting: Setting, code: int) -> None:
    if code == 50007:
        setting.world.add_person(DANA, "Dana Reyes", "dana", accepts=False)
    else:
        setting.world.leave(DANA, GUILD)
    with pytest.raises(Gone, match=str(code)):
        await card(setting, Destination("discord", "", str(DANA)))


@pytest.mark.parametrize("spoil", ["hide", "mute", "delete_channel"])
async def test_a_channel_that_cannot_be_written_to_is_gone(setting: Setting, spoil: str) -> None:
    getattr(setting.world, spoil)(CHANNEL)
    with pytest.raises(Gone):
        await card(setting)


async def test_an_id_of_nobody_is_gone(setting: Setting) -> None:
    with pytest.raises(Gone):
        await card(setting, Destination("discord", "", "999"))


async def test_each_account_posts_and_hears_for_itself() -> None:
    async with discord(ID, OTHER_ID) as setting:
        door = Door()
        task = asyncio.create_task(setting.surface.listen(door.on_press))
        await setting.world.until(lambda: all(setting.world.online(bot) for bot in (ID, OTHER_ID)), 10)
        first = await card(setting)
        second = await card(setting, Destination("discord", "second", str(CHANNEL)))
        assert (first.account, second.account) == (str(ID), str(OTHER_ID))
        await told(setting, press(setting, second))
        assert [got.message for got in door.presses] == [second]
        with pytest.raises(Refused, match="nobody"):
            await card(setting, Destination("discord", "nobody", str(CHANNEL)))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# What is sent


async def test_no_call_lets_a_mention_live(setting: Setting, door: Door) -> None:
    door.reply = Reply(HOSTILE, Tone.ALERT)
    message = await card(setting, what=CARDS["hostile"])
    await setting.surface.redraw(message, CARDS["hostile"], token=TOKEN)
    await setting.surface.attach(message, FILE)
    await setting.surface.say(message, HOSTILE)
    pressed = press(setting, message)
    assert await told(setting, pressed) == HOSTILE
    setting.world.say(DANA, CHANNEL, "No", reply_to=int(message.id))
    await door.pressed(2)
    await setting.world.until(lambda: len(setting.world.calls_of("create_message")) == 4)
    for method in ("create_message", "edit_message"):
        assert [call.params["allowed_mentions"] for call in setting.world.calls_of(method)] != []
        assert all(call.params["allowed_mentions"] == NOBODY for call in setting.world.calls_of(method))
    assert setting.world.calls_of("respond")[0].params["data"]["allowed_mentions"] == NOBODY
    for each in setting.world.channel(CHANNEL).messages:
        if each.author == ID:
            assert each.pinged == []
            assert markdown.live(each) == []


@pytest.mark.parametrize(
    "text",
    ["**b** __u__ *i* _i_ ~~s~~ ||h||", "# head", "- item", "1. item", "> quote", "-# small", "`code` ```block```",
     "[x](https://evil.example)", "https://evil.example", "<https://evil.example>", "<@1> <@&2> <#3> @everyone @here",
     "<:a:1> :smile: <t:1:R> </cmd:1> <a@b.example>", "back\\slash \\*", "a\n  - b\n+ c", HOSTILE],
)  # fmt: skip
def test_text_is_shown_literally(text: str) -> None:
    shown, entities = markdown.read(inert(text))
    assert shown == text
    assert entities == []


def test_code_is_a_block_and_the_call_in_words_is_not() -> None:
    card = replace(PLAIN, body="sage wants to use shell.", lines=(Line("Command", "rm -rf /tmp", code=True),))
    said = render(card, TOKEN).json["embeds"][0]["description"]
    assert "**Command:**\n```\nrm -rf /tmp\n```" in said
    assert said.count("```") == 2


def test_code_that_would_end_its_block_is_escaped_instead() -> None:
    def coded(text: str) -> Card:
        return replace(PLAIN, lines=(Line("Command", text, code=True),))

    embeds = render(coded("a ``` @everyone ```"), TOKEN).json["embeds"]
    assert "\\`\\`\\` \\@everyone" in embeds[0]["description"]
    assert "```\nrm -rf /tmp\n```" in render(coded("rm -rf /tmp"), TOKEN).json["embeds"][0]["description"]


def test_the_agents_own_words_are_quoted_apart() -> None:
    embeds = render(replace(PLAIN, claim="one\n\n# two"), TOKEN).json["embeds"]
    assert embeds[1]["description"].endswith("> one\n> \n> \\# two")


def test_buttons_are_coloured_and_a_card_without_any_has_none() -> None:
    rows = render(replace(PLAIN, buttons=(*PLAIN.buttons, Button(Verb.ALLOW, "x" * 100, "loud"))), TOKEN).json
    (row,) = rows["components"]
    assert [button["style"] for button in row["components"]] == [3, 4, 2, 2]
    assert len(row["components"][3]["label"]) == 80
    assert render(settled(PLAIN), TOKEN).json["components"] == []


async def test_a_card_whose_answer_was_lost_is_not_posted_twice(setting: Setting) -> None:
    await card(setting, Destination("discord", "", str(THREAD)))
    setting.world.drop("create_message", when="after")
    with pytest.raises(Unavailable):
        await card(setting)
    message = await card(setting)
    assert [str(each.id) for each in setting.world.channel(CHANNEL).messages] == [message.id]
    assert len(setting.world.calls_of("create_message", chat=CHANNEL)[0].params["nonce"]) == 25


async def test_a_card_that_changed_before_it_is_sent_again_shows_the_change(setting: Setting) -> None:
    first = await card(setting)
    second = await card(setting, what=replace(PLAIN, title="Refund it once more", content_revision=2))
    assert first == second
    shown = seen(setting.world.channel(CHANNEL).message(int(second.id)))
    assert "Refund it once more" in shown.text
    assert shown.buttons["Allow"].endswith(".2")


async def test_a_card_that_was_deleted_is_gone(setting: Setting) -> None:
    message = await card(setting)
    setting.world.delete_message(CHANNEL, int(message.id))
    with pytest.raises(Gone):
        await setting.surface.redraw(message, settled(PLAIN), token=TOKEN)
    with pytest.raises(Gone):
        await card(setting)


async def test_too_many_late_edits_are_slow(setting: Setting) -> None:
    message = await card(setting)
    setting.world.fail("edit_message", retry_after=0.01, code=30046, times=None)
    with pytest.raises(Slow) as raised:
        await setting.surface.redraw(message, settled(PLAIN), token=TOKEN)
    assert raised.value.after > 0


async def test_the_sandboxs_own_limit_of_late_edits_is_slow_too() -> None:
    async with discord(rate_scale=1, pace=0) as setting:
        message = await card(setting)
        setting.world.skip(3700)
        for _ in range(3):
            await setting.surface.redraw(message, PLAIN, token=TOKEN)
        with pytest.raises(Slow):
            await setting.surface.redraw(message, PLAIN, token=TOKEN)
        assert setting.world.calls_of("edit_message")[-1].error == "30046"


async def test_a_429_from_the_wall_in_front_is_slow(setting: Setting) -> None:
    message = await card(setting)
    setting.world.fail("edit_message", retry_after=33, via=False)
    with pytest.raises(Slow) as raised:
        await setting.surface.redraw(message, settled(PLAIN), token=TOKEN)
    assert raised.value.after == 33


async def test_a_short_wait_is_waited(setting: Setting) -> None:
    setting.world.fail("create_message", retry_after=0.05)
    assert await card(setting)


async def test_a_wrong_form_is_refused_without_its_content(setting: Setting) -> None:
    long = replace(PLAIN, buttons=tuple(Button(Verb.ALLOW, f"Allow {n}") for n in range(2)))
    with pytest.raises(Refused, match="50035") as raised:
        await card(setting, what=long)
    assert PLAIN.title not in str(raised.value)


async def test_nothing_of_the_library_is_changed_for_others(setting: Setting, door: Door) -> None:
    await card(setting)
    assert str(DiscordWebSocket.DEFAULT_GATEWAY) == setting.settings.discord_gateway_url
    assert Route.BASE == "https://discord.com/api/v10"


async def test_the_librarys_gateway_is_put_back(setting: Setting) -> None:
    before = DiscordWebSocket.DEFAULT_GATEWAY
    async with listening(setting, Door()):
        assert before != DiscordWebSocket.DEFAULT_GATEWAY
    assert before == DiscordWebSocket.DEFAULT_GATEWAY


# The lease


async def test_a_lost_lease_ends_the_connection_and_a_new_one_begins_it(setting: Setting, door: Door) -> None:
    setting.lease.mine = False
    await setting.world.until(lambda: not setting.world.online())
    setting.lease.mine = True
    await setting.world.until(setting.world.online, 10)


async def test_while_the_lease_cannot_be_asked_the_holder_goes_on(setting: Setting, door: Door) -> None:
    setting.lease.down = True
    await asyncio.sleep(0.2)
    assert setting.world.online()


# Checking


async def test_d1_an_interactions_endpoint_takes_the_presses_and_check_says_so() -> None:
    async with discord(endpoint="https://example.com/secret/path?key=1") as setting:
        findings = await setting.surface.check()
        (wrong,) = [finding for finding in findings if finding.level == "fail"]
        assert "interactions endpoint URL" in wrong.what
        assert "example.com" in wrong.what
        assert "secret" not in wrong.what
        assert "Interactions Endpoint URL" in wrong.fix
        door = Door()
        async with listening(setting, door):
            pressed = press(setting, await card(setting))
            setting.world.skip(4)
            assert setting.world.failed(pressed)
            assert door.presses == []


async def test_a_bot_that_is_well_says_so(setting: Setting, door: Door) -> None:
    async with asyncio.timeout(5):
        # The library hears of the connection a moment after the gateway does.
        while [finding.level for finding in await setting.surface.check()] != ["ok", "ok"]:
            await asyncio.sleep(0.01)
    assert "placet" in (await setting.surface.check())[0].what


async def test_a_revoked_token_is_said_with_its_setting(setting: Setting) -> None:
    setting.world.add_bot(ID, "placet", token="another")
    (finding,) = await setting.surface.check()
    assert finding.level == "fail"
    assert "PLACET_DISCORD_TOKEN" in finding.fix
    with pytest.raises(Refused, match="does not accept the token"):
        await card(setting)


async def test_a_platform_that_is_away_is_said_and_comes_back(setting: Setting) -> None:
    setting.world.fail("me", status=503, times=None)
    (finding,) = await setting.surface.check()
    assert "does not answer" in finding.what
    with pytest.raises(Unavailable):
        await card(setting)
    setting.world.mend()
    assert await card(setting)


# Settings


HOOKS = hooks(Chores())


def test_without_a_token_discord_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACET_DISCORD_TOKEN", raising=False)
    assert PLATFORMS["discord"](HOOKS) is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PLACET_DISCORD_TOKEN", "hunter2", "token 1 is no bot token"),
        ("PLACET_DISCORD_TOKEN", f"{token_of(1)},{token_of(1)}", "two tokens belong to the same bot"),
        ("PLACET_DISCORD_BASE_URL", "discord.com", "must be the API's address"),
        ("PLACET_DISCORD_GATEWAY_URL", "https://gateway.discord.gg", "must be the gateway's address"),
    ],
)
def test_wrong_settings_name_themselves(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSetting, match=says) as raised:
        PLATFORMS["discord"](HOOKS)
    assert raised.value.name == name
    assert "hunter2" not in str(raised.value)


def test_settings_hold_discords_own_addresses_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "BASE_URL", "GATEWAY_URL"):
        monkeypatch.delenv(f"PLACET_DISCORD_{name}", raising=False)
    settings = Settings()
    assert settings.discord_base_url == Route.BASE
    assert settings.discord_gateway_url == str(DiscordWebSocket.DEFAULT_GATEWAY)

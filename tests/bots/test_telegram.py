"""Telegram over the wire: the real library against the sandbox, as the person and the operator see it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from telegram.error import BadRequest

from adapters.sandbox.telegram.records import Message as Kept
from adapters.sandbox.telegram.records import Webhook
from bots import PLATFORMS
from bots.delivery import TRIES
from bots.telegram import Settings, Telegram, inert, render, vendor_errors
from core.approvals import Actor, Button, Destination, Message, Reply, Tone
from core.buttons import Verb, new_token
from core.ports import BadSetting, Finding, Gone, Refused, Slow, Unavailable
from core.visible import units
from core.wording import LANGUAGES
from tests.bots.contract import CARDS, FILE, PLAIN, Door, eventually, settled, whence
from tests.bots.telegram_bench import (
    DANA,
    FORUM,
    GROUP,
    ID,
    OTHER_ID,
    OTHER_TOKEN,
    SMALL,
    TOKEN,
    TOPIC,
    Chores,
    Setting,
    hooks,
    seen,
    telegram,
)

PRIVATE = Destination("telegram", "", str(DANA))
IN_TOPIC = Destination("telegram", "", str(FORUM), str(TOPIC))
IN_GROUP = Destination("telegram", "", str(GROUP))


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    async with telegram() as opened:
        opened.world.start(DANA)
        yield opened


@asynccontextmanager
async def listening(setting: Setting, door: Door) -> AsyncIterator[None]:
    task = asyncio.create_task(setting.surface.listen(door.on_press))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def kept(setting: Setting, message: Message) -> Kept:
    return setting.world.chat(int(message.chat)).message(int(message.id))


async def confirmed(setting: Setting, account: str = ID) -> None:
    """Wait until the bot has confirmed everything it was told."""
    bot = setting.world.bots[int(account)]
    await eventually(lambda: not setting.world.pending(bot))


# Cards


async def test_t1_a_command_of_5000_characters_arrives_cut_and_says_so(setting: Setting) -> None:
    card = replace(PLAIN, body="ж" * 5000)
    message = await setting.surface.post(PRIVATE, card, token=new_token())
    text = kept(setting, message).text
    assert units(text) <= 4096
    assert f"({5000 - text.count('ж'):,} more characters)" in text
    assert text.count("ж") > 3000
    assert not setting.surface.fits(card)


async def test_t1_an_answer_of_400_is_refused_without_quoting_the_card(setting: Setting) -> None:
    setting.world.fail("sendMessage", status=400, description="Bad Request: can't parse entities: unexpected 'ch_1'")
    with pytest.raises(Refused) as refused:
        await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    assert refused.value.why == "Can't parse entities"


async def test_t3_markup_arrives_literally_and_dead(setting: Setting) -> None:
    text = "`a_b` [x](y) <b> & deploy.sh @dana"
    message = await setting.surface.post(PRIVATE, replace(PLAIN, title=text, body=text), token=new_token())
    shown = seen(kept(setting, message))
    assert shown.text.count(text) == 2
    assert shown.live == []


async def test_t4_buttons_stay_under_64_bytes_whatever_the_ids(setting: Setting) -> None:
    card = replace(CARDS["Cyrillic"], title="Идентификатор " + "я" * 60, content_revision=36**11)
    message = await setting.surface.post(PRIVATE, card, token=new_token())
    data = seen(kept(setting, message)).buttons.values()
    assert len(data) == 3
    assert all(len(each.encode()) < 64 for each in data)


def test_buttons_stand_two_in_a_row_and_are_coloured() -> None:
    keyboard = render(PLAIN, new_token()).keyboard
    assert keyboard is not None
    rows = [[(button.text, button.style) for button in row] for row in keyboard.inline_keyboard]
    assert rows == [[("Allow", "success"), ("Decline", "danger")], [("Decline with a note", None)]]


def test_a_button_without_a_style_that_telegram_knows_is_plain() -> None:
    keyboard = render(replace(PLAIN, buttons=(Button(Verb.ALLOW, "Allow", "loud"),)), new_token()).keyboard
    assert keyboard is not None
    assert "style" not in keyboard.to_dict()["inline_keyboard"][0][0]


@pytest.mark.parametrize("text", ["Refund a duplicate charge", "Expires 9 Mar 2026, 12:00 UTC", "49.00 GBP, twice"])
def test_calm_words_stay_plain(text: str) -> None:
    assert inert(text) == text


@pytest.mark.parametrize(
    "word",
    ["deploy.sh", "@dana", "#tag", "$USD", "/start", "10.0.0.1", "a@b.io", "tg://x", "+442079460958", "пример.рф"],
)
def test_words_that_telegram_would_make_live_become_code(word: str) -> None:
    assert inert(f"Run {word} now", "<b>", "</b>") == f"<b>Run </b><code>{word}</code><b> now</b>"


def test_what_stands_around_a_live_word_is_not_code() -> None:
    assert inert("To ada@example.com, now (see a.b).") == "To <code>ada@example.com</code>, now (see <code>a.b</code>)."


@pytest.mark.parametrize("digest", ["0123456789ab", "abcdefabcdef"])
def test_a_digest_is_code_on_every_card(digest: str) -> None:
    assert f"<code>{digest}</code>\n" in render(replace(PLAIN, digest=digest, expiry="Expires soon"), new_token()).html


def test_many_live_words_become_one_stretch_of_code() -> None:
    assert inert(" ".join(["a.b"] * 200)) == f"<code>{' '.join(['a.b'] * 200)}</code>"


async def test_a_card_with_more_entities_than_telegram_takes_is_one_block(setting: Setting) -> None:
    card = replace(PLAIN, lines=PLAIN.lines * 25, body="go to evil.example")
    message = await setting.surface.post(PRIVATE, card, token=new_token())
    shown = kept(setting, message)
    assert [entity.type for entity in shown.entities] == ["pre"]
    assert "evil.example" in shown.text


# Places


async def test_t7_card_file_prompt_and_answers_stay_in_the_topic(setting: Setting) -> None:
    door = Door(Reply("Declined with your note."))
    async with listening(setting, door):
        card = await setting.surface.post(IN_TOPIC, PLAIN, token=new_token())
        file = await setting.surface.attach(card, FILE)
        prompt = await setting.surface.prompt(card, Actor("telegram", "", str(DANA), "Dana Reyes"), "Why not?")
        word = await setting.surface.say(card, "It expires in an hour.")
        note = setting.world.say(DANA, FORUM, "Not this month", reply_to=int(prompt.id))
        (press,) = await door.pressed()
        answer = await setting.world.until(lambda: setting.world.chat(FORUM).last("Declined with"))
    assert {m.thread for m in (card, file, prompt, word, press.message)} == {str(TOPIC)}
    assert {kept(setting, m).thread for m in (card, file, prompt, word)} == {TOPIC}
    assert press.message == prompt
    assert (answer.thread, answer.reply_to) == (TOPIC, note.id)
    assert [kept(setting, m).reply_to for m in (file, prompt, word)] == [int(card.id)] * 3


async def test_t8_a_press_in_a_topic_whose_chat_says_no_forum(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(IN_TOPIC, PLAIN, token=new_token())
        press = setting.world.press(DANA, FORUM, int(card.id), label="Allow")
        assert (await setting.world.answer(press)).text == "Allowed."
    assert door.presses[0].message == card


async def test_t9_a_deleted_topic_is_gone(setting: Setting) -> None:
    setting.world.delete_topic(FORUM, TOPIC)
    with pytest.raises(Gone):
        await setting.surface.post(IN_TOPIC, PLAIN, token=new_token())


async def test_a_blocked_bot_and_an_unknown_chat_are_gone(setting: Setting) -> None:
    setting.world.block(DANA)
    for destination in (PRIVATE, Destination("telegram", "", "-100999")):
        with pytest.raises(Gone):
            await setting.surface.post(destination, PLAIN, token=new_token())


async def test_a_deleted_card_is_gone_and_its_file_still_arrives(setting: Setting) -> None:
    card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
    setting.world.delete_message(GROUP, int(card.id))
    with pytest.raises(Gone):
        await setting.surface.redraw(card, settled(PLAIN))
    file = await setting.surface.attach(card, FILE)
    assert kept(setting, file).document is not None


async def test_t11_either_of_two_accounts_and_each_knows_its_own() -> None:
    async with telegram(TOKEN, OTHER_TOKEN) as setting:
        door = Door()
        async with listening(setting, door):
            first = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
            second = await setting.surface.post(replace(IN_GROUP, account="@Second_Bot"), PLAIN, token=new_token())
            by_id = await setting.surface.post(replace(IN_GROUP, account=OTHER_ID), PLAIN, token=new_token())
            for card in (first, second):
                press = setting.world.press(DANA, GROUP, int(card.id), label="Allow")
                await setting.world.answer(press)
        assert [m.account for m in (first, second, by_id)] == [ID, OTHER_ID, OTHER_ID]
        assert [press.message for press in door.presses] == [first, second]


async def test_an_account_without_a_token_is_refused_by_name(setting: Setting) -> None:
    with pytest.raises(Refused, match="no token in PLACET_TELEGRAM_TOKEN belongs to the bot @nobody_bot"):
        await setting.surface.post(replace(IN_GROUP, account="@nobody_bot"), PLAIN, token=new_token())


async def test_a_rejected_token_is_refused_by_its_bot_and_never_shown(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    setting.world.fail("*", status=401, description="Unauthorized", times=None)
    with pytest.raises(Refused) as refused:
        await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
    assert ID in refused.value.why
    async with listening(setting, Door()):
        await eventually(lambda: len(setting.world.calls_of("deleteWebhook")) > 1)
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records if "uvicorn" not in record.name]
    assert any("poll failed" in line for line in logged)
    assert TOKEN.split(":")[1] not in " ".join(logged) + refused.value.why


async def test_a_group_that_became_a_supergroup_is_told_and_the_old_card_moves(setting: Setting) -> None:
    async with listening(setting, Door()):
        to = setting.world.migrate(SMALL)
        await setting.world.until(lambda: ("moved", "telegram", ID, str(SMALL), str(to)) in setting.chores.asked)
        await confirmed(setting)


async def test_a_move_that_cannot_be_stored_is_told_again_and_nobody_is_bothered(setting: Setting) -> None:
    setting.chores.down = 2
    async with listening(setting, Door()):
        to = setting.world.migrate(SMALL)
        await confirmed(setting)
    assert ("moved", "telegram", ID, str(SMALL), str(to)) in setting.chores.asked
    assert not any("wait" in m.text or "again" in m.text for m in setting.world.chat(to).messages)


# Prompts


async def test_the_prompt_opens_for_the_presser_alone_and_is_not_the_card(setting: Setting) -> None:
    card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
    actor = Actor("telegram", "", str(DANA), "Dana <b> Reyes")
    prompt = await setting.surface.prompt(card, actor, "Why not? Reply to this message. " * 4)
    shown = kept(setting, prompt)
    assert shown.force_reply is not None
    assert shown.force_reply.selective
    assert 0 < len(shown.force_reply.placeholder) <= 64
    assert [(e.type, e.user) for e in shown.entities] == [("text_mention", DANA)]
    assert shown.text.startswith("Dana <b> Reyes: Why not?")
    await setting.surface.redraw(card, settled(PLAIN))
    assert kept(setting, card).buttons == []


async def test_the_prompt_in_private_mentions_nobody(setting: Setting) -> None:
    card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    prompt = await setting.surface.prompt(card, Actor("telegram", "", str(DANA), "Dana"), "Why not?")
    assert kept(setting, prompt).entities == []
    assert kept(setting, prompt).text == "Why not?"


async def test_a_prompt_of_any_length_is_asked(setting: Setting) -> None:
    card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
    actor = Actor("telegram", "", str(DANA), "Dana Reyes")
    prompt = await setting.surface.prompt(card, actor, "Reply with `1: new text`.\n1: Reason = 😀" * 300)
    shown = kept(setting, prompt)
    assert shown.text.startswith("Dana Reyes: Reply with `1: new text`.")
    assert units(shown.text) <= 4096
    assert shown.force_reply is not None


def test_a_text_that_an_edit_may_hold_is_a_reply_that_telegram_takes() -> None:
    assert units("😀" * Telegram.form_characters) <= 4096


# Menus

MENU = Reply("Always allow what?", menu=(Button(Verb.ALWAYS_TOOL, "Everything stripe.refund does"),))


async def test_a_menu_stays_in_the_topic_and_under_its_card(setting: Setting) -> None:
    token = new_token()
    async with listening(setting, Door(MENU)):
        card = await setting.surface.post(Destination("telegram", "", str(FORUM), str(TOPIC)), PLAIN, token=token)
        press = setting.world.press(DANA, FORUM, int(card.id), label="Allow")
        menu = await setting.world.until(lambda: setting.world.chat(FORUM).last("Always allow what?"))
        assert (await setting.world.answer(press)).text == ""
    assert (menu.thread, menu.reply_to) == (TOPIC, int(card.id))
    assert [[button.data for button in row] for row in menu.buttons] == [[f"m:t.{token}.1"]]


async def test_a_menu_answers_a_command_and_turns_its_pages(setting: Setting) -> None:
    setting.chores.reply = Reply("Rules of billing", menu=(Button(Verb.RULES_PAGE, "More", token="R" * 16, number=2),))
    door = Door(Reply("No more rules."))
    async with listening(setting, door):
        asked = setting.world.say(DANA, DANA, "/rules billing")
        menu = await setting.world.until(lambda: setting.world.chat(DANA).last("Rules of billing"))
        setting.world.press(DANA, DANA, menu.id, label="More")
        (press,) = await door.pressed()
        await setting.world.until(lambda: menu.text == "No more rules." and not menu.buttons)
    assert menu.reply_to == asked.id
    assert (press.verb, press.token, press.content_revision) == (Verb.RULES_PAGE, "R" * 16, 2)


async def test_the_data_of_a_menu_never_overwrites_a_card(setting: Setting) -> None:
    token = new_token()
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(IN_GROUP, PLAIN, token=token)
        before = kept(setting, card).text
        forged = setting.world.press(DANA, GROUP, int(card.id), data=f"m:a.{token}.1")
        (press,) = await door.pressed()
        assert (await setting.world.answer(forged)).text == "Allowed."
        await confirmed(setting)
    assert press.message == card
    assert kept(setting, card).text == before
    assert setting.world.calls_of("editMessageText") == []


async def test_a_menu_whose_card_was_deleted_still_answers(setting: Setting) -> None:
    door = Door(MENU)
    async with listening(setting, door):
        card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
        setting.world.press(DANA, GROUP, int(card.id), label="Allow")
        menu = await setting.world.until(lambda: setting.world.chat(GROUP).last("Always allow what?"))
        setting.world.delete_message(GROUP, int(card.id))
        door.reply = Reply("The card is gone.", Tone.ALERT)
        press = setting.world.press(DANA, GROUP, menu.id, label="Everything stripe.refund does")
        assert (await setting.world.answer(press)).text == "The card is gone."


# Presses and answers


async def test_t6_an_answer_that_comes_too_late_changes_nothing(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        setting.world.fail(
            "answerCallbackQuery", status=400,
            description="Bad Request: query is too old and response timeout expired or query ID is invalid",
        )  # fmt: skip
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed()
        await confirmed(setting)
    assert door.tries == 1
    await setting.surface.redraw(card, settled(PLAIN))
    assert "Allowed by Dana Reyes" in kept(setting, card).text


@pytest.mark.parametrize(
    ("tone", "alert"), [(Tone.GOOD, False), (Tone.QUIET, False), (Tone.BAD, True), (Tone.ALERT, True)]
)
async def test_t5_bad_news_is_an_alert(setting: Setting, tone: Tone, alert: bool) -> None:
    async with listening(setting, Door(Reply("Expired 5 minutes ago.", tone))):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        answer = await setting.world.answer(setting.world.press(DANA, DANA, int(card.id), label="Allow"))
    assert (answer.text, answer.alert) == ("Expired 5 minutes ago.", alert)
    assert len(setting.world.calls_of("answerCallbackQuery")) == 1


async def test_a_press_on_a_deleted_card_reaches_the_door(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        setting.world.delete_message(DANA, int(card.id))
        press = setting.world.press(DANA, DANA, int(card.id), label="Allow")
        assert (await setting.world.answer(press)).text == "Allowed."
    assert door.presses[0].message == card


async def test_forged_data_reaches_the_door_as_nothing_it_knows(setting: Setting) -> None:
    door = Door(Reply("This card is unknown.", Tone.ALERT))
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        press = setting.world.press(DANA, DANA, int(card.id), data="a.' OR 1=1 --.1")
        assert (await setting.world.answer(press)).alert
    assert (door.presses[0].verb, door.presses[0].token) == ("?", "")


async def test_a_note_gets_one_answer_in_reply(setting: Setting) -> None:
    async with listening(setting, Door(Reply("Declined. See evil.example"))):
        card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
        note = setting.world.say(DANA, GROUP, "No, wrong customer", reply_to=int(card.id))
        answer = await setting.world.until(lambda: setting.world.chat(GROUP).last("Declined."))
        await confirmed(setting)
    assert answer.reply_to == note.id
    assert seen(answer).live == []
    assert len([m for m in setting.world.chat(GROUP).messages if m.reply_to == note.id]) == 1


async def test_an_anonymous_admin_presses_but_cannot_type(setting: Setting) -> None:
    door = Door()
    setting.world.make_anonymous(DANA, GROUP)
    async with listening(setting, door):
        card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
        said = setting.world.say(DANA, GROUP, "No", reply_to=int(card.id))
        refusal = await setting.world.until(
            lambda: "".join(m.text for m in setting.world.chat(GROUP).messages if m.reply_to == said.id)
        )
        assert refusal
        assert door.presses == []
        setting.world.press(DANA, GROUP, int(card.id), label="Decline")
        (press,) = await door.pressed()
    assert press.actor.id == str(DANA)


async def test_an_edited_note_and_a_photo_decide_nothing(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        said = setting.world.say(DANA, DANA, "hm")
        setting.world.edit(DANA, DANA, said.id, "no")
        file = setting.world.send_document(DANA, DANA, "note.txt", b"no", caption="no", reply_to=int(card.id))
        await confirmed(setting)
        await eventually(lambda: [m for m in setting.world.chat(DANA).messages if m.reply_to == file.id])
    assert [press.text for press in door.presses] == ["hm"]


async def test_talk_in_a_topic_is_not_an_answer(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        await setting.surface.post(IN_TOPIC, PLAIN, token=new_token())
        setting.world.say(DANA, FORUM, "Good morning @placet_bot", thread=TOPIC)
        await confirmed(setting)
    assert door.presses == []
    assert len(setting.world.calls_of("sendMessage", chat=FORUM)) == 1


async def test_a_plain_private_message_reaches_the_door_as_a_reply_to_nothing(setting: Setting) -> None:
    door = Door(Reply("Several requests wait here."))
    async with listening(setting, door):
        said = setting.world.say(DANA, DANA, "Not today")
        (press,) = await door.pressed()
        await setting.world.until(
            lambda: [m for m in setting.world.chat(DANA).messages if m.reply_to == said.id and "Several" in m.text]
        )
    assert (press.text, press.message.chat, press.message.id) == ("Not today", str(DANA), "")


async def test_a_mistyped_command_answers_nothing(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        setting.world.say(DANA, DANA, "/paus billing")
        await setting.world.until(lambda: setting.world.chat(DANA).last("I do not know this command"))
    assert door.tries == 0


async def test_people_who_may_not_type_cannot_make_the_bot_flood_a_group() -> None:
    async with telegram(pace=1) as setting:
        setting.world.make_anonymous(DANA, GROUP)
        async with listening(setting, Door()):
            card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
            for _ in range(30):
                setting.world.say(DANA, GROUP, "No", reply_to=int(card.id))
            await confirmed(setting)
        assert 1 <= len(setting.world.calls_of("sendMessage", chat=GROUP)) <= 1 + 10


# Commands


async def test_a_link_code_and_pending_are_for_private_chats(setting: Setting) -> None:
    async with listening(setting, Door()):
        setting.world.start(DANA, "b25lLXRpbWUtY29kZQ")
        await setting.world.until(lambda: setting.world.chat(DANA).last("You are linked."))
        setting.world.say(DANA, DANA, "/pending")
        await setting.world.until(lambda: setting.world.chat(DANA).last("Nothing waits for you."))
        setting.world.say(DANA, GROUP, "/pending@placet_bot")
        setting.world.say(DANA, GROUP, "/pause@placet_bot billing")
        await eventually(lambda: len(setting.world.calls_of("sendMessage", chat=GROUP)) == 2)
    assert setting.chores.asked == [("link", str(DANA), "b25lLXRpbWUtY29kZQ"), ("pending", str(DANA))]


async def test_the_commands_about_agents_are_for_private_chats(setting: Setting) -> None:
    async with listening(setting, Door()):
        for text in (
            "/mode billing everything",
            "/mode billing",
            "/pause billing",
            "/resume billing",
            "/rules billing",
        ):
            setting.world.say(DANA, DANA, text)
        await eventually(lambda: len(setting.chores.asked) == 5)
        setting.world.say(DANA, DANA, "/pause")
        await eventually(lambda: len(setting.chores.asked) == 6)
    assert setting.chores.asked == [
        ("mode", str(DANA), "billing", "everything"), ("mode", str(DANA), "billing", ""),
        ("pause", str(DANA), "billing"), ("resume", str(DANA), "billing"), ("rules", str(DANA), "billing"),
        ("pause", str(DANA), ""),
    ]  # fmt: skip


async def test_the_commands_in_the_help_can_be_tapped(setting: Setting) -> None:
    async with listening(setting, Door()):
        setting.world.say(DANA, DANA, "/help")
        await eventually(lambda: setting.world.calls_of("sendMessage", chat=DANA))
    message = setting.world.chat(DANA).last("/pending")
    assert {entity.type for entity in message.entities} == {"bot_command"}


async def test_help_is_in_the_language_that_the_person_is_known_to_read(setting: Setting) -> None:
    setting.chores.speaks = "de"
    async with listening(setting, Door()):
        setting.world.say(DANA, DANA, "/help")
        await setting.world.until(lambda: setting.world.chat(DANA).last("Ja oder Nein von einem Menschen"))


async def test_start_and_help_say_what_the_bot_is_for(setting: Setting) -> None:
    async with listening(setting, Door()):
        await setting.world.until(lambda: setting.world.chat(DANA).last("/pending"))


# Delivery


async def test_with_the_database_down_the_presser_is_told_and_the_press_counts_later(setting: Setting) -> None:
    # More often than a bug is tried: an outage is none, however long it takes.
    door = Door(down=2 * TRIES)
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        press = setting.world.press(DANA, DANA, int(card.id), label="Allow")
        answer = await setting.world.answer(press)
        assert answer.alert
        assert setting.world.pending(setting.world.bots[int(ID)])
        (decided,) = await door.pressed()
        await confirmed(setting)
    assert door.tries == 2 * TRIES + 1
    assert decided.key == f"tg:{ID}:{press.id}"
    # Told once that it must wait, and once what came of it; only the first can still be shown.
    assert 1 <= len(setting.world.calls_of("answerCallbackQuery")) <= 2


async def test_one_update_that_must_wait_does_not_repeat_the_others(setting: Setting) -> None:
    door = Door()
    cards = [await setting.surface.post(place, PLAIN, token=new_token()) for place in (PRIVATE, IN_GROUP)]

    async def on_press(press: object) -> Reply:
        if not down.is_set() and getattr(press, "message", None) == cards[0]:
            door.tries += 1
            if door.tries == 3:
                down.set()
            raise Unavailable("the database is down")
        return await door.on_press(press)  # type: ignore[arg-type]

    down = asyncio.Event()
    task = asyncio.create_task(setting.surface.listen(on_press))
    setting.world.press(DANA, DANA, int(cards[0].id), label="Allow")
    setting.world.press(DANA, GROUP, int(cards[1].id), label="Allow")
    await door.pressed(2)
    await confirmed(setting)
    task.cancel()
    assert [press.message for press in door.presses] == [cards[1], cards[0]]


async def test_presses_of_one_chat_stay_in_order(setting: Setting) -> None:
    door = Door()
    card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
    presses = [setting.world.press(DANA, GROUP, int(card.id), label="Decline") for _ in range(20)]
    async with listening(setting, door):
        await door.pressed(20)
    assert [press.key for press in door.presses] == [f"tg:{ID}:{press.id}" for press in presses]


async def test_handled_but_not_confirmed_comes_again_with_the_same_key(setting: Setting) -> None:
    """Killed after the commit and before the confirmation: the next process gets the press again."""
    card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    setting.world.press(DANA, DANA, int(card.id), label="Allow")
    seen: list[str] = []
    committed = asyncio.Event()

    async def dies(press: object) -> Reply:
        seen.append(getattr(press, "key", ""))
        committed.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    task = asyncio.create_task(setting.surface.listen(dies))
    await committed.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    door = Door()
    async with listening(setting, door):
        (press,) = await door.pressed()
        await confirmed(setting)
    assert seen == [press.key]


async def test_a_redelivered_press_keeps_its_key(setting: Setting) -> None:
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        press = setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed()
        setting.world.repeat(press)
        first, second = await door.pressed(2)
    assert first.key == second.key


async def test_a_bug_is_tried_five_times_logged_without_content_and_let_go(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(failing=5)
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        press = setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await confirmed(setting)
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed()
        assert (await setting.world.answer(press)).alert
    assert door.tries == 6
    failures = [record for record in caplog.records if record.message == "update failed"]
    assert [getattr(record, "error", "") for record in failures] == ["KeyError"] * 5
    assert "secret" not in "".join(str(record.__dict__) for record in failures)


async def test_an_update_that_cannot_be_read_does_not_stop_the_others(setting: Setting) -> None:
    door = Door()
    card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    setting.world.tell(setting.world.bots[int(ID)], "message", {"message_id": 5, "date": "yesterday"})
    setting.world.press(DANA, DANA, int(card.id), label="Allow")
    async with listening(setting, door):
        await door.pressed()
        await confirmed(setting)


async def test_ids_that_start_anew_after_an_idle_week_are_read(setting: Setting) -> None:
    door = Door()
    bot = setting.world.bots[int(ID)]
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        bot.next_update = 900_000_000
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed(1)
        await confirmed(setting)
        bot.next_update = 5
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed(2)
        await confirmed(setting)


async def test_polling_goes_on_through_errors_and_asks_for_what_it_needs(setting: Setting) -> None:
    door = Door()
    setting.world.fail("getUpdates", status=500, times=2)
    setting.world.fail("getUpdates", status=409, description="Conflict: terminated by other getUpdates request")
    setting.world.fail("getUpdates", retry_after=1)
    setting.world.drop("getUpdates", when="after")
    card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    setting.world.press(DANA, DANA, int(card.id), label="Allow")
    async with listening(setting, door):
        await door.pressed()
        await confirmed(setting)
    assert len(door.presses) == 1
    polls = setting.world.calls_of("getUpdates")
    assert all(call.params["allowed_updates"] == ["message", "callback_query", "my_chat_member"] for call in polls)
    assert not any("drop_pending_updates" in call.params for call in setting.world.calls)


async def test_only_the_holder_of_the_lease_polls(setting: Setting) -> None:
    setting.lease.mine = False
    door = Door()
    async with listening(setting, door):
        await asyncio.sleep(0.1)
        assert setting.world.calls_of("getUpdates") == []
        setting.lease.mine = True
        await eventually(lambda: setting.world.calls_of("getUpdates"))
    assert setting.lease.dropped


async def test_with_the_lease_unknown_the_holder_goes_on_and_nobody_else_begins(setting: Setting) -> None:
    door = Door()
    setting.lease.down = True
    async with listening(setting, door):
        await asyncio.sleep(0.1)
        assert setting.world.calls_of("getUpdates") == []
        setting.lease.down = False
        await eventually(lambda: setting.world.calls_of("getUpdates"))
        setting.lease.down = True
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed()
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed(2)


async def test_a_proxy_of_the_environment_is_not_used_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with telegram() as setting:
        await setting.surface.post(IN_GROUP, PLAIN, token=new_token())


# Pacing


async def test_t10_a_429_on_a_redraw_holds_back_the_chat_and_no_decision(setting: Setting) -> None:
    async with telegram(pace=1) as slow:
        slow.world.start(DANA)
        door = Door()
        async with listening(slow, door):
            card = await slow.surface.post(IN_GROUP, PLAIN, token=new_token())
            slow.world.fail("editMessageText", retry_after=33)
            with pytest.raises(Slow) as told:
                await slow.surface.redraw(card, settled(PLAIN))
            assert told.value.after == 33
            for _ in range(5):
                with pytest.raises(Slow) as still:
                    await slow.surface.redraw(card, settled(PLAIN))
                assert 30 < still.value.after <= 33
            assert len(slow.world.calls_of("editMessageText")) == 1
            press = slow.world.press(DANA, GROUP, int(card.id), label="Decline")
            assert (await slow.world.answer(press)).text == "Allowed."
            await slow.surface.prompt(card, door.presses[0].actor, "Why not?")
            await slow.surface.post(PRIVATE, PLAIN, token=new_token())


async def test_t10_after_the_wait_the_redraw_happens() -> None:
    async with telegram(pace=1) as setting:
        card = await setting.surface.post(IN_GROUP, PLAIN, token=new_token())
        setting.world.fail("editMessageText", retry_after=1)
        await setting.surface.redraw(card, settled(PLAIN))
        assert "Allowed by Dana Reyes" in kept(setting, card).text
        assert len(setting.world.calls_of("editMessageText")) == 2


async def test_cards_keep_telegrams_own_pace() -> None:
    """The sandbox counts as Telegram does and answers 429 to whoever is faster."""
    async with telegram(pace=0.02, rate_scale=50) as setting:
        setting.world.start(DANA)
        posts = [setting.surface.post(PRIVATE, PLAIN, token=new_token()) for _ in range(40)]
        posts += [setting.surface.post(IN_GROUP, PLAIN, token=new_token()) for _ in range(15)]
        await asyncio.gather(*posts)
        assert {call.status for call in setting.world.calls_of("sendMessage")} == {200}


async def test_a_crowded_chat_sends_its_callers_away_and_holds_up_no_other() -> None:
    async with telegram(pace=1) as setting:
        setting.world.start(DANA)
        posts = [setting.surface.post(IN_GROUP, PLAIN, token=new_token()) for _ in range(40)]
        crowd = asyncio.gather(*posts, return_exceptions=True)
        await asyncio.sleep(0)
        await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        results = await crowd
        assert any(isinstance(result, Slow) for result in results)
        sent = len(setting.world.calls_of("sendMessage", chat=GROUP))
        assert sent == len([result for result in results if isinstance(result, Message)]) > 3


# Doubtful sends


async def test_a_send_whose_answer_was_lost_is_unavailable_though_the_card_stands(setting: Setting) -> None:
    setting.world.drop("sendMessage", when="after")
    with pytest.raises(Unavailable):
        await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    assert setting.world.chat(DANA).last("Refund").buttons


def test_an_error_with_a_name_of_its_own_carries_no_content() -> None:
    with pytest.raises(Refused) as refused, vendor_errors(ID):
        raise BadRequest('Bad Request: Button_data_invalid "the secret"')
    assert refused.value.why == "Button_data_invalid"


# Webhook


@asynccontextmanager
async def webhook(door: Door) -> AsyncIterator[Setting]:
    """A surface in webhook mode; its requests are made by the sandbox's own pusher against a bare HTTP server."""
    secret = "s" * 32
    async with telegram(webhook_secret=secret) as setting:
        setting.world.start(DANA)
        async with serving(setting), listening(setting, door):
            await setting.world.until(lambda: setting.world.bots[int(ID)].webhook)
            yield setting


@asynccontextmanager
async def serving(setting: Setting) -> AsyncIterator[None]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        length = int({name.lower(): value for name, value in headers.items()}.get("content-length", "0"))
        body = await reader.readexactly(length)
        account = lines[0].split(" ")[1].rsplit("/", 1)[1]
        status = await setting.surface.receive(account, headers, body)
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", setting.public_port)
    try:
        yield
    finally:
        server.close()


async def test_a_webhook_press_is_taken_and_answered() -> None:
    door = Door()
    async with webhook(door) as setting:
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        press = setting.world.press(DANA, DANA, int(card.id), label="Allow")
        assert (await setting.world.answer(press)).text == "Allowed."
        await confirmed(setting)
        hook = setting.world.bots[int(ID)].webhook
        assert hook is not None
        assert hook.url.endswith(f"/telegram/{ID}")
        assert setting.world.calls_of("setWebhook")[0].params["allowed_updates"] == [
            "message", "callback_query", "my_chat_member",
        ]  # fmt: skip
        assert setting.world.calls_of("getUpdates") == []


async def test_a_webhook_is_answered_503_until_the_press_is_committed() -> None:
    door = Door(down=2)
    async with webhook(door) as setting:
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed()
        await confirmed(setting)
    assert door.tries == 3
    assert len(door.presses) == 1


@pytest.mark.parametrize(
    ("headers", "account", "body", "status"),
    [
        ({}, ID, b'{"update_id": 1}', 401),
        ({"X-Telegram-Bot-Api-Secret-Token": "s" * 31 + "t"}, ID, b'{"update_id": 1}', 401),
        ({"X-Telegram-Bot-Api-Secret-Token": "né"}, ID, b'{"update_id": 1}', 401),
        ({"X-Telegram-Bot-Api-Secret-Token": "s" * 32}, "7", b'{"update_id": 1}', 404),
        ({"X-Telegram-Bot-Api-Secret-Token": "s" * 32}, ID, b"not json", 400),
        ({"X-Telegram-Bot-Api-Secret-Token": "s" * 32}, ID, b"[]", 400),
        ({"X-Telegram-Bot-Api-Secret-Token": "s" * 32}, ID, b"\xff", 400),
        ({"x-telegram-bot-api-secret-token": "s" * 32}, ID, b'{"update_id": 1}', 200),
    ],
)
async def test_webhook_requests_are_judged(headers: dict[str, str], account: str, body: bytes, status: int) -> None:
    async with webhook(Door()) as setting:
        assert await setting.surface.receive(account, headers, body) == status


async def test_before_anyone_listens_a_webhook_is_told_to_come_again() -> None:
    async with telegram(webhook_secret="s" * 32) as setting:
        headers = {"X-Telegram-Bot-Api-Secret-Token": "s" * 32}
        assert await setting.surface.receive(ID, headers, b'{"update_id": 1}') == 503


async def test_polling_takes_a_webhook_of_before_away(setting: Setting) -> None:
    await setting.surface.post(PRIVATE, PLAIN, token=new_token())
    bot = setting.world.bots[int(ID)]
    bot.webhook = Webhook(url="http://127.0.0.1:9/old")
    async with listening(setting, Door()):
        await eventually(lambda: setting.world.calls_of("getUpdates"))
    assert bot.webhook is None


# Checking


def told(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Levels and words; nothing of it carries a token, and what is wrong comes with its fix."""
    for finding in findings:
        assert TOKEN.split(":")[1] not in finding.what + finding.fix
        assert finding.level == "ok" or finding.fix
    return [(finding.level, finding.what) for finding in findings]


async def test_a_bot_that_is_well_is_asked_once_in_a_while(setting: Setting) -> None:
    async with listening(setting, Door()):
        await eventually(lambda: setting.world.calls_of("getUpdates"))
        before = len(setting.world.calls_of("getMe"))
        findings = await setting.surface.check()
        assert await setting.surface.check() == findings
    assert told(findings) == [
        ("ok", f"Telegram bot {ID} (@placet_bot) answers; privacy mode is on, presses and replies to its own messages "
               "arrive either way"),
        ("ok", f"Telegram bot {ID}: no webhook takes its updates from polling; updates that wait: 0"),
    ]  # fmt: skip
    assert len(setting.world.calls_of("getMe")) == before + 1
    assert len(setting.world.calls_of("getWebhookInfo")) == 1


async def test_each_bot_is_checked() -> None:
    async with telegram(TOKEN, OTHER_TOKEN) as setting:
        setting.world.bots[int(OTHER_ID)].privacy = False
        words = [what for _, what in told(await setting.surface.check())]
    assert [(ID in what, OTHER_ID in what) for what in words] == [(True, False)] * 2 + [(False, True)] * 2
    assert "privacy mode is off" in words[2]


async def test_a_revoked_token_is_told_by_the_bot_and_asked_again(setting: Setting) -> None:
    setting.world.fail("*", status=401, description="Unauthorized", times=None)
    ((level, what),) = told(await setting.surface.check())
    assert (level, what) == (
        "fail", f"Telegram bot {ID}: {setting.sandbox.url.removeprefix('http://')} does not accept its token"
    )  # fmt: skip
    setting.world.mend()
    assert {level for level, _ in told(await setting.surface.check())} == {"ok"}


@pytest.mark.parametrize(
    ("fault", "level", "words"),
    [
        ({"status": 502}, "fail", "does not answer"),
        ({"retry_after": 33}, "warn", "asks to wait 33 s"),
        ({"status": 400, "description": "Bad Request: odd"}, "fail", "does not answer (Odd)"),
    ],
)
async def test_trouble_with_telegram_is_told(setting: Setting, fault: dict[str, Any], level: str, words: str) -> None:
    setting.world.fail("getMe", **fault)
    ((found, what),) = told(await setting.surface.check())
    assert (found, words in what) == (level, True)


async def test_a_server_that_is_not_there_or_silent_is_told_in_time(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bots.telegram.CHECK_S", 0.2)
    setting.world.delay("getMe", 30)
    ((level, what),) = told(await setting.surface.check())
    assert (level, "no answer within 0.2 s" in what) == ("fail", True)
    settings = Settings(telegram_token=(SecretStr(TOKEN),), telegram_base_url="http://hush:hush@127.0.0.1:9/hush")
    surface = Telegram(settings, HOOKS)
    ((level, what),) = told(await surface.check())
    assert (level, what) == ("fail", f"Telegram bot {ID}: 127.0.0.1:9 does not answer (NetworkError)")
    await surface.close()


async def test_a_webhook_set_elsewhere_while_this_one_polls_is_a_fault(setting: Setting) -> None:
    bot = setting.world.bots[int(ID)]
    bot.webhook = Webhook(url="https://other.example/hush")
    here = f"Telegram bot {ID}: a webhook at other.example takes its updates; updates that wait: "
    level, what = told(await setting.surface.check())[1]
    assert (level, what.rstrip("0123456789")) == ("warn", here)
    async with listening(setting, Door()):
        await eventually(lambda: setting.world.calls_of("getUpdates"))
        assert told(await setting.surface.check())[1][0] == "ok"
    setting.surface = Telegram(setting.settings, HOOKS)
    polls = len(setting.world.calls_of("getUpdates"))
    async with listening(setting, Door()):
        await eventually(lambda: len(setting.world.calls_of("getUpdates")) > polls)
        bot.webhook = Webhook(url="https://other.example/hush")
        assert told(await setting.surface.check())[1] == ("fail", f"{here}0")
    await setting.surface.close()


async def test_the_webhook_of_this_one_is_held_against_telegrams() -> None:
    async with telegram(webhook_secret="s" * 32) as setting:
        bot, name = setting.world.bots[int(ID)], f"Telegram bot {ID}"
        level, what = told(await setting.surface.check())[1]
        nowhere = f"{name}: Telegram delivers nowhere instead of PLACET_PUBLIC_URL; updates that wait: "
        assert (level, what.rstrip("0123456789")) == ("warn", nowhere)
        async with listening(setting, Door()):
            hook = await setting.world.until(lambda: bot.webhook)
            # Nobody serves there: what is pressed waits, and Telegram says why.
            setting.world.start(DANA)
            await setting.world.until(lambda: hook.last_error)
            level, what = told(await setting.surface.check())[1]
            assert level == "warn"
            assert "last delivery failed (Connection failed: ConnectError, " in what
            assert not what.endswith("updates that wait: 0")
            bot.webhook = Webhook(url="https://other.example/hush")
            level, what = told(await setting.surface.check())[1]
            assert (level, "delivers to other.example instead" in what) == ("fail", True)
    async with webhook(Door()) as setting:
        await confirmed(setting)
        assert told(await setting.surface.check())[1] == (
            "ok", f"{name}: Telegram delivers to PLACET_PUBLIC_URL; updates that wait: 0"
        )  # fmt: skip


@pytest.mark.parametrize("secret", ["", "s" * 32])
async def test_the_commands_are_listed_in_private_chats_once_per_start(secret: str) -> None:
    async with telegram(webhook_secret=secret) as setting:
        for _ in range(2):
            async with listening(setting, Door()):
                await eventually(lambda: setting.world.bots[int(ID)].commands)
        listed = [each["command"] for each in setting.world.bots[int(ID)].commands]
        assert listed == ["start", "pending", "rules", "mode", "pause", "resume", "help"]
        calls = setting.world.calls_of("setMyCommands")
        assert len(calls) == len(LANGUAGES)
        german = {each["command"]: each["description"] for each in setting.world.bots[int(ID)].commands_in["de"]}
        assert german["pending"] == "Was auf Ihre Antwort wartet"
        assert all("all_private_chats" in str(call.params["scope"]) for call in calls)


async def test_commands_that_cannot_be_listed_are_logged_and_hold_nothing_up(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.world.fail("setMyCommands", status=400, description="Bad Request: BOT_COMMAND_INVALID")
    door = Door()
    async with listening(setting, door):
        card = await setting.surface.post(PRIVATE, PLAIN, token=new_token())
        setting.world.press(DANA, DANA, int(card.id), label="Allow")
        await door.pressed()
        await eventually(lambda: ("commands not listed", "telegram") in whence(caplog))


# Settings


HOOKS = hooks(Chores())


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.chdir(tmp_path)
    for name in ("TELEGRAM_TOKEN", "TELEGRAM_BASE_URL", "TELEGRAM_WEBHOOK_SECRET", "PUBLIC_URL"):
        monkeypatch.delenv(f"PLACET_{name}", raising=False)
    return monkeypatch


def test_without_a_token_telegram_is_off(bare: pytest.MonkeyPatch) -> None:
    assert PLATFORMS["telegram"](HOOKS) is None
    bare.setenv("PLACET_TELEGRAM_TOKEN", "")
    assert PLATFORMS["telegram"](HOOKS) is None


async def test_tokens_come_from_the_environment_or_the_file(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "placet.toml").write_text(f'telegram_token = "{TOKEN}"\nhttp_bind = "127.0.0.1:1"\n')
    from_file = PLATFORMS["telegram"](HOOKS)
    bare.setenv("PLACET_TELEGRAM_TOKEN", f"{TOKEN}, {OTHER_TOKEN}")
    from_environment = PLATFORMS["telegram"](HOOKS)
    assert from_file is not None
    assert from_environment is not None
    assert from_environment.name == "telegram"
    for surface in (from_file, from_environment):
        await surface.close()


@pytest.mark.parametrize(
    ("setting", "value", "named", "problem"),
    [
        ("TELEGRAM_TOKEN", "hush-hush", "PLACET_TELEGRAM_TOKEN", "@BotFather"),
        # As the page that tells of the setting has it, and as a copy that broke off.
        ("TELEGRAM_TOKEN", "123456:ABC...", "PLACET_TELEGRAM_TOKEN", "token 1 has too little after its colon"),
        ("TELEGRAM_TOKEN", f"{TOKEN},123456:hush-hush", "PLACET_TELEGRAM_TOKEN", "token 2 has too little after its"),
        ("TELEGRAM_TOKEN", "123456", "PLACET_TELEGRAM_TOKEN", "token 1 has nothing after its number"),
        ("TELEGRAM_TOKEN", f"{TOKEN},{TOKEN}", "PLACET_TELEGRAM_TOKEN", "same bot"),
        ("TELEGRAM_BASE_URL", "hush-hush", "PLACET_TELEGRAM_BASE_URL", "https://api.telegram.org"),
        ("TELEGRAM_BASE_URL", "https://hush-hush/bot", "PLACET_TELEGRAM_BASE_URL", "without /bot"),
        ("TELEGRAM_WEBHOOK_SECRET", "hush-hush", "PLACET_TELEGRAM_WEBHOOK_SECRET", "16 to 256"),
        ("TELEGRAM_WEBHOOK_SECRET", "hush-hush-hush-hush", "PLACET_TELEGRAM_WEBHOOK_SECRET", "PLACET_PUBLIC_URL"),
        ("TELEGRAM_TOKENS", "hush-hush", "PLACET_TELEGRAM_TOKENS", "no such setting"),
    ],
)
def test_a_bad_setting_is_named_and_its_value_is_not_shown(
    bare: pytest.MonkeyPatch, setting: str, value: str, named: str, problem: str
) -> None:
    bare.setenv(f"PLACET_{setting}", value)
    with pytest.raises(BadSetting) as bad:
        PLATFORMS["telegram"](HOOKS)
    assert bad.value.name == named
    assert problem in bad.value.problem
    assert value not in str(bad.value)
    assert TOKEN not in repr(bad.value.__cause__)


def test_a_webhook_needs_an_address_that_telegram_delivers_to(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("PLACET_TELEGRAM_WEBHOOK_SECRET", "s" * 32)
    bare.setenv("PLACET_PUBLIC_URL", "http://placet.example")
    with pytest.raises(BadSetting, match="PLACET_PUBLIC_URL"):
        PLATFORMS["telegram"](HOOKS)


def test_a_broken_file_is_named_and_not_quoted(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "placet.toml").write_text('telegram_token = "hush\n')
    with pytest.raises(BadSetting, match=r"placet.toml: is no valid TOML \(line 1") as bad:
        PLATFORMS["telegram"](HOOKS)
    assert "hush" not in str(bad.value)


def test_secrets_do_not_show_in_the_settings() -> None:
    settings = Settings.model_validate({"telegram_token": TOKEN})
    assert TOKEN.split(":")[1] not in repr(settings)

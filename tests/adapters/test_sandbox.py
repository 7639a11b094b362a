"""The sandbox's Telegram, driven by the real client: its limits, refusals and flows, so that it is never lenient."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from telegram import (
    Bot,
    CallbackQuery,
    ForceReply,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
    Update,
)
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.ext import Application, CallbackQueryHandler, ContextTypes

from adapters.sandbox import Sandbox
from adapters.sandbox.telegram import Person, World
from adapters.sandbox.telegram.faults import Pace

TOKEN = "7000000001:sandbox-token"
OTHER = "7000000002:sandbox-token"
FORUM = -1001234
TOPIC = 31
GROUP = -4321

ALLOW = InlineKeyboardMarkup([[InlineKeyboardButton("Allow", callback_data="a.token.1")]])


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(rate_scale=math.inf) as started:
        started.add_bot(TOKEN, "placet_bot", name="Placet")
        yield started


@pytest.fixture
def world(sandbox: Sandbox) -> World:
    return sandbox.telegram


@pytest.fixture
def dana(sandbox: Sandbox) -> Person:
    return sandbox.add_person(1001, "Dana Reyes", "dana")


@pytest.fixture
def ola(sandbox: Sandbox) -> Person:
    return sandbox.add_person(1002, "Ola Berg")


@pytest.fixture
async def bot(sandbox: Sandbox) -> AsyncIterator[Bot]:
    async with client(sandbox) as made:
        yield made


def client(sandbox: Sandbox, token: str = TOKEN) -> Bot:
    return Bot(token, base_url=sandbox.telegram_base_url, base_file_url=sandbox.telegram_file_url)


async def raw(sandbox: Sandbox, method: str, token: str = TOKEN, **params: object) -> tuple[int, dict[str, Any]]:
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.post(f"{sandbox.telegram_base_url}{token}/{method}", json=params)
        return response.status_code, response.json()


async def refused(call: Any, why: str, kind: type[Exception] = BadRequest) -> None:
    with pytest.raises(kind) as caught:
        await call
    assert why.lower() in str(caught.value).lower()


# Who is calling


async def test_get_me_says_it_is_a_bot(bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.is_bot, me.username, me.can_read_all_group_messages) == (7000000001, True, "placet_bot", False)


async def test_unknown_tokens_and_methods_are_refused_in_telegrams_envelope(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidToken):
        await client(sandbox, "7000000009:nobodys-token").initialize()
    assert await raw(sandbox, "getMe", "7000000009:x") == (
        401,
        {"ok": False, "error_code": 401, "description": "Unauthorized"},
    )
    assert await raw(sandbox, "sendPoem") == (
        404,
        {"ok": False, "error_code": 404, "description": "Not Found: method not found"},
    )
    status, answer = await raw(sandbox, "GETME")
    assert (status, answer["ok"]) == (200, True)


# Text and markup


async def test_html_becomes_text_and_entities(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    source = (
        "<b>Bold &amp; <i>both</i></b> <u>u</u> <s>s</s> <tg-spoiler>x</tg-spoiler> "
        '<a href="https://example.org">l</a> <code>c &lt;b&gt;</code>\n'
        '<pre><code class="language-sh">ls -l</code></pre>'
        "<blockquote>q</blockquote> &#128512;"
    )
    message = await bot.send_message(1001, source, parse_mode="HTML")
    assert message.text == "Bold & both u s x l c <b>\nls -lq 😀"
    shown = [(entity.type, message.parse_entity(entity), entity.language) for entity in message.entities]
    assert shown == [
        ("bold", "Bold & both", None),
        ("italic", "both", None),
        ("underline", "u", None),
        ("strikethrough", "s", None),
        ("spoiler", "x", None),
        ("text_link", "l", None),
        ("code", "c <b>", None),
        ("pre", "ls -l", "sh"),
        ("blockquote", "q", None),
    ]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("<b>never closed", 'Can\'t find end tag corresponding to start tag "b"'),
        ("<blink>x</blink>", 'Unsupported start tag "blink" at byte offset 0'),
        ("é <blink>x", 'Unsupported start tag "blink" at byte offset 3'),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("<b", 'Unclosed start tag "b" at byte offset 0'),
        ("<b>x</b", "Unclosed end tag at byte offset 4"),
        ('<span class="x">x</span>', 'Tag "span" must have class "tg-spoiler"'),
    ],
)
async def test_broken_html_is_refused(bot: Bot, world: World, dana: Person, source: str, why: str) -> None:
    world.start(dana)
    await refused(bot.send_message(1001, source, parse_mode="HTML"), f"can't parse entities: {why}")
    assert [message.text for message in world.chat(1001).messages] == ["/start"]


async def test_only_telegrams_references_are_decoded(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    message = await bot.send_message(1001, "&lt;&gt;&quot;&#65;&#x42; &nbsp; &ltx &copy; a > b", parse_mode="HTML")
    assert message.text == '<>"AB &nbsp; &ltx &copy; a > b'


async def test_text_is_measured_in_utf16_units_after_parsing(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    longest = "<b>" + "x" * 4094 + "</b>&amp;&lt;"
    message = await bot.send_message(1001, longest, parse_mode="HTML")
    assert len(message.text or "") == 4096
    await refused(bot.send_message(1001, "😀" * 2049), "message is too long")
    assert (await bot.send_message(1001, "😀" * 2048)).message_id
    await refused(bot.edit_message_text("x" * 4097, 1001, message.message_id), "MESSAGE_TOO_LONG")
    await refused(bot.send_document(1001, b"x", caption="y" * 1025), "message caption is too long")
    assert (await bot.send_document(1001, b"x", caption="y" * 1024)).caption == "y" * 1024
    for nothing in (" \n ", "<b></b>", "\u2028"):
        await refused(bot.send_message(1001, nothing, parse_mode="HTML"), "message text is empty")


async def test_bare_words_become_live_and_odd_characters_vanish(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    message = await bot.send_message(
        1001, "run deploy.sh on 10.0.0.7 for @dana, see a@b.org /stop #now\u202e\u2028 end\x07."
    )
    assert message.text == "run deploy.sh on 10.0.0.7 for @dana, see a@b.org /stop #now end ."
    live = {(str(entity.type), message.parse_entity(entity)) for entity in message.entities}
    assert live == {
        ("url", "deploy.sh"),
        ("url", "10.0.0.7"),
        ("mention", "@dana"),
        ("email", "a@b.org"),
        ("bot_command", "/stop"),
        ("hashtag", "#now"),
    }
    shielded = await bot.send_message(1001, "<code>deploy.sh @dana</code> <pre>main.py /stop</pre>", parse_mode="HTML")
    assert [str(entity.type) for entity in shielded.entities] == ["code", "pre"]


async def test_entities_may_be_given_instead_of_markup(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    given = [MessageEntity("code", 3, 2), MessageEntity("bold", 0, 2)]
    message = await bot.send_message(1001, "😀 ab", entities=given)
    assert [(str(e.type), e.offset, e.length) for e in message.entities] == [("bold", 0, 2), ("code", 3, 2)]
    await refused(bot.send_message(1001, "ab", entities=[MessageEntity("code", 1, 5)]), "ends after the end")


# Buttons


@pytest.mark.parametrize("data", ["x" * 65, "я" * 33, "é" * 31 + "xyz"])
async def test_t4_callback_data_is_counted_in_bytes(bot: Bot, world: World, dana: Person, data: str) -> None:
    world.start(dana)
    button = InlineKeyboardButton("Allow", callback_data=data)
    await refused(bot.send_message(1001, "card", reply_markup=InlineKeyboardMarkup([[button]])), "BUTTON_DATA_INVALID")
    fits = InlineKeyboardButton("Allow", callback_data="я" * 32)
    sent = await bot.send_message(1001, "card", reply_markup=InlineKeyboardMarkup([[fits]]))
    assert world.chat(1001).message(sent.message_id).buttons[0][0].data == "я" * 32


async def test_keyboards_have_limits(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)

    def keyboard(rows: int, columns: int, **extra: Any) -> InlineKeyboardMarkup:
        row = [InlineKeyboardButton("x", **({"callback_data": "d"} | extra)) for _ in range(columns)]
        return InlineKeyboardMarkup([row] * rows)

    assert await bot.send_message(1001, "x", reply_markup=keyboard(12, 8))
    await refused(bot.send_message(1001, "x", reply_markup=keyboard(1, 9)), "reply markup is too long")
    await refused(bot.send_message(1001, "x", reply_markup=keyboard(13, 8)), "reply markup is too long")
    local = keyboard(1, 1, callback_data=None, url="http://localhost:8080/x")
    await refused(bot.send_message(1001, "x", reply_markup=local), "Wrong HTTP URL")
    bare = {"inline_keyboard": [[{"text": "x"}]]}
    status, answer = await raw_in(world, bot, "sendMessage", chat_id=1001, text="x", reply_markup=bare)
    assert status == 400
    assert "Text buttons are unallowed" in answer["description"]
    styled = keyboard(1, 1, api_kwargs={"style": "danger"})
    sent = await bot.send_message(1001, "x", reply_markup=styled)
    assert world.chat(1001).message(sent.message_id).buttons[0][0].style == "danger"
    await refused(bot.send_message(1001, "x", reply_markup=keyboard(1, 1, api_kwargs={"style": "pink"})), "style")


async def raw_in(world: World, bot: Bot, method: str, **params: object) -> tuple[int, dict[str, Any]]:
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.post(f"{bot.base_url}/{method}", json=params)
        return response.status_code, response.json()


async def test_force_reply_keeps_its_placeholder_and_cannot_be_edited(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    prompt = await bot.send_message(
        1001, "Why?", reply_markup=ForceReply(selective=True, input_field_placeholder="Note")
    )
    kept = world.chat(1001).message(prompt.message_id).force_reply
    assert kept is not None
    assert (kept.placeholder, kept.selective) == ("Note", True)
    await refused(bot.edit_message_text("Thanks", 1001, prompt.message_id), "message can't be edited")
    status, answer = await raw_in(
        world, bot, "sendMessage", chat_id=1001, text="x",
        reply_markup={"force_reply": True, "input_field_placeholder": "x" * 65},
    )  # fmt: skip
    assert (status, answer["ok"]) == (400, False)


# Editing and deleting


async def test_an_unchanged_edit_is_refused(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "<b>card</b>", parse_mode="HTML", reply_markup=ALLOW)
    same = bot.edit_message_text("<b>card</b>", 1001, card.message_id, parse_mode="HTML", reply_markup=ALLOW)
    await refused(same, "message is not modified: specified new message content and reply markup are exactly the same")
    await refused(bot.edit_message_reply_markup(1001, card.message_id, reply_markup=ALLOW), "message is not modified")
    await bot.edit_message_text("card", 1001, card.message_id)
    shown = world.chat(1001).message(card.message_id)
    assert (shown.text, shown.entities, shown.buttons, shown.edited) == ("card", [], [], True)


async def test_only_a_bots_own_messages_that_exist_can_be_edited(bot: Bot, world: World, dana: Person) -> None:
    hers = world.start(dana)
    await refused(bot.edit_message_text("x", 1001, 9999), "message to edit not found")
    await refused(bot.edit_message_text("x", 1001, hers.id), "message can't be edited")
    card = await bot.send_message(1001, "card")
    world.delete_message(1001, card.message_id)
    await refused(bot.edit_message_text("x", 1001, card.message_id), "message to edit not found")
    await refused(bot.delete_message(1001, card.message_id), "message to delete not found")
    paper = await bot.send_document(1001, b"x")
    await refused(bot.edit_message_text("x", 1001, paper.message_id), "there is no text in the message to edit")
    assert (await bot.edit_message_caption(1001, paper.message_id, caption="now")).caption == "now"  # type: ignore[union-attr]


async def test_a_bot_deletes_its_own_messages_for_two_days(bot: Bot, world: World, dana: Person, ola: Person) -> None:
    world.add_group(GROUP, "Team", [dana, ola])
    hers = world.say(dana, GROUP, "hello")
    card = await bot.send_message(GROUP, "card")
    old = await bot.send_message(GROUP, "old")
    await refused(bot.delete_message(GROUP, hers.id), "message can't be deleted")
    assert await bot.delete_message(GROUP, card.message_id)
    world.skip(49 * 3600)
    await refused(bot.delete_message(GROUP, old.message_id), "message can't be deleted for everyone")
    assert [message.text for message in world.chat(GROUP).messages] == ["hello", "old"]


# Who can be written to


async def test_a_bot_cannot_write_first(bot: Bot, world: World, dana: Person, ola: Person) -> None:
    await refused(bot.send_message(1001, "hello"), "chat not found")
    world.add_group(GROUP, "Team", [dana, ola])
    await refused(bot.send_message(1001, "hello"), "bot can't initiate conversation with a user", Forbidden)
    world.start(dana)
    assert (await bot.send_message(1001, "hello")).text == "hello"
    world.block(dana)
    await refused(bot.send_message(1001, "hello"), "bot was blocked by the user", Forbidden)
    world.unblock(dana)
    assert await bot.send_message(1001, "hello again")
    await refused(bot.send_message(-999, "x"), "chat not found")
    await refused(bot.send_message("@nobody", "x"), "chat not found")
    world.remove_bot(GROUP)
    await refused(bot.send_message(GROUP, "x"), "bot was kicked from the group chat", Forbidden)
    changes = [u.my_chat_member for u in await bot.get_updates() if u.my_chat_member]
    assert [(c.chat.id, c.new_chat_member.status) for c in changes if c] == [
        (GROUP, "member"),
        (1001, "kicked"),
        (1001, "member"),
        (GROUP, "kicked"),
    ]


async def test_a_group_becomes_a_supergroup(bot: Bot, world: World, dana: Person) -> None:
    world.add_group(GROUP, "Team", [dana])
    card = await bot.send_message(GROUP, "card", reply_markup=ALLOW)
    new = world.migrate(GROUP)
    with pytest.raises(ChatMigrated) as caught:
        await bot.send_message(GROUP, "again")
    assert caught.value.new_chat_id == new
    with pytest.raises(ChatMigrated):
        await bot.edit_message_text("x", GROUP, card.message_id)
    assert (await bot.send_message(new, "again")).chat.id == new
    service = [u.message for u in await bot.get_updates() if u.message]
    assert [(m.chat.id, m.migrate_to_chat_id, m.migrate_from_chat_id) for m in service if m] == [
        (GROUP, new, None),
        (new, None, GROUP),
    ]


# Topics


async def test_t7_messages_stay_in_their_topic(bot: Bot, world: World, dana: Person) -> None:
    world.add_group(FORUM, "Billing", [dana], forum=True, topics={TOPIC: "Refunds"})
    card = await bot.send_message(FORUM, "card", message_thread_id=TOPIC, reply_markup=ALLOW)
    assert (card.message_thread_id, card.is_topic_message) == (TOPIC, True)
    assert card.reply_to_message is not None
    assert card.reply_to_message.forum_topic_created is not None
    answer = await bot.send_message(FORUM, "re", reply_parameters=ReplyParameters(card.message_id))
    assert answer.message_thread_id == TOPIC
    world.say(dana, FORUM, "/pending@placet_bot", thread=TOPIC)
    heard = (await bot.get_updates(offset=-1))[0].message
    assert heard is not None
    assert heard.reply_to_message is not None
    assert (heard.message_thread_id, heard.reply_to_message.message_id) == (TOPIC, TOPIC)


async def test_t9_a_deleted_topic_is_gone(bot: Bot, world: World, dana: Person) -> None:
    world.add_group(FORUM, "Billing", [dana], forum=True, topics={TOPIC: "Refunds"})
    card = await bot.send_message(FORUM, "card", message_thread_id=TOPIC)
    world.delete_topic(FORUM, TOPIC)
    await refused(bot.send_message(FORUM, "x", message_thread_id=TOPIC), "message thread not found")
    await refused(bot.edit_message_text("x", FORUM, card.message_id), "message to edit not found")
    for nowhere in (1, 77):
        await refused(bot.send_message(FORUM, "x", message_thread_id=nowhere), "message thread not found")


async def test_t8_a_callback_carries_no_is_forum(bot: Bot, world: World, dana: Person) -> None:
    world.add_group(FORUM, "Billing", [dana], forum=True, topics={TOPIC: "Refunds"})
    card = await bot.send_message(FORUM, "card", message_thread_id=TOPIC, reply_markup=ALLOW)
    world.press(dana, FORUM, card.message_id, label="Allow")
    query = (await bot.get_updates(offset=-1))[0].callback_query
    assert query is not None
    assert query.message is not None
    assert query.message.chat.is_forum is None
    assert query.message.message_thread_id == TOPIC  # type: ignore[attr-defined]


# Presses


async def queries(bot: Bot) -> list[CallbackQuery]:
    return [update.callback_query for update in await bot.get_updates() if update.callback_query]


async def test_a_press_is_answered_once(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card", reply_markup=ALLOW)
    press = world.press(dana, 1001, card.message_id, button=(0, 0))
    (query,) = await queries(bot)
    assert (query.id, query.data, query.from_user.id) == (press.id, "a.token.1", 1001)
    await refused(query.answer("x" * 201), "MESSAGE_TOO_LONG")
    await query.answer("Allowed.", show_alert=True)
    answer = await world.answer(press)
    assert (answer.text, answer.alert) == ("Allowed.", True)
    await refused(query.answer("again"), "query is too old and response timeout expired or query ID is invalid")
    await refused(bot.answer_callback_query("123", "x"), "query is too old")


async def test_t6_a_late_answer_is_refused(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card", reply_markup=ALLOW)
    press = world.press(dana, 1001, card.message_id, label="Allow")
    world.skip(16)
    (query,) = await queries(bot)
    await refused(query.answer(), "query is too old and response timeout expired or query ID is invalid")
    with pytest.raises(TimeoutError):
        await world.answer(press, timeout=0.05)


async def test_forged_and_repeated_presses_reach_the_bot(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card", reply_markup=ALLOW)
    press = world.press(dana, 1001, card.message_id, data="a.made-up.9")
    again = world.repeat(press)
    first, second = [update for update in await bot.get_updates() if update.callback_query]
    assert first.callback_query is not None
    assert second.callback_query is not None
    assert first.callback_query.data == "a.made-up.9"
    assert first.callback_query.id == second.callback_query.id
    assert (first.update_id, second.update_id) == (press.update_id, again.id)
    with pytest.raises(ValueError, match="no such button"):
        world.press(dana, 1001, card.message_id, label="Decline")


async def test_a_deleted_message_arrives_inaccessible(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card", reply_markup=ALLOW)
    world.delete_message(1001, card.message_id)
    world.press(dana, 1001, card.message_id, label="Allow")
    (query,) = await queries(bot)
    assert query.message is not None
    assert (query.message.message_id, query.message.is_accessible) == (card.message_id, False)


async def test_a_stranger_cannot_press(bot: Bot, world: World, dana: Person, ola: Person) -> None:
    world.add_group(GROUP, "Team", [dana])
    card = await bot.send_message(GROUP, "card", reply_markup=ALLOW)
    with pytest.raises(ValueError, match="not in the chat"):
        world.press(ola, GROUP, card.message_id, label="Allow")


async def test_anonymous_admins_write_as_the_group_and_press_as_themselves(
    bot: Bot, world: World, dana: Person
) -> None:
    world.add_group(FORUM, "Billing", [dana])
    world.make_anonymous(dana, FORUM)
    card = await bot.send_message(FORUM, "card", reply_markup=ALLOW)
    world.say(dana, FORUM, "no", reply_to=card.message_id)
    world.say(dana, FORUM, "no", reply_to=card.message_id, disguise="channel")
    world.say(dana, FORUM, "no", reply_to=card.message_id, disguise="linked_channel")
    world.press(dana, FORUM, card.message_id, label="Allow")
    updates = await bot.get_updates()
    written = [u.message for u in updates if u.message and u.message.text]
    assert [(m.from_user.id, m.sender_chat.id) for m in written if m and m.from_user and m.sender_chat] == [
        (1087968824, FORUM),
        (136817688, -1002000000001),
        (777000, -1002000000001),
    ]
    assert updates[-1].callback_query is not None
    assert updates[-1].callback_query.from_user.id == 1001


# What a bot hears


async def test_privacy_mode_hides_chatter_and_shows_replies(bot: Bot, world: World, dana: Person) -> None:
    world.add_group(GROUP, "Team", [dana])
    card = await bot.send_message(GROUP, "card")
    chatter = world.say(dana, GROUP, "lunch?")
    world.say(dana, GROUP, "to myself", reply_to=chatter.id)
    world.say(dana, GROUP, "/help@other_bot")
    reply = world.say(dana, GROUP, "no", reply_to=card.message_id)
    world.say(dana, GROUP, "hey @placet_bot")
    world.say(dana, GROUP, "/pending")
    world.edit(dana, GROUP, reply.id, "no, sorry")
    updates = await bot.get_updates()
    assert [u.message.text for u in updates if u.message] == ["no", "hey @placet_bot", "/pending"]
    edited = updates[-1].edited_message
    assert edited is not None
    assert (edited.text, edited.edit_date is not None) == ("no, sorry", True)
    assert edited.reply_to_message is not None
    assert edited.reply_to_message.message_id == card.message_id


async def test_a_person_sends_a_document_with_a_caption(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card")
    world.send_document(dana, 1001, "why.txt", b"because", caption="no", reply_to=card.message_id)
    message = (await bot.get_updates(offset=-1))[0].message
    assert message is not None
    assert message.document is not None
    assert (message.text, message.caption, message.document.file_name) == (None, "no", "why.txt")
    assert bytes(await (await message.document.get_file()).download_as_bytearray()) == b"because"


async def test_documents_keep_every_byte(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    content = bytes(range(256)) + b"\r\n--boundary\r\n\r\n"
    sent = await bot.send_document(1001, content, filename="whole text.txt", caption="<b>all</b>", parse_mode="HTML")
    shown = world.chat(1001).message(sent.message_id)
    assert shown.document is not None
    assert (shown.document.name, shown.document.size, shown.text) == ("whole text.txt", len(content), "all")
    assert world.content(shown.document) == content
    assert sent.document is not None
    again = await bot.send_document(1001, sent.document.file_id)
    assert again.document is not None
    assert again.document.file_name == "whole text.txt"
    await refused(bot.get_file("nothing"), "wrong file_id")
    await refused(bot.send_document(1001, b""), "file must be non-empty")


# Polling


async def test_updates_come_again_until_they_are_confirmed(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana, "code-1")
    world.say(dana, 1001, "two")
    first, second = await bot.get_updates()
    assert [u.update_id for u in await bot.get_updates()] == [first.update_id, second.update_id]
    assert second.update_id == first.update_id + 1
    assert [u.update_id for u in await bot.get_updates(offset=second.update_id)] == [second.update_id]
    assert await bot.get_updates(offset=second.update_id + 1) == ()
    assert first.message is not None
    assert first.message.text == "/start code-1"


async def test_a_long_poll_returns_when_something_happens(bot: Bot, world: World, dana: Person) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await world.until(lambda: world.calls_of("getUpdates"))
    world.start(dana)
    assert [u.message.text for u in await poll if u.message] == ["/start"]


async def test_presses_are_kept_150_seconds_and_messages_a_day(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card", reply_markup=ALLOW)
    world.press(dana, 1001, card.message_id, label="Allow")
    world.skip(149)
    assert len(await queries(bot)) == 1
    world.skip(2)
    assert [bool(u.message) for u in await bot.get_updates()] == [True]
    world.skip(24 * 3600)
    assert await bot.get_updates() == ()


async def test_an_idle_week_draws_new_update_ids(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    (before,) = await bot.get_updates()
    world.skip(8 * 24 * 3600)
    world.say(dana, 1001, "back")
    (after,) = await bot.get_updates()
    assert abs(after.update_id - before.update_id) > 1


async def test_a_second_poller_ends_the_first_with_a_conflict(sandbox: Sandbox, bot: Bot, world: World) -> None:
    first = asyncio.create_task(bot.get_updates(timeout=20))
    await world.until(lambda: world.calls_of("getUpdates"))
    async with client(sandbox) as rival:
        assert await rival.get_updates(timeout=0) == ()
    await refused(first, "terminated by other getUpdates request", Conflict)


async def test_allowed_updates_stick(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    card = await bot.send_message(1001, "card", reply_markup=ALLOW)
    await bot.get_updates(allowed_updates=["callback_query"])
    world.say(dana, 1001, "unheard")
    world.press(dana, 1001, card.message_id, label="Allow")
    kinds = [bool(u.callback_query) for u in await bot.get_updates()]
    assert kinds == [False, True]


async def test_the_librarys_application_runs_unmodified(sandbox: Sandbox, world: World, dana: Person) -> None:
    app = (
        Application.builder()
        .token(TOKEN)
        .base_url(sandbox.telegram_base_url)
        .base_file_url(sandbox.telegram_file_url)
        .build()
    )

    async def pressed(update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
        assert update.callback_query is not None
        await update.callback_query.answer("Done.")
        await update.callback_query.edit_message_text("settled")

    app.add_handler(CallbackQueryHandler(pressed))
    world.start(dana)
    async with app:
        assert app.updater is not None
        await app.start()
        await app.updater.start_polling(allowed_updates=["message", "callback_query", "my_chat_member"])
        card = await app.bot.send_message(1001, "card", reply_markup=ALLOW)
        press = world.press(dana, 1001, card.message_id, label="Allow")
        assert (await world.answer(press)).text == "Done."
        assert await world.until(lambda: world.chat(1001).last("settled"))
        await app.updater.stop()
        await app.stop()


# Web hooks


Hook = tuple[str, list[tuple[dict[str, str], dict[str, Any]]], list[str]]


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    """A small HTTP server: its address, what it got, and the status lines it gives before it says 200."""
    got: list[tuple[dict[str, str], dict[str, Any]]] = []
    answers: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        got.append((headers, body))
        status = answers.pop(0) if answers else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}/telegram", got, answers


async def test_a_web_hook_gets_each_update_until_it_takes_it(bot: Bot, world: World, dana: Person, hook: Hook) -> None:
    url, got, answers = hook
    answers += ["500 Oops", "503 Busy\r\nRetry-After: 0"]
    await bot.set_webhook(url, secret_token="s3cret_-", allowed_updates=["message"])
    world.start(dana, "code")
    await world.until(lambda: len(got) == 3 and not world.pending(world.bots[7000000001]))
    assert {headers["x-telegram-bot-api-secret-token"] for headers, _ in got} == {"s3cret_-"}
    assert len({body["update_id"] for _, body in got}) == 1
    assert got[0][1]["message"]["text"] == "/start code"
    info = await bot.get_webhook_info()
    assert (info.url, info.pending_update_count, info.allowed_updates) == (url, 0, ("message",))
    assert info.last_error_message == "Wrong response from the webhook: 503 Busy"
    await refused(bot.get_updates(), "can't use getUpdates method while webhook is active", Conflict)
    world.repeat(world.past[7000000001, got[0][1]["update_id"]], same_id=True)
    await world.until(lambda: len(got) == 4)
    assert got[3][1] == got[0][1]
    await bot.delete_webhook()
    assert (await bot.get_webhook_info()).url == ""
    assert await bot.get_updates() == ()


async def test_web_hooks_want_https_and_a_decent_secret(bot: Bot) -> None:
    await refused(bot.set_webhook("http://example.org/x"), "An HTTPS URL must be provided for webhook")
    await refused(bot.set_webhook("https://example.org/x", secret_token="a b"), "unallowed characters")


# Limits and faults


async def test_telegrams_own_rate_limits_are_the_default() -> None:
    async with Sandbox() as sandbox:
        sandbox.add_bot(TOKEN, "placet_bot")
        sandbox.telegram.start(sandbox.add_person(1001, "Dana Reyes"))
        async with client(sandbox) as bot:
            results = await asyncio.gather(*(bot.send_message(1001, f"{n}") for n in range(8)), return_exceptions=True)
            late = [each for each in results if isinstance(each, RetryAfter)]
            assert late
            assert {each.retry_after for each in late} <= {1, timedelta(seconds=1)}
            sandbox.telegram.skip(1)
            assert await bot.send_message(1001, "a second later")


def test_the_limits_per_chat_group_and_bot() -> None:
    time = 1000.0
    pace = Pace(lambda: time)
    assert [pace.admit(1, "5") for _ in range(6)] == [0, 0, 0, 0, 0, 1]
    assert pace.admit(2, "5") == 0
    time += 60
    assert sum(pace.admit(1, str(chat)) == 0 for chat in range(1, 41)) == 30
    time += 60
    waits = []
    for _ in range(21):
        waits.append(pace.admit(1, "-7"))
        time += 1
    assert waits[:20] == [0] * 20
    for _ in range(8):
        waits.append(pace.admit(1, "-7"))
        time += 0.1
    assert waits[-1] in (1, 2, 3)
    free = Pace(lambda: time, math.inf)
    assert not any(free.admit(1, "5") for _ in range(100))


async def test_scripted_faults_hit_the_calls_they_name(bot: Bot, world: World, dana: Person, ola: Person) -> None:
    world.start(dana)
    world.start(ola)
    world.fail("sendMessage", retry_after=33, chat=1001)
    assert await bot.send_message(1002, "not this one")
    with pytest.raises(RetryAfter) as caught:
        await bot.send_message(1001, "x")
    assert caught.value.retry_after in (33, timedelta(seconds=33))
    assert await bot.send_message(1001, "and then it works")
    world.fail("sendMessage", status=500, times=2)
    for _ in range(2):
        await refused(bot.send_message(1001, "x"), "Internal Server Error", NetworkError)
    world.fail("editMessageText", status=400, description="Bad Request: nope")
    await refused(bot.edit_message_text("x", 1001, 1), "nope")
    world.fail("*", status=502, description="Bad Gateway", times=None)
    await refused(bot.get_me(), "Bad Gateway", NetworkError)
    world.mend()
    assert await bot.get_me()
    assert [call.status for call in world.calls_of("sendMessage", chat=1001)] == [429, 200, 500, 500]
    assert world.calls_of("sendMessage", chat=1001)[1].params["text"] == "and then it works"
    assert all(TOKEN not in repr(call) for call in world.calls)


async def test_a_lost_answer_still_sent_the_message(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    world.drop("sendMessage", when="before")
    with pytest.raises(NetworkError):
        await bot.send_message(1001, "never arrived")
    world.drop("sendMessage", when="after")
    with pytest.raises(NetworkError):
        await bot.send_message(1001, "arrived")
    assert [message.text for message in world.chat(1001).messages] == ["/start", "arrived"]


async def test_a_delayed_call_is_carried_out_later(bot: Bot, world: World, dana: Person) -> None:
    world.start(dana)
    world.delay("sendMessage", 0.2)
    sending = asyncio.create_task(bot.send_message(1001, "late"))
    await world.until(lambda: world.calls_of("sendMessage"))
    assert [message.text for message in world.chat(1001).messages] == ["/start"]
    await sending
    assert world.chat(1001).last().text == "late"


# Chats, commands, replies, several bots


async def test_chats_members_and_commands(bot: Bot, world: World, dana: Person, ola: Person) -> None:
    world.add_group(FORUM, "Billing", [dana], admins=[dana], forum=True, topics={TOPIC: "Refunds"})
    chat = await bot.get_chat(FORUM)
    assert (chat.type, chat.title, chat.is_forum) == ("supergroup", "Billing", True)
    assert (await bot.get_chat_member(FORUM, 1001)).status == "administrator"
    assert (await bot.get_chat_member(FORUM, bot.id)).status == "member"
    assert (await bot.get_chat_member(FORUM, 1002)).status == "left"
    await refused(bot.get_chat_member(FORUM, 4040), "PARTICIPANT_ID_INVALID")
    await bot.set_my_commands([("pending", "What waits for you")])
    assert [(c.command, c.description) for c in await bot.get_my_commands()] == [("pending", "What waits for you")]
    await refused(bot.set_my_commands([("Pending", "x")]), "BOT_COMMAND_INVALID")
    await bot.set_my_commands([("pending", "Was auf Sie wartet")], language_code="de")
    spoken = [(await bot.get_my_commands(language_code=code))[0].description for code in ("de", "fr")]
    assert spoken == ["Was auf Sie wartet", "What waits for you"]
    await refused(bot.set_my_commands([("pending", "x")], language_code="deutsch"), "invalid language code")


async def test_replies_need_their_message(bot: Bot, world: World, dana: Person) -> None:
    hers = world.start(dana)
    quiet = LinkPreviewOptions(is_disabled=True)
    reply = await bot.send_message(1001, "hi", reply_parameters=ReplyParameters(hers.id), link_preview_options=quiet)
    assert reply.reply_to_message is not None
    assert reply.reply_to_message.message_id == hers.id
    await refused(
        bot.send_message(1001, "hi", reply_parameters=ReplyParameters(999)), "message to be replied not found"
    )
    lenient = ReplyParameters(999, allow_sending_without_reply=True)
    assert (await bot.send_message(1001, "hi", reply_parameters=lenient)).reply_to_message is None


async def test_two_bots_have_chats_of_their_own(sandbox: Sandbox, bot: Bot, world: World, dana: Person) -> None:
    sandbox.add_bot(OTHER, "second_bot")
    world.start(dana, bot=7000000001)
    world.start(dana, bot=7000000002)
    card = await bot.send_message(1001, "of the first", reply_markup=ALLOW)
    async with client(sandbox, OTHER) as second:
        twin = await second.send_message(1001, "of the second", reply_markup=ALLOW)
        assert twin.message_id == card.message_id
        press = world.press(dana, 1001, twin.message_id, label="Allow", bot=7000000002)
        (query,) = await queries(second)
        assert await queries(bot) == []
        await refused(bot.answer_callback_query(query.id), "query ID is invalid")
        await query.answer("second")
        assert (await world.answer(press)).text == "second"
    with pytest.raises(ValueError, match="say which bot"):
        world.chat(1001)
    assert world.chat(1001, bot=7000000001).last().text == "of the first"


# Persistence


async def test_everything_survives_on_the_same_data(tmp_path: Path) -> None:
    async with Sandbox(data=tmp_path, rate_scale=math.inf) as sandbox:
        sandbox.add_bot(TOKEN, "placet_bot")
        dana = sandbox.add_person(1001, "Dana Reyes")
        sandbox.add_group(FORUM, "Billing", [dana], forum=True, topics={TOPIC: "Refunds"})
        world = sandbox.telegram
        world.start(dana)
        async with client(sandbox) as bot:
            await bot.get_updates(offset=(await bot.get_updates())[-1].update_id + 1)
            card = await bot.send_document(1001, b"bytes", filename="a.txt", caption="card", reply_markup=ALLOW)
        press = world.press(dana, 1001, card.message_id, label="Allow")
        sandbox.agent_said("asked", "wants to refund", ask="one")
        # A copy of the files as they are now is what a kill -9 would leave.
        copy = tmp_path / "killed"
        copy.mkdir()
        for file in tmp_path.glob("sandbox.db*"):
            (copy / file.name).write_bytes(file.read_bytes())
    async with Sandbox(data=copy, rate_scale=math.inf) as sandbox:
        sandbox.add_bot(TOKEN, "placet_bot")
        sandbox.add_group(FORUM, "Billing", [sandbox.add_person(1001, "Dana Reyes")], forum=True)
        world = sandbox.telegram
        kept = world.chat(1001).message(card.message_id)
        assert kept.document is not None
        assert (kept.text, world.content(kept.document), kept.labels) == ("card", b"bytes", ["Allow"])
        assert world.chat(FORUM).topics[TOPIC].name == "Refunds"
        async with client(sandbox) as bot:
            (query,) = await queries(bot)
            assert query.id == press.id
            await query.answer("still in time")
            assert (await world.answer(press)).text == "still in time"
            assert (await bot.send_message(1001, "next")).message_id == card.message_id + 1

"""The sandbox's records as the JSON objects of the Bot API."""

from __future__ import annotations

from typing import Any

from adapters.sandbox.telegram.holdings import Holdings
from adapters.sandbox.telegram.records import (
    LINKED_CHANNEL,
    SERVICE_ACCOUNTS,
    Chat,
    Entity,
    Message,
)

Json = dict[str, Any]


def user(held: Holdings, user_id: int) -> Json:
    if user_id in SERVICE_ACCOUNTS:
        name, username, is_bot = SERVICE_ACCOUNTS[user_id]
        return {"id": user_id, "is_bot": is_bot, "first_name": name} | ({"username": username} if username else {})
    if bot := held.bots.get(user_id):
        return {"id": bot.id, "is_bot": True, "first_name": bot.name, "username": bot.username}
    person = held.people.get(user_id)
    if person is None:
        return {"id": user_id, "is_bot": False, "first_name": "Deleted Account"}
    shown: Json = {"id": person.id, "is_bot": False, "first_name": person.name, "language_code": "en"}
    return shown | ({"username": person.username} if person.username else {})


def chat(held: Holdings, of: Chat) -> Json:
    if of.type == "private":
        person = user(held, of.id)
        return {"id": of.id, "type": "private"} | {k: person[k] for k in ("first_name", "username") if k in person}
    return {"id": of.id, "type": of.type, "title": of.title} | ({"is_forum": True} if of.forum else {})


def entity(held: Holdings, of: Entity) -> Json:
    shown = of.model_dump(exclude_none=True, exclude={"user"})
    return shown | ({"user": user(held, of.user)} if of.user is not None else {})


def message(held: Holdings, within: Chat, of: Message, *, replies: bool = True) -> Json:
    """A Message; `replies`: with the message it replies to, or in a topic the topic's creation."""
    shown: Json = {"message_id": of.id, "from": user(held, of.sender), "chat": chat(held, within), "date": of.at}
    if of.thread is not None:
        shown |= {"message_thread_id": of.thread, "is_topic_message": True}
    if of.sender_chat is not None:
        shown["sender_chat"] = (
            chat(held, within)
            if of.sender_chat == within.id
            else {"id": of.sender_chat, "type": "channel", "title": "A channel"}
        )
        shown |= {"is_automatic_forward": True} if of.sender == LINKED_CHANNEL else {}
    if replies:
        to = of.reply_to if of.reply_to is not None else of.thread
        replied = within.history.get(to) if to is not None and to != of.id else None
        if replied is not None and not replied.deleted:
            shown["reply_to_message"] = message(held, within, replied, replies=False)
    if of.edited_at is not None:
        shown["edit_date"] = of.edited_at
    entities = [entity(held, each) for each in of.entities]
    if of.document is not None:
        shown["document"] = {
            "file_id": of.document.file_id,
            "file_unique_id": of.document.unique_id,
            "file_name": of.document.name,
            "mime_type": of.document.mime,
            "file_size": of.document.size,
        }
        shown |= {"caption": of.text} if of.text else {}
        shown |= {"caption_entities": entities} if entities else {}
    elif of.text:
        shown |= {"text": of.text} | ({"entities": entities} if entities else {})
    if of.buttons:
        rows = [
            [
                button.model_dump(exclude_none=True, exclude={"data"})
                | ({"callback_data": button.data} if button.data is not None else {})
                for button in row
            ]
            for row in of.buttons
        ]
        shown["reply_markup"] = {"inline_keyboard": rows}
    return shown | (of.service or {})


def pressed(held: Holdings, within: Chat, message_id: int) -> Json:
    """The message of a callback query: inaccessible (date 0) when it is gone, and never with is_forum."""
    found = within.history.get(message_id)
    if found is None or found.deleted:
        shown: Json = {"chat": chat(held, within), "message_id": message_id, "date": 0}
    else:
        shown = message(held, within, found)
    shown["chat"].pop("is_forum", None)
    return shown


def standing(held: Holdings, within: Chat, user_id: int) -> Json:
    """A ChatMember: what somebody is in a chat."""
    who = user(held, user_id)
    if user_id in within.kicked:
        return {"status": "kicked", "user": who, "until_date": 0}
    if within.type == "private" and user_id == within.bot and within.blocked:
        return {"status": "kicked", "user": who, "until_date": 0}
    if user_id not in within.members and user_id not in (within.id, within.bot):
        return {"status": "left", "user": who}
    if user_id not in within.admins:
        return {"status": "member", "user": who}
    rights = dict.fromkeys(
        (
            "can_manage_chat", "can_delete_messages", "can_manage_video_chats", "can_restrict_members",
            "can_promote_members", "can_change_info", "can_invite_users", "can_post_stories", "can_edit_stories",
            "can_delete_stories",
        ),
        True,
    )  # fmt: skip
    anonymous = user_id in within.anonymous
    return {"status": "administrator", "user": who, "can_be_edited": False, "is_anonymous": anonymous} | rights


def moved(held: Holdings, within: Chat, by: int, old: Json, new: Json) -> Json:
    """A ChatMemberUpdated about a bot."""
    return {
        "chat": chat(held, within),
        "from": user(held, by),
        "date": int(held.now()),
        "old_chat_member": old,
        "new_chat_member": new,
    }

"""The methods of the Bot API, as strict as the real ones; each takes a bot and its parameters and gives a result."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from adapters.sandbox.telegram import keyboard, markup, wire
from adapters.sandbox.telegram.faults import ApiError
from adapters.sandbox.telegram.params import Params
from adapters.sandbox.telegram.records import Answer, Bot, Chat, Document, Entity, Message, Webhook
from adapters.sandbox.telegram.world import World

Json = dict[str, Any]
Method = Callable[[Bot, Params], Awaitable[Any]]

ANSWER_WINDOW_S = 15
UPLOAD_LIMIT = 50 * 1024 * 1024
DOWNLOAD_LIMIT = 20 * 1024 * 1024
_DELETABLE_S = 48 * 3600
_ENTITY_TYPES = {
    "mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold", "italic", "underline",
    "strikethrough", "spoiler", "blockquote", "expandable_blockquote", "code", "pre", "text_link", "text_mention",
    "custom_emoji",
}  # fmt: skip


class BotApi:
    """What a bot can call. Raises ApiError in Telegram's words."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._polls: dict[int, object] = {}
        self._closing = False
        self._methods: dict[str, Method] = {
            name.lower(): method
            for name, method in {
                "getMe": self.get_me,
                "getUpdates": self.get_updates,
                "setWebhook": self.set_webhook,
                "deleteWebhook": self.delete_webhook,
                "getWebhookInfo": self.get_webhook_info,
                "sendMessage": self.send_message,
                "sendDocument": self.send_document,
                "editMessageText": self.edit_message_text,
                "editMessageCaption": self.edit_message_caption,
                "editMessageReplyMarkup": self.edit_message_reply_markup,
                "deleteMessage": self.delete_message,
                "answerCallbackQuery": self.answer_callback_query,
                "getFile": self.get_file,
                "getChat": self.get_chat,
                "getChatMember": self.get_chat_member,
                "setMyCommands": self.set_my_commands,
                "getMyCommands": self.get_my_commands,
            }.items()
        }

    def method(self, name: str) -> Method | None:
        return self._methods.get(name.lower())

    def close(self) -> None:
        """Let open long polls return."""
        self._closing = True
        self._world.announce()

    async def get_me(self, bot: Bot, params: Params) -> Json:
        return wire.user(self._world, bot.id) | {
            "can_join_groups": True,
            "can_read_all_group_messages": not bot.privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }

    # Updates.

    async def get_updates(self, bot: Bot, params: Params) -> list[Json]:
        """Long polling: an offset confirms what lies under it; the newest poll ends an older one."""
        if bot.webhook is not None:
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first",
            )
        offset = params.number("offset")
        limit = params.number("limit", 100)
        limit = limit if 1 <= limit <= 100 else 100
        self._take_allowed(bot, params)
        if offset < 0:
            waiting = self._world.pending(bot)
            offset = waiting[offset if -offset <= len(waiting) else 0].id if waiting else 0
        if offset > 0:
            self._world.confirm(bot, below=offset)
        poll = self._polls[bot.id] = object()
        # Whoever polled before finds out now.
        self._world.announce()
        deadline = asyncio.get_running_loop().time() + min(max(params.number("timeout"), 0), 50)
        while not (waiting := self._world.pending(bot)) and not self._closing:
            remaining = deadline - asyncio.get_running_loop().time()
            if remaining <= 0:
                break
            try:
                async with asyncio.timeout(remaining):
                    await self._world.next_change.wait()
            except TimeoutError:
                break
            if self._polls[bot.id] is not poll:
                raise ApiError(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                )
            if bot.webhook is not None:
                raise ApiError(409, "Conflict: terminated by setWebhook request")
        return [update.wire for update in waiting[:limit]]

    async def set_webhook(self, bot: Bot, params: Params) -> bool:
        url, secret = params.text("url"), params.text("secret_token")
        address = urlsplit(url)
        if not url:
            return await self.delete_webhook(bot, params)
        if address.scheme != "https" and address.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ApiError(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[\w-]{0,256}", secret, re.ASCII):
            raise ApiError(400, "Bad Request: secret token contains unallowed characters")
        connections = params.number("max_connections", 40)
        if not 1 <= connections <= 100:
            raise ApiError(400, "Bad Request: max_connections must be between 1 and 100")
        self._take_allowed(bot, params)
        if params.flag("drop_pending_updates"):
            self._world.confirm(bot, below=bot.next_update)
        bot.webhook = Webhook(url=url, secret=secret, max_connections=connections)
        self._world.keep(bot)
        self._world.announce()
        return True

    async def delete_webhook(self, bot: Bot, params: Params) -> bool:
        if params.flag("drop_pending_updates"):
            self._world.confirm(bot, below=bot.next_update)
        bot.webhook = None
        self._world.keep(bot)
        self._world.announce()
        return True

    async def get_webhook_info(self, bot: Bot, params: Params) -> Json:
        pending = len(self._world.pending(bot))
        info: Json = {"url": "", "has_custom_certificate": False, "pending_update_count": pending}
        if bot.allowed is not None:
            info["allowed_updates"] = bot.allowed
        if (hook := bot.webhook) is not None:
            info |= {"url": hook.url, "max_connections": hook.max_connections, "ip_address": "127.0.0.1"}
            if hook.last_error_at is not None:
                info |= {"last_error_date": hook.last_error_at, "last_error_message": hook.last_error or ""}
        return info

    def _take_allowed(self, bot: Bot, params: Params) -> None:
        allowed = params.parsed("allowed_updates", list)
        if allowed is not None:
            bot.allowed = [str(kind) for kind in allowed] or None
            self._world.keep(bot)

    # Messages.

    async def send_message(self, bot: Bot, params: Params) -> Json:
        chat = self._chat(bot, params)
        text, entities = self._text(params, "text", 4096, "message is too long")
        if not text:
            raise ApiError(400, "Bad Request: message text is empty")
        return self._send(bot, chat, params, text, entities, None)

    async def send_document(self, bot: Bot, params: Params) -> Json:
        chat = self._chat(bot, params)
        caption, entities = self._text(params, "caption", 1024, "message caption is too long")
        return self._send(bot, chat, params, caption, entities, self._document(params))

    async def edit_message_text(self, bot: Bot, params: Params) -> Json:
        chat, message = self._editable(bot, params)
        text, entities = self._text(params, "text", 4096, "MESSAGE_TOO_LONG")
        if not text:
            raise ApiError(400, "Bad Request: message text is empty")
        if message.document is not None:
            raise ApiError(400, "Bad Request: there is no text in the message to edit")
        return self._edit(chat, message, params, text, entities)

    async def edit_message_caption(self, bot: Bot, params: Params) -> Json:
        chat, message = self._editable(bot, params)
        if message.document is None:
            raise ApiError(400, "Bad Request: there is no caption in the message to edit")
        caption, entities = self._text(params, "caption", 1024, "MEDIA_CAPTION_TOO_LONG")
        return self._edit(chat, message, params, caption, entities)

    async def edit_message_reply_markup(self, bot: Bot, params: Params) -> Json:
        chat, message = self._editable(bot, params)
        return self._edit(chat, message, params, message.text, message.entities)

    async def delete_message(self, bot: Bot, params: Params) -> bool:
        chat = self._chat(bot, params)
        message = chat.history.get(params.number("message_id"))
        if message is None or message.deleted:
            raise ApiError(400, "Bad Request: message to delete not found")
        own = message.sender == bot.id or chat.type == "private"
        if not own and bot.id not in chat.admins:
            raise ApiError(400, "Bad Request: message can't be deleted")
        if self._world.now() - message.at > _DELETABLE_S and bot.id not in chat.admins:
            raise ApiError(400, "Bad Request: message can't be deleted for everyone")
        message.deleted = True
        self._world.keep_message(chat, message)
        self._world.announce(chat)
        return True

    async def answer_callback_query(self, bot: Bot, params: Params) -> bool:
        press = self._world.presses.get(params.text("callback_query_id"))
        gone = press is None or press.bot != bot.id or press.answer is not None
        if press is None or gone or self._world.now() - press.at > ANSWER_WINDOW_S:
            raise ApiError(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        text = params.text("text")
        if len(text) > 200:
            raise ApiError(400, "Bad Request: MESSAGE_TOO_LONG")
        press.answer = Answer(text=text, alert=params.flag("show_alert"))
        self._world.keep(press)
        self._world.announce()
        return True

    # Files, chats, commands.

    async def get_file(self, bot: Bot, params: Params) -> Json:
        document = self._world.document(params.text("file_id"))
        if document is None:
            raise ApiError(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if document.size > DOWNLOAD_LIMIT:
            raise ApiError(400, "Bad Request: file is too big")
        return {
            "file_id": document.file_id,
            "file_unique_id": document.unique_id,
            "file_size": document.size,
            "file_path": f"documents/{document.file_id}",
        }

    async def get_chat(self, bot: Bot, params: Params) -> Json:
        chat = self._chat(bot, params)
        return wire.chat(self._world, chat) | {
            "accent_color_id": 0,
            "max_reaction_count": 11,
            "accepted_gift_types": dict.fromkeys(
                ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"),
                False,
            ),
        }

    async def get_chat_member(self, bot: Bot, params: Params) -> Json:
        chat = self._chat(bot, params)
        user = params.number("user_id")
        if user not in self._world.people and user not in self._world.bots:
            raise ApiError(400, "Bad Request: PARTICIPANT_ID_INVALID")
        return wire.standing(self._world, chat, user)

    async def set_my_commands(self, bot: Bot, params: Params) -> bool:
        commands = params.parsed("commands", list) or []
        if len(commands) > 100:
            raise ApiError(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            if not isinstance(command, dict) or not re.fullmatch(r"[a-z0-9_]{1,32}", str(command.get("command"))):
                raise ApiError(400, "Bad Request: BOT_COMMAND_INVALID")
            if not 1 <= len(str(command.get("description") or "")) <= 256:
                raise ApiError(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        taken = [{"command": each["command"], "description": each["description"]} for each in commands]
        if (language := params.text("language_code")) == "":
            bot.commands = taken
        elif not re.fullmatch(r"[a-z]{2}", language):
            raise ApiError(400, "Bad Request: invalid language code specified")
        else:
            bot.commands_in[language] = taken
        self._world.keep(bot)
        self._world.announce()
        return True

    async def get_my_commands(self, bot: Bot, params: Params) -> list[dict[str, str]]:
        return bot.commands_in.get(params.text("language_code"), bot.commands)

    # Parts of the above.

    def _chat(self, bot: Bot, params: Params) -> Chat:
        given = params.text("chat_id")
        if not given:
            raise ApiError(400, "Bad Request: chat_id is empty")
        if not re.fullmatch(r"-?\d{1,18}", given):
            raise ApiError(400, "Bad Request: chat not found")
        number = int(given)
        return self._private(bot, number) if number > 0 else self._group(bot, number)

    def _private(self, bot: Bot, person: int) -> Chat:
        if person in self._world.bots:
            raise ApiError(403, "Forbidden: bots can't send messages to bots")
        chat = self._world.chats.get(f"{person}:{bot.id}")
        if chat is not None:
            if chat.blocked:
                raise ApiError(403, "Forbidden: bot was blocked by the user")
            return chat
        # A bot knows whoever it shares a group with; of others it has never heard.
        if any(person in each.members and bot.id in each.members for each in self._world.chats.values()):
            raise ApiError(403, "Forbidden: bot can't initiate conversation with a user")
        raise ApiError(400, "Bad Request: chat not found")

    def _group(self, bot: Bot, number: int) -> Chat:
        chat = self._world.chats.get(str(number))
        if chat is None:
            raise ApiError(400, "Bad Request: chat not found")
        if bot.id in chat.kicked:
            raise ApiError(403, f"Forbidden: bot was kicked from the {chat.type} chat")
        if bot.id not in chat.members:
            raise ApiError(400, "Bad Request: chat not found")
        if chat.migrated_to is not None:
            raise ApiError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=chat.migrated_to,
            )
        return chat

    def _text(self, params: Params, name: str, limit: int, too_long: str) -> tuple[str, list[Entity]]:
        """The text and its entities, cleaned, parsed and measured after parsing."""
        text = markup.clean(params.text(name))
        mode = params.text("parse_mode").lower()
        if mode == "html":
            try:
                text, entities = markup.parse_html(text)
            except markup.BadMarkup as bad:
                raise ApiError(400, f"Bad Request: can't parse entities: {bad}") from None
        elif mode:
            raise ApiError(400, "Bad Request: unsupported parse_mode; the sandbox reads HTML and entities")
        else:
            given = params.parsed("caption_entities" if name == "caption" else "entities", list)
            entities = self._entities(given or [], markup.units(text))
        text, entities = markup.trim(text, entities)
        if markup.units(text) > limit:
            raise ApiError(400, f"Bad Request: {too_long}")
        return text, markup.find_live(text, entities)[:100]

    def _entities(self, given: list[Any], length: int) -> list[Entity]:
        entities = []
        for each in given:
            if not isinstance(each, dict) or each.get("type") not in _ENTITY_TYPES:
                raise ApiError(400, "Bad Request: can't parse MessageEntity: invalid type specified")
            offset, size = each.get("offset"), each.get("length")
            if not isinstance(offset, int) or not isinstance(size, int) or offset < 0 or size <= 0:
                raise ApiError(400, "Bad Request: can't parse MessageEntity: invalid offset or length")
            if offset + size > length:
                raise ApiError(400, f"Bad Request: entity at UTF-16 offset {offset} ends after the end of the text")
            user = each.get("user") or {}
            entities.append(
                Entity(
                    type=each["type"],
                    offset=offset,
                    length=size,
                    url=each.get("url"),
                    language=each.get("language"),
                    user=user.get("id"),
                )
            )
        return markup.settle(entities)

    def _document(self, params: Params) -> Document:
        given = params.text("document")
        upload = params.files.get(given.removeprefix("attach://") if given else "document")
        if upload is not None:
            if len(upload.content) > UPLOAD_LIMIT:
                raise ApiError(413, "Request Entity Too Large")
            if not upload.content:
                raise ApiError(400, "Bad Request: file must be non-empty")
            return self._world.keep_file(upload.name, upload.mime, upload.content)
        if not given:
            raise ApiError(400, "Bad Request: there is no document in the request")
        document = self._world.document(given)
        if document is None:
            raise ApiError(400, "Bad Request: wrong file identifier/HTTP URL specified")
        return document

    def _send(
        self,
        bot: Bot,
        chat: Chat,
        params: Params,
        text: str,
        entities: list[Entity],
        document: Document | None,
    ) -> Json:
        buttons, force_reply = keyboard.read(params)
        reply_to = self._reply_to(chat, params)
        message = Message(
            id=0,
            at=int(self._world.now()),
            sender=bot.id,
            text=text,
            entities=entities,
            buttons=buttons,
            force_reply=force_reply,
            document=document,
            reply_to=reply_to,
            thread=self._thread(chat, params, reply_to),
        )
        self._world.post(chat, message)
        self._world.announce(chat)
        return wire.message(self._world, chat, message)

    def _thread(self, chat: Chat, params: Params, reply_to: int | None) -> int | None:
        thread = params.number("message_thread_id")
        if not thread:
            # A reply lands in the topic of what it replies to.
            return chat.history[reply_to].thread if reply_to is not None else None
        # The general topic has no id of its own here: 1 is refused, as Telegram does.
        topic = chat.topics.get(thread)
        if topic is None or topic.deleted:
            raise ApiError(400, "Bad Request: message thread not found")
        return thread

    def _reply_to(self, chat: Chat, params: Params) -> int | None:
        given = params.parsed("reply_parameters", dict)
        wanted = given.get("message_id") if given else params.number("reply_to_message_id")
        if not wanted:
            return None
        elsewhere = given is not None and str(given.get("chat_id", chat.id)) != str(chat.id)
        message = None if elsewhere else chat.history.get(wanted)
        if message is not None and not message.deleted:
            return message.id
        lenient = given.get("allow_sending_without_reply") if given else params.flag("allow_sending_without_reply")
        if lenient:
            return None
        raise ApiError(400, "Bad Request: message to be replied not found")

    def _editable(self, bot: Bot, params: Params) -> tuple[Chat, Message]:
        chat = self._chat(bot, params)
        message = chat.history.get(params.number("message_id"))
        if message is None or message.deleted:
            raise ApiError(400, "Bad Request: message to edit not found")
        if message.sender != bot.id or message.force_reply is not None:
            raise ApiError(400, "Bad Request: message can't be edited")
        return chat, message

    def _edit(self, chat: Chat, message: Message, params: Params, text: str, entities: list[Entity]) -> Json:
        """Without a reply_markup the buttons go, as on Telegram."""
        buttons, force_reply = keyboard.read(params)
        if force_reply is not None:
            raise ApiError(400, "Bad Request: inline keyboard expected")
        if (text, entities, buttons) == (message.text, message.entities, message.buttons):
            raise ApiError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup "
                "are exactly the same as a current content and reply markup of the message",
            )
        # A change of the buttons alone does not mark the message as edited.
        if (text, entities) != (message.text, message.entities):
            message.edited_at = int(self._world.now())
        message.text, message.entities, message.buttons = text, entities, buttons
        self._world.keep_message(chat, message)
        self._world.announce(chat)
        return wire.message(self._world, chat, message)

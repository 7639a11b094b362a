"""The Telegram chats as the page shows them, and what a person does on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adapters.sandbox.telegram import wire
from adapters.sandbox.telegram.api import ANSWER_WINDOW_S
from adapters.sandbox.telegram.records import ANONYMOUS_ADMIN, Bot, Chat, Document, Message, Person
from adapters.sandbox.telegram.world import World

Json = dict[str, Any]
_SHOWN = 200


class TelegramView:
    """One platform of the page: its people, its chats, and the acts press, say and start."""

    name = "telegram"
    title = "Telegram"

    def __init__(self, world: World) -> None:
        self._world = world

    def people(self) -> list[Json]:
        return [{"id": person.id, "name": person.name} for person in self._world.people.values()]

    def versions(self) -> Iterator[tuple[str, int]]:
        """The key and version of each chat; a private chat that nobody has opened yet has version -1."""
        for chat in self._world.chats.values():
            yield chat.key, chat.version
        for person in self._world.people.values():
            for bot in self._world.bots.values():
                if f"{person.id}:{bot.id}" not in self._world.chats:
                    yield f"{person.id}:{bot.id}", -1

    def chat(self, key: str) -> Json:
        """A chat for the page: who sees it, its topics, and its newest 200 messages."""
        chat = self._world.chats.get(key)
        if chat is None:
            person, bot = self._pair(key)
            shown = {"key": key, "kind": "private", "people": [person.id], "bot": bot.username, "started": False}
            return shown | {"title": bot.name, "members": [person.name, bot.name], "topics": [], "messages": []}
        members = [self._name(member) for member in sorted(chat.members | ({chat.bot} if chat.bot else set()))]
        topics = [{"id": topic.id, "name": topic.name} for topic in chat.topics.values() if not topic.deleted]
        bot_name = self._world.bots[chat.bot].username if chat.bot else ""
        return {
            "key": key,
            "kind": "forum" if chat.forum else chat.type,
            "title": chat.title,
            "people": sorted(chat.members & self._world.people.keys()),
            "bot": bot_name,
            "members": members,
            "started": not chat.blocked,
            "closed": chat.migrated_to is not None,
            "topics": topics,
            "command": self._example(chat),
            "messages": [self._message(chat, message) for message in chat.messages[-_SHOWN:]],
        }

    def file(self, file_id: str) -> tuple[str, bytes] | None:
        """Name and bytes of a document."""
        document: Document | None = self._world.document(file_id)
        return None if document is None else (document.name, self._world.content(document))

    async def press(self, body: Json) -> Json:
        """Press the button at (row, column) and wait for the answer, for as long as Telegram takes one."""
        chat, bot = self._place(body)
        press = self._world.press(
            int(body["person"]), chat, int(body["message"]), button=(int(body["row"]), int(body["column"])), bot=bot
        )
        try:
            answer = await self._world.answer(press, ANSWER_WINDOW_S)
        except TimeoutError:
            return {"answered": False}
        return {"answered": True, "text": answer.text, "alert": answer.alert}

    async def say(self, body: Json) -> Json:
        chat, bot = self._place(body)
        reply_to, thread = body.get("reply_to"), body.get("thread")
        message = self._world.say(
            int(body["person"]),
            chat,
            str(body["text"]),
            reply_to=None if reply_to is None else int(reply_to),
            thread=None if thread is None else int(thread),
            bot=bot,
        )
        return {"message": message.id}

    async def start(self, body: Json) -> Json:
        """Open a private chat, or take a blocked bot back."""
        person, bot = self._pair(str(body["chat"]))
        if (chat := self._world.chats.get(str(body["chat"]))) is not None and chat.blocked:
            self._world.unblock(person, bot=bot)
        return {"message": self._world.start(person, str(body.get("payload", "")), bot=bot).id}

    def _example(self, chat: Chat) -> str:
        """A command that a bot offers in a private chat."""
        offered = [command["command"] for bot in self._world.bots_of(chat) for command in bot.commands]
        return f"/{offered[-1]}" if offered and chat.bot else ""

    def _place(self, body: Json) -> tuple[int, Bot | None]:
        key = str(body["chat"])
        if ":" not in key:
            return int(key), None
        person, bot = self._pair(key)
        return person.id, bot

    def _pair(self, key: str) -> tuple[Person, Bot]:
        person, _, bot = key.partition(":")
        try:
            return self._world.people[int(person)], self._world.bots[int(bot)]
        except (KeyError, ValueError):
            raise ValueError(f"chat: there is no chat {key}") from None

    def _name(self, user_id: int, chat: Chat | None = None) -> str:
        if user_id == ANONYMOUS_ADMIN and chat is not None:
            return chat.title
        return str(wire.user(self._world, user_id)["first_name"])

    def _message(self, chat: Chat, message: Message) -> Json:
        entities = [entity.model_dump(exclude_none=True) for entity in message.entities]
        shown: Json = {
            "id": message.id,
            "at": message.at,
            "author": {
                "id": message.sender,
                "name": self._name(message.sender, chat),
                "bot": message.sender in self._world.bots,
            },
            "text": message.text,
            "parts": [{"kind": "text", "text": message.text, "entities": entities}] if message.text else [],
            "buttons": [[button.model_dump(exclude={"data"}) for button in row] for row in message.buttons],
            "thread": message.thread,
            "edited": message.edited,
            "documents": [],
        }
        if message.service is not None:
            shown["service"] = self._service(message.service)
        if message.document is not None:
            shown["documents"] = [message.document.model_dump(include={"file_id", "name", "size"})]
        replied = chat.history.get(message.reply_to) if message.reply_to is not None else None
        if replied is not None:
            text = (
                "Deleted message"
                if replied.deleted
                else replied.text or (replied.document.name if replied.document else "")
            )
            shown["reply"] = {"id": replied.id, "name": self._name(replied.sender, chat), "text": text[:160]}
        if message.force_reply is not None:
            addressed = [entity.user for entity in message.entities if entity.user is not None]
            addressed += [replied.sender] if replied is not None else []
            addressed += self._mentioned(message)
            shown["prompt"] = {
                "placeholder": message.force_reply.placeholder,
                "people": addressed if message.force_reply.selective else None,
            }
        return shown

    def _mentioned(self, message: Message) -> list[int]:
        said = message.text.lower()
        return [
            person.id
            for person in self._world.people.values()
            if person.username and f"@{person.username.lower()}" in said
        ]

    def _service(self, service: Json) -> str:
        match service:
            case {"forum_topic_created": {"name": name}}:
                return f"The topic “{name}” was created"
            case {"migrate_to_chat_id": _}:
                return "This group became a supergroup"
            case {"migrate_from_chat_id": _}:
                return "This supergroup was a group"
            case _:
                return "Something changed in this chat"

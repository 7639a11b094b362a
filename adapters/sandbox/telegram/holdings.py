"""The state of the Telegram sandbox: what exists, what bots are still to be told, and the time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping

from adapters.sandbox.change import Change
from adapters.sandbox.shelf import Shelf
from adapters.sandbox.state import State
from adapters.sandbox.telegram.records import Bot, Chat, Document, Message, Person, Press, Update

PRESS_KEPT_S = 150
MESSAGE_KEPT_S = 24 * 3600
IDLE_WEEK_S = 7 * 24 * 3600
ON_REQUEST = {"chat_member", "message_reaction", "message_reaction_count"}


class Holdings(State):
    """Everything by its id. `keep` puts a record on the shelf, `announce` commits and wakes whoever waits."""

    def __init__(self, shelf: Shelf, change: Change) -> None:
        super().__init__(shelf, change)
        self.people: dict[int, Person] = {}
        self.bots: dict[int, Bot] = {}
        self.chats: dict[str, Chat] = {}
        self.presses: dict[str, Press] = {}
        self.updates: dict[int, list[Update]] = {}
        self.past: dict[tuple[int, int], Update] = {}
        self._load()

    def _load(self) -> None:
        self.people = {person.id: person for person in self.kept("person", Person)}
        self.bots = {bot.id: bot for bot in self.kept("bot", Bot)}
        self.updates = {bot: [] for bot in self.bots}
        self.chats = {chat.key: chat for chat in self.kept("chat", Chat)}
        for key, message in self.kept_with_keys("message", Message):
            self.chats[key].history[message.id] = message
        for press in self.kept("press", Press):
            if self.now() - press.at > MESSAGE_KEPT_S:
                self._shelf.drop("press", press.id)
            else:
                self.presses[press.id] = press
        for update in self.kept("update", Update):
            self.updates[update.bot].append(update)
            self.past[update.bot, update.id] = update

    def keep(self, *records: Person | Bot | Chat | Press | Update) -> None:
        for record in records:
            match record:
                case Update():
                    key = f"{record.bot}/{record.id}"
                case Chat():
                    key = record.key
                case _:
                    key = str(record.id)
            self._shelf.put(type(record).__name__.lower(), key, record.model_dump_json())

    def keep_message(self, chat: Chat, message: Message) -> None:
        chat.history[message.id] = message
        self._shelf.put("message", f"{chat.key}/{message.id}", f"{chat.key}\n{message.model_dump_json()}")
        chat.touch()

    def keep_file(self, name: str, mime: str, content: bytes) -> Document:
        document = Document(
            file_id=f"BQAC{secrets.token_urlsafe(24)}",
            unique_id=f"AgAD{secrets.token_urlsafe(8)}",
            name=name,
            mime=mime,
            size=len(content),
        )
        self._shelf.put_file(document.file_id, content)
        self._shelf.put("document", document.file_id, document.model_dump_json())
        return document

    def document(self, file_id: str) -> Document | None:
        body = self._shelf.one("document", file_id)
        return None if body is None else Document.model_validate_json(body)

    def content(self, document: Document) -> bytes:
        """The bytes of a document."""
        return self._shelf.file(document.file_id) or b""

    def bots_of(self, chat: Chat) -> Iterator[Bot]:
        for bot in self.bots.values():
            if bot.id == chat.bot or bot.id in chat.members:
                yield bot

    def tell(self, bot: Bot, kind: str, payload: Mapping[str, object]) -> Update | None:
        """Queue an update for a bot, unless it did not ask for that kind."""
        wanted = kind not in ON_REQUEST if bot.allowed is None else kind in bot.allowed
        if not wanted:
            return None
        now = self.now()
        if now - bot.last_update_at > IDLE_WEEK_S:
            bot.next_update = 100_000_000 + secrets.randbelow(800_000_000)
        update = Update(bot=bot.id, id=bot.next_update, at=now, kind=kind, payload=dict(payload))
        bot.next_update += 1
        bot.last_update_at = now
        self.updates[bot.id].append(update)
        self.past[bot.id, update.id] = update
        self.keep(bot, update)
        return update

    def pending(self, bot: Bot) -> list[Update]:
        """What the bot has not confirmed: presses for 150 s, everything else for 24 h."""
        now = self.now()
        queue = self.updates[bot.id]
        for update in list(queue):
            if now - update.at > (PRESS_KEPT_S if update.kind == "callback_query" else MESSAGE_KEPT_S):
                queue.remove(update)
                self._shelf.drop("update", f"{bot.id}/{update.id}")
        return list(queue)

    def confirm(self, bot: Bot, *, below: int | None = None, only: int | None = None) -> None:
        """Forget the updates with an id under `below`, or the one with the id `only`."""
        queue = self.updates[bot.id]
        for update in list(queue):
            if (below is not None and update.id < below) or update.id == only:
                queue.remove(update)
                self._shelf.drop("update", f"{bot.id}/{update.id}")
        self._shelf.commit()

"""What people do and see on the sandbox's Telegram; `sandbox.telegram` is one of these.

    press = world.press(dana, -1001234, card.id, label="Allow")   # or button=(0, 1), or forged data="..."
    answer = await world.answer(press)                            # the toast or alert the bot gave
    await world.until(lambda: world.chat(-1001234).last("Allowed"))

A person or a bot is given as its record or its id. A chat is given by its id: a group's, or a person's for the private
chat with a bot (`bot=` says which where there are several). Wrong use (a stranger's press, a button that is not there)
raises ValueError.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from adapters.sandbox.change import Change
from adapters.sandbox.shelf import Shelf
from adapters.sandbox.telegram import markup, wire
from adapters.sandbox.telegram.faults import ApiError, Pace
from adapters.sandbox.telegram.holdings import Holdings
from adapters.sandbox.telegram.records import (
    ANONYMOUS_ADMIN,
    CHANNEL_BOT,
    LINKED_CHANNEL,
    Answer,
    Bot,
    Chat,
    Disguise,
    Document,
    Message,
    Person,
    Press,
    Topic,
    Update,
)

_CHANNEL = -1002000000001


class World(Holdings):
    """The people's side of the sandbox: acts, views, and scripted refusals."""

    def __init__(self, shelf: Shelf, change: Change, *, rate_scale: float = 1) -> None:
        super().__init__(shelf, change)
        self.pace = Pace(self.now, rate_scale)

    # Who and what there is. Adding what exists already changes nothing but names.

    def add_bot(self, token: str, username: str, *, name: str = "", privacy: bool = True) -> Bot:
        """A bot; its token is `<id>:<secret>` and its username ends in "bot", as Telegram demands."""
        match = re.fullmatch(r"(\d{1,12}):[\w-]{3,64}", token)
        if match is None:
            raise ValueError("token: Telegram's tokens look like 7000000001:letters-and-digits")
        if not re.fullmatch(r"[A-Za-z]\w{1,28}[Bb][Oo][Tt]", username):
            raise ValueError("username: a bot's username has letters, digits and _, and ends in bot")
        bot_id = int(match.group(1))
        bot = self.bots.get(bot_id)
        if bot is None:
            bot = Bot(id=bot_id, token=token, username=username, name=name or username, privacy=privacy)
            self.bots[bot_id] = bot
            self.updates[bot_id] = []
        bot.token, bot.username, bot.name, bot.privacy = token, username, name or username, privacy
        self.keep(bot)
        self.announce()
        return bot

    def add_person(self, id: int, name: str, username: str | None = None) -> Person:
        person = Person(id=id, name=name, username=username)
        self.people[id] = person
        self.keep(person)
        self.announce()
        return person

    def add_group(
        self,
        id: int,
        title: str,
        members: Iterable[Person | Bot | int],
        *,
        admins: Iterable[Person | Bot | int] = (),
        forum: bool = False,
        topics: Mapping[int, str] | None = None,
    ) -> Chat:
        """A group: a supergroup where the id starts with -100, else a basic group. Admins are members too.

        Where no bot is named, every bot joins. `topics` (id to name) make sense in a forum; a forum is a supergroup.
        """
        supergroup = str(id).startswith("-100")
        if id >= 0 or (forum and not supergroup) or (topics and not forum):
            raise ValueError("id: groups have negative ids, and only a supergroup (-100...) is a forum with topics")
        if existing := self.chats.get(str(id)):
            return existing
        ids = {_id(member) for member in (*members, *admins)}
        if not ids & self.bots.keys():
            ids |= self.bots.keys()
        unknown = ids - self.bots.keys() - self.people.keys()
        if unknown:
            raise ValueError(f"members: nobody has the id {min(unknown)}; add_person first")
        chat = Chat(
            key=str(id),
            id=id,
            type="supergroup" if supergroup else "group",
            title=title,
            members=ids,
            admins={_id(admin) for admin in admins},
            forum=forum,
            instance=str(secrets.randbits(63)),
        )
        self.chats[chat.key] = chat
        self.keep(chat)
        adder = min(chat.members & self.people.keys(), default=ANONYMOUS_ADMIN)
        for bot in self.bots_of(chat):
            left: dict[str, Any] = {"status": "left", "user": wire.user(self, bot.id)}
            joined = wire.standing(self, chat, bot.id)
            self.tell(bot, "my_chat_member", wire.moved(self, chat, adder, left, joined))
        for topic_id, name in (topics or {}).items():
            self._open_topic(chat, topic_id, name)
        self.announce(chat)
        return chat

    # What people do.

    def start(self, person: Person | int, payload: str = "", *, bot: Bot | int | None = None) -> Message:
        """Open the private chat with a bot and send /start, with the payload of a t.me link (up to 64 characters)."""
        if not re.fullmatch(r"[\w-]{0,64}", payload):
            raise ValueError("payload: a start payload has up to 64 letters, digits, _ and -")
        return self.say(person, _id(person), f"/start {payload}".strip(), bot=bot)

    def say(
        self,
        person: Person | int,
        chat: int,
        text: str,
        *,
        reply_to: int | None = None,
        thread: int | None = None,
        bot: Bot | int | None = None,
        disguise: Disguise = "person",
    ) -> Message:
        """Write a message. `disguise`: as the group (an anonymous admin), or as a channel, or forwarded from one."""
        if not text.strip():
            raise ValueError("text: an empty message cannot be sent")
        within = self._entered(person, chat, bot)
        return self._write(person, within, text, None, reply_to, thread, disguise)

    def send_document(
        self,
        person: Person | int,
        chat: int,
        name: str,
        content: bytes,
        *,
        caption: str = "",
        mime: str = "text/plain",
        reply_to: int | None = None,
        thread: int | None = None,
        bot: Bot | int | None = None,
    ) -> Message:
        within = self._entered(person, chat, bot)
        document = self.keep_file(name, mime, content)
        return self._write(person, within, caption, document, reply_to, thread, "person")

    def edit(
        self, person: Person | int, chat: int, message_id: int, text: str, *, bot: Bot | int | None = None
    ) -> Message:
        """Change one's own message."""
        within = self._entered(person, chat, bot)
        message = within.message(message_id)
        if message.sender != _id(person):
            raise ValueError("message_id: people edit their own messages only")
        cleaned = markup.clean(text)
        message.text, message.entities = cleaned, markup.find_live(cleaned, [])
        message.edited_at = int(self.now())
        self.keep_message(within, message)
        for listener in self._listeners(within, message):
            self.tell(listener, "edited_message", wire.message(self, within, message))
        self.announce(within)
        return message

    def press(
        self,
        person: Person | int,
        chat: int,
        message_id: int,
        *,
        label: str | None = None,
        button: tuple[int, int] | None = None,
        data: str | None = None,
        bot: Bot | int | None = None,
    ) -> Press:
        """Press a button, by its label or its (row, column); or send `data` that need not be on any button.

        On a deleted message the bot is told of an inaccessible one; a made-up message id works with `data` alone.
        """
        within = self._entered(person, chat, bot, opens=False)
        message = within.history.get(message_id)
        if message is not None and message.sender not in self.bots:
            raise ValueError("message_id: only a bot's message has buttons")
        if data is None:
            found = _button(message, label, button)
            if found is None:
                raise ValueError("button: that message has no such button with data")
            data = found
        to = self.bots[message.sender] if message else self._bot_of(within, bot)
        press = Press(
            id=str(secrets.randbits(63)),
            bot=to.id,
            chat=within.key,
            message_id=message_id,
            person=_id(person),
            data=data,
            at=self.now(),
            update_id=0,
        )
        payload = {
            "id": press.id,
            "from": wire.user(self, press.person),
            "message": wire.pressed(self, within, message_id),
            "chat_instance": within.instance,
            "data": data,
        }
        update = self.tell(to, "callback_query", payload)
        press.update_id = update.id if update else 0
        self.presses[press.id] = press
        self.keep(press)
        self.announce()
        return press

    def repeat(self, what: Press | Update, *, same_id: bool = False) -> Update:
        """Deliver an update again, as Telegram does after a lost confirmation.

        It gets a new update id, since a poller confirms ids under its offset by itself; `same_id` keeps the old one,
        which reaches the bot through a web hook only.
        """
        original = self.past[what.bot, what.update_id if isinstance(what, Press) else what.id]
        bot = self.bots[original.bot]
        if same_id:
            update: Update | None = original
            self.updates[bot.id].append(original)
            self.keep(original)
        else:
            update = self.tell(bot, original.kind, original.payload)
        if update is None:
            raise ValueError("what: the bot no longer asks for updates of that kind")
        self.announce()
        return update

    def delete_message(self, chat: int, message_id: int, *, bot: Bot | int | None = None) -> None:
        """A person deletes a message; bots are not told."""
        within = self.chat(chat, bot=bot)
        message = within.message(message_id)
        message.deleted = True
        self.keep_message(within, message)
        self.announce(within)

    def delete_topic(self, chat: int, thread: int) -> None:
        """An admin deletes a topic with all its messages; bots are not told."""
        within = self.chat(chat)
        within.topics[thread].deleted = True
        self.keep(within)
        for message in within.messages:
            if thread in (message.thread, message.id):
                message.deleted = True
                self.keep_message(within, message)
        self.announce(within)

    def migrate(self, chat: int) -> int:
        """A basic group becomes a supergroup: the new id. Both chats get their service message."""
        old = self.chat(chat)
        if old.type != "group" or old.migrated_to is not None:
            raise ValueError("chat: only a basic group becomes a supergroup, and only once")
        new_id = -1000000000000 - secrets.randbelow(1_000_000_000) - 1_000_000_000
        old.migrated_to = new_id
        new = Chat(
            key=str(new_id),
            id=new_id,
            type="supergroup",
            title=old.title,
            members=set(old.members),
            admins=set(old.admins),
            anonymous=set(old.anonymous),
            migrated_from=old.id,
            instance=str(secrets.randbits(63)),
        )
        self.chats[new.key] = new
        self.keep(old, new)
        mover = min(old.members & self.people.keys())
        self._service(old, mover, {"migrate_to_chat_id": new.id})
        self._service(new, ANONYMOUS_ADMIN, {"migrate_from_chat_id": old.id}, sender_chat=new.id)
        self.announce(old, new)
        return new_id

    def make_anonymous(self, person: Person | int, chat: int) -> None:
        """Make a member an anonymous admin: messages come from the group, presses still carry the person."""
        within = self._entered(person, chat, None)
        within.admins.add(_id(person))
        within.anonymous.add(_id(person))
        self.keep(within)
        self.announce(within)

    def block(self, person: Person | int, *, bot: Bot | int | None = None) -> None:
        self._set_blocked(person, bot, True)

    def unblock(self, person: Person | int, *, bot: Bot | int | None = None) -> None:
        self._set_blocked(person, bot, False)

    def remove_bot(self, chat: int, *, bot: Bot | int | None = None) -> None:
        """An admin removes the bot from a group."""
        within = self.chat(chat)
        gone = self._bot_of(within, bot)
        before = wire.standing(self, within, gone.id)
        within.members.discard(gone.id)
        within.kicked.add(gone.id)
        self.keep(within)
        by = min(within.members & self.people.keys())
        after = wire.standing(self, within, gone.id)
        self.tell(gone, "my_chat_member", wire.moved(self, within, by, before, after))
        self.announce(within)

    # What people see.

    def chat(self, chat: int, *, bot: Bot | int | None = None) -> Chat:
        """A chat by its id. A private chat must have been started."""
        if chat < 0:
            if found := self.chats.get(str(chat)):
                return found
            raise ValueError(f"chat: there is no group {chat}")
        named = None if bot is None else _id(bot)
        started = [each for each in self.chats.values() if each.id == chat and named in (None, each.bot)]
        if len(started) != 1:
            raise ValueError(f"chat: {len(started)} private chats of {chat}; start one, or say which bot")
        return started[0]

    async def answer(self, press: Press, timeout: float = 5) -> Answer:
        """What the bot answered the press with. Raises TimeoutError after `timeout` seconds."""
        return await self.until(lambda: self.presses[press.id].answer, timeout)

    # What goes wrong.

    def fail(
        self,
        method: str,
        *,
        status: int = 500,
        description: str = "",
        retry_after: int | None = None,
        times: int | None = 1,
        chat: int | None = None,
    ) -> None:
        """The next `times` calls of a method (`*`: any; None: until `mend`) are refused and change nothing."""
        if retry_after is not None:
            error = ApiError(429, f"Too Many Requests: retry after {retry_after}", retry_after=retry_after)
        else:
            error = ApiError(status, description or ("Internal Server Error" if status >= 500 else "Bad Request"))
        self.refuse(method, error, times=times, chat=chat)

    # How a message comes to be; the Bot API posts through these too.

    def post(self, chat: Chat, message: Message) -> Message:
        """Put a new message into a chat and give it its id."""
        message.id = self._next_message_id(chat)
        self.keep_message(chat, message)
        return message

    def open_private(self, person: int, bot: Bot) -> Chat:
        key = f"{person}:{bot.id}"
        if key not in self.chats:
            self.chats[key] = Chat(
                key=key,
                id=person,
                type="private",
                title=bot.name,
                bot=bot.id,
                members={person},
                instance=str(secrets.randbits(63)),
            )
            self.keep(self.chats[key])
        return self.chats[key]

    def _next_message_id(self, chat: Chat) -> int:
        # Private chats of one bot share a sequence, as on Telegram; ids repeat from chat to chat all the same.
        counter: Bot | Chat = chat if chat.bot is None else self.bots[chat.bot]
        number = counter.next_message
        counter.next_message += 1
        self.keep(counter)
        return number

    def _write(
        self,
        person: Person | int,
        chat: Chat,
        text: str,
        document: Document | None,
        reply_to: int | None,
        thread: int | None,
        disguise: Disguise,
    ) -> Message:
        if chat.migrated_to is not None:
            raise ValueError(f"chat: it became the supergroup {chat.migrated_to}")
        if reply_to is not None:
            replied = chat.message(reply_to)
            thread = replied.thread if thread is None else thread
        if thread is not None and (thread not in chat.topics or chat.topics[thread].deleted):
            raise ValueError(f"thread: the chat has no topic {thread}")
        if disguise == "person" and _id(person) in chat.anonymous:
            disguise = "group"
        sender, sender_chat = {
            "person": (_id(person), None),
            "group": (ANONYMOUS_ADMIN, chat.id),
            "channel": (CHANNEL_BOT, _CHANNEL),
            "linked_channel": (LINKED_CHANNEL, _CHANNEL),
        }[disguise]
        cleaned = markup.clean(text)
        message = Message(
            id=0,
            at=int(self.now()),
            sender=sender,
            sender_chat=sender_chat,
            text=cleaned,
            entities=markup.find_live(cleaned, []),
            document=document,
            reply_to=reply_to,
            thread=thread,
        )
        self.post(chat, message)
        for bot in self._listeners(chat, message):
            self.tell(bot, "message", wire.message(self, chat, message))
        self.announce(chat)
        return message

    def _service(self, chat: Chat, sender: int, service: dict[str, Any], sender_chat: int | None = None) -> None:
        message = Message(id=0, at=int(self.now()), sender=sender, sender_chat=sender_chat, service=service)
        self.post(chat, message)
        for bot in self.bots_of(chat):
            self.tell(bot, "message", wire.message(self, chat, message))

    def _open_topic(self, chat: Chat, topic_id: int, name: str) -> None:
        chat.topics[topic_id] = Topic(id=topic_id, name=name)
        chat.next_message = max(chat.next_message, topic_id + 1)
        sender = min(chat.members & self.people.keys(), default=ANONYMOUS_ADMIN)
        created = {"forum_topic_created": {"name": name, "icon_color": 7322096}}
        message = Message(id=topic_id, at=int(self.now()), sender=sender, thread=topic_id, service=created)
        self.keep_message(chat, message)
        self.keep(chat)
        for bot in self.bots_of(chat):
            self.tell(bot, "message", wire.message(self, chat, message))

    def _listeners(self, chat: Chat, message: Message) -> list[Bot]:
        return [bot for bot in self.bots_of(chat) if self._hears(bot, chat, message)]

    def _hears(self, bot: Bot, chat: Chat, message: Message) -> bool:
        """Privacy mode: in groups a bot hears replies to its messages, commands and mentions meant for it."""
        if chat.type == "private" or not bot.privacy or bot.id in chat.admins:
            return True
        replied = chat.history.get(message.reply_to) if message.reply_to is not None else None
        if replied is not None and replied.sender == bot.id:
            return True
        for entity in message.entities:
            said = markup.cut(message.text, entity.offset, entity.length).lower()
            if entity.type == "mention" and said == f"@{bot.username}".lower():
                return True
            if entity.type == "bot_command":
                _, _, addressed = said.partition("@")
                if addressed == bot.username.lower() or (not addressed and self._spoke_last(bot, chat)):
                    return True
        return False

    def _spoke_last(self, bot: Bot, chat: Chat) -> bool:
        """Of the chat's bots; a command without a name goes to the bot that did. Nobody yet: to all."""
        spoken = [message.sender for message in chat.messages if message.sender in self.bots]
        return not spoken or spoken[-1] == bot.id

    def _entered(self, person: Person | int, chat: int, bot: Bot | int | None, *, opens: bool = True) -> Chat:
        """The chat, which the person must be in; a private chat opens by writing into it."""
        if _id(person) not in self.people:
            raise ValueError(f"person: nobody has the id {_id(person)}; add_person first")
        if chat > 0:
            if chat != _id(person):
                raise ValueError("chat: nobody enters another person's private chat")
            private = self.open_private(chat, self._bot_of(None, bot)) if opens else self.chat(chat, bot=bot)
            if private.blocked:
                raise ValueError("person: unblock the bot first")
            return private
        within = self.chat(chat)
        if _id(person) not in within.members:
            raise ValueError(f"person: {_id(person)} is not in the chat {chat}")
        return within

    def _bot_of(self, chat: Chat | None, bot: Bot | int | None) -> Bot:
        if bot is not None:
            return self.bots[_id(bot)]
        among = list(self.bots.values()) if chat is None else list(self.bots_of(chat))
        if len(among) != 1:
            raise ValueError(f"bot: there are {len(among)} bots; say which")
        return among[0]

    def _set_blocked(self, person: Person | int, bot: Bot | int | None, blocked: bool) -> None:
        of = self._bot_of(None, bot)
        chat = self.open_private(_id(person), of)
        before = wire.standing(self, chat, of.id)
        chat.blocked = blocked
        self.keep(chat)
        after = wire.standing(self, chat, of.id)
        self.tell(of, "my_chat_member", wire.moved(self, chat, _id(person), before, after))
        self.announce(chat)


def _id(of: Person | Bot | int) -> int:
    return of if isinstance(of, int) else of.id


def _button(message: Message | None, label: str | None, button: tuple[int, int] | None) -> str | None:
    if message is None:
        return None
    if button is not None:
        row, column = button
        return message.buttons[row][column].data
    return next((each.data for row in message.buttons for each in row if each.text == label), None)

"""What people do and see on the sandbox's Discord; `sandbox.discord` is one of these.

    bot = world.add_bot("discord-token", 8000000001, "placet")
    dana = world.add_person(4201, "Dana Reyes", "dana")
    guild = world.add_guild(500, "Acme", [dana])            # every bot joins
    channel = world.add_channel(600, guild, "billing")      # forum=True for a forum; world.add_thread(600, "Refunds")
    press = world.press(dana, 600, card.id, label="Allow")  # or custom_id="forged"
    answer = await world.answer(press)                      # Answer(text, ephemeral, modal)
    world.submit(dana, press, {"note": "Wrong customer"})   # the modal that the press opened
    world.say(dana, 600, "no", reply_to=card.id)            # ping=False: without pinging the author
    world.command(dana, "placet link", {"code": "..."})     # in the private chat with the bot, or channel=600
    world.fail("create_message", status=403, code=50013)    # faults: fail, drop, delay; mend() ends them

Methods of calls: create_message, edit_message, respond, edit_response, followup, open_private, put_commands,
edit_channel, me, application. Wrong use raises ValueError.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adapters.sandbox.change import Change
from adapters.sandbox.discord import wire
from adapters.sandbox.discord.faults import ApiError, Pace, TooFast
from adapters.sandbox.discord.gateway import (
    DIRECT_MESSAGES,
    GUILD_MESSAGES,
    MESSAGE_CONTENT,
    RECONNECT,
)
from adapters.sandbox.discord.holdings import Holdings
from adapters.sandbox.discord.records import (
    COMMAND,
    COMPONENT,
    EPHEMERAL,
    FORUM,
    LOADING,
    MODAL,
    PRIVATE,
    TEXT,
    THREAD,
    Bot,
    Channel,
    Guild,
    Interaction,
    Json,
    Message,
    Person,
)
from adapters.sandbox.shelf import Shelf

RESPOND_S = 3.0
DEFERRED_UPDATE, UPDATE = 6, 7


@dataclass(frozen=True, slots=True)
class Answer:
    """What the bot answered an interaction with: a message, or a modal (its JSON)."""

    text: str = ""
    ephemeral: bool = False
    modal: Json | None = None


def token_of(bot_id: int) -> str:
    """A token in Discord's form, whose first part says whose it is."""
    whose = base64.urlsafe_b64encode(str(bot_id).encode()).decode().rstrip("=")
    return f"{whose}.Gsandb.sandbox-token-{bot_id:024}"


class World(Holdings):
    """The people's side of the sandbox: acts, views, and scripted refusals."""

    def __init__(self, shelf: Shelf, change: Change, *, rate_scale: float = 1) -> None:
        super().__init__(shelf, change)
        self.pace = Pace(self.now, rate_scale)

    # Who and what there is. Adding what exists already changes nothing but names.

    def add_bot(
        self,
        id: int,
        username: str,
        *,
        name: str = "",
        token: str = "",
        privileged: bool = False,
        interactions_endpoint_url: str | None = None,
    ) -> Bot:
        standing = self.bots.get(id)
        bot = Bot(id=id, token=token or token_of(id), username=username, name=name or username, privileged=privileged,
                  interactions_endpoint_url=interactions_endpoint_url,
                  commands=standing.commands if standing else [])  # fmt: skip
        self.bots[id] = bot
        self.keep(bot)
        self.announce()
        return bot

    def add_person(self, id: int, name: str, username: str = "", *, accepts: bool = True) -> Person:
        username = username or name.lower().replace(" ", ".")
        person = Person(id=id, name=name, username=username, accepts=accepts)
        self.people[id] = person
        self.keep(person)
        self.announce()
        return person

    def add_guild(
        self,
        id: int,
        name: str,
        members: Iterable[Person | Bot | int],
        *,
        roles: Mapping[int, str] | None = None,
    ) -> Guild:
        """A server. Where no bot is named, every bot joins; `roles` are id to name, given with `give_role`."""
        if existing := self.guilds.get(id):
            return existing
        ids = {_id(member) for member in members}
        ids |= set() if ids & self.bots.keys() else self.bots.keys()
        if unknown := ids - self.bots.keys() - self.people.keys():
            raise ValueError(f"members: nobody has the id {min(unknown)}; add_person first")
        guild = Guild(id=id, name=name, members={member: [] for member in sorted(ids)}, roles=dict(roles or {}))
        self.guilds[id] = guild
        self.keep(guild)
        self.announce()
        return guild

    def give_role(self, person: Person | int, guild: Guild | int, role: int) -> None:
        within = self.guilds[_id(guild)]
        if role not in within.roles:
            raise ValueError(f"role: the server has no role {role}")
        within.members[_id(person)].append(role)
        self.keep(within)

    def add_channel(self, id: int, guild: Guild | int, name: str, *, forum: bool = False) -> Channel:
        if existing := self.channels.get(id):
            return existing
        return self._open(Channel(id=id, type=FORUM if forum else TEXT, name=name, guild=_id(guild)))

    def add_thread(self, channel: int, name: str, *, id: int | None = None) -> Channel:
        """A thread of a channel, or a post of a forum."""
        if id is not None and (existing := self.channels.get(id)):
            return existing
        parent = self.channel(channel)
        if parent.type not in (TEXT, FORUM):
            raise ValueError("channel: only a text channel has threads, and only a forum posts")
        return self._open(Channel(id=id or self.new_id(), type=THREAD, name=name, guild=parent.guild, parent=parent.id))

    def _open(self, channel: Channel) -> Channel:
        self.channels[channel.id] = channel
        self.keep(channel)
        self.announce()
        return channel

    # What people do.

    def say(
        self,
        person: Person | int,
        channel: int,
        text: str,
        *,
        reply_to: int | None = None,
        ping: bool = True,
        forward: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> Message:
        """Write a message, as a reply (that pings its author unless `ping` is False), or forward one."""
        within = self._entered(person, channel)
        if not (text.strip() or files or forward):
            raise ValueError("text: an empty message cannot be sent")
        if reply_to is not None and within.message(reply_to).deleted:
            raise ValueError("reply_to: that message was deleted")
        pinged = [each for each in map(str, [*self.people, *self.bots]) if f"<@{each}>" in text]
        if reply_to is not None and ping and not forward:
            pinged.append(str(within.message(reply_to).author))
        message = Message(
            id=self.new_id(), channel=within.id, author=_id(person), at=self.now(), content=text, reference=reply_to,
            forwarded=forward, pinged=pinged,
            attachments=[self.keep_file(name, content) for name, content in (files or {}).items()],
        )  # fmt: skip
        self.keep_message(message)
        self.tell_of(message)
        self.announce(within)
        return message

    def press(
        self,
        person: Person | int,
        channel: int,
        message_id: int,
        *,
        label: str | None = None,
        button: tuple[int, int] | None = None,
        custom_id: str | None = None,
    ) -> Interaction:
        """Press a button, by its label or its (row, column); or send a `custom_id` that need not be on any."""
        within = self._entered(person, channel)
        message = within.message(message_id)
        if message.author not in self.bots or message.deleted:
            raise ValueError("message_id: only a standing message of a bot has buttons")
        if message.only_for not in (None, _id(person)):
            raise ValueError("message_id: this person does not see that message")
        if custom_id is None:
            custom_id = _button(message, label, button)
        data = {"custom_id": custom_id, "component_type": 2, "id": 1}
        return self._interact(COMPONENT, message.author, within, person, data, message=message.id)

    def submit(self, person: Person | int, opened: Interaction, values: Mapping[str, str]) -> Interaction:
        """Send the modal that a press opened, with the text of each input by its custom_id."""
        if opened.modal is None:
            raise ValueError("opened: that interaction opened no modal")
        fields = {field["custom_id"]: field for field in inputs_of(opened.modal)}
        if unknown := values.keys() - fields.keys():
            raise ValueError(f"values: the modal has no input {min(unknown)}")
        for name, field in fields.items():
            value = values.get(name, "")
            least = field.get("min_length", 1 if field.get("required", True) else 0)
            if len(value) < least or len(value) > field.get("max_length", 4000):
                raise ValueError(f"{name}: {least} to {field.get('max_length', 4000)} characters")
        rows = [_filled(holder, values) for holder in opened.modal["components"]]
        data = {"custom_id": opened.modal["custom_id"], "components": rows}
        within = self._entered(person, opened.channel)
        return self._interact(MODAL, opened.bot, within, person, data, message=opened.message)

    def command(
        self,
        person: Person | int,
        name: str,
        options: Mapping[str, str] | None = None,
        *,
        channel: int | None = None,
        bot: Bot | int | None = None,
    ) -> Interaction:
        """A slash command such as "placet link", in a channel or in the private chat with the bot."""
        to = self._bot(bot)
        first, _, sub = name.partition(" ")
        known = next((command for command in to.commands if command["name"] == first), None)
        within = self.private(_id(person), to.id) if channel is None else self._entered(person, channel)
        if known is None:
            raise ValueError(f"name: the bot has no command /{first}")
        if (0 if within.guild is not None else 1) not in known.get("contexts", (0, 1)):
            raise ValueError(f"name: /{first} is not offered here")
        given = [{"name": key, "type": 3, "value": value} for key, value in (options or {}).items()]
        if sub:
            offered = next((option for option in known.get("options", []) if option["name"] == sub), None)
            if offered is None:
                raise ValueError(f"name: /{first} has no {sub}")
            for option in offered.get("options", []):
                if option.get("required") and option["name"] not in (options or {}):
                    raise ValueError(f"options: {option['name']} is required")
            given = [{"name": sub, "type": 1, "options": given}]
        data: Json = {"id": known["id"], "name": first, "type": 1, "options": given}
        return self._interact(COMMAND, to.id, within, person, data)

    def repeat(self, interaction: Interaction | Message) -> None:
        """Deliver an event again, as a resumed session does."""
        if isinstance(interaction, Message):
            self.tell_of(interaction)
        else:
            self.gateway.dispatch(interaction.bot, "INTERACTION_CREATE", wire.interaction(self, interaction))

    def delete_message(self, channel: int, message_id: int) -> None:
        within = self.channel(channel)
        within.message(message_id).deleted = True
        self.keep_message(within.message(message_id))
        self.announce(within)

    def delete_channel(self, channel: int) -> None:
        self.channel(channel).deleted = True
        self._changed(channel)

    def archive(self, thread: int, *, locked: bool = False) -> None:
        """A thread falls asleep; a locked one only moderators wake."""
        self.channel(thread).archived, self.channel(thread).locked = True, locked
        self._changed(thread)

    def hide(self, channel: int, bot: Bot | int | None = None) -> None:
        """The bot may no longer see a channel (50001)."""
        self.channel(channel).hidden.add(self._bot(bot).id)
        self._changed(channel)

    def mute(self, channel: int, bot: Bot | int | None = None) -> None:
        """The bot may no longer write in a channel (50013)."""
        self.channel(channel).muted.add(self._bot(bot).id)
        self._changed(channel)

    def leave(self, person: Person | Bot | int, guild: Guild | int) -> None:
        within = self.guilds[_id(guild)]
        within.members.pop(_id(person), None)
        self.keep(within)
        self.announce()

    # What people see.

    def channel(self, channel: int) -> Channel:
        if channel not in self.channels:
            raise ValueError(f"channel: there is no channel {channel}")
        return self.channels[channel]

    def private_of(self, person: Person | int, *, bot: Bot | int | None = None) -> Channel:
        """The private chat of a person with a bot."""
        return self.private(_id(person), self._bot(bot).id)

    def failed(self, interaction: Interaction) -> bool:
        """Whether the presser saw "This interaction failed": no first response within 3 s."""
        return interaction.answered is None and self.now() - interaction.at > RESPOND_S

    async def answer(self, interaction: Interaction, timeout: float = 5) -> Answer:
        """What the interaction was answered with, once the bot no longer thinks. Raises TimeoutError."""

        def given() -> Answer | None:
            if interaction.modal is not None:
                return Answer(modal=interaction.modal)
            if interaction.answered in (DEFERRED_UPDATE, UPDATE) and interaction.message is not None:
                edited = self.channels[interaction.channel].message(interaction.message)
                done = interaction.answered == UPDATE or (edited.edited_at or 0) > (interaction.answered_at or 0)
                return Answer(edited.content, bool(edited.flags & EPHEMERAL)) if done else None
            if interaction.reply is None:
                return None
            reply = self.channels[interaction.channel].message(interaction.reply)
            thinking = reply.flags & LOADING
            return None if thinking else Answer(reply.content, bool(reply.flags & EPHEMERAL))

        return await self.until(given, timeout)

    # What goes wrong.

    def fail(
        self,
        method: str,
        *,
        status: int = 500,
        code: int = 0,
        message: str = "",
        errors: Json | None = None,
        retry_after: float | None = None,
        everywhere: bool = False,
        via: bool = True,
        times: int | None = 1,
        chat: int | None = None,
    ) -> None:
        """The next `times` calls of a method (`*`: any; None: until `mend`) are refused and change nothing.

        `retry_after`: a 429, without the header Via where `via` is False, as from Cloudflare.
        """
        error: ApiError | TooFast = ApiError(status, code, message=message, errors=errors)
        if retry_after is not None:
            error = TooFast(retry_after, everywhere=everywhere, code=code, via=via)
        self.refuse(method, error, times=times, chat=chat)

    async def disconnect(self, bot: Bot | int | None = None, *, code: int = 4000) -> None:
        """The gateway closes a bot's connection; its session can be resumed."""
        await self.gateway.end(self._bot(bot).id, code=code)

    async def ask_to_reconnect(self, bot: Bot | int | None = None) -> None:
        await self.gateway.end(self._bot(bot).id, op=RECONNECT)

    async def shut_gateway(self) -> None:
        """The gateway breaks every connection and takes none, until `open_gateway`."""
        self.gateway.shut = True
        for bot in self.bots.values():
            await self.gateway.end(bot.id, code=4000)

    def open_gateway(self) -> None:
        self.gateway.shut = False

    def online(self, bot: Bot | int | None = None) -> bool:
        return self.gateway.online(self._bot(bot).id)

    # How events come to be; the REST API posts through `tell_of` too.

    def tell_of(self, message: Message) -> None:
        """MESSAGE_CREATE for the bots that see the channel; the content only where Discord lets a bot read it."""
        within = self.channels[message.channel]
        for bot in self.bots_of(within):
            readable = (
                within.type == PRIVATE
                or message.author == bot.id
                or str(bot.id) in message.pinged
                or self.gateway.intents_of(bot.id) & MESSAGE_CONTENT
            )
            event = wire.created(self, message, content=bool(readable))
            intent = DIRECT_MESSAGES if within.type == PRIVATE else GUILD_MESSAGES
            self.gateway.dispatch(bot.id, "MESSAGE_CREATE", event, intent)

    def _interact(
        self, type: int, bot: int, within: Channel, person: Person | int, data: Json, *, message: int | None = None
    ) -> Interaction:
        interaction = Interaction(
            id=self.new_id(), token=secrets.token_urlsafe(48), type=type, bot=bot, channel=within.id,
            person=_id(person), at=self.now(), data=data, message=message,
        )  # fmt: skip
        self.keep_interaction(interaction)
        if self.bots[bot].interactions_endpoint_url is None:
            self.gateway.dispatch(bot, "INTERACTION_CREATE", wire.interaction(self, interaction))
        self.announce(within)
        return interaction

    def _entered(self, person: Person | int, channel: int) -> Channel:
        who, within = _id(person), self.channel(channel)
        if who not in self.people:
            raise ValueError(f"person: nobody has the id {who}")
        guild = self.guild_of(within)
        if who not in (guild.members if guild is not None else {within.recipient}) or within.deleted:
            raise ValueError("channel: this person is not in it")
        return within

    def _bot(self, bot: Bot | int | None) -> Bot:
        if bot is not None:
            return self.bots[_id(bot)]
        if len(self.bots) != 1:
            raise ValueError(f"bot: there are {len(self.bots)} bots; say which")
        return next(iter(self.bots.values()))

    def _changed(self, channel: int) -> None:
        self.keep(self.channels[channel])
        self.announce(self.channels[channel])


def inputs_of(modal: Json) -> list[Json]:
    """The text inputs of a modal."""
    holders = modal["components"]
    return [holder["component"] if "component" in holder else holder["components"][0] for holder in holders]


def _filled(holder: Json, values: Mapping[str, str]) -> Json:
    (field,) = inputs_of({"components": [holder]})
    filled = {"type": 4, "id": 2, "custom_id": field["custom_id"], "value": values.get(field["custom_id"], "")}
    return {"type": holder["type"], "id": 1} | (
        {"component": filled} if "component" in holder else {"components": [filled]}
    )


def _button(message: Message, label: str | None, place: tuple[int, int] | None) -> str:
    for y, row in enumerate(message.components):
        for x, button in enumerate(row["components"]):
            if (y, x) == place or (place is None and button.get("label") == label):
                return str(button["custom_id"])
    raise ValueError("button: that message has no such button")


def _id(who: Person | Bot | Guild | int) -> int:
    return who if isinstance(who, int) else who.id

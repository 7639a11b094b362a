"""The state of the Discord sandbox: what exists, who listens at the gateway, and the time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from adapters.sandbox.change import Change
from adapters.sandbox.discord.gateway import Gateway
from adapters.sandbox.discord.records import PRIVATE, Attachment, Bot, Channel, Guild, Interaction, Message, Person
from adapters.sandbox.shelf import Shelf

EPOCH_MS = 1_420_070_400_000
INTERACTIONS_KEPT = 2000
NONCES_KEPT = 5000


class Holdings:
    """Everything by its id. `keep` puts a record on the shelf, `announce` commits and wakes whoever waits.

    Interactions live for 15 minutes at most, so they are in memory only.
    """

    def __init__(self, shelf: Shelf, change: Change) -> None:
        self.people: dict[int, Person] = {}
        self.bots: dict[int, Bot] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.interactions: dict[int, Interaction] = {}
        self.nonces: dict[tuple[int, str], tuple[int, int]] = {}
        self._shelf, self._change = shelf, change
        self._skipped = 0.0
        self._last_id = 0
        self.gateway = Gateway(self)
        self._load()

    def _load(self) -> None:
        for body in self._shelf.all("discord_person"):
            person = Person.model_validate_json(body)
            self.people[person.id] = person
        for body in self._shelf.all("discord_bot"):
            bot = Bot.model_validate_json(body)
            self.bots[bot.id] = bot
        for body in self._shelf.all("discord_guild"):
            guild = Guild.model_validate_json(body)
            self.guilds[guild.id] = guild
        for body in self._shelf.all("discord_channel"):
            channel = Channel.model_validate_json(body)
            self.channels[channel.id] = channel
        for body in self._shelf.all("discord_message"):
            message = Message.model_validate_json(body)
            self.channels[message.channel].history[message.id] = message

    def now(self) -> float:
        """Unix seconds, moved on by what `skip` skipped."""
        return time.time() + self._skipped

    def skip(self, seconds: float) -> None:
        """Let time pass at once: interactions run out, messages grow old, rate limits recover."""
        self._skipped += seconds
        self.announce()

    def new_id(self) -> int:
        """A snowflake of this moment, above every one before."""
        self._last_id = max(self._last_id + 1, (int(self.now() * 1000) - EPOCH_MS) << 22)
        return self._last_id

    def keep(self, *records: Person | Bot | Guild | Channel | Message) -> None:
        for record in records:
            name = f"discord_{type(record).__name__.lower()}"
            key = f"{record.channel}/{record.id}" if isinstance(record, Message) else str(record.id)
            self._shelf.put(name, key, record.model_dump_json())

    def keep_message(self, message: Message) -> Message:
        channel = self.channels[message.channel]
        channel.history[message.id] = message
        # What only one person sees is gone when the client is closed, so it is not kept.
        if message.only_for is None:
            self.keep(message)
        channel.touch()
        return message

    def keep_interaction(self, interaction: Interaction) -> None:
        self.interactions[interaction.id] = interaction
        for old in list(self.interactions)[:-INTERACTIONS_KEPT]:
            del self.interactions[old]

    def keep_nonce(self, bot: int, nonce: str, message: Message) -> None:
        self.nonces[bot, nonce] = message.channel, message.id
        for old in list(self.nonces)[:-NONCES_KEPT]:
            del self.nonces[old]

    def keep_file(self, name: str, content: bytes) -> Attachment:
        attachment = Attachment(id=self.new_id(), name=name, size=len(content))
        self._shelf.put_file(f"discord/{attachment.id}", content)
        self._shelf.put("discord_file", str(attachment.id), attachment.model_dump_json())
        return attachment

    def file(self, file_id: str) -> Attachment | None:
        body = self._shelf.one("discord_file", file_id)
        return None if body is None else Attachment.model_validate_json(body)

    def content(self, attachment: Attachment) -> bytes:
        """The bytes of a file."""
        return self._shelf.file(f"discord/{attachment.id}") or b""

    def announce(self, *channels: Channel) -> None:
        """Commit what was kept, and wake the page and whoever awaits `until`."""
        self._shelf.commit()
        for channel in channels:
            channel.touch()
        self._change.announce()

    async def changed(self) -> None:
        """Return after the next change."""
        await self._change.next.wait()

    def guild_of(self, channel: Channel) -> Guild | None:
        return self.guilds[channel.guild] if channel.guild is not None else None

    def root_of(self, channel: Channel) -> Channel:
        """The channel itself, or the one that a thread is in: its permissions are the thread's."""
        return self.channels[channel.parent] if channel.parent is not None else channel

    def bots_of(self, channel: Channel) -> Iterator[Bot]:
        """The bots that see a channel."""
        guild, root = self.guild_of(channel), self.root_of(channel)
        for bot in self.bots.values():
            inside = bot.id == channel.bot if guild is None else bot.id in guild.members
            if inside and bot.id not in root.hidden:
                yield bot

    def private(self, person: int, bot: int) -> Channel:
        """The private chat of a person with a bot, opened when it is new."""
        for channel in self.channels.values():
            if (channel.type, channel.recipient, channel.bot) == (PRIVATE, person, bot):
                return channel
        channel = Channel(id=self.new_id(), type=PRIVATE, recipient=person, bot=bot)
        self.channels[channel.id] = channel
        self.keep(channel)
        return channel

"""The state of the Discord sandbox: what exists, who listens at the gateway, and the time."""

from __future__ import annotations

from collections.abc import Iterator

from adapters.sandbox.change import Change
from adapters.sandbox.discord.gateway import Gateway
from adapters.sandbox.discord.records import PRIVATE, Attachment, Bot, Channel, Guild, Interaction, Message, Person
from adapters.sandbox.shelf import Shelf
from adapters.sandbox.state import State

EPOCH_MS = 1_420_070_400_000
INTERACTIONS_KEPT = 2000
NONCES_KEPT = 5000


class Holdings(State):
    """Everything by its id. `keep` puts a record on the shelf, `announce` commits and wakes whoever waits.

    Interactions live for 15 minutes at most, so they are in memory only.
    """

    def __init__(self, shelf: Shelf, change: Change) -> None:
        super().__init__(shelf, change)
        self.people: dict[int, Person] = {}
        self.bots: dict[int, Bot] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.interactions: dict[int, Interaction] = {}
        self.nonces: dict[tuple[int, str], tuple[int, int]] = {}
        self._last_id = 0
        self.gateway = Gateway(self)
        self._load()

    def _load(self) -> None:
        self.people = {person.id: person for person in self.kept("discord_person", Person)}
        self.bots = {bot.id: bot for bot in self.kept("discord_bot", Bot)}
        self.guilds = {guild.id: guild for guild in self.kept("discord_guild", Guild)}
        self.channels = {channel.id: channel for channel in self.kept("discord_channel", Channel)}
        for message in self.kept("discord_message", Message):
            self.channels[message.channel].history[message.id] = message

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

"""Discord's REST API over the sandbox's world: each method takes the bot and its call, and answers as Discord does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.sandbox.discord import checks, wire
from adapters.sandbox.discord.faults import ApiError, form_error
from adapters.sandbox.discord.records import (
    COMPONENT,
    EPHEMERAL,
    FORUM,
    LOADING,
    MODAL,
    PRIVATE,
    Bot,
    Channel,
    Interaction,
    Message,
)
from adapters.sandbox.discord.world import DEFERRED_UPDATE, RESPOND_S, UPDATE, World

Json = dict[str, Any]
TOKEN_S = 15 * 60
HOUR_S = 3600
NONCE_S = 300
PONG, MESSAGE, DEFERRED, FORM = 1, 4, 5, 9


@dataclass(frozen=True, slots=True)
class Asked:
    """A call: the ids of its path, its JSON, and the files that came with it (name, bytes)."""

    path: Mapping[str, str]
    body: Any
    files: tuple[tuple[str, bytes], ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Json:
        if not isinstance(self.body, dict):
            raise ApiError(400, 50035)
        return self.body


Method = Callable[[Bot, Asked], Awaitable[object]]


class RestApi:
    """`methods` by the name that calls and faults know them by. A method answers JSON, or None for 204."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.methods: dict[str, Method] = {
            "me": self._me,
            "application": self._application,
            "open_private": self._open_private,
            "create_message": self._create_message,
            "get_message": self._get_message,
            "edit_message": self._edit_message,
            "edit_channel": self._edit_channel,
            "put_commands": self._put_commands,
            "respond": self._respond,
            "edit_response": self._edit_response,
            "get_response": self._get_response,
            "followup": self._followup,
        }

    # Who the bot is

    async def _me(self, bot: Bot, asked: Asked) -> Json:
        return wire.user(self._world, bot.id) | {"bot": True, "verified": True, "mfa_enabled": False, "flags": 0}

    async def _application(self, bot: Bot, asked: Asked) -> Json:
        owner = {"id": "1", "username": "owner", "discriminator": "0", "avatar": None, "flags": 0}
        return {
            "id": str(bot.id), "name": bot.name, "icon": None, "description": "", "bot_public": True,
            "bot_require_code_grant": False, "verify_key": "0" * 64, "owner": owner, "team": None, "summary": "",
            "flags": (1 << 18) if bot.privileged else 0, "hook": True, "is_monetized": False,
            "interactions_endpoint_url": bot.interactions_endpoint_url, "redirect_uris": [],
            "approximate_guild_count": sum(bot.id in guild.members for guild in self._world.guilds.values()),
        }  # fmt: skip

    async def _put_commands(self, bot: Bot, asked: Asked) -> list[Json]:
        if asked.path["application"] != str(bot.id):
            raise ApiError(403, 50001)
        if not isinstance(asked.body, list) or not all(isinstance(each, dict) for each in asked.body):
            raise ApiError(400, 50035)
        for at, command in enumerate(asked.body):
            checks.command(command, f"{at}.")
        bot.commands = [
            {"id": str(self._world.new_id()), "application_id": str(bot.id), "type": 1, "version": "1"} | command
            for command in asked.body
        ]
        self._world.keep(bot)
        self._world.announce()
        return bot.commands

    # Channels

    async def _open_private(self, bot: Bot, asked: Asked) -> Json:
        recipient = str(asked.json.get("recipient_id", ""))
        if not recipient.isdecimal() or int(recipient) not in self._world.people:
            raise ApiError(400, 50033, message="Invalid Recipient(s)")
        channel = self._world.private(int(recipient), bot.id)
        self._world.announce(channel)
        return {"id": str(channel.id), "type": PRIVATE, "recipients": [wire.user(self._world, int(recipient))]}

    async def _edit_channel(self, bot: Bot, asked: Asked) -> Json:
        channel = self._channel(bot, asked)
        if channel.parent is None or (channel.locked and asked.json.get("archived") is False):
            raise ApiError(403, 50013)
        channel.archived = bool(asked.json.get("archived", channel.archived))
        self._world.keep(channel)
        self._world.announce(channel)
        return wire.channel(channel)

    def _channel(self, bot: Bot, asked: Asked) -> Channel:
        """The channel of a call. Raises 10003, or 50001 where the bot may not see it."""
        name = asked.path["channel"]
        channel = self._world.channels.get(int(name)) if name.isdecimal() else None
        if not name.isdecimal():
            raise form_error("channel_id", "NUMBER_TYPE_COERCE", f'Value "{name[:20]}" is not snowflake.')
        if channel is None or channel.deleted or (channel.type == PRIVATE and channel.bot != bot.id):
            raise ApiError(404, 10003)
        if bot not in list(self._world.bots_of(channel)):
            raise ApiError(403, 50001)
        return channel

    def _writable(self, bot: Bot, asked: Asked) -> Channel:
        channel = self._channel(bot, asked)
        if channel.type == FORUM:
            raise ApiError(400, 50008)
        if channel.type == PRIVATE:
            person = self._world.people[channel.recipient or 0]
            if not any({person.id, bot.id} <= guild.members.keys() for guild in self._world.guilds.values()):
                raise ApiError(403, 50278)
            if not person.accepts:
                raise ApiError(403, 50007)
        if bot.id in self._world.root_of(channel).muted or channel.locked:
            raise ApiError(403, 50013)
        return channel

    # Messages

    async def _create_message(self, bot: Bot, asked: Asked) -> Json:
        channel, body = self._writable(bot, asked), asked.json
        checks.message(body, files=len(asked.files))
        if int(body.get("flags") or 0) & EPHEMERAL:
            raise form_error("flags", "MESSAGE_FLAGS_INVALID", "Only an interaction's answer is ephemeral")
        reference = self._reference(channel, body)
        nonce = str(body.get("nonce") or "")
        if nonce and body.get("enforce_nonce") and (earlier := self._earlier(bot, nonce)) is not None:
            return wire.message(self._world, earlier)
        if channel.archived:
            channel.archived = False
            self._world.keep(channel)
        message = Message(id=self._world.new_id(), channel=channel.id, author=bot.id, at=self._world.now(),
                          reference=reference)  # fmt: skip
        self._fill(message, body, asked.files)
        self._world.keep_message(message)
        if nonce:
            self._world.keep_nonce(bot.id, nonce, message)
        self._world.tell_of(message)
        self._world.announce(channel)
        return wire.message(self._world, message) | ({"nonce": nonce} if nonce else {})

    def _earlier(self, bot: Bot, nonce: str) -> Message | None:
        """The message that the nonce made within the last minutes. Raises 10008 when it was deleted."""
        channel, message_id = self._world.nonces.get((bot.id, nonce), (0, 0))
        if not channel:
            return None
        earlier = self._world.channels[channel].message(message_id)
        if self._world.now() - earlier.at > NONCE_S:
            return None
        if earlier.deleted:
            raise ApiError(404, 10008)
        return earlier

    def _reference(self, channel: Channel, body: Json) -> int | None:
        reference = body.get("message_reference")
        if reference is None:
            return None
        if not isinstance(reference, dict) or not str(reference.get("message_id", "")).isdecimal():
            raise form_error("message_reference", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
        target = channel.history.get(int(reference["message_id"]))
        if target is not None and not target.deleted and target.only_for is None:
            return target.id
        if reference.get("fail_if_not_exists", True):
            raise form_error("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return None

    async def _get_message(self, bot: Bot, asked: Asked) -> Json:
        return wire.message(self._world, self._standing(self._channel(bot, asked), asked))

    async def _edit_message(self, bot: Bot, asked: Asked) -> Json:
        channel = self._channel(bot, asked)
        message = self._standing(channel, asked)
        if message.author != bot.id:
            raise ApiError(403, 50005)
        if channel.archived:
            raise ApiError(400, 50083)
        checks.message(asked.json, files=len(asked.files), standing=True)
        if self._world.now() - message.at > HOUR_S:
            self._world.pace.admit_late_edit(bot.id, channel.id)
        self._edit(message, asked)
        return wire.message(self._world, message)

    def _standing(self, channel: Channel, asked: Asked) -> Message:
        name = asked.path["message"]
        message = channel.history.get(int(name)) if name.isdecimal() else None
        if message is None or message.deleted or message.only_for is not None:
            raise ApiError(404, 10008)
        return message

    def _edit(self, message: Message, asked: Asked) -> None:
        self._fill(message, asked.json, asked.files)
        message.edited_at = self._world.now()
        self._world.keep_message(message)
        self._world.announce(self._world.channels[message.channel])

    def _fill(self, message: Message, body: Json, files: tuple[tuple[str, bytes], ...]) -> None:
        """Put into a message what the call names; what it does not name stays."""
        if "content" in body:
            message.content = body["content"] or ""
        if "embeds" in body:
            message.embeds = body["embeds"] or []
        if "components" in body:
            message.components = body["components"] or []
        for name, content in files:
            if len(content) > checks.FILE_BYTES:
                raise ApiError(413, 40005, message="Request entity too large")
            message.attachments.append(self._world.keep_file(name, content))
        message.pinged = self._pinged(message, body)

    def _pinged(self, message: Message, body: Json) -> list[str]:
        """Whom the content pings: everybody it mentions, unless allowed_mentions says otherwise."""
        allowed = body.get("allowed_mentions")
        allowed = {"parse": ["users", "roles", "everyone"], "replied_user": True} if allowed is None else allowed
        parse, pinged, text = allowed.get("parse") or [], [], message.content
        if "everyone" in parse and ("@everyone" in text or "@here" in text):
            pinged.append("everyone")
        for user in (*self._world.people, *self._world.bots):
            mentioned = f"<@{user}>" in text or f"<@!{user}>" in text
            if mentioned and ("users" in parse or str(user) in (allowed.get("users") or [])):
                pinged.append(str(user))
        roles = [role for guild in self._world.guilds.values() for role in guild.roles]
        for role in roles:
            if f"<@&{role}>" in text and ("roles" in parse or str(role) in (allowed.get("roles") or [])):
                pinged.append(f"role:{role}")
        if message.reference is not None and allowed.get("replied_user"):
            target = self._world.channels[message.channel].history[message.reference]
            pinged.append(str(target.author))
        return pinged

    # Interactions

    async def _respond(self, bot: Bot, asked: Asked) -> object:
        interaction = self._world.interactions.get(int(asked.path["interaction"]))
        if interaction is None or interaction.token != asked.path["token"]:
            raise ApiError(404, 10062)
        if interaction.answered is not None:
            raise ApiError(400, 40060)
        if self._world.now() - interaction.at > RESPOND_S:
            raise ApiError(404, 10062)
        kind, data = asked.json.get("type"), asked.json.get("data") or {}
        if kind not in self._kinds(interaction):
            raise form_error("type", "BASE_TYPE_CHOICES", "This interaction cannot be answered so.")
        if kind == FORM:
            checks.modal(data)
            interaction.modal = data
        elif kind in (MESSAGE, DEFERRED):
            if kind == MESSAGE:
                checks.message(data, files=len(asked.files))
            self._answer(interaction, data, asked.files, thinking=kind == DEFERRED)
        elif kind == UPDATE:
            checks.message(data, files=len(asked.files), standing=True)
            message = self._world.channels[interaction.channel].message(interaction.message or 0)
            self._edit(message, Asked(asked.path, data, asked.files))
        interaction.answered, interaction.answered_at = kind, self._world.now()
        self._world.announce(self._world.channels[interaction.channel])
        return None

    @staticmethod
    def _kinds(interaction: Interaction) -> tuple[int, ...]:
        if interaction.type == COMPONENT:
            return (MESSAGE, DEFERRED, DEFERRED_UPDATE, UPDATE, FORM)
        if interaction.type == MODAL and interaction.message is not None:
            return (MESSAGE, DEFERRED, DEFERRED_UPDATE, UPDATE)
        return (MESSAGE, DEFERRED) if interaction.type == MODAL else (MESSAGE, DEFERRED, FORM)

    def _answer(
        self, interaction: Interaction, data: Json, files: tuple[tuple[str, bytes], ...], *, thinking: bool
    ) -> Message:
        hidden = int(data.get("flags") or 0) & EPHEMERAL
        message = Message(
            id=self._world.new_id(), channel=interaction.channel, author=interaction.bot, at=self._world.now(),
            flags=hidden | (LOADING if thinking else 0), only_for=interaction.person if hidden else None,
            interaction=interaction.id,
        )  # fmt: skip
        if not thinking:
            self._fill(message, data, files)
        self._world.keep_message(message)
        interaction.reply = interaction.reply or message.id
        return message

    def _of_token(self, bot: Bot, asked: Asked) -> Interaction:
        """The interaction of a follow-up. Raises 10015 for no such token, 50027 after 15 minutes."""
        token = asked.path["token"]
        found = next((each for each in self._world.interactions.values() if each.token == token), None)
        if found is None or asked.path["application"] != str(found.bot):
            raise ApiError(404, 10015)
        if self._world.now() - found.at > TOKEN_S:
            raise ApiError(401, 50027)
        if found.answered is None:
            raise ApiError(404, 10015)
        return found

    def _original(self, bot: Bot, asked: Asked) -> Message:
        interaction = self._of_token(bot, asked)
        message_id = interaction.reply if interaction.reply is not None else interaction.message
        message = self._world.channels[interaction.channel].history.get(message_id or 0)
        if message is None or message.deleted or interaction.answered == FORM:
            raise ApiError(404, 10008)
        return message

    async def _get_response(self, bot: Bot, asked: Asked) -> Json:
        return wire.message(self._world, self._original(bot, asked))

    async def _edit_response(self, bot: Bot, asked: Asked) -> Json:
        message = self._original(bot, asked)
        checks.message(asked.json, files=len(asked.files), standing=True)
        message.flags &= ~LOADING
        self._edit(message, asked)
        return wire.message(self._world, message)

    async def _followup(self, bot: Bot, asked: Asked) -> Json:
        interaction = self._of_token(bot, asked)
        checks.message(asked.json, files=len(asked.files))
        standing = self._world.channels[interaction.channel].history.get(interaction.reply or 0)
        if standing is not None and standing.flags & LOADING:
            # The first follow-up takes the place of the "thinking" and is as hidden as that is.
            standing.flags &= ~LOADING
            self._edit(standing, asked)
            return wire.message(self._world, standing)
        message = self._answer(interaction, asked.json, asked.files, thinking=False)
        self._world.announce(self._world.channels[interaction.channel])
        return wire.message(self._world, message)

"""The sandbox's records as the JSON objects of Discord's API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adapters.sandbox.discord.records import (
    APPLICATION_COMMAND_MESSAGE,
    COMMAND,
    PRIVATE,
    REPLY,
    Channel,
    Guild,
    Interaction,
    Message,
)

if TYPE_CHECKING:
    from adapters.sandbox.discord.holdings import Holdings

Json = dict[str, Any]


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def user(held: Holdings, user_id: int) -> Json:
    shown: Json = {"id": str(user_id), "discriminator": "0", "avatar": None, "public_flags": 0}
    if bot := held.bots.get(user_id):
        return shown | {"username": bot.username, "global_name": None, "bot": True}
    person = held.people.get(user_id)
    if person is None:
        return shown | {"username": "deleted_user", "global_name": "Deleted User"}
    return shown | {"username": person.username, "global_name": person.name}


def member(guild: Guild, user_id: int) -> Json:
    roles = [str(role) for role in guild.members.get(user_id, [])]
    return {"roles": roles, "nick": None, "avatar": None, "joined_at": stamp(0), "deaf": False, "mute": False,
            "flags": 0, "premium_since": None, "pending": False, "communication_disabled_until": None}  # fmt: skip


def channel(of: Channel) -> Json:
    shown: Json = {"id": str(of.id), "type": of.type, "name": of.name, "flags": 0}
    if of.type == PRIVATE:
        return {"id": str(of.id), "type": of.type, "flags": 0}
    shown |= {"guild_id": str(of.guild), "parent_id": str(of.parent) if of.parent is not None else None}
    if of.parent is not None:
        shown["thread_metadata"] = {"archived": of.archived, "locked": of.locked, "auto_archive_duration": 10080}
    return shown


def message(held: Holdings, of: Message, *, replies: bool = True, content: bool = True) -> Json:
    """A message; `replies`: with what it replies to. `content` False: as a bot sees it that may not read it."""
    within = held.channels[of.channel]
    shown: Json = {
        "id": str(of.id), "type": 0, "channel_id": str(of.channel), "author": user(held, of.author),
        "content": of.content if content else "", "timestamp": stamp(of.at),
        "edited_timestamp": stamp(of.edited_at) if of.edited_at is not None else None, "tts": False,
        "mention_everyone": "everyone" in of.pinged,
        "mentions": [user(held, int(each)) for each in of.pinged if each.isdecimal()],
        "mention_roles": [each.removeprefix("role:") for each in of.pinged if each.startswith("role:")],
        "attachments": [
            {"id": str(each.id), "filename": each.name, "size": each.size, "url": f"file/{each.id}",
             "proxy_url": f"file/{each.id}"} for each in of.attachments
        ] if content else [],
        "embeds": [{"type": "rich"} | each for each in of.embeds] if content else [],
        "components": of.components if content else [], "pinned": False, "flags": of.flags,
    }  # fmt: skip
    if of.author in held.bots:
        shown["application_id"] = str(of.author)
    if of.interaction is not None and (asked := held.interactions.get(of.interaction)) is not None:
        shown["type"] = APPLICATION_COMMAND_MESSAGE if asked.type == COMMAND else 0
        shown["interaction_metadata"] = {"id": str(asked.id), "type": asked.type, "user": user(held, asked.person)}
        if asked.message is not None:
            shown["interaction_metadata"]["interacted_message_id"] = str(asked.message)
    if of.reference is not None:
        shown["message_reference"] = {"type": 1 if of.forwarded else 0, "message_id": str(of.reference),
                                      "channel_id": str(of.channel)}  # fmt: skip
        if within.guild is not None:
            shown["message_reference"]["guild_id"] = str(within.guild)
        if not of.forwarded:
            shown["type"] = REPLY
            target = within.history.get(of.reference)
            if replies:
                standing = target is not None and not target.deleted
                shown["referenced_message"] = message(held, target, replies=False) if target and standing else None
    return shown


def created(held: Holdings, of: Message, *, content: bool) -> Json:
    """A message as the event MESSAGE_CREATE has it."""
    within = held.channels[of.channel]
    shown = message(held, of, content=content)
    if (guild := held.guild_of(within)) is not None:
        shown |= {"guild_id": str(guild.id), "member": member(guild, of.author)}
    return shown


def interaction(held: Holdings, of: Interaction) -> Json:
    """An interaction as the event INTERACTION_CREATE has it."""
    within = held.channels[of.channel]
    guild = held.guild_of(within)
    shown: Json = {
        "id": str(of.id), "application_id": str(of.bot), "type": of.type, "token": of.token, "version": 1,
        "channel_id": str(of.channel), "channel": channel(within), "locale": "en-GB", "data": of.data,
        "entitlements": [], "attachment_size_limit": 10_485_760, "authorizing_integration_owners": {},
        "context": 0 if guild is not None else 1, "app_permissions": "2248473465835073",
    }  # fmt: skip
    who = user(held, of.person)
    if guild is not None:
        shown["member"] = member(guild, of.person) | {"user": who, "permissions": "2248473465835073"}
        shown |= {"guild_id": str(guild.id), "guild_locale": "en-GB",
                  "guild": {"id": str(guild.id), "features": [], "locale": "en-GB"}}  # fmt: skip
    else:
        shown["user"] = who
    if of.message is not None and (target := within.history.get(of.message)) is not None:
        shown["message"] = message(held, target, replies=False)
    return shown

"""What the Discord sandbox holds: people, bots, guilds, channels, messages and interactions."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from adapters.sandbox.history import History

TEXT, PRIVATE, THREAD, FORUM = 0, 1, 11, 15
EPHEMERAL, LOADING = 64, 128
REPLY, APPLICATION_COMMAND_MESSAGE = 19, 20
COMMAND, COMPONENT, MODAL = 2, 3, 5

Json = dict[str, Any]


class Person(BaseModel):
    """Somebody with a Discord account; `accepts` says whether bots may write to this person in private."""

    id: int
    name: str
    username: str
    accepts: bool = True


class Bot(BaseModel):
    """An application and its bot user, which share one id. `privileged`: the message content intent is granted."""

    id: int
    token: str
    username: str
    name: str
    privileged: bool = False
    interactions_endpoint_url: str | None = None
    commands: list[Json] = Field(default_factory=list)


class Guild(BaseModel):
    """A server; `members` maps people and bots to the ids of their roles."""

    id: int
    name: str
    members: dict[int, list[int]] = Field(default_factory=dict)
    roles: dict[int, str] = Field(default_factory=dict)


class Attachment(BaseModel):
    """A file of a message; its bytes are `world.content(attachment)`. `size` is in bytes."""

    id: int
    name: str
    size: int


class Message(BaseModel):
    """A message as it stands now; times are Unix seconds.

    `only_for` is the one person who sees an ephemeral message. `pinged` are the ids (or "everyone") that its mentions
    are live for. `interaction` is set on what answers an interaction.
    """

    id: int
    channel: int
    author: int
    at: float
    content: str = ""
    embeds: list[Json] = Field(default_factory=list)
    components: list[Json] = Field(default_factory=list)
    attachments: list[Attachment] = Field(default_factory=list)
    reference: int | None = None
    forwarded: bool = False
    flags: int = 0
    only_for: int | None = None
    interaction: int | None = None
    pinged: list[str] = Field(default_factory=list)
    edited_at: float | None = None
    deleted: bool = False

    @property
    def buttons(self) -> list[Json]:
        """Its buttons, row by row in one list."""
        return [button for row in self.components for button in row["components"]]

    @property
    def labels(self) -> list[str]:
        return [button.get("label", "") for button in self.buttons]

    @property
    def text(self) -> str:
        """Everything written in it, as it was sent."""
        texts = [self.content]
        for embed in self.embeds:
            fields = [text for each in embed.get("fields", []) for text in (each["name"], each["value"])]
            texts += [embed.get("title", ""), embed.get("description", ""), *fields]
            texts.append(embed.get("footer", {}).get("text", ""))
        return "\n".join(text for text in texts if text)


class Channel(History[int, Message]):
    """A text channel, a private chat (`recipient` with `bot`), a forum, or a thread (its `parent` says of what).

    `hidden` and `muted` are bots that may not see the channel, or not write in it.
    """

    type: int
    name: str = ""
    guild: int | None = None
    parent: int | None = None
    recipient: int | None = None
    bot: int | None = None
    hidden: set[int] = Field(default_factory=set)
    muted: set[int] = Field(default_factory=set)
    archived: bool = False
    locked: bool = False
    deleted: bool = False


class Interaction(BaseModel):
    """One press, modal submit or command. `answered` is the type of the first response, `modal` what it opened.

    `reply` is the id of the message that answers it; while that is LOADING the bot is "thinking".
    """

    id: int
    token: str
    type: int
    bot: int
    channel: int
    person: int
    at: float
    data: Json
    message: int | None = None
    answered: int | None = None
    answered_at: float | None = None
    modal: Json | None = None
    reply: int | None = None

"""What the Slack sandbox holds: teams, people, channels, messages, modals, and what the app is told."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from adapters.sandbox.history import History
from adapters.sandbox.slack import blocks

Json = dict[str, Any]


class Team(BaseModel):
    """A workspace in which the app is installed; `bot` is the app's user there."""

    id: str
    name: str
    token: str
    bot: str
    bot_name: str = "Placet"
    revoked: bool = False


class App(BaseModel):
    """The one app: its app-level token and signing secret."""

    id: str = "A01"
    token: str = ""
    signing_secret: str = ""


class Person(BaseModel):
    """Somebody with an account; `team` may be a workspace that has not installed the app (an external member)."""

    id: str
    name: str
    team: str
    restricted: bool = False
    deactivated: bool = False


class Usergroup(BaseModel):
    """A user group of a workspace."""

    id: str
    team: str
    members: set[str] = Field(default_factory=set)


class File(BaseModel):
    """An uploaded file; its bytes are `world.content(file)`. `size` is in bytes."""

    id: str
    name: str
    size: int
    done: bool = False


class Message(BaseModel):
    """A message as it stands now. `sender` is a person's id or the bot user's; `only` whom an ephemeral one is for."""

    ts: str
    sender: str
    text: str = ""
    blocks: list[Json] = Field(default_factory=list)
    metadata: Json | None = None
    thread_ts: str | None = None
    files: list[File] = Field(default_factory=list)
    edited: bool = False
    deleted: bool = False
    only: str | None = None

    @property
    def shown(self) -> str:
        """What a person reads, without markup."""
        return blocks.flat(self.blocks) if self.blocks else blocks.unescaped(self.text)

    @property
    def live(self) -> list[str]:
        """Every stretch that is a mention, a link, an emoji or formatting rather than the text itself."""
        return [*blocks.live_in(self.blocks), *blocks.live_mrkdwn(self.text, shown=not self.blocks)]

    @property
    def buttons(self) -> list[Json]:
        """Its button elements, in order."""
        return [each for block in self.blocks if block["type"] == "actions" for each in block["elements"]]

    @property
    def labels(self) -> list[str]:
        return [button["text"]["text"] for button in self.buttons]

    def block_of(self, button: Json) -> str:
        """The id of the block that a button stands in; of the last one for a button that is nowhere."""
        rows = [block for block in self.blocks if block["type"] == "actions"]
        holders = [
            block for block in rows if any(each.get("value") == button.get("value") for each in block["elements"])
        ]
        return str((holders or rows or [{}])[-1].get("block_id", "b0"))


class Channel(History[str, Message]):
    """A channel, or a private chat of one person with the app (`im`)."""

    name: str
    team: str
    members: set[str] = Field(default_factory=set)
    private: bool = False
    im: str | None = None
    shared: bool = False
    archived: bool = False
    moved_to: str | None = None

    def words(self, message: Message) -> str:
        return message.shown

    def thread(self, ts: str) -> list[Message]:
        """The replies under a message."""
        return [message for message in self.messages if message.thread_ts == ts and message.ts != ts]


def direct_channel(person: Person, team: Team) -> Channel:
    """The private chat of a person with the app, while nothing has been said in it."""
    return Channel(
        id=f"D{team.id[1:]}{person.id[1:]}",
        name=team.bot_name,
        team=team.id,
        members={person.id, team.bot},
        im=person.id,
    )


class View(BaseModel):
    """A modal that is open, or was: `state` is open, submitted or closed."""

    id: str
    person: str
    team: str
    view: Json
    state: Literal["open", "submitted", "closed"] = "open"

    @property
    def fields(self) -> list[Json]:
        """Its input blocks, in order."""
        return [block for block in self.view["blocks"] if block["type"] == "input"]


class Envelope(BaseModel):
    """Something the app is told: how often it was sent, and when and with what it was acknowledged."""

    id: str
    kind: Literal["interactive", "events_api", "slash_commands"]
    payload: Json
    at: float
    due: float
    attempts: int = 0
    acked_at: float | None = None
    answer: Json | None = None
    settled: bool = False


class Press(BaseModel):
    """What a person did that the app answers alone: a button, a command or a submitted modal.

    `words` are the ephemeral texts it was answered with through its response_url; `view` a modal it opened.
    """

    id: str
    person: str
    channel: str
    ts: str
    envelope: str
    trigger_id: str
    response_url: str
    words: list[str] = Field(default_factory=list)
    view: str | None = None

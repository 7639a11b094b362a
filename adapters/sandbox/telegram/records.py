"""What the Telegram sandbox holds: people, bots, chats, messages, updates and presses."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from adapters.sandbox.history import History

ANONYMOUS_ADMIN = 1087968824
LINKED_CHANNEL = 777000
CHANNEL_BOT = 136817688
SERVICE_ACCOUNTS = {
    ANONYMOUS_ADMIN: ("Group", "GroupAnonymousBot", True),
    LINKED_CHANNEL: ("Telegram", None, False),
    CHANNEL_BOT: ("Channel", "Channel_Bot", True),
}

Disguise = Literal["person", "group", "channel", "linked_channel"]


class Person(BaseModel):
    """Somebody with a Telegram account."""

    id: int
    name: str
    username: str | None = None


class Webhook(BaseModel):
    """Where a bot's updates are pushed, and what went wrong last."""

    url: str
    secret: str = ""
    max_connections: int = 40
    last_error_at: int | None = None
    last_error: str | None = None


class Bot(BaseModel):
    """A bot account. `allowed` is the sticky list of update kinds; None means Telegram's default."""

    id: int
    token: str
    username: str
    name: str
    privacy: bool = True
    allowed: list[str] | None = None
    webhook: Webhook | None = None
    commands: list[dict[str, str]] = Field(default_factory=list)
    commands_in: dict[str, list[dict[str, str]]] = Field(default_factory=dict)
    next_update: int = 1
    last_update_at: float = 0
    next_message: int = 1


class Entity(BaseModel):
    """A formatted stretch of a text; offset and length in UTF-16 units. `user` is a person's id (text_mention)."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None
    user: int | None = None


class Button(BaseModel):
    """An inline button: it carries `data` or opens `url`."""

    text: str
    data: str | None = None
    url: str | None = None
    style: str | None = None


class ForceReply(BaseModel):
    """The reply interface that a message opens; selective: only for those it mentions or replies to."""

    placeholder: str = ""
    selective: bool = False


class Document(BaseModel):
    """A file of a message; its bytes are `world.content(document)`. `size` is in bytes."""

    file_id: str
    unique_id: str
    name: str
    mime: str
    size: int


class Message(BaseModel):
    """A message as it stands now. `text` is the caption where there is a document; times are Unix seconds.

    `sender` is a person's or a bot's id (or a service account's), `sender_chat` the chat it was written as.
    `service` holds the fields of a service message, such as {"migrate_to_chat_id": -100...}.
    """

    id: int
    at: int
    sender: int
    sender_chat: int | None = None
    text: str = ""
    entities: list[Entity] = Field(default_factory=list)
    buttons: list[list[Button]] = Field(default_factory=list)
    force_reply: ForceReply | None = None
    document: Document | None = None
    reply_to: int | None = None
    thread: int | None = None
    edited_at: int | None = None
    service: dict[str, Any] | None = None
    deleted: bool = False

    @property
    def edited(self) -> bool:
        return self.edited_at is not None

    @property
    def labels(self) -> list[str]:
        """The labels of its buttons, row by row in one list."""
        return [button.text for row in self.buttons for button in row]


class Topic(BaseModel):
    """A topic of a forum; its id is the id of the message that created it."""

    id: int
    name: str
    deleted: bool = False


class Chat(History[int, Message]):
    """A chat. `key` is unique in the sandbox: the chat id, or `<person>:<bot>` for a private chat.

    `members` are people and bots, `admins` among them; `kicked` are bots that were removed, `anonymous` the admins
    who write as the group. A private chat exists once its person has started the bot.
    """

    key: str
    type: Literal["private", "group", "supergroup"]
    title: str
    bot: int | None = None
    members: set[int] = Field(default_factory=set)
    admins: set[int] = Field(default_factory=set)
    anonymous: set[int] = Field(default_factory=set)
    kicked: set[int] = Field(default_factory=set)
    forum: bool = False
    topics: dict[int, Topic] = Field(default_factory=dict)
    next_message: int = 1
    migrated_to: int | None = None
    migrated_from: int | None = None
    blocked: bool = False
    instance: str = ""


class Update(BaseModel):
    """Something a bot is told; `payload` is the Bot API object under `kind`, as it was when it happened."""

    bot: int
    id: int
    at: float
    kind: str
    payload: dict[str, Any]

    @property
    def wire(self) -> dict[str, Any]:
        return {"update_id": self.id, self.kind: self.payload}


class Answer(BaseModel):
    """What the bot told the presser: a toast, or an alert that wants closing. An empty text shows nothing."""

    text: str = ""
    alert: bool = False


class Press(BaseModel):
    """One press of a button, and the bot's answer once there is one. `id` is the callback query's id."""

    id: str
    bot: int
    chat: str
    message_id: int
    person: int
    data: str
    at: float
    update_id: int
    answer: Answer | None = None

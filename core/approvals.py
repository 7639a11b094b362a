"""The types an approval is made of: the row, who acted, what was pressed, and the card a person sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

# Who decided what ran unasked.
AUTO: Final = "auto"


class Status(StrEnum):
    """Where an approval stands; everything but PENDING is final."""

    PENDING = "pending"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    """What became of the call that an approval allowed."""

    NONE = "none"
    SENDING = "sending"
    SENT = "sent"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


class Runtime(StrEnum):
    """Who consumes the answer: a waiting Temporal child, Placet itself, or the asker over HTTP."""

    TURN = "turn"
    DRAFT = "draft"
    EXTERNAL = "external"


class Effect(StrEnum):
    """How far a call reaches, in rising order (design section 6)."""

    READ = "read"
    WRITE = "write"
    SEND = "send"
    MONEY = "money"

    @property
    def rank(self) -> int:
        return _RANK[self]


_RANK: Final = {effect: rank for rank, effect in enumerate(Effect)}


class Mode(StrEnum):
    """How much of what an agent does is asked for (design section 6)."""

    OUTSIDE = "outside"
    EVERYTHING = "everything"
    MONEY_ONLY = "money_only"


class Verdict(StrEnum):
    ALLOW = "allow"
    DECLINE = "decline"


class Permission(StrEnum):
    ASK = "approvals:ask"
    ANSWER = "approvals:answer"
    DELEGATE = "approvals:delegate"
    VIEW = "approvals:view"
    ADMIN = "admin"


class Kind(StrEnum):
    """What a message that Placet posted is for."""

    CARD = "card"
    PROMPT = "prompt"
    REMINDER = "reminder"
    FILE = "file"
    MENU = "menu"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who a platform says acted; a person only once the directory knows this (platform, tenant, id).

    `groups` are the platform's groups that this actor is in now, of those that the directory maps to roles
    (`slack:T01/S01`, `discord:<guild>/<role>`); what a platform does not say is not in it.
    """

    platform: str
    tenant: str
    id: str
    name: str = ""
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody of the directory; `permissions` are the union over the roles held now; `language` "" is the default.

    `lent` are those of the roles that only a platform's groups give, at this press.
    """

    id: str
    name: str
    permissions: frozenset[Permission] = frozenset()
    roles: frozenset[str] = frozenset()
    language: str = ""
    lent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Role:
    """A role that groups of a platform give to whoever is in them."""

    id: str
    permissions: frozenset[Permission]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a message goes; ids are opaque outside their platform. `account` "" means the platform's first bot."""

    platform: str
    account: str
    chat: str
    thread: str = ""
    reply_to: str = ""

    @property
    def key(self) -> str:
        """One string per place, as the messages table holds it (without reply_to)."""
        return "|".join((self.platform, self.account, self.chat, self.thread))


@dataclass(frozen=True, slots=True)
class Message:
    """A message that exists on a platform; opaque outside it."""

    platform: str
    account: str
    chat: str
    thread: str
    id: str


@dataclass(frozen=True, slots=True)
class Press:
    """One thing a person did on a platform: a button (verb, token, content_revision), a form, or a typed text.

    `key` is the platform's own event id, unique per platform event; it becomes the decision key.
    `message` is the message that carries the button, or the one that a text replies to; its id is "" for a text that
    replies to nothing, in somebody's private chat with the bot.
    Exactly one of `verb` (with token and content_revision) and `text` is set; a text from a form that a button opened
    has that button's token. `fields` are the values of a submitted form of `Reply.form`, by field id.
    """

    key: str
    actor: Actor
    message: Message
    verb: str = ""
    token: str = ""
    content_revision: int = 0
    text: str | None = None
    fields: Mapping[str, str] | None = None


class Tone(StrEnum):
    """How loudly a reply or a card's status line speaks."""

    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Button:
    """A button: its data is `verb.token.n`, n the content revision; the surface fills in the message's token.

    `token` and `number` are set where the button is about something other than its message's card: a rule, a page,
    one sending of a draft.
    """

    verb: str
    label: str
    style: str = ""
    confirm: str = ""
    token: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """One text of a form; `id` comes back with the value, `limit` is in characters."""

    id: str
    label: str
    value: str
    multiline: bool
    limit: int


@dataclass(frozen=True, slots=True)
class Form:
    """A form that the presser fills in; submitted, it is a press of `verb` with this token and content revision.

    `prompt` asks for the same with words, where the platform has no forms: the reply to it is read by the door.
    """

    title: str
    fields: tuple[Field, ...]
    verb: str
    token: str
    content_revision: int
    prompt: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the presser alone is told.

    `redraw`: the pressed message no longer shows the row's truth. `ask_note`: open the platform's form for a note.
    `form`: open this form. `menu`: buttons under the text, for the presser alone; a press of one is a press like any.
    `refused`: the press changed nothing because of who pressed, or what; such presses drain the chat's bucket.
    `ours`: nobody else's words are in the text, so that its commands may be live.
    """

    text: str
    tone: Tone = Tone.QUIET
    redraw: bool = False
    ask_note: bool = False
    refused: bool = False
    approval_id: str = ""
    result: str = ""
    form: Form | None = None
    menu: tuple[Button, ...] = ()
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer. `key` dedupes it; `via` is the surface it came through (telegram, cli, http)."""

    verdict: Verdict
    by: str
    identity: str
    via: str
    at: datetime
    key: str
    note: str | None = None
    by_message: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One labelled line of a card; `code` asks for a fixed-width face, `claim` marks the agent's own word."""

    label: str
    value: str
    code: bool = False
    claim: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text file that belongs to a card: what did not fit on it, redacted the same way."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Card:
    """What a person is shown: plain text without markup; every surface escapes and cuts it for itself.

    A settled card is the same card without buttons and with `status` set. `content_revision` is what its
    buttons are bound to. `attachments` must have been attached before Allow works (design section 8). `editable` are
    the lengths of the texts that Edit would put into a form. `language` is the one of its words.
    """

    title: str
    pill: str
    lines: tuple[Line, ...]
    body: str
    claim: str
    status: str
    tone: Tone
    buttons: tuple[Button, ...]
    attachments: tuple[Attachment, ...]
    digest: str
    expiry: str
    content_revision: int
    revision: int
    editable: tuple[int, ...] = ()
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Approval:
    """One row of the approvals table (design section 3).

    Times are UTC with microseconds; ids are UUIDv7 text. `arguments`, `final_arguments`, `presentation`, `run` and
    `route` are JSON text. `revision` grows with every change, `content_revision` when what would run changes.
    """

    id: str
    agent: str
    tool: str
    operation: str
    effect: Effect
    runtime: Runtime
    status: Status
    outcome: Outcome
    revision: int
    content_revision: int
    arguments: str
    final_arguments: str
    presentation: str
    route: str
    digest: str
    needed: int
    created_at: datetime
    expires_at: datetime
    run: str | None = None
    reasoning: str | None = None
    context: str | None = None
    on_behalf_of: str | None = None
    call_id: str | None = None
    run_id: str | None = None
    lane: str | None = None
    generation: int = 1
    workflow_id: str | None = None
    first_run_id: str | None = None
    asked_by: str | None = None
    idempotency_key: str | None = None
    idempotency_hash: str | None = None
    remind_at: datetime | None = None
    reminded_at: datetime | None = None
    escalate_at: datetime | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    decided_via: str | None = None
    decision_key: str | None = None
    note: str | None = None
    by_message: bool = False
    claim_token: str | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    consumed_at: datetime | None = None
    valid_until: datetime | None = None
    grace_until: datetime | None = None
    restore_until: datetime | None = None
    undeliverable: str | None = None
    outcome_note: str | None = None
    outcome_at: datetime | None = None
    checked_at: datetime | None = None
    closed_rounds: int = 0
    edited_at: datetime | None = None
    edited_by: str | None = None
    escalated_at: datetime | None = None
    dismissed_at: datetime | None = None
    notify: str | None = None

    @property
    def look_again_at(self) -> datetime:
        """When time alone does something to a pending row: more people are asked, or it expires."""
        return min(self.expires_at, self.escalate_at or self.expires_at)

    @property
    def open_ended(self) -> bool:
        """Whether it is a draft that ended so that somebody may want it sent again, or put aside."""
        ended = self.outcome in (Outcome.NOT_SENT, Outcome.UNKNOWN)
        return self.runtime is Runtime.DRAFT and ended and self.dismissed_at is None

    @property
    def pending(self) -> bool:
        return self.status is Status.PENDING

    @property
    def unasked(self) -> bool:
        """Whether it was allowed as it was opened, by a rule or the mode, so that no card was ever posted."""
        return self.decided_by == AUTO and self.decided_at == self.created_at


@dataclass(frozen=True, slots=True)
class Posted:
    """One row of the messages table: a message that Placet posted, or is about to post, for an approval.

    Of a prompt, `verb` is what a reply to it does ("" declines with the note) and `content_revision` what it was
    about.
    """

    id: str
    approval_id: str
    destination: str
    kind: Kind
    person: str
    token: str
    platform: str
    account: str
    chat: str
    thread: str
    message_id: str | None
    shown_revision: int
    shown_id: str | None
    attached_revision: int
    posted_at: datetime | None
    failed: str | None = None
    claim: str | None = None
    claim_until: datetime | None = None
    verb: str = ""
    content_revision: int = 0

    @property
    def message(self) -> Message | None:
        if self.message_id is None:
            return None
        return Message(self.platform, self.account, self.chat, self.thread, self.message_id)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One action, as it is kept for ever: the audit table is append-only."""

    approval_id: str
    at: datetime
    action: str
    revision: int
    person: str | None = None
    identity: str | None = None
    surface: str | None = None
    note: str | None = None
    shown_id: str | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's answer to one content; `roles` are those that a platform's groups gave the person then."""

    person: str
    content_revision: int
    verdict: str
    at: datetime
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of the directory; `runs` lists the (tool, activity, task_queue) it may have run for it.

    `mode` is the one in force. `version` grows whenever a rule of the agent or the table of effects changes.
    """

    id: str
    owner: str
    mode: Mode = Mode.OUTSIDE
    runs: tuple[tuple[str, str, str], ...] = ()
    paused_at: datetime | None = None
    generation: int = 1
    version: int = 1


@dataclass(frozen=True, slots=True)
class Update:
    """What an agent hears of a row that nobody waits for; `number` grows, per agent in the order of the commits."""

    number: int
    agent: str
    approval_id: str
    at: datetime
    status: str
    outcome: str
    text: str


@dataclass(frozen=True, slots=True)
class Escalation:
    """Who is asked besides, and where, when nobody has decided `after_s` seconds after the ask."""

    after_s: int
    ask: tuple[str, ...]
    at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Who is asked, and where; JSON text of this is the row's snapshot. Durations are seconds."""

    ask: tuple[str, ...]
    at: tuple[str, ...]
    match: dict[str, str] = field(default_factory=dict)
    needed: int = 1
    four_eyes: bool = False
    timeout_s: int | None = None
    remind_s: int | None = None
    escalate: Escalation | None = None

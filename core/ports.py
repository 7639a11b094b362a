"""The seams between what an approval is and what carries it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from core.approvals import (
    Actor,
    Agent,
    Approval,
    Attachment,
    AuditLine,
    Card,
    Destination,
    Kind,
    Message,
    Mode,
    Person,
    Posted,
    Press,
    Reply,
    Role,
    Route,
    Status,
    Update,
    Vote,
)

if TYPE_CHECKING:
    from core.rules import Rule

T = TypeVar("T")


class Gone(Exception):
    """The chat, topic or message no longer exists, or the bot may no longer write there."""


class Moved(Exception):
    """The chat has a new id, `to`."""

    def __init__(self, to: str) -> None:
        super().__init__(f"the chat moved to {to}")
        self.to = to


class Slow(Exception):
    """The platform asks to wait `after` seconds before the next call."""

    def __init__(self, after: float) -> None:
        super().__init__(f"rate limited for {after:g} s")
        self.after = after


class Refused(Exception):
    """The platform will never take this; `why` is for an operator and carries no content."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Unavailable(Exception):
    """A service that the caller needs cannot be reached now; nothing was decided by this."""


class Repeated(Exception):
    """This event has decided an approval already; nothing was changed."""


class BadSetting(Exception):
    """A setting that cannot be used: `name` as the operator writes it, `problem` says what to do; never the value."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


class Clock(Protocol):
    """The one source of time."""

    def now(self) -> datetime:
        """The time now, UTC and aware, to the microsecond."""
        ...


class Surface(Protocol):
    """A chat platform. Raises Gone, Moved, Slow, Refused or Unavailable; anything else is a bug."""

    name: str

    async def post(self, destination: Destination, card: Card, *, token: str) -> Message: ...

    async def redraw(self, message: Message, card: Card, *, token: str = "") -> None:
        """Show `card` in the place of what the message shows; a card with buttons needs the message's token."""
        ...

    async def attach(self, message: Message, file: Attachment) -> Message: ...

    async def listen(self, on_press: Callable[[Press], Awaitable[Reply]]) -> None: ...

    def fits(self, card: Card) -> bool:
        """Whether the card is shown whole; where not, its whole text is attached before Allow works."""
        ...

    async def close(self) -> None:
        """Let go of the connections; nothing is called after this."""
        ...


@runtime_checkable
class Prompting(Protocol):
    """A surface that asks for a note with a message of its own, to which the person replies."""

    async def prompt(self, message: Message, actor: Actor, text: str) -> Message: ...


@runtime_checkable
class Forming(Protocol):
    """A surface on which people can change texts: in a form, or in the reply to a prompt.

    `form_fields` is how many texts one form takes, `form_characters` how long each may be.
    """

    form_fields: int
    form_characters: int


@runtime_checkable
class Saying(Protocol):
    """A surface that can put a plain word under a message: a reminder, or a notice."""

    async def say(self, message: Message, text: str) -> Message: ...


@runtime_checkable
class Telling(Protocol):
    """A surface that can put a plain word into a chat, unasked: a notice to a person."""

    async def tell(self, destination: Destination, text: str) -> Message: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check of the running services found. `level` is ok, warn or fail; `what` and `fix` carry no secret."""

    level: Literal["ok", "warn", "fail"]
    what: str
    fix: str = ""


@runtime_checkable
class Checking(Protocol):
    """A surface that can hold its settings against the running platform, for `placet doctor`. Never raises."""

    async def check(self) -> Sequence[Finding]: ...


@runtime_checkable
class Webhooked(Protocol):
    """A surface whose platform can deliver its events over HTTP."""

    async def receive(self, account: str, headers: Mapping[str, str], body: bytes) -> int | tuple[int, str]:
        """One delivery to an account: the HTTP status to answer with, 2xx only once it is committed.

        With a text where the platform wants to read one.
        """
        ...


class Commands(Protocol):
    """What people ask of a bot apart from answering a card. Raises Unavailable as a press does."""

    async def link(self, actor: Actor, code: str) -> Reply:
        """Use up a link code that came in private."""
        ...

    async def pending(self, actor: Actor) -> Reply:
        """What waits for this actor's answer."""
        ...

    async def rules(self, actor: Actor, agent: str) -> Reply:
        """The standing rules of an agent, with buttons (`Reply.menu`) that take them back."""
        ...

    async def mode(self, actor: Actor, agent: str, mode: str) -> Reply:
        """How much an agent asks, set to `mode` unless that is empty."""
        ...

    async def pause(self, actor: Actor, agent: str) -> Reply:
        """Nothing that was allowed for an agent runs from now on."""
        ...

    async def resume(self, actor: Actor, agent: str) -> Reply:
        """What was decided while an agent was paused takes effect."""
        ...


class Chats(Protocol):
    """Remembers where chats went."""

    async def moved(self, platform: str, account: str, chat: str, to: str) -> None:
        """A chat has a new id. Raises Unavailable: then it is told again."""
        ...


class Lease(Protocol):
    """The right to take the events of one bot account; one process holds it at a time (design section 4).

    Asked before every poll, so about every 10 s and, when all goes slowly, every 45 s: it lasts longer than that.
    """

    async def held(self) -> bool:
        """Take or renew it; False while another holds it. Raises Unavailable when that cannot be known."""
        ...

    async def drop(self) -> None:
        """Give it back, so that the next process need not wait. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a platform needs besides the door for presses. `leases` makes the lease of a name.

    `groups` answers which of a platform's groups the directory maps to roles, by their keys (`slack:T01/S01`).
    `language` is what somebody is spoken to in, from memory: for words that cannot wait for the database.
    `pace` scales the waits between calls: 1 is the platform's own pace, less for a sandbox that allows more.
    """

    commands: Commands
    chats: Chats
    leases: Callable[[str], Lease]
    groups: Callable[[str], Awaitable[frozenset[str]]]
    language: Callable[[Actor, Message | None], str] = lambda actor, place: "en"
    pace: float = 1.0


class Ledger(Protocol):
    """The statements of one transaction: synchronous, valid only inside the `work` that was given to a Store."""

    def approval(self, approval_id: str) -> Approval | None: ...

    def approval_of_run(self, workflow_id: str, first_run_id: str) -> Approval | None: ...

    def approval_of_key(self, asked_by: str, idempotency_key: str) -> Approval | None: ...

    def approvals(
        self, *, status: Status | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        """Newest first."""
        ...

    def insert(self, approval: Approval) -> bool:
        """False when a unique key (id, workflow and first run, asker and idempotency key) exists already."""
        ...

    def change(self, approval: Approval, **columns: Any) -> Approval | None:
        """Compare-and-swap on `approval.revision`: the changed row with its revision one higher, or None when lost.

        Raises Repeated when `decision_key` has decided another approval through the same chat platform.
        """
        ...

    def note_check(self, approval_id: str, at: datetime, closed_rounds: int) -> None:
        """Store when the sweep last asked after the row's workflow; not a change of the row, no new revision."""
        ...

    def expiring(self, now: datetime, limit: int) -> Sequence[Approval]:
        """Pending rows whose expires_at has passed."""
        ...

    def soonest(self, after: Approval | None, limit: int) -> Sequence[Approval]:
        """Pending rows, the soonest to expire first: those after this one, or from the first on."""
        ...

    def unconsumed(self, decided_before: datetime, limit: int) -> Sequence[Approval]:
        """Final rows of runtime turn or draft that nobody has consumed, decided before the instant; the last first.
        Without those whose answer waits for a paused agent."""
        ...

    def open_rows(
        self, agent: str, *, lane: str | None = None, run_id: str | None = None, hold: bool = False
    ) -> Sequence[Approval]:
        """Pending rows of an agent, and allowed ones whose answer nobody has taken; of a lane or run; eldest first.

        Held, nobody else changes them until this transaction commits; the agent is held before.
        """
        ...

    def last_of_lane(self, agent: str, lane: str) -> Approval | None:
        """Of a lane's turn rows that name their run, the one that was asked or answered last."""
        ...

    def agents_of_lane(self, lane: str) -> Sequence[str]:
        """The agents of the directory that have turns, or anything open, in a lane of this name."""
        ...

    def rows_of_run(self, agent: str, run_id: str) -> Sequence[Approval]:
        """Every row of a run that somebody waits for, which is all but drafts, oldest first."""
        ...

    def declined_by(self, agent: str, lane: str, decision_key: str) -> Sequence[Approval]:
        """The rows of a lane that one message declined."""
        ...

    def touch_open(self, agent: str) -> Sequence[tuple[str, int]]:
        """Raise the revision of every row of an agent that is open or whose answer is not consumed yet, since its cards
        say something else now; ids, revisions."""
        ...

    def unseen(self, created_before: datetime, limit: int) -> Sequence[Approval]:
        """Pending rows that are undeliverable, created before the instant; the last first."""
        ...

    def overdue(self, now: datetime, limit: int) -> Sequence[Approval]:
        """Rows `sending` and claimed before `now`, the last first; and external rows approved, unclaimed, past
        valid_until, whose agent is not paused."""
        ...

    def unsettled(self, limit: int) -> Sequence[Approval]:
        """Turn rows that are pending, or final and unconsumed, or sending; least recently checked first."""
        ...

    def unstarted(self, created_before: datetime, limit: int) -> Sequence[Approval]:
        """Pending draft and external rows created before the instant whose workflow may be missing; least recently
        checked first."""
        ...

    def vote(self, approval_id: str, vote: Vote) -> None:
        """One vote per approval, person and content revision; a later one replaces it."""
        ...

    def votes_of(self, approval_id: str) -> Sequence[Vote]:
        """Every vote, in the order they were given."""
        ...

    def drop_vote(self, approval_id: str, person: str, content_revision: int) -> None:
        """Take a person's vote on a content back."""
        ...

    def audit(self, line: AuditLine) -> None: ...

    def audit_of(self, approval_id: str) -> Sequence[AuditLine]: ...

    def show(self, text: str, at: datetime) -> str:
        """Keep a text that was shown; answers its id, the same for the same text."""
        ...

    def shown(self, shown_id: str) -> str | None:
        """The text that was shown; None when it was purged."""
        ...

    def purge_shown(self, before: datetime) -> int:
        """Drop the texts that were last shown before the instant, save those on waiting cards; how many."""
        ...

    def posted_of_token(self, token: str) -> tuple[Posted, Approval] | None: ...

    def posted_at(self, message: Message) -> tuple[Posted, Approval] | None: ...

    def waiting_in(self, chat: Message) -> Sequence[tuple[Posted, Approval]]:
        """The cards of waiting rows in a chat, each approval once."""
        ...

    def posted(self, posted_id: str) -> Posted | None: ...

    def posted_for(self, approval_id: str, kind: Kind | None = None) -> Sequence[Posted]: ...

    def stale_cards(self, now: datetime, limit: int, platform: str) -> Sequence[Posted]:
        """A platform's cards whose shown_revision is not the row's revision and that nobody holds a redraw claim on.

        The oldest of each chat come first, then the second oldest.
        """
        ...

    def reserve(self, posted: Posted, now: datetime) -> Posted | None:
        """Insert the message row, or take over the claim of the existing unposted one when it ran out or is one's own.

        Answers the row as it stands, claim included, when this caller may post; None when another holds it or it
        was posted.
        """
        ...

    def mark(self, posted_id: str, *, claim: str | None = None, **columns: Any) -> bool:
        """Change columns of a message row; with `claim`, only while that claim is held. False when it was not."""
        ...

    def take_redraw(self, posted_id: str, claim: str, now: datetime, until: datetime) -> Posted | None:
        """Take the redraw claim when it is free or ran out, or hold one's own for longer; the row, or None."""
        ...

    def moved_to(self, platform: str, account: str, chat: str) -> str:
        """The chat's present id: itself, unless it migrated."""
        ...

    def move(self, platform: str, account: str, chat: str, to: str) -> None:
        """Remember that a chat migrated, and that the messages in it are there; each keeps its `destination`."""
        ...

    def person(self, person_id: str) -> Person | None: ...

    def person_of(self, actor: Actor) -> Person | None: ...

    def people(self) -> Sequence[Person]:
        """Everybody, with roles and permissions."""
        ...

    def identities(self, person_id: str) -> Sequence[Actor]: ...

    def agent(self, agent_id: str, hold: Literal["", "share", "update"] = "") -> Agent | None:
        """An agent; held, nobody else changes it until this transaction commits, or (`update`) reads it held. It is
        held before any row of it is changed."""
        ...

    def agents(self) -> Sequence[Agent]: ...

    def set_mode(self, agent_id: str, mode: Mode) -> bool:
        """The mode in force from the next call on; False for an unknown agent."""
        ...

    def set_paused(self, agent_id: str, at: datetime | None, by: str | None) -> bool:
        """Pause an agent, or with None let it go on; False when it was so already or is unknown."""
        ...

    def raise_generation(self, agent_id: str) -> int | None:
        """The new generation of an agent; None for an unknown one."""
        ...

    def effects(self) -> Mapping[str, Any]:
        """What the directory adds to the table of effects, in the shape of the directory file; {} where nothing."""
        ...

    def rules(self, agent_id: str) -> Sequence[Rule]:
        """The standing rules of an agent, oldest first, expired ones too."""
        ...

    def rule(self, rule_id: str = "", *, token: str = "") -> Rule | None: ...

    def add_rule(self, rule: Rule) -> Rule | None:
        """Store a rule, or answer the one of the same scope, brought up to date; None for an unknown agent, and where a
        rule for money stands and this is none. Raises the agent's version."""
        ...

    def drop_rule(self, rule_id: str) -> bool:
        """Take a rule back; False when there is none of that id. Raises the agent's version."""
        ...

    def close_run(self, agent: str, run_id: str, at: datetime) -> None: ...

    def run_closed(self, agent: str, run_id: str) -> bool: ...

    def add_update(self, update: Update) -> int:
        """Store what an agent hears (`number` is given by the ledger): in the order of the commits, per agent."""
        ...

    def updates(self, agent: str, since: int, limit: int) -> Sequence[Update]:
        """What an agent hears after the number `since`."""
        ...

    def mapped_roles(self) -> Sequence[Role]:
        """The roles that groups of a platform give."""
        ...

    def languages(self) -> Mapping[str, str]:
        """The languages of chats, by place as a route writes it."""
        ...

    def languages_of_people(self) -> Sequence[tuple[Actor, str]]:
        """The identities of those who have a language of their own, each with that language."""
        ...

    def routes(self) -> Sequence[Route]:
        """In order; the first match wins."""
        ...

    def directory(self) -> Mapping[str, Any]:
        """The applied directory, in the shape of the directory file."""
        ...

    def replace_directory(self, directory: Mapping[str, Any]) -> None:
        """Put the directory (the shape of the directory file, checked) in the place of the applied one.

        Identities that people linked from chat stay unless the file gives that platform's identity itself.
        """
        ...

    def add_pairing(self, code_hash: str, person: str, issued_by: str, expires_at: datetime) -> None: ...

    def take_pairing(self, code_hash: str, now: datetime) -> str | None:
        """Use a link code up: the person's id, or None when it is unknown, used or out of date."""
        ...

    def add_identity(self, person_id: str, actor: Actor) -> bool:
        """False when that identity is somebody's already."""
        ...

    def add_token(self, token_hash: str, kind: str, subject: str, at: datetime) -> str:
        """Store a bearer token of an agent or a person; `kind` is agent or person. Answers the token's id."""
        ...

    def token(self, token_hash: str) -> tuple[str, str, str] | None:
        """(id, kind, subject) of a bearer token."""
        ...

    def tokens_held(self) -> Mapping[tuple[str, str], int]:
        """How many bearer tokens there are, by kind and subject."""
        ...

    def key(self, name: str) -> bytes:
        """The database's own random key of that name, 32 bytes, made when it is first asked for (in a write)."""
        ...

    def take_lease(self, name: str, holder: str, now: datetime, until: datetime) -> bool: ...

    def drop_lease(self, name: str, holder: str) -> None: ...

    def waiting(self) -> tuple[int, datetime | None]:
        """How many rows are pending, and when the oldest of them was created."""
        ...

    def undeliverable(self) -> int:
        """How many pending rows are marked undeliverable."""
        ...


class Store(Protocol):
    """The database. Raises Unavailable when it cannot be reached; then nothing was committed, or it will be found."""

    async def write(self, work: Callable[[Ledger], T]) -> T:
        """Run `work` in one read-write transaction and commit it; an exception rolls it back."""
        ...

    async def read(self, work: Callable[[Ledger], T]) -> T:
        """Run `work`, which only reads, over one consistent snapshot or the latest commit."""
        ...


@dataclass(frozen=True, slots=True)
class Admission:
    """What the gate says of a press. `answer`: given before to this press. `wait_s`: over the person's rate."""

    answer: Reply | None = None
    wait_s: int = 0
    chat_empty: bool = False


class Gate(Protocol):
    """Dedupe and rate limits in front of the door (design section 4, step 2). Never raises: it lets through."""

    async def admit(self, press: Press) -> Admission: ...

    async def settle(self, press: Press, reply: Reply) -> None:
        """After the reply: store it for duplicates; a refused press takes from the chat's bucket."""
        ...


class Bell(Protocol):
    """Wakes what waits in Temporal. Never raises; each call is bounded to 1 s and a failure is logged."""

    async def ring(self, approval: Approval) -> None:
        """The signal `nudge`, without data, to the row's workflow; claimed rows are skipped."""
        ...

    async def start(self, approval: Approval) -> None:
        """Start the workflow `approval-<id>` of a row that nobody waits for, unless it runs; a draft's also anew."""
        ...


class Feed(Protocol):
    """Tells every process that a row changed; a lost word is made up for by the sweep. Never raises."""

    async def publish(self, approval_id: str, revision: int) -> None: ...

    def subscribe(self) -> AsyncIterator[tuple[str, int]]:
        """Ids and revisions from now on; closes when the iterator is closed."""
        ...


class Meter(Protocol):
    """Counts what an operator watches; labels never carry ids."""

    def press(self, platform: str, result: str, seconds: float) -> None: ...

    def decision(self, verdict: str, via: str) -> None: ...

    def outcome(self, outcome: str) -> None: ...

    def redraw(self, platform: str, result: str) -> None: ...

    def nudge(self, result: str) -> None: ...

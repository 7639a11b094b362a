"""The tables, as SQLAlchemy Core sees them on SQLite and on PostgreSQL (design section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from core.approvals import Effect, Kind, Mode, Outcome, Runtime, Status, Verdict


class Moment(sa.types.TypeDecorator[datetime]):
    """An instant to the microsecond: TIMESTAMPTZ on PostgreSQL, `YYYY-MM-DDTHH:MM:SS.ffffffZ` as text on SQLite.

    The text has one width, so that it sorts and compares as the instants do. Naive times are refused.
    """

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored; give it in UTC")
        return text_of(value) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return datetime.fromisoformat(value) if isinstance(value, str) else value


def text_of(moment: datetime) -> str:
    """The instant as SQLite keeps it."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _text(name: str, *more: Any, **options: Any) -> sa.Column[str]:
    options.setdefault("nullable", False)
    return sa.Column(name, sa.Text(), *more, **options)


def _maybe(name: str, *more: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), *more, nullable=True)


def _number(name: str, default: int | None = None) -> sa.Column[int]:
    return sa.Column(
        name, sa.Integer(), nullable=False, server_default=None if default is None else sa.text(str(default))
    )


def _flag(name: str) -> sa.Column[bool]:
    kind = sa.Boolean().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, nullable=False, server_default=sa.false())


def _moment(name: str, *, nullable: bool = False) -> sa.Column[datetime]:
    return sa.Column(name, Moment(), nullable=nullable)


def _table(name: str, *columns: sa.Column[Any] | sa.Constraint, **options: Any) -> sa.Table:
    # Without STRICT, SQLite puts any text into a column of numbers.
    return sa.Table(name, metadata, *columns, sqlite_strict=True, **options)


def _one_of(column: str, values: Iterable[StrEnum | str]) -> sa.CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


# The columns of approvals and messages stand in the order of the fields of Approval and Posted, so that a row is read
# by position; adapters/ledger.py refuses to be imported when they differ.
approvals = _table(
    "approvals",
    _text("id", primary_key=True),
    _text("agent"),
    _text("tool"),
    _text("operation"),
    _text("effect"),
    _text("runtime"),
    _text("status"),
    _text("outcome"),
    _number("revision"),
    _number("content_revision"),
    _text("arguments"),
    _text("final_arguments"),
    _text("presentation"),
    _text("route"),
    _text("digest"),
    _number("needed"),
    _moment("created_at"),
    _moment("expires_at"),
    _maybe("run"),
    _maybe("reasoning"),
    _maybe("context"),
    _maybe("on_behalf_of"),
    _maybe("call_id"),
    _maybe("run_id"),
    _maybe("lane"),
    _number("generation", 1),
    _maybe("workflow_id"),
    _maybe("first_run_id"),
    _maybe("asked_by"),
    _maybe("idempotency_key"),
    _maybe("idempotency_hash"),
    _moment("remind_at", nullable=True),
    _moment("reminded_at", nullable=True),
    _moment("escalate_at", nullable=True),
    _moment("decided_at", nullable=True),
    _maybe("decided_by"),
    _maybe("decided_via"),
    _maybe("decision_key"),
    _maybe("note"),
    _flag("by_message"),
    _maybe("claim_token"),
    _maybe("claimed_by"),
    _moment("claimed_at", nullable=True),
    _moment("consumed_at", nullable=True),
    _moment("valid_until", nullable=True),
    _moment("grace_until", nullable=True),
    _moment("restore_until", nullable=True),
    _maybe("undeliverable"),
    _maybe("outcome_note"),
    _moment("outcome_at", nullable=True),
    _moment("checked_at", nullable=True),
    _number("closed_rounds", 0),
    _moment("edited_at", nullable=True),
    _maybe("edited_by"),
    _moment("escalated_at", nullable=True),
    _moment("dismissed_at", nullable=True),
    _maybe("notify"),
    _one_of("effect", Effect),
    _one_of("runtime", Runtime),
    _one_of("status", Status),
    _one_of("outcome", Outcome),
    sa.CheckConstraint("revision >= 1 AND content_revision >= 1", name="revisions"),
    sa.CheckConstraint("needed >= 1", name="needed"),
    # A call that was not allowed never ran.
    sa.CheckConstraint("outcome = 'none' OR status = 'approved'", name="outcome_of_approved"),
    sa.UniqueConstraint("workflow_id", "first_run_id"),
    sa.UniqueConstraint("asked_by", "idempotency_key"),
)

# What the partial indexes and the queries over them say alike: a query only uses a partial index that it repeats.
IS_PENDING = "status = 'pending'"
IS_FINAL = "status <> 'pending'"
IS_UNCONSUMED = "status <> 'pending' AND consumed_at IS NULL AND claimed_at IS NULL AND runtime IN ('turn', 'draft')"
IS_SENDING = "outcome = 'sending'"
IS_UNCLAIMED = "runtime = 'external' AND status = 'approved' AND outcome = 'none' AND claimed_at IS NULL"
IS_UNSETTLED = "runtime = 'turn' AND (consumed_at IS NULL OR outcome = 'sending')"
# An answer that whoever waited for it has taken is no longer open, though nothing was run for it.
IS_OPEN = "(status = 'pending' OR (status = 'approved' AND outcome = 'none' AND consumed_at IS NULL))"
IS_UNSTARTED = "status = 'pending' AND runtime IN ('draft', 'external')"


def _index(name: str, *columns: sa.Column[Any], where: str | None = None, unique: bool = False) -> sa.Index:
    only = None if where is None else sa.text(where)
    return sa.Index(name, *columns, unique=unique, sqlite_where=only, postgresql_where=only)


_row = approvals.c
_index("ix_approvals_created_at", _row.created_at)
# Apart, so that SQLite, which knows no numbers, is not drawn to the status where a narrower index below would do.
_index("ix_approvals_pending", _row.created_at, where=IS_PENDING)
_index("ix_approvals_final", _row.status, _row.created_at, where=IS_FINAL)
_index("ix_approvals_agent", _row.agent, _row.created_at)
_index("ix_approvals_expiring", _row.expires_at, where=IS_PENDING)
_index("ix_approvals_unconsumed", _row.decided_at, where=IS_UNCONSUMED)
_index("ix_approvals_sending", _row.claimed_at, where=IS_SENDING)
_index("ix_approvals_unclaimed", _row.valid_until, where=IS_UNCLAIMED)
_index("ix_approvals_unsettled", _row.checked_at, where=IS_UNSETTLED)
_index("ix_approvals_unstarted", _row.created_at, where=IS_UNSTARTED)
_index("ix_approvals_open", _row.agent, _row.created_at, where=IS_OPEN)
_index("ix_approvals_lane", _row.agent, _row.lane, where="lane IS NOT NULL")
_index("ix_approvals_run", _row.agent, _row.run_id, where="run_id IS NOT NULL")
# A platform's event id is one of its kind on its platform, and one event decides one approval: without this a message
# that is delivered twice could decline the next card as well. Over HTTP and the command line the key belongs to the
# approval that the call names, so there the row's own revision is all that is needed.
_index(
    "uq_approvals_decision",
    _row.decided_via,
    _row.decision_key,
    where="decision_key IS NOT NULL AND decided_via NOT IN ('http', 'cli')",
    unique=True,
)

votes = _table(
    "votes",
    _text("approval_id", sa.ForeignKey("approvals.id"), primary_key=True),
    _text("person", primary_key=True),
    sa.Column("content_revision", sa.Integer(), primary_key=True, autoincrement=False),
    _text("verdict"),
    _moment("at"),
    # The roles that a platform's groups gave the voter then, as a JSON list; they cannot be asked again without him.
    _maybe("roles"),
    _one_of("verdict", Verdict),
)

# No foreign keys: what happened stays on record whatever becomes of the rows it speaks of. The migration adds the
# triggers that refuse UPDATE and DELETE.
audit = _table(
    "audit",
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    _text("approval_id"),
    _moment("at"),
    _text("action"),
    _number("revision"),
    _maybe("person"),
    _maybe("identity"),
    _maybe("surface"),
    _maybe("note"),
    _maybe("shown_id"),
    sqlite_autoincrement=True,
)
_index("ix_audit_approval_id", audit.c.approval_id)
_index("ix_audit_shown_id", audit.c.shown_id, where="shown_id IS NOT NULL")

shown = _table("shown", _text("id", primary_key=True), _text("text"), _moment("at"))
_index("ix_shown_at", shown.c.at)

messages = _table(
    "messages",
    _text("id", primary_key=True),
    _text("approval_id", sa.ForeignKey("approvals.id")),
    _text("destination"),
    _text("kind"),
    _text("person"),
    _text("token"),
    _text("platform"),
    _text("account"),
    _text("chat"),
    _text("thread"),
    _maybe("message_id"),
    _number("shown_revision", 0),
    _maybe("shown_id"),
    _number("attached_revision", 0),
    _moment("posted_at", nullable=True),
    _maybe("failed"),
    _maybe("claim"),
    _moment("claim_until", nullable=True),
    sa.Column("verb", sa.Text(), nullable=False, server_default=sa.text("''")),
    _number("content_revision", 0),
    _one_of("kind", Kind),
    sa.UniqueConstraint("approval_id", "destination", "kind", "person"),
    sa.UniqueConstraint("token"),
)
IS_CARD = "kind = 'card' AND message_id IS NOT NULL AND failed IS NULL"
_index("ix_messages_place", messages.c.platform, messages.c.chat, messages.c.message_id)
_index("ix_messages_cards", messages.c.approval_id, messages.c.shown_revision, where=IS_CARD)
_index("ix_messages_shown_id", messages.c.shown_id, where="shown_id IS NOT NULL")

moves = _table(
    "moves",
    _text("platform", primary_key=True),
    _text("account", primary_key=True),
    _text("chat", primary_key=True),
    _text("moved_to"),
)

# The directory. `identities`, `members`, `mode`, `runs` and `document` are JSON text as the directory file has it (null
# where it says nothing), so that the applied directory can be given back; the tables beside them are what is asked.
people = _table("people", _text("id", primary_key=True), _text("name"), _maybe("identities"), _maybe("language"))

identities = _table(
    "identities",
    _text("platform", primary_key=True),
    _text("tenant", primary_key=True),
    _text("id", primary_key=True),
    _text("person", sa.ForeignKey("people.id", ondelete="CASCADE")),
    _text("name"),
    _text("source"),
    _one_of("source", ("file", "chat")),
)
_index("ix_identities_person", identities.c.person)

roles = _table("roles", _text("id", primary_key=True), _text("permissions"), _maybe("members"), _maybe("groups"))

memberships = _table(
    "memberships",
    _text("person", sa.ForeignKey("people.id", ondelete="CASCADE"), primary_key=True),
    _text("role", sa.ForeignKey("roles.id", ondelete="CASCADE"), primary_key=True),
)
_index("ix_memberships_role", memberships.c.role)

agents = _table(
    "agents",
    _text("id", primary_key=True),
    _text("owner", sa.ForeignKey("people.id")),
    _maybe("mode"),
    _maybe("runs"),
    # What was set since, by command or over HTTP: it stands until the file gives another mode.
    _maybe("mode_set"),
    _moment("paused_at", nullable=True),
    _maybe("paused_by"),
    _number("generation", 1),
    _number("version", 1),
    _one_of("mode", Mode),
)
_index("ix_agents_owner", agents.c.owner)

routes = _table(
    "routes",
    sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
    _text("document"),
)

rules = _table(
    "rules",
    _text("id", primary_key=True),
    # What a button that takes the rule back carries.
    _text("token"),
    _text("agent", sa.ForeignKey("agents.id", ondelete="CASCADE")),
    _text("tool"),
    _text("operation"),
    _text("scope_kind"),
    _text("scope_value"),
    _text("label"),
    _moment("created_at"),
    _text("created_by"),
    _moment("expires_at", nullable=True),
    # Of a money rule: the most that one call may move, a decimal in the currency's major unit.
    _maybe("ceiling_amount"),
    _maybe("ceiling_currency"),
    _one_of("scope_kind", ("arguments", "recipient", "host", "operation", "tool")),
    sa.UniqueConstraint("token"),
    sa.UniqueConstraint("agent", "tool", "operation", "scope_kind", "scope_value"),
)

# Runs that their program has said to be over.
runs = _table("runs", _text("agent", primary_key=True), _text("run_id", primary_key=True), _moment("closed_at"))

# What agents hear of rows that nobody waits for, in the order of the commits.
updates = _table(
    "updates",
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    _text("agent"),
    _text("approval_id"),
    _moment("at"),
    _text("status"),
    _text("outcome"),
    _text("text"),
    sqlite_autoincrement=True,
)
_index("ix_updates_agent", updates.c.agent, updates.c.number)

# Parts of the directory that are read whole, as JSON text: the table of effects.
documents = _table("documents", _text("name", primary_key=True), _text("document"))

# Languages of chats, by place as a route writes it.
chats = _table("chats", _text("place", primary_key=True), _text("language"))

pairings = _table(
    "pairings",
    _text("code_hash", primary_key=True),
    _text("person", sa.ForeignKey("people.id", ondelete="CASCADE")),
    _text("issued_by"),
    _moment("expires_at"),
    _moment("used_at", nullable=True),
)
_index("ix_pairings_person", pairings.c.person)

tokens = _table(
    "tokens",
    _text("id", primary_key=True),
    _text("token_hash"),
    _text("kind"),
    _text("subject"),
    _moment("created_at"),
    _one_of("kind", ("agent", "person")),
    sa.UniqueConstraint("token_hash"),
)
_index("ix_tokens_subject", tokens.c.kind, tokens.c.subject)

leases = _table("leases", _text("name", primary_key=True), _text("holder"), _moment("until"))

# Random keys that belong to this database, such as the one behind the short hashes of hidden values.
keys = _table("keys", _text("name", primary_key=True), _text("secret"))

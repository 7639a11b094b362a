"""The statements of one transaction over approvals, votes, audit, messages and leases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select, update

from adapters import tables as t
from adapters.people import People
from adapters.statements import Line, Row, Statement
from core.approvals import Approval, AuditLine, Effect, Kind, Message, Outcome, Posted, Runtime, Status, Update, Vote

_row = t.approvals.c
_card = t.messages.c
_approval, _posted = tuple(_row), tuple(_card)

_ENUMS: dict[sa.Column[Any], type[StrEnum]] = {
    _row.effect: Effect,
    _row.runtime: Runtime,
    _row.status: Status,
    _row.outcome: Outcome,
    _card.kind: Kind,
}

for _kind, _columns in ((Approval, _approval), (Posted, _posted)):
    if [field.name for field in fields(_kind)] != [column.name for column in _columns]:
        raise TypeError(f"the columns of {_kind.__name__} in adapters/tables.py are not its fields in their order")


def _makers(columns: tuple[sa.Column[Any], ...], sqlite: bool) -> tuple[tuple[int, Callable[[Any], Any]], ...]:
    """Which of the columns need a word of translation, and by what."""
    makers: list[tuple[int, Callable[[Any], Any]]] = []
    for index, column in enumerate(columns):
        if column in _ENUMS:
            makers.append((index, {value.value: value for value in _ENUMS[column]}.__getitem__))
        elif sqlite and isinstance(column.type, t.Moment):
            makers.append((index, datetime.fromisoformat))
        elif sqlite and isinstance(column.type, sa.Boolean):
            makers.append((index, bool))
    return tuple(makers)


_MAKERS = {
    "postgresql": (_makers(_approval, False), _makers(_posted, False)),
    "sqlite": (_makers(_approval, True), _makers(_posted, True)),
}

_APPROVAL = Statement(select(*_approval).where(_row.id == bindparam("approval")))
_APPROVAL_OF_RUN = Statement(
    select(*_approval).where(_row.workflow_id == bindparam("workflow"), _row.first_run_id == bindparam("first_run"))
)
_APPROVAL_OF_KEY = Statement(
    select(*_approval).where(_row.asked_by == bindparam("asker"), _row.idempotency_key == bindparam("key"))
)
_INSERT = Statement(lambda insert: insert(t.approvals).on_conflict_do_nothing().returning(_row.id))
_NOTE_CHECK = Statement(
    update(t.approvals)
    .where(_row.id == bindparam("approval"))
    .values(checked_at=bindparam("at"), closed_rounds=bindparam("rounds"))
)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT = bindparam("at_most", type_=sa.Integer())
_EXPIRING = Statement(
    select(*_approval)
    .where(sa.text(t.IS_PENDING), _row.expires_at <= bindparam("now"))
    .order_by(_row.expires_at)
    .limit(_LIMIT)
)
_WAITING_AFTER = Statement(
    select(*_approval)
    .where(
        sa.text(t.IS_PENDING),
        sa.or_(
            _row.expires_at > bindparam("expiry"),
            sa.and_(_row.expires_at == bindparam("expiry"), _row.id > bindparam("after")),
        ),
    )
    .order_by(_row.expires_at, _row.id)
    .limit(_LIMIT)
)
# Whatever waits for an agent to go on must not stand before what does not.
_NOT_PAUSED = ~sa.exists().where(t.agents.c.id == _row.agent, t.agents.c.paused_at.is_not(None))
_UNCONSUMED = Statement(
    select(*_approval)
    .where(
        sa.text(t.IS_UNCONSUMED),
        _row.decided_at < bindparam("before"),
        sa.or_(
            sa.text("status = 'cancelled' OR outcome <> 'none'"),
            _NOT_PAUSED,
        ),
    )
    .order_by(_row.decided_at.desc())
    .limit(_LIMIT)
)
_UNSEEN = Statement(
    select(*_approval)
    .where(sa.text(t.IS_PENDING), _row.undeliverable.is_not(None), _row.created_at < bindparam("before"))
    .order_by(_row.created_at.desc())
    .limit(_LIMIT)
)
_SENDING = Statement(
    select(*_approval)
    .where(sa.text(t.IS_SENDING), _row.claimed_at < bindparam("now"))
    .order_by(_row.claimed_at.desc())
    .limit(_LIMIT)
)
_UNCLAIMED = Statement(
    select(*_approval)
    .where(sa.text(t.IS_UNCLAIMED), _row.valid_until < bindparam("now"), _NOT_PAUSED)
    .order_by(_row.valid_until)
    .limit(_LIMIT)
)
_UNSETTLED = Statement(
    select(*_approval)
    .where(sa.text(t.IS_UNSETTLED))
    .order_by(_row.checked_at.asc().nulls_first(), _row.created_at)
    .limit(_LIMIT)
)
_UNSTARTED = Statement(
    select(*_approval)
    .where(sa.text(t.IS_UNSTARTED), _row.created_at < bindparam("before"))
    .order_by(_row.checked_at.asc().nulls_first(), _row.created_at)
    .limit(_LIMIT)
)
_TOUCH_OPEN = Statement(
    update(t.approvals)
    .where(_row.agent == bindparam("is_agent"), sa.text(f"({t.IS_OPEN} OR ({t.IS_UNCONSUMED}))"))
    .values(revision=_row.revision + sa.literal_column("1"))
    .returning(_row.id, _row.revision)
)
_LAST_OF_LANE = Statement(
    select(*_approval)
    .where(
        _row.agent == bindparam("is_agent"),
        _row.lane == bindparam("in_lane"),
        sa.text("lane IS NOT NULL AND run_id IS NOT NULL AND runtime = 'turn'"),
    )
    # Of several that waited side by side, the one that was answered last.
    .order_by(sa.func.coalesce(_row.decided_at, _row.created_at).desc())
    .limit(1)
)
_AGENTS_OF_LANE = Statement(
    select(t.agents.c.id)
    .where(
        select(_row.id)
        .where(
            _row.agent == t.agents.c.id,
            _row.lane == bindparam("in_lane"),
            sa.text(f"lane IS NOT NULL AND ({t.IS_OPEN} OR (run_id IS NOT NULL AND runtime = 'turn'))"),
        )
        .exists()
    )
    .order_by(t.agents.c.id)
)
_OF_RUN = Statement(
    select(*_approval)
    .where(
        _row.agent == bindparam("is_agent"),
        _row.run_id == bindparam("of_run"),
        # Nobody waits for a draft.
        sa.text("run_id IS NOT NULL AND runtime <> 'draft'"),
    )
    .order_by(_row.created_at)
)
_DECLINED_BY = Statement(
    select(*_approval)
    .where(
        _row.agent == bindparam("is_agent"),
        _row.lane == bindparam("in_lane"),
        _row.decision_key == bindparam("key"),
        sa.text("lane IS NOT NULL AND status = 'declined'"),
    )
    .order_by(_row.created_at)
)
_CLOSE_RUN = Statement(lambda insert: insert(t.runs).on_conflict_do_nothing())
_RUN_CLOSED = Statement(
    select(t.runs.c.closed_at).where(t.runs.c.agent == bindparam("is_agent"), t.runs.c.run_id == bindparam("of_run"))
)
# Numbers are given when a row is written and seen when it is committed: without the lock, one transaction could give a
# lower number and commit later, and whoever read between the two would never hear of it.
_IN_ORDER = Statement(select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(bindparam("is_agent", type_=sa.Text())))))
_ADD_UPDATE = Statement(
    lambda insert: (
        insert(t.updates)
        .inline()
        .values({name: bindparam(name) for name in ("agent", "approval_id", "at", "status", "outcome", "text")})
        .returning(t.updates.c.number)
    )
)
_UPDATES = Statement(
    select(*t.updates.c)
    .where(t.updates.c.agent == bindparam("is_agent"), t.updates.c.number > bindparam("since", type_=sa.BigInteger()))
    .order_by(t.updates.c.number)
    .limit(_LIMIT)
)
_WAITING = Statement(select(sa.func.count(), sa.func.min(_row.created_at)).where(sa.text(t.IS_PENDING)))
_UNDELIVERABLE = Statement(select(sa.func.count()).where(sa.text(t.IS_PENDING), _row.undeliverable.is_not(None)))

_VOTE = Statement(
    lambda insert: (vote := insert(t.votes)).on_conflict_do_update(
        index_elements=["approval_id", "person", "content_revision"],
        set_={name: vote.excluded[name] for name in ("verdict", "at", "roles")},
    )
)
_VOTES_OF = Statement(
    select(t.votes.c.person, t.votes.c.content_revision, t.votes.c.verdict, t.votes.c.at, t.votes.c.roles)
    .where(t.votes.c.approval_id == bindparam("approval"))
    .order_by(t.votes.c.at, t.votes.c.person)
)
_DROP_VOTE = Statement(
    sa.delete(t.votes).where(
        t.votes.c.approval_id == bindparam("approval"),
        t.votes.c.person == bindparam("by"),
        t.votes.c.content_revision == bindparam("content"),
    )
)
_LINE = tuple(t.audit.c[field.name] for field in fields(AuditLine))
_AUDIT = Statement(
    lambda insert: insert(t.audit).inline().values({column.name: bindparam(column.name) for column in _LINE})
)
_AUDIT_OF = Statement(select(*_LINE).where(t.audit.c.approval_id == bindparam("approval")).order_by(t.audit.c.id))
_SHOW = Statement(lambda insert: insert(t.shown).on_conflict_do_nothing())
_SHOWN = Statement(select(t.shown.c.text).where(t.shown.c.id == bindparam("shown")))
# A text that was shown again later, or that a card still shows, is as young as that.
_PURGE_SHOWN = Statement(
    sa.delete(t.shown)
    .where(
        t.shown.c.at < bindparam("before"),
        ~sa.exists().where(t.audit.c.shown_id == t.shown.c.id, t.audit.c.at >= bindparam("before")),
        ~sa.exists().where(
            _card.shown_id == t.shown.c.id, _row.id == _card.approval_id, sa.text("approvals.status = 'pending'")
        ),
    )
    .returning(t.shown.c.id)
)

_MESSAGE_AND_APPROVAL = select(*_posted, *_approval).join_from(t.messages, t.approvals)
_POSTED_OF_TOKEN = Statement(_MESSAGE_AND_APPROVAL.where(_card.token == bindparam("button")))
_POSTED_AT = Statement(
    _MESSAGE_AND_APPROVAL.where(
        _card.platform == bindparam("on"),
        _card.account == bindparam("by"),
        _card.chat == bindparam("in_chat"),
        _card.message_id == bindparam("message"),
    )
)
_WAITING_IN = Statement(
    _MESSAGE_AND_APPROVAL.where(
        _card.platform == bindparam("on"),
        _card.account == bindparam("by"),
        _card.chat == bindparam("in_chat"),
        sa.text("messages.kind = 'card' AND messages.message_id IS NOT NULL AND approvals.status = 'pending'"),
    ).order_by(_card.posted_at)
)
_POSTED = Statement(select(*_posted).where(_card.id == bindparam("posted")))
_POSTED_FOR = Statement(select(*_posted).where(_card.approval_id == bindparam("approval")).order_by(_card.id))


def _in_chat(account: sa.Column[str]) -> sa.ColumnElement[bool]:
    """An account that is not named is the platform's first, whatever its name; a chat has one id for all of them."""
    by = bindparam("by", type_=sa.Text())
    return sa.or_(account == by, account == "", by == "")


_POSTED_MOVES = Statement(
    update(t.messages)
    .where(_card.platform == bindparam("on"), _card.chat == bindparam("from"), _in_chat(_card.account))
    .values(chat=bindparam("to"))
)
_FREE = sa.or_(_card.claim.is_(None), _card.claim_until.is_(None), _card.claim_until <= bindparam("now"))
_STALE_CARDS = Statement(
    select(*_posted)
    .join_from(t.messages, t.approvals)
    .where(
        sa.text(t.IS_CARD),
        _card.platform == bindparam("on"),
        sa.or_(
            _card.shown_revision != _row.revision,
            sa.and_(
                sa.text("approvals.status = 'pending' AND attached_revision > 0"),
                _card.attached_revision != _row.content_revision,
            ),
        ),
        _FREE,
    )
    # The first of each chat before the second of any: one where many wait hides no other.
    .order_by(
        sa.func.row_number().over(partition_by=(_card.platform, _card.account, _card.chat), order_by=_card.posted_at),
        _card.posted_at,
    )
    .limit(_LIMIT)
)
_RESERVE = Statement(
    lambda insert: (
        (message := insert(t.messages))
        .on_conflict_do_update(
            index_elements=["approval_id", "destination", "kind", "person"],
            set_={"claim": message.excluded.claim, "claim_until": message.excluded.claim_until},
            where=sa.and_(_card.message_id.is_(None), sa.or_(_FREE, _card.claim == message.excluded.claim)),
        )
        .returning(*_posted)
    )
)
_TAKE_REDRAW = Statement(
    update(t.messages)
    .where(_card.id == bindparam("posted"), sa.or_(_FREE, _card.claim == bindparam("holder")))
    .values(claim=bindparam("holder"), claim_until=bindparam("until"))
    .returning(*_posted)
)
_moves = t.moves.c
_MOVED_TO = Statement(
    select(_moves.moved_to).where(
        _moves.platform == bindparam("on"), _moves.chat == bindparam("from"), _in_chat(_moves.account)
    )
)
_MOVE = Statement(
    lambda insert: (move := insert(t.moves)).on_conflict_do_update(
        index_elements=["platform", "account", "chat"], set_={"moved_to": move.excluded.moved_to}
    )
)
_MOVE_ON = Statement(
    update(t.moves)
    .where(_moves.platform == bindparam("on"), _moves.moved_to == bindparam("from"), _in_chat(_moves.account))
    .values(moved_to=bindparam("to"))
)
_MOVE_BACK = Statement(
    sa.delete(t.moves).where(
        _moves.platform == bindparam("on"), _moves.chat == bindparam("to"), _in_chat(_moves.account)
    )
)
_TAKE_LEASE = Statement(
    lambda insert: (
        (lease := insert(t.leases))
        .on_conflict_do_update(
            index_elements=["name"],
            set_={"holder": lease.excluded.holder, "until": lease.excluded.until},
            where=sa.or_(t.leases.c.holder == lease.excluded.holder, t.leases.c.until <= bindparam("now")),
        )
        .returning(t.leases.c.name)
    )
)
_DROP_LEASE = Statement(
    sa.delete(t.leases).where(t.leases.c.name == bindparam("lease"), t.leases.c.holder == bindparam("by"))
)


@cache
def _approvals(status: Status | None, by_agent: bool) -> Statement:
    found = select(*_approval)
    if status is Status.PENDING:
        found = found.where(sa.text(t.IS_PENDING))
    elif status is not None:
        found = found.where(sa.text(t.IS_FINAL), sa.text(f"status = '{status.value}'"))
    if by_agent:
        found = found.where(_row.agent == bindparam("is_agent"))
    return Statement(found.order_by(_row.created_at.desc(), _row.id.desc()).limit(_LIMIT))


@cache
def _open_rows(lane: bool, run: bool, hold: bool) -> Statement:
    found = select(*_approval).where(_row.agent == bindparam("is_agent"), sa.text(t.IS_OPEN))
    if lane:
        found = found.where(_row.lane == bindparam("in_lane"), sa.text("lane IS NOT NULL"))
    if run:
        found = found.where(_row.run_id == bindparam("of_run"), sa.text("run_id IS NOT NULL"))
    found = found.order_by(_row.created_at)
    # SQLite has one writer at a time, and leaves the words out.
    return Statement(found.with_for_update(key_share=True) if hold else found)


def _known(table: sa.Table, names: Iterable[str], fixed: frozenset[str]) -> None:
    for name in names:
        if name not in table.c or name in fixed:
            raise TypeError(f"{name} is not a column of {table.name} that can be changed")


@cache
def _change(names: tuple[str, ...]) -> Statement:
    _known(t.approvals, names, frozenset({"id", "revision"}))
    return Statement(
        update(t.approvals)
        .where(_row.id == bindparam("this_id"), _row.revision == bindparam("this_revision"))
        .values({"revision": _row.revision + sa.literal_column("1"), **{name: bindparam(name) for name in names}})
        .returning(*_approval)
    )


@cache
def _mark(names: tuple[str, ...], claimed: bool) -> Statement:
    _known(t.messages, names, frozenset({"id", "approval_id", "kind", "person", "token"}))
    marked = update(t.messages).where(_card.id == bindparam("this_id"))
    if claimed:
        marked = marked.where(_card.claim == bindparam("this_claim"))
    return Statement(marked.values({name: bindparam(name) for name in names}).returning(_card.id))


class Ledger(People):
    """`core.ports.Ledger` over an open transaction; the methods say there what they answer."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self._approval_makers, self._posted_makers = _MAKERS[line.dialect.name]

    def _read_approval(self, row: Row) -> Approval:
        values = list(row)
        for index, make in self._approval_makers:
            if values[index] is not None:
                values[index] = make(values[index])
        return Approval(*values)

    def _read_posted(self, row: Row) -> Posted:
        values = list(row)
        for index, make in self._posted_makers:
            if values[index] is not None:
                values[index] = make(values[index])
        return Posted(*values)

    def _one_approval(self, statement: Statement, **values: Any) -> Approval | None:
        rows = self._rows(statement, values)
        return self._read_approval(rows[0]) if rows else None

    def _some_approvals(self, statement: Statement, **values: Any) -> Sequence[Approval]:
        return [self._read_approval(row) for row in self._rows(statement, values)]

    def _pair(self, statement: Statement, **values: Any) -> tuple[Posted, Approval] | None:
        rows = self._rows(statement, values)
        if not rows:
            return None
        width = len(_posted)
        return self._read_posted(rows[0][:width]), self._read_approval(rows[0][width:])

    def approval(self, approval_id: str) -> Approval | None:
        return self._one_approval(_APPROVAL, approval=approval_id)

    def approval_of_run(self, workflow_id: str, first_run_id: str) -> Approval | None:
        return self._one_approval(_APPROVAL_OF_RUN, workflow=workflow_id, first_run=first_run_id)

    def approval_of_key(self, asked_by: str, idempotency_key: str) -> Approval | None:
        return self._one_approval(_APPROVAL_OF_KEY, asker=asked_by, key=idempotency_key)

    def approvals(
        self, *, status: Status | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        return self._some_approvals(_approvals(status, agent is not None), is_agent=agent, at_most=limit)

    def insert(self, approval: Approval) -> bool:
        return bool(self._rows(_INSERT, {column.name: getattr(approval, column.name) for column in _approval}))

    def change(self, approval: Approval, **columns: Any) -> Approval | None:
        statement = _change(tuple(sorted(columns)))
        return self._one_approval(statement, this_id=approval.id, this_revision=approval.revision, **columns)

    def note_check(self, approval_id: str, at: datetime, closed_rounds: int) -> None:
        self._rows(_NOTE_CHECK, {"approval": approval_id, "at": at, "rounds": closed_rounds})

    def open_rows(
        self, agent: str, *, lane: str | None = None, run_id: str | None = None, hold: bool = False
    ) -> Sequence[Approval]:
        statement = _open_rows(lane is not None, run_id is not None, hold)
        return self._some_approvals(statement, is_agent=agent, in_lane=lane, of_run=run_id)

    def last_of_lane(self, agent: str, lane: str) -> Approval | None:
        return self._one_approval(_LAST_OF_LANE, is_agent=agent, in_lane=lane)

    def agents_of_lane(self, lane: str) -> Sequence[str]:
        return [row[0] for row in self._rows(_AGENTS_OF_LANE, {"in_lane": lane})]

    def rows_of_run(self, agent: str, run_id: str) -> Sequence[Approval]:
        return self._some_approvals(_OF_RUN, is_agent=agent, of_run=run_id)

    def declined_by(self, agent: str, lane: str, decision_key: str) -> Sequence[Approval]:
        return self._some_approvals(_DECLINED_BY, is_agent=agent, in_lane=lane, key=decision_key)

    def touch_open(self, agent: str) -> Sequence[tuple[str, int]]:
        return [(row[0], row[1]) for row in self._rows(_TOUCH_OPEN, {"is_agent": agent})]

    def close_run(self, agent: str, run_id: str, at: datetime) -> None:
        self._rows(_CLOSE_RUN, {"agent": agent, "run_id": run_id, "closed_at": at})

    def run_closed(self, agent: str, run_id: str) -> bool:
        return bool(self._rows(_RUN_CLOSED, {"is_agent": agent, "of_run": run_id}))

    def add_update(self, update: Update) -> int:
        if self._line.dialect.name == "postgresql":
            self._rows(_IN_ORDER, {"is_agent": update.agent})
        ((number,),) = self._rows(
            _ADD_UPDATE,
            {name: getattr(update, name) for name in ("agent", "approval_id", "at", "status", "outcome", "text")},
        )
        return int(number)

    def updates(self, agent: str, since: int, limit: int) -> Sequence[Update]:
        rows = self._rows(_UPDATES, {"is_agent": agent, "since": since, "at_most": limit})
        return [Update(row[0], row[1], row[2], self._moment(row[3]), *row[4:]) for row in rows]

    def expiring(self, now: datetime, limit: int) -> Sequence[Approval]:
        return self._some_approvals(_EXPIRING, now=now, at_most=limit)

    def soonest(self, after: Approval | None, limit: int) -> Sequence[Approval]:
        expiry, last = (_EARLIEST, "") if after is None else (after.expires_at, after.id)
        return self._some_approvals(_WAITING_AFTER, expiry=expiry, after=last, at_most=limit)

    def unconsumed(self, decided_before: datetime, limit: int) -> Sequence[Approval]:
        return self._some_approvals(_UNCONSUMED, before=decided_before, at_most=limit)

    def unseen(self, created_before: datetime, limit: int) -> Sequence[Approval]:
        return self._some_approvals(_UNSEEN, before=created_before, at_most=limit)

    def overdue(self, now: datetime, limit: int) -> Sequence[Approval]:
        sending = self._some_approvals(_SENDING, now=now, at_most=limit)
        return [*sending, *self._some_approvals(_UNCLAIMED, now=now, at_most=limit)]

    def unsettled(self, limit: int) -> Sequence[Approval]:
        return self._some_approvals(_UNSETTLED, at_most=limit)

    def unstarted(self, created_before: datetime, limit: int) -> Sequence[Approval]:
        return self._some_approvals(_UNSTARTED, before=created_before, at_most=limit)

    def waiting(self) -> tuple[int, datetime | None]:
        ((count, oldest),) = self._rows(_WAITING, {})
        return count, self._moment(oldest)

    def undeliverable(self) -> int:
        ((count,),) = self._rows(_UNDELIVERABLE, {})
        return int(count)

    def vote(self, approval_id: str, vote: Vote) -> None:
        self._rows(
            _VOTE,
            {
                "approval_id": approval_id,
                "person": vote.person,
                "content_revision": vote.content_revision,
                "verdict": vote.verdict,
                "at": vote.at,
                "roles": json.dumps(vote.roles) if vote.roles else None,
            },
        )

    def votes_of(self, approval_id: str) -> Sequence[Vote]:
        return [
            Vote(person, content, verdict, self._moment(at), tuple(json.loads(roles)) if roles else ())
            for person, content, verdict, at, roles in self._rows(_VOTES_OF, {"approval": approval_id})
        ]

    def drop_vote(self, approval_id: str, person: str, content_revision: int) -> None:
        self._rows(_DROP_VOTE, {"approval": approval_id, "by": person, "content": content_revision})

    def audit(self, line: AuditLine) -> None:
        self._rows(_AUDIT, {column.name: getattr(line, column.name) for column in _LINE})

    def audit_of(self, approval_id: str) -> Sequence[AuditLine]:
        rows = self._rows(_AUDIT_OF, {"approval": approval_id})
        return [AuditLine(row[0], self._moment(row[1]), *row[2:]) for row in rows]

    def show(self, text: str, at: datetime) -> str:
        shown_id = hashlib.sha256(text.encode()).hexdigest()
        self._rows(_SHOW, {"id": shown_id, "text": text, "at": at})
        return shown_id

    def shown(self, shown_id: str) -> str | None:
        rows = self._rows(_SHOWN, {"shown": shown_id})
        return rows[0][0] if rows else None

    def purge_shown(self, before: datetime) -> int:
        return len(self._rows(_PURGE_SHOWN, {"before": before}))

    def posted_of_token(self, token: str) -> tuple[Posted, Approval] | None:
        return self._pair(_POSTED_OF_TOKEN, button=token)

    def posted_at(self, message: Message) -> tuple[Posted, Approval] | None:
        return self._pair(_POSTED_AT, on=message.platform, by=message.account, in_chat=message.chat, message=message.id)

    def waiting_in(self, chat: Message) -> Sequence[tuple[Posted, Approval]]:
        width = len(_posted)
        rows = self._rows(_WAITING_IN, {"on": chat.platform, "by": chat.account, "in_chat": chat.chat})
        pairs = [(self._read_posted(row[:width]), self._read_approval(row[width:])) for row in rows]
        return list({approval.id: (posted, approval) for posted, approval in pairs}.values())

    def posted(self, posted_id: str) -> Posted | None:
        rows = self._rows(_POSTED, {"posted": posted_id})
        return self._read_posted(rows[0]) if rows else None

    def posted_for(self, approval_id: str, kind: Kind | None = None) -> Sequence[Posted]:
        rows = map(self._read_posted, self._rows(_POSTED_FOR, {"approval": approval_id}))
        return [posted for posted in rows if kind is None or posted.kind is kind]

    def stale_cards(self, now: datetime, limit: int, platform: str) -> Sequence[Posted]:
        here = {"now": now, "at_most": limit, "on": platform}
        return [self._read_posted(row) for row in self._rows(_STALE_CARDS, here)]

    def reserve(self, posted: Posted, now: datetime) -> Posted | None:
        values = {column.name: getattr(posted, column.name) for column in _posted}
        rows = self._rows(_RESERVE, {**values, "now": now})
        return self._read_posted(rows[0]) if rows else None

    def mark(self, posted_id: str, *, claim: str | None = None, **columns: Any) -> bool:
        if "claim_until" in columns and columns["claim_until"] is None:
            columns["claim"] = None
        statement = _mark(tuple(sorted(columns)), claim is not None)
        return bool(self._rows(statement, {**columns, "this_id": posted_id, "this_claim": claim}))

    def take_redraw(self, posted_id: str, claim: str, now: datetime, until: datetime) -> Posted | None:
        rows = self._rows(_TAKE_REDRAW, {"posted": posted_id, "holder": claim, "now": now, "until": until})
        return self._read_posted(rows[0]) if rows else None

    def moved_to(self, platform: str, account: str, chat: str) -> str:
        rows = self._rows(_MOVED_TO, {"on": platform, "by": account, "from": chat})
        return rows[0][0] if rows else chat

    def move(self, platform: str, account: str, chat: str, to: str) -> None:
        here = {"on": platform, "by": account, "from": chat, "to": to}
        self._rows(_MOVE_BACK, here)
        self._rows(_MOVE_ON, here)
        self._rows(_MOVE, {"platform": platform, "account": account, "chat": chat, "moved_to": to})
        # A message keeps its destination: that is the place as the route says it, under which it is posted once.
        self._rows(_POSTED_MOVES, here)

    def take_lease(self, name: str, holder: str, now: datetime, until: datetime) -> bool:
        return bool(self._rows(_TAKE_LEASE, {"name": name, "holder": holder, "until": until, "now": now}))

    def drop_lease(self, name: str, holder: str) -> None:
        self._rows(_DROP_LEASE, {"lease": name, "by": holder})

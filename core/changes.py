"""Every change of a row, inside a transaction: compare-and-swap first, then the votes and the audit line.

Each answers the changed row, or None when it changed nothing, be it that there was nothing to change or that another
transaction was faster: then the row is read and judged again (design section 4, step 3).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from core.approvals import (
    AUTO,
    Approval,
    AuditLine,
    Effect,
    Outcome,
    Person,
    Runtime,
    Status,
    Update,
    Verdict,
    Vote,
)
from core.people import Directory
from core.ports import Ledger
from core.wording import sentence_for

EXTERNAL_VALID = timedelta(hours=1)
# What a person does to an answer that was given before.
KEYED = frozenset(("undo", "restore", "again"))
# A draft's answer can be taken back for so long (design section 6).
UNDO, RESTORE = timedelta(seconds=5), timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's answer: `key` is the event that carries it, `shown_id` the text that it is about.

    A person without an id is somebody whom nobody can name: the agent's program passed on what they wrote.
    """

    person: Person
    verdict: Verdict
    key: str
    via: str
    identity: str | None = None
    note: str | None = None
    by_message: bool = False
    shown_id: str | None = None


def due(approval: Approval, now: datetime) -> bool:
    return approval.pending and approval.expires_at <= now


def advance(ledger: Ledger, approval: Approval, now: datetime) -> Approval | None:
    """What time alone does to a waiting row: it expires, or more people are asked."""
    if due(approval, now):
        expired = ledger.change(approval, status=Status.EXPIRED, decided_at=now)
        if expired is not None:
            ledger.audit(AuditLine(approval.id, now, "expired", expired.revision))
        return expired
    if approval.pending and approval.escalate_at is not None and approval.escalate_at <= now:
        escalated = ledger.change(approval, escalate_at=None, escalated_at=now)
        if escalated is not None:
            ledger.audit(AuditLine(approval.id, now, "escalated", escalated.revision))
        return escalated
    return None


def answer(
    ledger: Ledger, approval: Approval, said: Answer, now: datetime, given: Collection[str] = ()
) -> Approval | None:
    """A decline declines; an Allow is counted, and allows once as many as are needed have given theirs.

    `given` are those whose Allow counts already (`given` below); without them this one stands alone.
    """
    allow = said.verdict is Verdict.ALLOW
    person = said.person
    decides = not allow or len({*given, person.id}) >= approval.needed
    columns: dict[str, Any] = {}
    if decides:
        draft = approval.runtime is Runtime.DRAFT
        columns = {
            "status": Status.APPROVED if allow else Status.DECLINED,
            "decided_at": now,
            "decided_by": person.id or None,
            "decided_via": said.via,
            "decision_key": said.key,
            "note": said.note,
            "by_message": said.by_message,
            "valid_until": now + EXTERNAL_VALID if allow and approval.runtime is Runtime.EXTERNAL else None,
            "grace_until": now + UNDO if draft and allow else None,
            "restore_until": now + RESTORE if draft and not allow else None,
        }
    changed = ledger.change(approval, **columns)
    if changed is None:
        return None
    if person.id:
        lent = tuple(sorted(person.lent))
        ledger.vote(approval.id, Vote(person.id, approval.content_revision, said.verdict.value, now, lent))
    ledger.audit(_line(changed, said.verdict.value, said, now))
    return changed


def allowing(ledger: Ledger, directory: Directory, approval: Approval) -> set[str]:
    """Who has allowed this content and may still answer; once it is settled, everybody who had allowed it."""
    votes = [
        vote
        for vote in ledger.votes_of(approval.id)
        if vote.content_revision == approval.content_revision and vote.verdict == Verdict.ALLOW
    ]
    if not approval.pending:
        return {vote.person for vote in votes}
    voters = (directory.voter(ledger, vote) for vote in votes)
    return {who.id for who in voters if who is not None and directory.may_answer(ledger, approval, who) is None}


def given(ledger: Ledger, directory: Directory, approval: Approval, verdict: Verdict) -> Collection[str]:
    """Whose Allow counts beside an answer: of those who may still give one, to this very content; nobody's where one
    answer decides."""
    if verdict is not Verdict.ALLOW or approval.needed == 1:
        return ()
    return allowing(ledger, directory, approval)


def allow_unasked(ledger: Ledger, approval: Approval, why: str, now: datetime) -> Approval | None:
    """A standing rule that was made since covers this waiting row."""
    allowed = ledger.change(
        approval, status=Status.APPROVED, decided_at=now, decided_by=AUTO, decided_via="rule", note=why,
        valid_until=now + EXTERNAL_VALID if approval.runtime is Runtime.EXTERNAL else None,
    )  # fmt: skip
    if allowed is not None:
        ledger.audit(AuditLine(approval.id, now, AUTO, allowed.revision, surface="rule", note=why))
    return allowed


def take_back(ledger: Ledger, approval: Approval, said: Answer, now: datetime) -> Approval | None:
    """A draft's Undo or Restore: it waits again, and whoever answered, or took it back, may answer anew."""
    action = "undo" if approval.status is Status.APPROVED else "restore"
    waiting = ledger.change(
        approval, status=Status.PENDING, decided_at=None, decided_by=None, note=None, by_message=False,
        valid_until=None, grace_until=None, restore_until=None, consumed_at=None,
    )  # fmt: skip
    if waiting is None:
        return None
    # The Allow of somebody who undoes what several allowed must not go on counting.
    undoes = {said.person.id} if approval.status is Status.APPROVED else set()
    for person in {approval.decided_by or ""} | undoes:
        ledger.drop_vote(approval.id, person, approval.content_revision)
    ledger.audit(_line(waiting, action, _keyed(said, approval.decision_key), now))
    return waiting


def was_spent(ledger: Ledger, approval: Approval, key: str) -> bool:
    """Whether this event has had its effect on a draft whose answer was taken back, or which was sent again, since:
    delivered once more, it must do nothing."""
    if approval.runtime is not Runtime.DRAFT or approval.decision_key is None:
        return False
    if approval.pending and approval.decision_key == key:
        return True
    lines = ledger.audit_of(approval.id)
    return any(key in (line.note or "").split("\n") for line in lines if line.action in KEYED)


def edit(
    ledger: Ledger, approval: Approval, said: Answer, arguments: str, digest: str, effect: Effect, now: datetime
) -> Approval | None:
    """What would run is another content from here on, which nobody has allowed yet."""
    changed = ledger.change(
        approval, final_arguments=arguments, digest=digest, content_revision=approval.content_revision + 1,
        edited_at=now, edited_by=said.person.id, effect=effect,
    )  # fmt: skip
    if changed is not None:
        ledger.audit(_line(changed, "edited", said, now))
    return changed


def cancel(ledger: Ledger, directory: Directory, approval: Approval, by: str, now: datetime) -> Approval | None:
    """Nobody needs the answer any more; whoever waits for it has yet to hear so."""
    ended = ledger.change(approval, status=Status.CANCELLED, decided_at=now, decided_via=by)
    if ended is not None:
        ledger.audit(AuditLine(approval.id, now, "cancelled", ended.revision, identity=by))
        _tell_agent(ledger, directory, ended, now)
    return ended


def claim(ledger: Ledger, approval: Approval, run: str, now: datetime, surface: str | None = None) -> Approval | None:
    """The one leave to run the call."""
    claimed = ledger.change(
        approval, outcome=Outcome.SENDING, claim_token=secrets.token_urlsafe(16), claimed_by=run, claimed_at=now,
        consumed_at=now,
    )  # fmt: skip
    if claimed is not None:
        ledger.audit(AuditLine(approval.id, now, "claimed", claimed.revision, identity=run, surface=surface))
    return claimed


def consume(ledger: Ledger, directory: Directory, approval: Approval, now: datetime) -> Approval:
    """Whoever waited has the answer."""
    if approval.consumed_at is not None:
        return approval
    consumed = ledger.change(approval, consumed_at=now)
    if consumed is None:
        # Somebody else changed the row; the sweep rings until it is consumed.
        return approval
    if approval.status is not Status.CANCELLED and approval.outcome is Outcome.NONE:
        # Of the others the agent was told when it came to pass.
        _tell_agent(ledger, directory, consumed, now)
    return consumed


def end(
    ledger: Ledger, directory: Directory, approval: Approval, outcome: Outcome, note: str | None, now: datetime
) -> Approval | None:
    """What became of the call; where it never began, whoever waits for it has yet to hear so."""
    ended = ledger.change(approval, outcome=outcome, outcome_note=note, outcome_at=now)
    if ended is not None:
        ledger.audit(AuditLine(approval.id, now, outcome.value, ended.revision))
        _tell_agent(ledger, directory, ended, now)
    return ended


def send_again(ledger: Ledger, approval: Approval, said: Answer, now: datetime) -> Approval | None:
    """A draft that was not sent, or may have been, is sent once more because a person says so."""
    again = ledger.change(
        approval, outcome=Outcome.NONE, outcome_note=None, outcome_at=None, claim_token=None, claimed_by=None,
        claimed_at=None, consumed_at=None, decided_at=now, decided_by=said.person.id, decided_via=said.via,
        decision_key=said.key, grace_until=None,
    )  # fmt: skip
    if again is not None:
        ledger.audit(_line(again, "again", _keyed(said, approval.decision_key), now))
    return again


def attempt(ledger: Ledger, approval: Approval) -> int:
    """Which sending of a draft it is, counted from 1; each Send again is one more."""
    return 1 + sum(line.action == "again" for line in ledger.audit_of(approval.id))


def dismiss(ledger: Ledger, approval: Approval, said: Answer, now: datetime) -> Approval | None:
    """Somebody has seen how it ended; the card asks for nothing any more."""
    dismissed = ledger.change(approval, dismissed_at=now)
    if dismissed is not None:
        ledger.audit(_line(dismissed, "dismissed", said, now))
    return dismissed


def _keyed(said: Answer, before: str | None) -> Answer:
    """The row keeps the key of its last answer only; the audit keeps the others, in the place of a note."""
    return replace(said, note="\n".join(key for key in (before, said.key) if key))


def _line(changed: Approval, action: str, said: Answer, now: datetime) -> AuditLine:
    return AuditLine(
        changed.id, now, action, changed.revision, person=said.person.id or None, identity=said.identity,
        surface=said.via, note=said.note, shown_id=said.shown_id,
    )  # fmt: skip


def _tell_agent(ledger: Ledger, directory: Directory, approval: Approval, now: datetime) -> None:
    """Nobody waits for a draft: its agent reads what became of it."""
    if approval.runtime is not Runtime.DRAFT:
        return
    text = sentence_for(approval, directory.names(ledger, approval)) or ""
    ledger.add_update(Update(0, approval.agent, approval.id, now, approval.status.value, approval.outcome.value, text))

"""What the workflows ask of the database and of the bots: every method here is an activity."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from core.approvals import AUTO, Approval, Destination, Runtime, Status
from core.asks import Invalid, read_ask
from core.beside import beside
from core.canonical import Unfit, fields_of
from core.people import Refusal
from core.ports import Slow, Unavailable
from core.service import Approvals, Origin, Taken
from core.wording import sentence_for
from workflows.payloads import WHOLE, Answer, Call, Ended, Fault, Notify, Opening, Place, Posting, Round, Row

log = logging.getLogger("placet.workflows")

MISSING_LIMIT = 10
REDRAWS = 100

# What the server says of a row's workflow: "open", "closed" or "missing"; raises Unavailable when it does not say.
Describe = Callable[[Approval], Awaitable[str]]


class Desk(Protocol):
    """The part of core.desk.Desk that the workflows use."""

    async def post(self, approval_id: str, destination: Destination, person: str) -> str: ...

    async def remind(self, approval_id: str) -> None: ...

    async def redraw_stale(self, limit: int) -> int: ...


class Bookkeeping:
    """The workflows' way to the row; served on the queue `placet`. Every method may be called again."""

    def __init__(self, approvals: Approvals, describe: Describe) -> None:
        self.approvals, self.describe = approvals, describe

    @property
    def activities(self) -> list[Callable[..., Any]]:
        return [self.open, self.take, self.reach, self.record, self.withdraw, self.sweep]

    @activity.defn(name="open")
    async def open(self, ask: RawValue, first_run_id: str) -> Opening:
        """Check an ask and write its row, or find the row that this workflow stands for (design section 5, step 1)."""
        async with neutral("open"):
            workflow_id = activity.info().workflow_id or ""
            try:
                document = document_of(ask)
                if (approval_id := reference_in(document)) is not None:
                    return await self._find(approval_id, workflow_id)
                asked = await beside(len(document), partial(read_ask, document, over="temporal"))
            except (Invalid, Unfit) as error:
                field = error.field if isinstance(error, Invalid) else error.path
                return Opening(fault=Fault(field=field, problem=error.problem))
            opened = await self.approvals.open(asked, Origin(workflow_id=workflow_id, first_run_id=first_run_id))
            if isinstance(opened, Refusal):
                return Opening(fault=Fault(field=WHOLE, problem=opened.text))
            row = await self._row(Taken(opened.approval, until=_first(opened.approval)))
            if asked.runtime is Runtime.DRAFT:
                # What runs unasked runs here, at once: there is no answer to wait for.
                unasked = opened.approval.unasked
                return Opening(row=row, handed_over=not unasked, draft=unasked)
            return Opening(row=row, places=await self._places(opened.approval))

    async def _find(self, approval_id: str, workflow_id: str) -> Opening:
        if workflow_id != f"approval-{approval_id}":
            raise Invalid("approval_id", "only the workflow approval-<id> may stand for an approval that exists")
        approval = await self.approvals.get(approval_id)
        if approval is None:
            raise Invalid("approval_id", "no approval has this id")
        if approval.runtime is Runtime.TURN:
            raise Invalid("approval_id", "the workflow that asked waits for this approval itself")
        row = await self._row(Taken(approval, until=_first(approval)))
        return Opening(row=row, places=await self._places(approval))

    async def _row(self, taken: Taken) -> Row:
        # Names are for the sentence of a settled row; on the way to the call nothing is read that it does not need.
        approval = taken.approval
        if taken.until is not None or taken.claim is not None or approval.decided_by is None:
            return row_of(taken, {})
        names = self.approvals.directory.names
        return row_of(taken, await self.approvals.store.read(lambda ledger: names(ledger, approval)))

    async def _places(self, approval: Approval, *, missing: bool = False) -> tuple[Place, ...]:
        if not approval.pending:
            return ()
        return tuple(
            Place(
                platform=place.destination.platform, account=place.destination.account, chat=place.destination.chat,
                thread=place.destination.thread, person=place.person,
            )
            for place in await self.approvals.places(approval.id, missing=missing)
        )  # fmt: skip

    @activity.defn(name="take")
    async def take(self, approval_id: str) -> Row:
        """The row as it stands; an approved call is claimed for this very run in the same transaction.

        Only as a local activity: then the claim and the call stand in one workflow task, and a reset to it claims
        again under another run id, which is refused (design section 5, step 4).
        """
        async with neutral("take", approval_id):
            taken = await self.approvals.take(approval_id, activity.info().workflow_run_id or "")
            if taken is None:
                raise gone()
            row, approval = await self._row(taken), taken.approval
            if approval.undeliverable is None and approval.escalated_at is None:
                return row
            return row.model_copy(update={"places": await self._places(approval, missing=True)})

    @activity.defn(name="reach")
    async def reach(self, approval_id: str) -> None:
        """Succeeds once the database takes writes again; what it writes is that this row's workflow is alive."""
        async with neutral("reach", approval_id):
            await self.approvals.note_closed(approval_id, closed=False)

    @activity.defn(name="record")
    async def record(self, ended: Ended) -> Row:
        """Store what became of the call that this run claimed; the token of the claim never leaves the database."""
        async with neutral("record", ended.approval_id):
            approval = await self.approvals.get(ended.approval_id)
            if approval is None:
                raise gone()
            if approval.claimed_by == ended.run_id and approval.claim_token is not None:
                recorded = await self.approvals.record(
                    ended.approval_id, approval.claim_token, ended.outcome, ended.error
                )
                if isinstance(recorded, Approval):
                    approval = recorded
                else:
                    log.warning("not recorded", extra={"approval": ended.approval_id, "reason": recorded.code,
                                                       "outcome": ended.outcome.value})  # fmt: skip
            return await self._row(Taken(approval))

    @activity.defn(name="withdraw")
    async def withdraw(self, approval_id: str) -> Row | None:
        """The waiting workflow was cancelled: settle the row as design section 5, step 5 says.

        Answers the row where somebody is to be told of it.
        """
        async with neutral("withdraw", approval_id):
            withdrawn = await self.approvals.withdraw(approval_id, by="workflow", claimed_too=True)
            if isinstance(withdrawn, Refusal) or withdrawn.notify is None:
                return None
            return await self._row(Taken(withdrawn))

    @activity.defn(name="sweep")
    async def sweep(self) -> Round:
        """One round over everything that a crash or a lost word may have left behind; a failing step stops no other."""
        done, failed = {}, []
        steps = {
            "rung": self.approvals.ring_unconsumed,
            "expired": self.approvals.expire_due,
            "settled": self.approvals.settle_overdue,
            "started": self.approvals.start_missing,
        }
        for name, step in steps.items():
            try:
                done[name] = await step()
            except Exception as error:
                failed.append(name)
                log.error("sweep step failed", extra={"step": name, "error": described(error)})
        try:
            done["checked"], done["missing"] = await self._ask_after_workflows()
        except Exception as error:
            failed.append("checked")
            log.error("sweep step failed", extra={"step": "checked", "error": described(error)})
        return Round(**done, failed=tuple(failed))

    async def _ask_after_workflows(self) -> tuple[int, int]:
        rows = await self.approvals.unsettled()
        said = [(row, await self.describe(row)) for row in rows]
        missing = sum(word == "missing" for _, word in said)
        if missing > MISSING_LIMIT:
            log.error("workflows missing: was the Temporal server replaced?", extra={"missing": missing})
        for row, word in said:
            if word == "open" or missing <= MISSING_LIMIT:
                await self.approvals.note_closed(row.id, closed=word != "open")
        return len(said), missing


class Posts:
    """The workflows' way to the chats; served on `placet-bots`, by the process that holds the platforms' tokens."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @property
    def activities(self) -> list[Callable[..., Any]]:
        return [self.post, self.remind, self.redraw]

    @activity.defn(name="post")
    async def post(self, posting: Posting) -> str:
        """Post one card: `posted`, `final` (the row was settled meanwhile) or `failed` (for good)."""
        async with neutral("post", posting.approval_id):
            return await self.desk.post(posting.approval_id, posting.place.destination, posting.place.person)

    @activity.defn(name="remind")
    async def remind(self, approval_id: str) -> None:
        """Remind those who were asked, once, while the row is pending."""
        async with neutral("remind", approval_id):
            await self.desk.remind(approval_id)

    @activity.defn(name="redraw")
    async def redraw(self) -> int:
        """Redraw cards that show an old revision; how many."""
        async with neutral("redraw"):
            return await self.desk.redraw_stale(REDRAWS)


def document_of(ask: RawValue) -> bytes:
    """The JSON text of an argument; raises Invalid for one that is no JSON."""
    encoding = ask.payload.metadata.get("encoding", b"").decode("ascii", "replace")
    if not encoding.startswith("json/"):
        raise Invalid(WHOLE, "must be a JSON object that this worker can read (encoding json/plain); where the caller "
                             "encrypts payloads, give Placet's worker the same payload codec")  # fmt: skip
    return ask.payload.data


def reference_in(document: bytes) -> str | None:
    """The id in `{"approval_id": "<id>"}`; None for anything else. Raises Unfit."""
    if len(document) > 200:
        return None
    fields, _ = fields_of(document)
    approval_id = fields.get("approval_id")
    return approval_id if set(fields) == {"approval_id"} and isinstance(approval_id, str) else None


def _first(approval: Approval) -> datetime | None:
    """When a run that has just met its row looks at it again; a row that is answered already it looks at now."""
    return approval.look_again_at if approval.pending else None


def row_of(taken: Taken, people: Mapping[str, str]) -> Row:
    """What a run is told of its row; `people` maps ids to names."""
    approval, claimed = taken.approval, taken.claim is not None
    if taken.until is not None:
        return Row(
            id=approval.id,
            pending=True,
            expires_at=taken.until,
            remind_at=approval.remind_at if approval.pending and approval.reminded_at is None else None,
            answer=answer_of(approval, people) if _told_at_once(approval) else None,
        )
    notify = None if approval.notify is None or approval.consumed_at is None else approval.notify
    if approval.runtime is Runtime.EXTERNAL:
        # Nobody waits for this answer in Temporal: what its asker and its people wrote stays in the database.
        approval = replace(approval, note=None, outcome_note=None)
    return Row(
        id=approval.id,
        pending=False,
        expires_at=approval.expires_at,
        answer=answer_of(approval, people),
        # What was asked over HTTP comes to Temporal when its call runs, and not before.
        arguments=approval.final_arguments if claimed or approval.runtime is Runtime.TURN else None,
        call=Call.model_validate_json(approval.run) if claimed and approval.run is not None else None,
        notify=None if notify is None or claimed else Notify.model_validate_json(notify),
    )


def _told_at_once(approval: Approval) -> bool:
    """Whether an asker may be given the answer while the row waits: nobody waits for a draft."""
    return approval.runtime is Runtime.DRAFT and (approval.pending or approval.decided_by == AUTO)


def answer_of(approval: Approval, people: Mapping[str, str]) -> Answer:
    """The answer as far as the row knows it."""
    unasked = approval.status is Status.APPROVED and approval.decided_by == AUTO
    return Answer(
        approval_id=approval.id,
        status="auto" if unasked else approval.status.value,
        outcome=approval.outcome,
        error=approval.outcome_note,
        decided_by=approval.decided_by,
        decided_at=approval.decided_at,
        note=approval.note,
        by_message=approval.by_message,
        text=sentence_for(approval, people),
    )


def gone() -> ApplicationError:
    return ApplicationError("the approval is not in the database", type="Gone", non_retryable=True)


@asynccontextmanager
async def neutral(name: str, approval_id: str = "") -> AsyncIterator[None]:
    """Turn errors into words that may stand in Temporal's history: no message of a driver or a platform does.

    Slow and Unavailable are retried, the first after the platform's own delay; anything else is a bug, which is
    logged with its place and retried as well.
    """
    try:
        yield
    except Slow as slow:
        raise ApplicationError(
            "the platform asks to wait", type="Slow", category=ApplicationErrorCategory.BENIGN,
            next_retry_delay=timedelta(seconds=max(slow.after, 0.1)),
        ) from None  # fmt: skip
    except Unavailable:
        raise ApplicationError("cannot be reached now", type="Unavailable",
                               category=ApplicationErrorCategory.BENIGN) from None  # fmt: skip
    except ApplicationError:
        raise
    except Exception as error:
        log.error("activity failed", extra={"activity": name, "approval": approval_id, "error": described(error)})
        raise ApplicationError(f"{name} failed: {type(error).__name__}", type=type(error).__name__) from None


def described(error: BaseException) -> str:
    """An error's type and place without its message, which may hold what must not be logged."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].name}:{frames[-1].lineno}" if frames else type(error).__name__

"""An approval as HTTP shows it (design section 9): the card redacted, the arguments for the asking agent alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from adapters.http.auth import Caller
from adapters.http.services import Services
from core.approvals import Approval, Card, Effect, Outcome, Runtime, Status, Tone
from core.cards import Surroundings, card_json, draw
from core.changes import allowing
from core.editing import editable
from core.people import asks_of
from core.ports import Ledger
from core.wording import sentence_for

EXAMPLE: dict[str, Any] = {
    "id": "019cd2a1-7c00-7d3e-9f00-2b6f0c1d4e5a", "agent": "billing", "tool": "stripe.refund", "operation": "create",
    "effect": "money", "runtime": "external", "status": "pending", "outcome": "none", "revision": 1,
    "content_revision": 1, "created_at": "2026-03-09T12:00:00Z", "expires_at": "2026-03-16T12:00:00Z",
    "valid_until": None, "waiting_for": ["role:approver"], "undeliverable": False, "undeliverable_reason": None,
    "needed": 1, "allowed_by": [], "escalated": False, "paused": False, "generation": 1,
    "edited_by": None, "edited_at": None,
    "editable": [{"pointer": "/reason", "label": "reason", "value": "duplicate"}],
    "decision": None, "text": None, "error": None,
    "digest": "sha256:49312ff8d7a6334263c792d76bfb6fe95dcfc0e1bfcb55454cb6a86e5fae9c64",
    "card": {
        "title": "Refund a duplicate charge", "pill": "Money or deletes",
        "body": "billing wants to use stripe.refund (create).",
        "lines": [["Amount", "49.00 GBP"], ["Charge", "ch_1"], ["Customer", "Ada Lovelace"], ["reason", "duplicate"]],
        "claimed": [2], "claim": "The customer was charged twice.", "status": "", "tone": "quiet",
        "expiry": "Expires Mar 16, 2026, 12:00 UTC", "digest": "sha256:49312ff8d7a6", "attachments": [],
        "content_revision": 1,
    },
}  # fmt: skip


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


class DecisionView(View):
    """An answer: a person's, or that of a rule or the mode."""

    verdict: Literal["allow", "decline"]
    by: str = Field(
        description="The person, as the directory names them; `auto` where nobody was asked; empty where the agent's "
        "own program passed on what somebody wrote."
    )
    via: str = Field(description="Where it was answered: telegram, cli, http, ...; of `auto`, `rule` or `mode`.")
    at: datetime
    note: str | None = Field(description="What the person said; of `auto`, which rule or mode it was.")
    by_message: bool = Field(description="Whether the note was a message sent instead of a decision.")


class EditableView(View):
    """A text that people may change before they allow the call."""

    pointer: str = Field(description="Where it stands in the arguments.")
    label: str
    value: str | int | float | bool


class FileView(View):
    """A file that belongs to a card: what does not fit on it, redacted the same way."""

    name: str
    text: str | None = Field(description="The whole text; null in a list.")


class CardView(View):
    """What a person is shown, redacted; plain text."""

    title: str
    pill: str = Field(description="How far the call reaches.")
    body: str
    lines: list[list[str]] = Field(description="Label and value.")
    claimed: list[int] = Field(description="The lines, counted from 0, whose value is the agent's own word.")
    claim: str = Field(description="The agent's own word, which nobody has checked.")
    status: str = Field(description="What became of it; empty while it waits.")
    tone: Tone
    expiry: str
    digest: str
    attachments: list[FileView] = Field(description="What does not fit on a card; to be read before allowing.")
    content_revision: int


class ApprovalView(View):
    """One approval."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"examples": [EXAMPLE]})
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
    created_at: datetime
    expires_at: datetime
    valid_until: datetime | None = Field(description="Until when an allowed external call may be claimed.")
    waiting_for: list[str] = Field(
        description="Who is asked, those of the escalation with them once it has come; empty once it is final."
    )
    undeliverable: bool = Field(description="True while it waits and no card of it can be seen by anybody.")
    undeliverable_reason: str | None
    needed: int = Field(description="How many must allow it.")
    allowed_by: list[str] = Field(description="Where several must: who has allowed what stands.")
    escalated: bool = Field(description="Whether more people were asked since.")
    paused: bool = Field(description="Whether its agent is paused: an answer takes effect when the agent resumes.")
    generation: int = Field(description="The agent's, when it asked; a reset ends a generation.")
    edited_by: str | None
    edited_at: datetime | None
    editable: list[EditableView] | None = Field(description="What may be changed while it waits; null in a list.")
    decision: DecisionView | None = Field(description="null while pending, and where nobody decided.")
    text: str | None = Field(description="The sentence for the model; null while pending, but for drafts.")
    error: str | None = Field(description="What kept the call from running, or broke it off.")
    digest: str = Field(description="SHA-256 over the canonical JSON of tool, operation, run and final arguments.")
    card: CardView
    arguments: dict[str, Any] | None = Field(
        default=None, description="The final arguments; present for the asking agent's own token only."
    )


class ApprovalsView(View):
    """Approvals, newest first."""

    approvals: list[ApprovalView]


class ClaimView(View):
    """Leave to run the call once."""

    claim_token: str = Field(description="Needed to record the outcome.")
    arguments: dict[str, Any] = Field(description="What was allowed, edits included: run exactly this.")


@dataclass(frozen=True, slots=True)
class Page:
    """What one caller is shown of some approvals: their cards, drawn with the names that people have now."""

    caller: Caller
    approvals: Sequence[Approval]
    cards: Sequence[Card]
    names: Mapping[str, str]
    surroundings: Sequence[Surroundings]
    votes: Sequence[Sequence[str]]

    def one(self, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        return Response(self._json(whole=True)[0], status, headers, "application/json")

    def many(self) -> Response:
        return Response('{"approvals":[' + ",".join(self._json(whole=False)) + "]}", media_type="application/json")

    def _json(self, *, whole: bool) -> list[str]:
        return [
            shown_to(
                self.caller,
                approval,
                view_of(approval, card, self.names, whole=whole, allowed_by=votes, paused=around.paused),
            )
            for approval, card, around, votes in zip(
                self.approvals, self.cards, self.surroundings, self.votes, strict=True
            )
        ]


async def page(services: Services, caller: Caller, *approvals: Approval) -> Page:
    def context(ledger: Ledger) -> tuple[dict[str, str], list[Surroundings], list[list[str]]]:
        names = services.directory.names(ledger, *approvals)
        assert services.approvals is not None
        votes = [
            sorted(allowing(ledger, services.directory, approval)) if approval.needed > 1 else []
            for approval in approvals
        ]
        surroundings = [
            services.approvals.surroundings(ledger, approval, given, buttons=False)
            for approval, given in zip(approvals, votes, strict=True)
        ]
        return names, surroundings, votes

    names, surroundings, votes = await services.store.read(context)
    now = services.clock.now()
    cards = [
        await draw(approval, around, now, redaction=services.redaction)
        for approval, around in zip(approvals, surroundings, strict=True)
    ]
    return Page(caller, approvals, cards, names, surroundings, votes)


def shown_to(caller: Caller, approval: Approval, view: ApprovalView) -> str:
    text = view.model_dump_json(exclude={"arguments"})
    return with_arguments(text, approval.final_arguments) if caller.asked(approval) else text


def with_arguments(document: str, arguments: str) -> str:
    """A JSON object with `arguments` added as the text they came as, so that not a digit changes on the way."""
    return f'{document[:-1]},"arguments":{arguments}}}'


def view_of(
    approval: Approval, card: Card, names: Mapping[str, str], *, whole: bool, allowed_by: Sequence[str] = (),
    paused: bool = False,
) -> ApprovalView:  # fmt: skip
    files = [{"name": file.name, "text": file.text if whole else None} for file in card.attachments]
    return ApprovalView(
        id=approval.id, agent=approval.agent, tool=approval.tool, operation=approval.operation,
        effect=approval.effect, runtime=approval.runtime, status=approval.status, outcome=approval.outcome,
        revision=approval.revision, content_revision=approval.content_revision, created_at=approval.created_at,
        expires_at=approval.expires_at, valid_until=approval.valid_until,
        waiting_for=list(asks_of(approval)) if approval.pending else [],
        undeliverable=approval.pending and approval.undeliverable is not None,
        undeliverable_reason=approval.undeliverable if approval.pending else None,
        needed=approval.needed, allowed_by=list(allowed_by), escalated=approval.escalated_at is not None,
        paused=paused, generation=approval.generation, edited_by=approval.edited_by, edited_at=approval.edited_at,
        editable=editable_of(approval) if whole else None,
        decision=decision_of(approval), text=sentence_for(approval, names), error=approval.outcome_note,
        digest=approval.digest, card=CardView.model_validate(card_json(card) | {"attachments": files}),
    )  # fmt: skip


def editable_of(approval: Approval) -> list[EditableView]:
    texts = editable(approval) if approval.pending else []
    return [EditableView(pointer=pointer, label=label, value=value) for pointer, label, value in texts]


def decision_of(approval: Approval) -> DecisionView | None:
    """The answer; an expired or withdrawn request has none, which tells it from a decline."""
    if approval.status not in (Status.APPROVED, Status.DECLINED) or approval.decided_at is None:
        return None
    return DecisionView(
        verdict="allow" if approval.status is Status.APPROVED else "decline", by=approval.decided_by or "",
        via=approval.decided_via or "", at=approval.decided_at, note=approval.note, by_message=approval.by_message,
    )  # fmt: skip

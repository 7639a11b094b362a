"""Asking, reading, answering, claiming and recording over HTTP: each a thin word with the one door."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar
from uuid import uuid4

import rfc8785
from fastapi import APIRouter, Header, Query, Request, Response

from adapters.http.auth import By, Caller, Kind, Using, Via
from adapters.http.bodies import JSON, ClaimBody, DecisionBody, EditBody, OutcomeBody, read_body, read_json
from adapters.http.openapi import answers, body_of, follow_ups
from adapters.http.problems import Problem, invalid, refused
from adapters.http.services import Services
from adapters.http.views import ApprovalsView, ApprovalView, ClaimView, page, with_arguments
from adapters.http.watch import Watch
from core.approvals import Approval, Outcome, Status, Verdict
from core.asks import Ask, Asked, Invalid, TooLarge, read_ask
from core.beside import beside
from core.cards import text_of
from core.people import Refusal
from core.ports import Ledger
from core.service import Approvals, Origin

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# At most a minute, so that no wait is cut short in silence.
WAIT = r"^(([0-5]?[0-9]|60)s?|[01]m|([0-9]{1,4}|[0-5][0-9]{4}|60000)ms)$"
Wait = Annotated[
    str, Query(pattern=WAIT, examples=["30s"], description="How long to wait, at most 60s; 30s, 1m or 500ms.")
]
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
T = TypeVar("T")
NAME = r"^[^\x00-\x1f\x7f]+$"

ALLOW = {"verdict": "allow", "content_revision": 1}

router = APIRouter(prefix="/v1/approvals", tags=["approvals"])


def door(services: Services) -> Approvals:
    assert services.approvals is not None
    return services.approvals


async def visible(services: Services, caller: Caller, approval_id: str) -> Approval:
    """The row, expiry applied; to a caller who may not see it there is none, or he is told what he lacks."""
    approval = await door(services).get(approval_id) if ID.fullmatch(approval_id) else None
    if approval is None or (caller.kind is Kind.AGENT and not caller.sees(approval)):
        raise Problem("not_found", "No approval has this id; GET /v1/approvals lists those you may see.")
    return approval


async def readable(services: Services, caller: Caller, approval_id: str) -> Approval:
    """As `visible`; whoever may answer a row may read it without approvals:view."""
    approval = await visible(services, caller, approval_id)
    if not caller.sees(approval) and not await entitled(services, caller, approval):
        raise Problem("needs_permission", "Reading needs a role with approvals:view.")
    return approval


async def entitled(services: Services, caller: Caller, approval: Approval) -> bool:
    def find(ledger: Ledger) -> bool:
        person = ledger.person(caller.subject)
        return person is not None and services.directory.may_answer(ledger, approval, person) is None

    return await services.store.read(find)


def asker(caller: Caller) -> None:
    if caller.kind is Kind.PERSON:
        raise Problem("needs_agent", "A person's token does not ask; use the agent's, made with placet token AGENT.")


@router.post(
    "", status_code=201, response_model=ApprovalView, summary="Ask",
    responses={
        200: {"model": ApprovalView, "description": "Asked before with this key and body: the same approval."},
        201: {"links": follow_ups(read={}, withdraw={}, decide=ALLOW, claim={"content_revision": 1})},
        **answers(401, 403, 409, 413, 415, 422, 500, 503),
    },
    openapi_extra=body_of(Ask, "What is to be allowed, as the Temporal payload."),
)  # fmt: skip
async def ask(
    request: Request, services: Using, caller: By,
    idempotency_key: Annotated[
        str | None, Header(
            alias="Idempotency-Key", min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$",
            description="Scoped to the token. Bodies that are the same JSON are the same body, however they are spelt.",
        ),
    ] = None,
) -> Response:  # fmt: skip
    """Opens an approval and answers it, pending. Read it again with `wait` until somebody has decided."""
    asker(caller)
    body = await read_body(request, JSON, services.limits.ask)
    try:
        asked, idempotency_hash = await read_beside(body, idempotency_key is not None)
    except TooLarge as error:
        raise Problem("too_large", str(error), field=error.field) from None
    except Invalid as error:
        raise invalid(error.field, error.problem) from None
    if caller.kind is Kind.AGENT and asked.ask.agent != caller.subject:
        raise Problem("other_agent", f"agent: this token asks as {caller.subject} only.", field="agent")
    await check_run(services, asked)
    origin = Origin(
        asked_by=caller.id, idempotency_key=idempotency_key,
        idempotency_hash=idempotency_hash,
    )  # fmt: skip
    opened = await door(services).open(asked, origin)
    if isinstance(opened, Refusal):
        raise refused(opened)
    if opened.created:
        shown = await page(services, caller, opened.approval)
        return shown.one(201, {"Location": f"/v1/approvals/{opened.approval.id}"})
    return (await page(services, caller, await visible(services, caller, opened.approval.id))).one()


async def read_beside(body: bytes, hashed: bool) -> tuple[Asked, str | None]:
    """The ask, and the hash of its body if that is wanted; a large one is read beside the loop. Raises Invalid."""

    def read() -> tuple[Asked, str | None]:
        return read_ask(body, over="http"), hash_of_body(body) if hashed else None

    return await beside(len(body), read)


async def check_run(services: Services, asked: Asked) -> None:
    """Over HTTP a run must be listed (design section 5): a token of an agent is no leave to run anything else."""
    run = asked.ask.run
    if run is None:
        return
    agent = await services.store.read(lambda ledger: ledger.agent(asked.ask.agent))
    if agent is None or (asked.ask.tool, run.activity, run.task_queue) not in agent.runs:
        raise Problem(
            "run_not_listed",
            "run: list tool, activity and task_queue under the agent's runs in placet.yaml.",
            field="run",
        )


def hash_of_body(body: bytes) -> str:
    """SHA-256 over the canonical JSON: a retry that orders its keys differently is still the same ask."""
    return hashlib.sha256(rfc8785.dumps(json.loads(body))).hexdigest()


@router.get("", response_model=ApprovalsView, summary="List", responses=answers(401, 403, 422, 500, 503))
async def rows(
    services: Using, caller: By,
    status: Annotated[Status | None, Query(description="Only those of this status.")] = None,
    agent: Annotated[
        str | None, Query(min_length=1, max_length=200, pattern=NAME, description="Only those of this agent.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="At most so many, newest first.")] = 100,
) -> Response:  # fmt: skip
    """Approvals, newest first. An agent's token lists its own; a person needs approvals:view."""
    if not caller.views:
        raise Problem("needs_permission", "Listing needs a role with approvals:view.")
    if caller.kind is Kind.AGENT:
        if agent not in (None, caller.subject):
            raise Problem("other_agent", f"agent: this token lists approvals of {caller.subject} only.", field="agent")
        agent = caller.subject
    found = await door(services).rows(status=status, agent=agent, limit=limit)
    return (await page(services, caller, *found)).many()


@router.get("/{approval_id}", response_model=ApprovalView, summary="Read, and wait for the answer",
            responses=answers(401, 403, 404, 422, 500, 503))  # fmt: skip
async def read(request: Request, services: Using, caller: By, approval_id: str, wait: Wait = "0s") -> Response:
    """Answers at once when the approval is final, else as soon as it is, or as it stands when `wait` is over.

    A pending answer after a wait is no error: ask again.
    """
    approval = await readable(services, caller, approval_id)
    seconds = min(seconds_of(wait), services.limits.wait_s)
    if approval.pending and seconds > 0:
        watch: Watch = request.app.state.watch
        answered = await unless_gone(request, watch.until_answered(approval_id, seconds))
        if answered is None:
            return Response(status_code=499)
        approval = answered
    return (await page(services, caller, approval)).one()


def seconds_of(duration: str) -> float:
    number = re.match(r"[0-9]+", duration)
    assert number is not None
    return int(number[0]) * UNITS[duration[number.end() :] or "s"]


async def unless_gone(request: Request, work: Coroutine[Any, Any, T | None]) -> T | None:
    """Wait for what comes of `work`, but no longer than the client does; None when the client is gone."""
    waiting = asyncio.create_task(work)
    leaving = asyncio.create_task(gone(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
        leaving.cancel()


async def gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.delete("/{approval_id}", response_model=ApprovalView, summary="Withdraw",
               responses=answers(401, 403, 404, 409, 422, 500, 503))  # fmt: skip
async def withdraw(services: Using, caller: By, via: Via, approval_id: str) -> Response:
    """The asker no longer wants it. Withdrawn already: the same again. Final otherwise: 409."""
    if caller.kind is Kind.PERSON:
        raise Problem("needs_agent", "Only the asker withdraws; a person declines: POST .../decision.")
    await visible(services, caller, approval_id)
    return await answer(services, caller, await door(services).withdraw(approval_id, by=via))


@router.post("/{approval_id}/decision", response_model=ApprovalView, summary="Answer",
             responses=answers(401, 403, 404, 409, 413, 415, 422, 500, 503),
             openapi_extra=body_of(DecisionBody, "The answer."))  # fmt: skip
async def decide(request: Request, services: Using, caller: By, via: Via, approval_id: str) -> Response:
    """A person allows or declines. The same key again answers the same; a decision that stands is never changed."""
    if caller.kind is not Kind.PERSON:
        raise Problem("needs_person", "Answer with a person's token, made with placet token PERSON.")
    body = await read_json(request, DecisionBody, services.limits.body)
    approval = await visible(services, caller, approval_id)
    (card,) = (await page(services, caller, approval)).cards
    decided = await door(services).decide(
        approval_id, caller.subject, Verdict(body.verdict), content_revision=body.content_revision, note=body.note,
        key=decision_key(caller, approval_id, body.key), via=via, shown=text_of(card),
    )  # fmt: skip
    return await answer(services, caller, decided)


@router.post("/{approval_id}/edit", response_model=ApprovalView, summary="Edit",
             responses=answers(401, 403, 404, 409, 413, 415, 422, 500, 503),
             openapi_extra=body_of(EditBody, "What is changed."))  # fmt: skip
async def edit(request: Request, services: Using, caller: By, via: Via, approval_id: str) -> Response:
    """A person changes texts that the asker lets people edit. Nothing is allowed by it: votes are cleared, and the new
    content revision is decided on anew."""
    if caller.kind is not Kind.PERSON:
        raise Problem("needs_person", "Edit with a person's token, made with placet token PERSON.")
    # Several long texts may be changed at once.
    body = await read_json(request, EditBody, services.limits.edit)
    await visible(services, caller, approval_id)
    edited = await door(services).edit(
        approval_id, caller.subject, body.changes, content_revision=body.content_revision, via=via
    )
    return await answer(services, caller, edited)


def decision_key(caller: Caller, approval_id: str, key: str | None) -> str:
    """Decision keys are unique over all surfaces, so a client's own is bound to its token and the approval."""
    text = "|".join((caller.id, approval_id, key or uuid4().hex))
    return "http-" + hashlib.sha256(text.encode()).hexdigest()


@router.post("/{approval_id}/claim", response_model=ClaimView, summary="Claim the call",
             responses=answers(401, 403, 404, 409, 413, 415, 422, 500, 503),
             openapi_extra=body_of(ClaimBody, "What was allowed."))  # fmt: skip
async def claim(request: Request, services: Using, caller: By, approval_id: str) -> Response:
    """The asker of an external call that was allowed takes leave to run it: once, until `valid_until`."""
    own_token(caller)
    body = await read_json(request, ClaimBody, services.limits.body)
    await visible(services, caller, approval_id)
    claimed = await door(services).claim(approval_id, body.content_revision)
    if isinstance(claimed, Refusal):
        raise refused(claimed)
    document = with_arguments(json.dumps({"claim_token": claimed.token}), claimed.arguments)
    return Response(document, media_type="application/json")


@router.post("/{approval_id}/outcome", response_model=ApprovalView, summary="Say what became of the call",
             responses=answers(401, 403, 404, 409, 413, 415, 422, 500, 503),
             openapi_extra=body_of(OutcomeBody, "What became of it."))  # fmt: skip
async def record(request: Request, services: Using, caller: By, approval_id: str) -> Response:
    """The asker records the outcome of the call that it claimed. The same again is no error."""
    own_token(caller)
    body = await read_json(request, OutcomeBody, services.limits.body)
    await visible(services, caller, approval_id)
    recorded = await door(services).record(approval_id, body.claim_token, Outcome(body.outcome), body.error)
    return await answer(services, caller, recorded)


def own_token(caller: Caller) -> None:
    if caller.kind is not Kind.AGENT:
        raise Problem("needs_agent", "Use the asking agent's own token, made with placet token AGENT.")


async def answer(services: Services, caller: Caller, result: Approval | Refusal) -> Response:
    if isinstance(result, Refusal):
        raise refused(result)
    return (await page(services, caller, result)).one()

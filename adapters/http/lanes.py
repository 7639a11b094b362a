"""What people write where an agent's turn waits, and what the programs of agents say and ask of their runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from adapters.http.approvals import NAME, door
from adapters.http.auth import By, Caller, Kind, Using, Via
from adapters.http.bodies import LaneInPath, MessageBody, RunInPath, read_json
from adapters.http.openapi import answers, body_of
from adapters.http.problems import Problem, invalid, refused
from adapters.http.services import Services
from adapters.http.views import View
from core.agents import Agents
from core.approvals import Permission
from core.people import Refusal

router = APIRouter(prefix="/v1", tags=["runs and lanes"])

Whose = Annotated[
    str | None,
    Query(
        min_length=1, max_length=200, pattern=NAME, examples=["billing"],
        description="The agent whose it is; an agent's own token need not say.",
    ),
]  # fmt: skip


class DeclinedView(View):
    """What a message declined."""

    run_id: str | None
    approval_ids: list[str]


class HeardView(View):
    """What became of a message."""

    result: Literal["declined", "run_in_progress", "no_run"] = Field(
        description="`declined`: it was the answer to what waited. `run_in_progress`: nothing waited, and the run is "
        "still under way. `no_run`: nothing is under way; begin a run with it."
    )
    declined: DeclinedView | None
    delivery: Literal["now", "queued"] | None = Field(
        description="Whether the run hears of it now, or when its paused agent resumes."
    )


class RunView(View):
    """Where a run stands; time that it waits for a person is not time that it takes."""

    run_id: str
    agent: str
    waiting: bool = Field(description="Whether it waits now: for a person, or for its paused agent to go on.")
    closed: bool
    counts_from: datetime | None = Field(
        description="From when its own time limit counts: the end of its last wait, else its first call."
    )


class ClosedView(View):
    """What the closing of a run settled."""

    run_id: str
    agent: str
    settled: list[str] = Field(description="The ids of the approvals that were cancelled, or not sent.")


@router.post("/lanes/{lane}/messages", summary="Say something where a turn may wait",
             responses=answers(401, 403, 404, 413, 415, 422, 500, 503),
             openapi_extra=body_of(MessageBody, "What was written, and the id that the client gave it."))  # fmt: skip
async def message(
    request: Request, services: Using, caller: By, via: Via, lane: LaneInPath, agent: Whose = None
) -> HeardView:
    """A plain message while turns of the lane wait declines what they asked, with the text as the note.

    The same `client_message_id` gets the same answer for as long as the approvals exist, also when the run is over.
    With a person's token only whoever may answer is heard. A message that only says yes decides nothing.
    """
    if caller.kind is Kind.ADMIN:
        raise Problem("needs_person", "What is written here may decline: use the agent's own token or a person's.")
    body = await read_json(request, MessageBody, services.limits.body)
    person = caller.person
    if person is not None and Permission.ANSWER not in person.permissions:
        raise Problem("needs_permission", "Writing where a turn waits needs a role with approvals:answer.")
    whose = await whose_lane(services, caller, lane, agent)
    if whose is None:
        return HeardView(result="no_run", declined=None, delivery=None)
    heard = await Agents(door(services)).hear(whose, lane, body.text, body.client_message_id, person, via=via)
    if isinstance(heard, Refusal):
        raise refused(heard)
    declined = DeclinedView(run_id=heard.run_id, approval_ids=list(heard.approval_ids)) if heard.approval_ids else None
    return HeardView.model_validate({"result": heard.result, "declined": declined, "delivery": heard.delivery})


async def whose_lane(services: Services, caller: Caller, lane: str, agent: str | None) -> str | None:
    """The agent whose lane this is: the caller, the one that was named, or the only one that has a lane of this name;
    None where none has."""
    if agent is not None or caller.kind is not Kind.PERSON:
        return whose_of(caller, agent)
    found = await services.store.read(lambda ledger: ledger.agents_of_lane(lane))
    if len(found) > 1:
        raise invalid("agent", "several agents have a lane of this name; say whose it is with ?agent=")
    return found[0] if found else None


def whose_of(caller: Caller, agent: str | None) -> str:
    if caller.kind is Kind.AGENT:
        if agent not in (None, caller.subject):
            raise Problem("other_agent", f"agent: this token speaks for {caller.subject} only.", field="agent")
        return caller.subject
    if agent is None:
        raise invalid("agent", "say whose it is with ?agent=")
    return agent


@router.post("/runs/{run}/closed", summary="Say that a run is over", responses=answers(401, 403, 404, 422, 500, 503))
async def close_run(services: Using, caller: By, run: RunInPath, agent: Whose = None) -> ClosedView:
    """What its turns wait for is cancelled, and what was allowed and has not begun is not sent. Drafts stay."""
    if caller.kind is Kind.PERSON:
        raise Problem("needs_agent", "Use the agent's own token, made with placet token AGENT.")
    whose = whose_of(caller, agent)
    settled = await Agents(door(services)).close_run(whose, run)
    if isinstance(settled, Refusal):
        raise refused(settled)
    return ClosedView(run_id=run, agent=whose, settled=list(settled))


@router.get("/runs/{run}", summary="Ask whether a run waits", responses=answers(401, 403, 404, 422, 500, 503))
async def run(services: Using, caller: By, run: RunInPath, agent: Whose = None) -> RunView:
    """For programs that give their runs a time limit: ask this before a run is ended as timed out."""
    if not caller.views:
        raise Problem("needs_permission", "Reading needs a role with approvals:view.")
    whose, agents = whose_of(caller, agent), Agents(door(services))
    if isinstance(known := await agents.agent(whose), Refusal):
        raise refused(known)
    state = await agents.run(whose, run)
    return RunView(run_id=run, agent=whose, waiting=state.waiting, closed=state.closed, counts_from=state.counts_from)

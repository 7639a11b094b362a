"""What is set for an agent: its mode, its rules, pausing and resetting it; and what it hears of its drafts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from adapters.http.approvals import ID, Wait, door, seconds_of, unless_gone
from adapters.http.auth import By, Caller, Kind, Using
from adapters.http.bodies import AgentInPath, ModeBody, RuleBody, read_json
from adapters.http.openapi import answers, body_of
from adapters.http.problems import Problem, refused
from adapters.http.services import Services
from adapters.http.views import View
from adapters.http.watch import Watch
from core.agents import Agents
from core.approvals import Agent, Mode, Outcome, Person, Runtime, Status, Update
from core.people import Refusal
from core.ports import Ledger
from core.rules import BadRule, Rule, Scope, ScopeKind, scope_named
from core.wording import say

router = APIRouter(prefix="/v1", tags=["agents"])


class AgentView(View):
    """What is set for an agent now."""

    agent: str
    owner: str
    mode: Mode = Field(description="What it asks for before it is run.")
    paused_at: datetime | None = Field(description="Since when nothing that was allowed runs; null while it goes on.")
    generation: int = Field(description="Grows with every reset.")


class CeilingView(View):
    """The most that one call may move."""

    amount: str
    currency: str


class RuleView(View):
    """A standing rule: what an agent may do without asking."""

    id: str
    agent: str
    tool: str
    operation: str
    scope: ScopeKind
    value: str = Field(description="The digest, the recipients as a JSON list, or the host.")
    label: str = Field(description="All that it covers, in words.")
    ceiling: CeilingView | None = Field(description="Of a rule for money.")
    expires_at: datetime | None
    created_at: datetime
    created_by: str


class RulesView(View):
    """Standing rules, the eldest first."""

    rules: list[RuleView]


class UpdateView(View):
    """What became of a draft."""

    number: int
    approval_id: str
    at: datetime
    status: Status
    outcome: Outcome
    text: str = Field(description="The sentence for the model.")


class UpdatesView(View):
    """What became of an agent's drafts, in the order of the commits."""

    updates: list[UpdateView]
    next: int = Field(description="Give it as `since` to go on after these.")


def setting(caller: Caller) -> Person | None:
    """Who sets something for an agent, None behind the admin token; no agent sets anything for itself."""
    if caller.kind is Kind.AGENT:
        raise Problem("not_yours", "An agent's token sets nothing; use its owner's, or the admin token.")
    return caller.person


def shown(agent: Agent | Refusal) -> AgentView:
    if isinstance(agent, Refusal):
        raise refused(agent)
    return AgentView(agent=agent.id, owner=agent.owner, mode=agent.mode, paused_at=agent.paused_at,
                     generation=agent.generation)  # fmt: skip


def rule_view(rule: Rule) -> RuleView:
    ceiling = (
        CeilingView(amount=rule.ceiling_amount, currency=rule.ceiling_currency or "") if rule.ceiling_amount else None
    )
    return RuleView(
        id=rule.id, agent=rule.agent, tool=rule.tool, operation=rule.operation, scope=rule.scope_kind,
        value=rule.scope_value, label=rule.label, ceiling=ceiling, expires_at=rule.expires_at,
        created_at=rule.created_at, created_by=rule.created_by,
    )  # fmt: skip


@router.get("/agents/{agent}", summary="Read what is set for an agent", responses=answers(401, 403, 404, 422, 500, 503))
async def agent(services: Using, caller: By, agent: AgentInPath) -> AgentView:
    """Its mode, whether it is paused, its generation. For its own token, its owner, and whoever views approvals."""
    if caller.kind is Kind.AGENT and caller.subject != agent:
        raise Problem("other_agent", f"This token reads {caller.subject} only.")
    found = await Agents(door(services)).agent(agent)
    if (
        isinstance(found, Agent)
        and not caller.views
        and caller.person is not None
        and not services.directory.may_rule(found, caller.person)
    ):
        raise Problem("needs_permission", "Reading needs a role with approvals:view.")
    return shown(found)


@router.put("/agents/{agent}/mode", summary="Set an agent's mode",
            responses=answers(401, 403, 404, 413, 415, 422, 500, 503),
            openapi_extra=body_of(ModeBody, "The mode."))  # fmt: skip
async def mode(request: Request, services: Using, caller: By, agent: AgentInPath) -> AgentView:
    """What the agent asks for from its next call on; what waits already goes on waiting. For its owner and
    administrators."""
    person = setting(caller)
    body = await read_json(request, ModeBody, services.limits.body)
    return shown(await Agents(door(services)).set_mode(agent, Mode(body.mode), person))


@router.post("/agents/{agent}/pause", summary="Pause an agent", responses=answers(401, 403, 404, 422, 500, 503))
async def pause(services: Using, caller: By, agent: AgentInPath) -> AgentView:
    """Nothing that was allowed runs from now on. Cards stay and can be answered. Paused already: the same again."""
    return await done(services, caller, agent, Agents.pause)


@router.post("/agents/{agent}/resume", summary="Let an agent go on", responses=answers(401, 403, 404, 422, 500, 503))
async def resume(services: Using, caller: By, agent: AgentInPath) -> AgentView:
    """What was decided while it was paused takes effect, once."""
    return await done(services, caller, agent, Agents.resume)


@router.post("/agents/{agent}/reset", summary="Reset an agent", responses=answers(401, 403, 404, 422, 500, 503))
async def reset(services: Using, caller: By, agent: AgentInPath) -> AgentView:
    """Begins a new generation: what the turns of the old one wait for is cancelled. Rules, mode and pause stay."""
    return await done(services, caller, agent, Agents.reset)


async def done(
    services: Services, caller: Caller, agent: str,
    do: Callable[[Agents, str, Person | None], Awaitable[Agent | Refusal]],
) -> AgentView:  # fmt: skip
    person = setting(caller)
    return shown(await do(Agents(door(services)), agent, person))


# Rules


@router.get("/agents/{agent}/rules", summary="List an agent's rules", responses=answers(401, 403, 404, 422, 500, 503))
async def rules(services: Using, caller: By, agent: AgentInPath) -> RulesView:
    """The standing rules, the eldest first. For its owner, administrators, and whoever may make rules."""
    found = await Agents(door(services)).rules(agent, setting(caller))
    if isinstance(found, Refusal):
        raise refused(found)
    return RulesView(rules=[rule_view(rule) for rule in found])


@router.post("/agents/{agent}/rules", status_code=201, summary="Make a rule",
             responses=answers(401, 403, 404, 413, 415, 422, 500, 503),
             openapi_extra=body_of(RuleBody, "What the agent may do without asking."))  # fmt: skip
async def add_rule(request: Request, services: Using, caller: By, agent: AgentInPath) -> RuleView:
    """A standing rule. Made again for the same scope, it takes the place of the one before. Pending approvals that it
    covers are allowed by it. A rule for money has a ceiling and an expiry, and is made by administrators alone."""
    person = setting(caller)
    body = await read_json(request, RuleBody, services.limits.body)
    scope = await scope_of(services, agent, body)
    ceiling = None if body.ceiling is None else (body.ceiling.amount, body.ceiling.currency)
    made = await Agents(door(services)).add_rule(agent, scope, person, expires_at=body.expires_at, ceiling=ceiling)
    if isinstance(made, Refusal):
        raise refused(made)
    return rule_view(made)


async def scope_of(services: Services, agent: str, body: RuleBody) -> Scope:
    def find(ledger: Ledger) -> Scope:
        known = ledger.agent(agent)
        if known is None:
            raise Problem("unknown_agent", say("agent_unknown", agent=agent))
        tables = door(services).books.of(ledger, known).tables
        try:
            money = body.ceiling is not None
            return scope_named(body.scope, body.tool, body.operation, body.value, tables, money=money)
        except BadRule as bad:
            raise Problem("bad_rule", str(bad)) from None

    return await services.store.read(find)


@router.delete("/agents/{agent}/rules/{rule_id}", summary="Take an agent's rule back",
               responses=answers(401, 403, 404, 422, 500, 503))  # fmt: skip
async def remove_rule(services: Using, caller: By, agent: AgentInPath, rule_id: str) -> RuleView:
    """From the next call on the agent asks again. Answers the rule that is gone."""
    return await removed(services, caller, rule_id, agent)


@router.delete("/rules/{rule_id}", summary="Take a rule back", responses=answers(401, 403, 404, 422, 500, 503))
async def remove_rule_by_id(services: Using, caller: By, rule_id: str) -> RuleView:
    """The same, by the rule's id alone."""
    return await removed(services, caller, rule_id)


async def removed(services: Services, caller: Caller, rule_id: str, agent: str | None = None) -> RuleView:
    person = setting(caller)
    gone = Problem("unknown_rule", "No rule has this id; GET /v1/agents/{agent}/rules lists them.")
    rule = await services.store.read(lambda ledger: ledger.rule(rule_id)) if ID.fullmatch(rule_id) else None
    if rule is None or agent not in (None, rule.agent):
        raise gone
    taken = await Agents(door(services)).remove_rule(rule_id, person)
    if isinstance(taken, Refusal):
        raise gone if taken.code == "not_found" else refused(taken)
    return rule_view(taken)


# Updates


@router.get("/agents/{agent}/updates", response_model=UpdatesView, summary="Hear what became of drafts",
            responses=answers(401, 403, 404, 422, 500, 503))  # fmt: skip
async def updates(
    request: Request, services: Using, caller: By, agent: AgentInPath,
    since: Annotated[int, Query(ge=0, le=2**53, description="`next` of the answer before; 0 at first.")] = 0,
    wait: Wait = "0s",
) -> Response:  # fmt: skip
    """The outcomes of the agent's drafts after the number `since`, at most 100, as soon as there are any. For its own
    token and the admin token."""
    if caller.kind is Kind.PERSON:
        raise Problem("needs_agent", "Use the agent's own token, made with placet token AGENT.")
    if caller.kind is Kind.AGENT and caller.subject != agent:
        raise Problem("other_agent", f"This token hears of {caller.subject} only.")
    agents = Agents(door(services))
    if isinstance(known := await agents.agent(agent), Refusal):
        raise refused(known)
    seconds = min(seconds_of(wait), services.limits.wait_s)
    watch: Watch = request.app.state.watch
    found = await agents.updates(agent, since) if seconds <= 0 else await unless_gone(request, watch.until_heard(
        lambda: agents.updates(agent, since), lambda row: row.agent == agent and row.runtime is Runtime.DRAFT, seconds,
    ))  # fmt: skip
    if found is None:
        return Response(status_code=499)
    return JSONResponse(UpdatesView(updates=[update_view(each) for each in found],
                                    next=found[-1].number if found else since).model_dump(mode="json"))  # fmt: skip


def update_view(update: Update) -> UpdateView:
    return UpdateView(
        number=update.number, approval_id=update.approval_id, at=update.at, status=Status(update.status),
        outcome=Outcome(update.outcome), text=update.text,
    )  # fmt: skip

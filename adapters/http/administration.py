"""What an administrator does over HTTP: link codes, bearer tokens and the directory."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from adapters.directory_changes import changes, rules_that_go, tokens_that_go
from adapters.directory_file import DirectoryError, read_directory
from adapters.directory_written import written
from adapters.http.approvals import door
from adapters.http.auth import ByAdmin, Using
from adapters.http.bodies import WHOLE, YAML_OR_JSON, LinkBody, TokenBody, read_body, read_json
from adapters.http.openapi import answers, body_of
from adapters.http.problems import Problem, invalid
from adapters.http.views import View
from core.approvals import Approval
from core.people import PAIRING_LIFETIME, hash_of
from core.ports import Ledger
from core.wording import say

log = logging.getLogger("placet.http")

router = APIRouter(prefix="/v1", tags=["administration"])

DIRECTORY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": {"schema": {"type": "string", "description": "placet.yaml"}},
            "application/json": {"schema": {"type": "object", "description": "The same as JSON."}},
        },
    }
}


class LinkView(View):
    """A code to send to the bot, once."""

    person: str
    code: str
    expires_at: datetime


class TokenView(View):
    """A bearer token; only its hash is kept, so it is shown this once."""

    id: str
    kind: Literal["agent", "person"]
    subject: str
    token: str


class ChangesView(View):
    """What applying the directory changed, or would change, a line each; empty when nothing."""

    changes: list[str] = Field(examples=[["+ person dana (Dana Reyes)"]])


@router.post("/links", status_code=201, summary="Make a link code",
             responses=answers(401, 403, 404, 413, 415, 422, 500, 503),
             openapi_extra=body_of(LinkBody, "For whom."))  # fmt: skip
async def link(request: Request, services: Using, caller: ByAdmin) -> LinkView:
    """A one-time code that links a person to an account on a platform; it works for 15 minutes."""
    body = await read_json(request, LinkBody, services.limits.body)
    now = services.clock.now()
    by = caller.subject or caller.id
    code = await services.store.write(lambda ledger: services.directory.issue_pairing(ledger, body.person, by, now))
    if code is None:
        raise unknown("person", body.person)
    log.info("link code made", extra={"kind": "person", "subject": body.person, "by": by})
    return LinkView(person=body.person, code=code, expires_at=now + PAIRING_LIFETIME)


@router.post("/tokens", status_code=201, summary="Make a bearer token",
             responses=answers(401, 403, 404, 413, 415, 422, 500, 503),
             openapi_extra=body_of(TokenBody, "For whom."))  # fmt: skip
async def token(request: Request, services: Using, caller: ByAdmin) -> TokenView:
    """A bearer token of an agent (asks, and sees its own) or of a person (answers, and views)."""
    body = await read_json(request, TokenBody, services.limits.body)
    kind: Literal["agent", "person"] = "agent" if body.agent else "person"
    subject = body.agent or body.person
    secret = f"placet_{secrets.token_urlsafe(32)}"

    def work(ledger: Ledger) -> str | None:
        known = ledger.agent(subject) if kind == "agent" else ledger.person(subject)
        return ledger.add_token(hash_of(secret), kind, subject, services.clock.now()) if known else None

    token_id = await services.store.write(work)
    if token_id is None:
        raise unknown(kind, subject)
    log.info("token made", extra={"kind": kind, "subject": subject, "by": caller.subject or caller.id})
    return TokenView(id=token_id, kind=kind, subject=subject, token=secret)


def unknown(kind: str, name: str) -> Problem:
    detail = say("agent_unknown", agent=name) if kind == "agent" else say("person_unknown", person=name)
    return Problem(f"unknown_{kind}", detail, field=kind)


@router.get("/directory", summary="Read the directory", responses=answers(401, 403, 500, 503))
async def directory(services: Using, caller: ByAdmin) -> dict[str, Any]:
    """The directory as it is applied now, as placet.yaml is written: it can be applied as it is."""
    return written(await services.store.read(lambda ledger: ledger.directory()))


@router.put("/directory", summary="Apply the directory",
            responses=answers(401, 403, 413, 415, 422, 500, 503), openapi_extra=DIRECTORY)  # fmt: skip
async def apply(
    request: Request, services: Using, caller: ByAdmin,
    dry_run: Annotated[bool, Query(description="Only tell what would change.")] = False,
) -> ChangesView:  # fmt: skip
    """Puts this directory in the place of the applied one, whole or not at all. A wrong line is named. Who is gone
    loses their tokens."""
    body = await read_body(request, YAML_OR_JSON, services.limits.directory)
    try:
        wanted = await asyncio.to_thread(read_directory, body.decode("utf-8"), services.platforms)
    except UnicodeDecodeError:
        raise invalid(WHOLE, "not valid UTF-8") from None
    except DirectoryError as error:
        raise Problem("invalid_directory", str(error), line=error.line) from None

    if not any(wanted.values()):
        # A file that was cut off on its way must not take everybody's leave away.
        raise Problem("invalid_directory", "line 1: the file declares nothing; declare people at least.", line=1)

    def compare(ledger: Ledger) -> list[str]:
        before: Mapping[str, Any] = ledger.directory()
        rules = {agent.id: len(ledger.rules(agent.id)) for agent in ledger.agents()}
        return [
            *changes(before, wanted),
            *tokens_that_go(before, wanted, ledger.tokens_held()),
            *rules_that_go(before, wanted, rules),
        ]

    if dry_run:
        return ChangesView(changes=await services.store.read(compare))

    def work(ledger: Ledger) -> tuple[list[str], list[Approval]]:
        told = compare(ledger)
        gone = [agent for agent in ledger.agents() if agent.id not in (wanted.get("agents") or {})]
        ledger.replace_directory(wanted)
        judge, now = door(services).judge, services.clock.now()
        settled = [row for agent in gone for row in judge.end_of_agent(ledger, agent, now)]
        return told, settled

    told, settled = await services.store.write(work)
    door(services).tell_all(settled)
    if told:
        door(services).after_change_of_directory()
        log.info("directory applied", extra={"changes": len(told), "by": caller.subject or caller.id})
    return ChangesView(changes=told)

"""Who calls: the admin token, a person's token or an agent's token, looked up at every request."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from adapters.http.problems import Problem
from adapters.http.services import Services
from core.approvals import Approval, Permission, Person
from core.people import hash_of
from core.ports import Ledger

bearer = HTTPBearer(
    auto_error=False, scheme_name="bearer",
    description="The admin token, or a person's or an agent's token from `placet token`.",
)  # fmt: skip


class Kind(StrEnum):
    ADMIN = "admin"
    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who holds the token: `id` is the token's own, `subject` the person's or the agent's."""

    kind: Kind
    id: str
    subject: str = ""
    person: Person | None = None

    def __post_init__(self) -> None:
        # Elsewhere nobody stands for the admin token, which may everything.
        assert (self.person is None) == (self.kind is not Kind.PERSON)

    @property
    def administers(self) -> bool:
        return self.kind is Kind.ADMIN or self._may(Permission.ADMIN)

    @property
    def views(self) -> bool:
        """Whether there is anything that this caller may list."""
        return self.kind is not Kind.PERSON or self._may(Permission.VIEW)

    def sees(self, approval: Approval) -> bool:
        """An agent sees only what it asked for; a person needs approvals:view."""
        return approval.agent == self.subject if self.kind is Kind.AGENT else self.views

    def asked(self, approval: Approval) -> bool:
        """Whether this is the asking agent's own token, the only one that is shown the arguments."""
        return self.kind is Kind.AGENT and approval.agent == self.subject

    def _may(self, permission: Permission) -> bool:
        return self.person is not None and permission in self.person.permissions


def services_of(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


async def identify(services: Services, token: str) -> Caller | None:
    """The caller behind a bearer token; None when it is nobody's."""
    digest = hash_of(token)
    if services.admin_token and secrets.compare_digest(digest, hash_of(services.admin_token)):
        return Caller(Kind.ADMIN, "admin")

    def find(ledger: Ledger) -> Caller | None:
        found = ledger.token(digest)
        if found is None:
            return None
        token_id, kind, subject = found
        if kind == Kind.AGENT:
            return Caller(Kind.AGENT, token_id, subject)
        person = ledger.person(subject)
        # The token of somebody who has left the directory is nobody's.
        return Caller(Kind.PERSON, token_id, subject, person) if person else None

    return await services.store.read(find)


async def authenticate(
    services: Annotated[Services, Depends(services_of)],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Caller:
    challenge = {"WWW-Authenticate": "Bearer"}
    if credentials is None or not credentials.credentials:
        raise Problem("no_token", "Send the header Authorization: Bearer TOKEN.", headers=challenge)
    caller = await identify(services, credentials.credentials)
    if caller is None:
        raise Problem("bad_token", "This token is not known here; make one with placet token.", headers=challenge)
    return caller


def client_of(
    client: Annotated[
        str | None, Header(alias="Placet-Client", description="`cli` when the command line asks; it is recorded.")
    ] = None,
) -> str:
    """The surface to record a decision under."""
    return "cli" if client == "cli" else "http"


async def administrator(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
    if not caller.administers:
        raise Problem("needs_admin", "Use the admin token, or the token of a person whose role has admin.")
    return caller


Using = Annotated[Services, Depends(services_of)]
By = Annotated[Caller, Depends(authenticate)]
ByAdmin = Annotated[Caller, Depends(administrator)]
Via = Annotated[str, Depends(client_of)]

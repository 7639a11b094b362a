"""Who is this, who is asked, and who may answer (design section 7)."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from core.approvals import (
    Actor,
    Agent,
    Approval,
    Destination,
    Effect,
    Escalation,
    Message,
    Permission,
    Person,
    Posted,
    Role,
    Route,
    Vote,
)
from core.ports import Ledger
from core.wording import DEFAULT_LANGUAGE

PAIRING_LIFETIME = timedelta(minutes=15)
PLACE = re.compile(r"^(?P<platform>[a-z]+)(@(?P<account>[^:]+))?:(?P<chat>[^/]+)(/(?P<thread>.+))?$")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was done: `code` is stable (HTTP problem codes), `text` is for the person who tried."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """One place a card goes to; `person` is set where it is that person's private chat."""

    destination: Destination
    person: str = ""


@lru_cache(maxsize=1024)
def place_of(text: str) -> Destination | None:
    """Read `platform[@account]:<chat>[/<thread>]`; None when it is not of that form (`dm` is no place of its own).

    Slack's is `slack:[<team>/]<channel>`: its account is the team.
    """
    match = PLACE.fullmatch(text)
    if match is None:
        return None
    parts = match.groupdict(default="")
    if parts["platform"] == "slack" and parts["thread"] and not parts["account"]:
        return Destination("slack", parts["chat"], parts["thread"])
    return Destination(parts["platform"], parts["account"], parts["chat"], parts["thread"])


def route_text(route: Route) -> str:
    """The row's snapshot of its route, as JSON text."""
    return json.dumps(asdict(route), sort_keys=True)


def route_from(document: Mapping[str, Any]) -> Route:
    """A route from its JSON, which is the shape of the dataclass."""
    lists: dict[str, Any] = {"ask": tuple(document["ask"]), "at": tuple(document["at"])}
    if (later := document.get("escalate")) is not None:
        lists["escalate"] = Escalation(later["after_s"], tuple(later["ask"]), tuple(later["at"]))
    return Route(**{**document, **lists})


def route_of(approval: Approval) -> Route:
    return _route(approval.route)


# Many rows carry the same few routes.
@lru_cache(maxsize=256)
def _route(text: str) -> Route:
    return route_from(json.loads(text))


def asks_of(approval: Approval) -> tuple[str, ...]:
    """Who is asked by now: people, and roles as `role:<id>`."""
    route = route_of(approval)
    return route.ask if route.escalate is None or approval.escalated_at is None else route.ask + route.escalate.ask


def with_roles(person: Person, roles: Sequence[Role]) -> Person:
    lent = {role.id for role in roles} - person.roles
    return replace(
        person,
        lent=frozenset(lent),
        roles=person.roles | lent,
        permissions=person.permissions.union(*(role.permissions for role in roles)),
    )


def _names_of(places: Iterable[Destination | Message | Posted]) -> Iterator[Destination | Message | Posted]:
    for place in places:
        yield place
        if isinstance(place, Posted):
            # The chat may have another id by now; the directory may know it by the old one.
            yield Destination(*place.destination.split("|")[:4])


class Directory:
    """Answers from the people, roles, agents and routes that are in the database now."""

    def __init__(self, language: str = DEFAULT_LANGUAGE) -> None:
        self.default_language = language

    def route(self, ledger: Ledger, known: Agent | None, agent: str, effect: Effect, tool: str) -> Route:
        """The first route that matches; without one, the owner is asked in private. `known` is the agent where the
        directory has it."""
        call = {"agent": agent, "effect": effect.value, "tool": tool}
        for route in ledger.routes():
            if all(call.get(key) == wanted for key, wanted in route.match.items()):
                return route
        return Route(ask=(known.owner,) if known else (), at=("dm",))

    def person_at(self, ledger: Ledger, actor: Actor) -> Person | None:
        """Who acts, with the roles that the groups of the platform give besides those held in the directory."""
        person = ledger.person_of(actor)
        if person is None or not actor.groups:
            return person
        return with_roles(person, [role for role in ledger.mapped_roles() if role.groups & actor.groups])

    def voter(self, ledger: Ledger, vote: Vote) -> Person | None:
        """Who voted, as they stand now; what a platform's groups gave them stands as it was when they voted."""
        person = ledger.person(vote.person)
        if person is None or not vote.roles:
            return person
        return with_roles(person, [role for role in ledger.mapped_roles() if role.id in vote.roles])

    def asked(self, ledger: Ledger, names: Sequence[str]) -> list[Person]:
        """The people of an `ask`, roles spelt out as their members are now; in order, each once."""
        everybody = ledger.people()
        found: dict[str, Person] = {}
        for name in names:
            role = name.removeprefix("role:") if name.startswith("role:") else None
            for person in everybody:
                if (role is not None and role in person.roles) or person.id == name:
                    found[person.id] = person
        return list(found.values())

    def places(self, ledger: Ledger, approval: Approval) -> list[Place]:
        """Where the cards of an approval go, those of its escalation with them once it has come.

        None while nobody may answer, since the person whose own request it is cannot be told (`four_eyes`).
        """
        return [] if self.barred(ledger, approval) == "" else self.places_asked(ledger, approval)

    def places_asked(self, ledger: Ledger, approval: Approval) -> list[Place]:
        """The places of the route, whoever may answer there."""
        route = route_of(approval)
        places = self._places(ledger, route.ask, route.at)
        if route.escalate is not None and approval.escalated_at is not None:
            places |= {
                key: place
                for key, place in self._places(ledger, route.escalate.ask, route.escalate.at).items()
                if key not in places
            }
        return list(places.values())

    def _places(self, ledger: Ledger, ask: Sequence[str], at: Sequence[str]) -> dict[str, Place]:
        """By key; `dm` is the private chat of everybody asked who has an identity."""
        places: dict[str, Place] = {}
        for text in at:
            if text == "dm":
                for person in self.asked(ledger, ask):
                    for identity in ledger.identities(person.id):
                        # Where ids are a workspace's own, the workspace is the account that reaches its people.
                        destination = Destination(identity.platform, identity.tenant, identity.id)
                        places.setdefault(destination.key, Place(destination, person.id))
            elif (place := place_of(text)) is not None:
                places.setdefault(place.key, Place(place))
        return places

    def language(self, ledger: Ledger, *places: Destination | Message | Posted, person: Person | None = None) -> str:
        """What is spoken to somebody in a chat: a person's own language, else the chat's, else the default.

        Of several `places`, all names of one chat, the first that has a language counts; a topic's before its chat's.
        """
        if person is not None and person.language:
            return person.language
        spoken = ledger.languages()
        named = [(place, language) for text, language in spoken.items() if (place := place_of(text)) is not None]
        # A topic is named before its chat is.
        named.sort(key=lambda pair: not pair[0].thread)
        for here in _names_of(places):
            for place, language in named:
                if (
                    (place.platform, place.chat) == (here.platform, here.chat)
                    and place.account in ("", here.account if here.account else place.account)
                    and place.thread in ("", here.thread)
                ):
                    return language
        return self.default_language

    def language_of_card(self, ledger: Ledger, card: Posted) -> str:
        """What a card is drawn in: where it is a person's private one, that person's language, else its chat's."""
        person = ledger.person(card.person) if card.person else None
        return self.language(ledger, card, person=person)

    def may_answer(self, ledger: Ledger, approval: Approval, person: Person) -> str | None:
        """None when this person may answer; else why not (design section 7).

        `not_entitled` (no permission), `not_asked` (not by this route), `own_request` (it is theirs, under
        `four_eyes`), or `nobody_knows_whose` (under `four_eyes`, when the person it is for is missing or not linked).
        """
        if Permission.ANSWER not in person.permissions:
            return "not_entitled"
        names = {person.id, *(f"role:{role}" for role in person.roles)}
        if names.isdisjoint(asks_of(approval)):
            return "not_asked"
        if not route_of(approval).four_eyes:
            return None
        principal = self.principal(ledger, approval)
        if principal is None:
            return "nobody_knows_whose"
        return "own_request" if principal.id == person.id else None

    def principal(self, ledger: Ledger, approval: Approval) -> Person | None:
        """The person on whose behalf the agent acts: `on_behalf_of` is a person's id, or an identity of theirs as
        `platform:[<tenant>/]<user>`."""
        name = approval.on_behalf_of or ""
        if (person := ledger.person(name)) is not None:
            return person
        platform, _, rest = name.partition(":")
        tenant, _, user = rest.rpartition("/")
        return ledger.person_of(Actor(platform, tenant, user)) if user else None

    def barred(self, ledger: Ledger, approval: Approval) -> str | None:
        """Whose word does not count, under `four_eyes`: a person's id, or "" where nobody can tell whose: then nobody's
        does."""
        if not route_of(approval).four_eyes:
            return None
        principal = self.principal(ledger, approval)
        return principal.id if principal is not None else ""

    def may_set(self, agent: Agent, person: Person) -> bool:
        """Whether this person sets an agent's mode, pauses it and lets it go on: its owner, or an administrator."""
        return person.id == agent.owner or Permission.ADMIN in person.permissions

    def may_delegate(self, person: Person, *, money: bool = False) -> bool:
        """Whether this person makes standing rules; for money only administrators do (design section 6)."""
        return Permission.ADMIN in person.permissions or (not money and Permission.DELEGATE in person.permissions)

    def may_rule(self, agent: Agent, person: Person) -> bool:
        """Whether this person reads and takes back an agent's rules."""
        return self.may_set(agent, person) or Permission.DELEGATE in person.permissions

    def answerers(self, ledger: Ledger, approval: Approval) -> list[Person]:
        """Everybody who may answer this approval now."""
        asked = self.asked(ledger, asks_of(approval))
        return [person for person in asked if self.may_answer(ledger, approval, person) is None]

    def names(self, ledger: Ledger, *approvals: Approval) -> dict[str, str]:
        """What the people are called whom these approvals name, by id."""
        ids = {name for row in approvals for name in (row.decided_by, row.on_behalf_of, row.edited_by) if name}
        return {person.id: person.name for person in map(ledger.person, ids) if person is not None}

    def issue_pairing(self, ledger: Ledger, person_id: str, issued_by: str, now: datetime) -> str | None:
        """A one-time code of 128 random bits that links an identity to a person; None for an unknown person."""
        if ledger.person(person_id) is None:
            return None
        code = secrets.token_urlsafe(16)
        ledger.add_pairing(hash_of(code), person_id, issued_by, now + PAIRING_LIFETIME)
        return code

    def link(
        self, ledger: Ledger, actor: Actor, code: str, now: datetime
    ) -> tuple[str, Person | None, Sequence[Actor]]:
        """Use a code up: `linked`, `bad_code` or `already_linked`; the person; the identities the person had before."""
        if ledger.person_of(actor) is not None:
            return "already_linked", None, ()
        person_id = ledger.take_pairing(hash_of(code), now)
        person = ledger.person(person_id) if person_id else None
        if person is None:
            return "bad_code", None, ()
        before = tuple(ledger.identities(person.id))
        if not ledger.add_identity(person.id, actor):
            return "already_linked", None, ()
        return "linked", person, before


def hash_of(secret: str) -> str:
    """How codes and bearer tokens are stored; they are random, so a plain hash does."""
    return hashlib.sha256(secret.encode()).hexdigest()

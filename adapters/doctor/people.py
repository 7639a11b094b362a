"""Whether the applied directory lets anybody answer: owners, routes, places and people who cannot be reached."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from adapters.database import Database
from adapters.doctor.services import sqlite_file
from adapters.faults import Fault
from adapters.settings import Settings
from core.approvals import Permission, Person, Role, Route
from core.people import place_of
from core.ports import Finding, Ledger, Unavailable


async def check_directory(settings: Settings, on: Collection[str], switches: Mapping[str, str]) -> Sequence[Finding]:
    """`on` are the platforms that are on in this process; `switches` name the setting that switches each one on.

    A process without any platform (`serve --only api`) cannot know which are on in another.
    """
    if settings.on_sqlite and not sqlite_file(settings).exists():
        return []
    database = Database.open(settings.database)
    try:
        return await database.read(lambda ledger: [*_unseen(ledger.undeliverable()), *_findings(ledger, on, switches)])
    except (Unavailable, Fault):
        # The database cannot be reached, or lacks its tables: its own check says so.
        return []
    finally:
        await database.close()


def _unseen(count: int) -> Iterator[Finding]:
    if count:
        what = (
            "1 approval waits where nobody can see it"
            if count == 1
            else f"{count} approvals wait where nobody can see them"
        )
        yield Finding("warn", what, "see which with `placet approvals`, and why with `placet show ID`; they can be "
                      "answered there, and are posted once somebody can be reached")  # fmt: skip


def _findings(ledger: Ledger, on: Collection[str], switches: Mapping[str, str]) -> Iterator[Finding]:
    people = {person.id: person for person in ledger.people()}
    if not people:
        yield Finding("warn", "the directory is empty: nobody can answer", "write placet.yaml and `placet apply` it")
        return
    mapped = ledger.mapped_roles()
    if not any(_may_answer(person, mapped) for person in people.values()):
        yield Finding("fail", "nobody holds approvals:answer, so every call waits until it expires",
                      "give a role approvals:answer and members in placet.yaml")  # fmt: skip
    linked = {name for name in people if _linked(ledger, name, on)}
    for name in sorted(people.keys() - linked):
        yield Finding("warn", f"{name} is linked on no platform and cannot answer in chat", f"placet link {name}")
    agents = ledger.agents()
    for agent in agents:
        owner = people[agent.owner]
        if owner.id not in linked or not _may_answer(owner, mapped):
            missing = "is linked on no platform" if owner.id not in linked else "does not hold approvals:answer"
            fix = f"placet link {owner.id}" if owner.id not in linked else f"give a role of {owner.id} approvals:answer"
            yield Finding("warn", f"calls of {agent.id} that no route matches go to {owner.id}, who {missing}", fix)
    reachable = [person for person in people.values() if person.id in linked]
    for number, route in enumerate(ledger.routes(), 1):
        yield from _of_route(f"route {number}", route, reachable, mapped)
        for place in dict.fromkeys((*route.at, *(route.escalate.at if route.escalate else ()))):
            yield from _off(f"route {number} asks at {place}", place, "place", on, switches)
    for role in mapped:
        for group in sorted(role.groups):
            yield from _off(f"the role {role.id} is given by {group}", group, "group", on, switches)
    for place in ledger.languages():
        yield from _off(f"the chat {place} has a language", place, "chat", on, switches)
    yield Finding("ok", f"in the directory: people {len(people)}, of them linked {len(linked)}, agents {len(agents)}")


def _of_route(name: str, route: Route, reachable: Sequence[Person], mapped: Sequence[Role]) -> Iterator[Finding]:
    able = [person.id for person in reachable if _could_answer(person, route.ask, mapped)]
    fix = "placet link those whom it asks"
    if not able:
        yield Finding("warn", f"{name} asks nobody who is linked and may answer", fix)
    elif len(able) < route.needed:
        only = f"{', '.join(able)} {'is' if len(able) == 1 else 'are'}"
        yield Finding("warn", f"{name} needs {route.needed} to allow, but of those it asks only {only} linked and may "
                      "answer", f"{fix}, or lower needed")  # fmt: skip
    if (later := route.escalate) and not any(_could_answer(person, later.ask, mapped) for person in reachable):
        yield Finding("warn", f"the escalation of {name} asks nobody who is linked and may answer", fix)


def _could_answer(person: Person, ask: Collection[str], mapped: Sequence[Role]) -> bool:
    asked = person.id in ask or any(f"role:{role}" in ask for role in {*person.roles, *(role.id for role in mapped)})
    return asked and _may_answer(person, mapped)


def _off(what: str, at: str, kind: str, on: Collection[str], switches: Mapping[str, str]) -> Iterator[Finding]:
    """That `what` says something of a place or a group, `at`, whose platform is off."""
    found = place_of(at)
    if found and on and found.platform in switches.keys() - on:
        yield Finding("warn", f"{what}, but {found.platform} is off",
                      f"set {switches[found.platform]}, or take the {kind} out of placet.yaml")  # fmt: skip


def _may_answer(person: Person, mapped: Sequence[Role]) -> bool:
    """Who is in a platform's group is not known here: the role that it gives could be anybody's."""
    return any(Permission.ANSWER in held for held in (person.permissions, *(role.permissions for role in mapped)))


def _linked(ledger: Ledger, person: str, on: Collection[str]) -> bool:
    return any(not on or identity.platform in on for identity in ledger.identities(person))

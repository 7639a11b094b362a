"""Whether the applied directory lets anybody answer: owners, routes and people who cannot be reached."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from adapters.database import Database
from adapters.doctor.services import sqlite_file
from adapters.faults import Fault
from adapters.settings import Settings
from core.approvals import Permission, Person
from core.people import Directory
from core.ports import Finding, Ledger, Unavailable


async def check_directory(settings: Settings, platforms: Collection[str]) -> Sequence[Finding]:
    if settings.on_sqlite and not sqlite_file(settings).exists():
        return []
    database = Database.open(settings.database)
    try:
        return await database.read(lambda ledger: list(_findings(ledger, platforms)))
    except (Unavailable, Fault):
        # The database cannot be reached, or lacks its tables: its own check says so.
        return []
    finally:
        await database.close()


def _findings(ledger: Ledger, platforms: Collection[str]) -> Iterator[Finding]:
    people = {person.id: person for person in ledger.people()}
    if not people:
        yield Finding("warn", "the directory is empty: nobody can answer", "write placet.yaml and `placet apply` it")
        return
    if not any(_may_answer(person) for person in people.values()):
        yield Finding("fail", "nobody holds approvals:answer, so every call waits until it expires",
                      "give a role approvals:answer and members in placet.yaml")  # fmt: skip
    linked = {name for name in people if _linked(ledger, name, platforms)}
    for name in sorted(people.keys() - linked):
        yield Finding("warn", f"{name} is linked on no platform and cannot answer in chat", f"placet link {name}")
    agents = ledger.agents()
    for agent in agents:
        owner = people[agent.owner]
        if owner.id not in linked or not _may_answer(owner):
            missing = "is linked on no platform" if owner.id not in linked else "does not hold approvals:answer"
            fix = f"placet link {owner.id}" if owner.id not in linked else f"give a role of {owner.id} approvals:answer"
            yield Finding("warn", f"calls of {agent.id} that no route matches go to {owner.id}, who {missing}", fix)
    for number, route in enumerate(ledger.routes(), 1):
        answering = [person for person in Directory().asked(ledger, route) if _may_answer(person)]
        if not any(person.id in linked for person in answering):
            yield Finding("warn", f"route {number} asks nobody who is linked and may answer",
                          "placet link those whom it asks")  # fmt: skip
    yield Finding("ok", f"in the directory: people {len(people)}, of them linked {len(linked)}, agents {len(agents)}")


def _may_answer(person: Person) -> bool:
    return Permission.ANSWER in person.permissions


def _linked(ledger: Ledger, person: str, platforms: Collection[str]) -> bool:
    return any(not platforms or identity.platform in platforms for identity in ledger.identities(person))

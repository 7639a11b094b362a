"""The statements of one transaction over people, roles, agents, routes, link codes and bearer tokens."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import bindparam, select, update
from uuid_utils import uuid7

from adapters import tables as t
from adapters.statements import Line, Row, Statement
from core.approvals import Actor, Agent, Mode, Permission, Person, Role, Route
from core.buttons import rule_token
from core.people import route_from
from core.rules import Rule, ScopeKind

EFFECTS = "effects"
# The columns of a rule in the order of the fields of core.rules.Rule.
RULE = tuple(field.name for field in fields(Rule))
RENEWED = ("label", "created_at", "created_by", "expires_at", "ceiling_amount", "ceiling_currency")

_WITH_ROLES = (
    select(t.people.c.id, t.people.c.name, t.people.c.language, t.roles.c.id, t.roles.c.permissions)
    .join_from(t.people, t.memberships, isouter=True)
    .join(t.roles, t.roles.c.id == t.memberships.c.role, isouter=True)
)
_PERSON = Statement(_WITH_ROLES.where(t.people.c.id == bindparam("is_person")))
_PERSON_OF = Statement(
    _WITH_ROLES.join(t.identities, t.identities.c.person == t.people.c.id).where(
        t.identities.c.platform == bindparam("on"),
        t.identities.c.tenant == bindparam("within"),
        t.identities.c.id == bindparam("as_user"),
    )
)
_PEOPLE = Statement(_WITH_ROLES.order_by(t.people.c.id, t.roles.c.id))
_AN_IDENTITY = t.identities.c.platform, t.identities.c.tenant, t.identities.c.id, t.identities.c.name
_IDENTITIES = Statement(
    select(*_AN_IDENTITY).where(t.identities.c.person == bindparam("of_person")).order_by(*_AN_IDENTITY[:3])
)
_LANGUAGES_OF_PEOPLE = Statement(
    select(*_AN_IDENTITY, t.people.c.language)
    .join_from(t.identities, t.people, t.people.c.id == t.identities.c.person)
    .where(t.people.c.language != "")
    .order_by(*_AN_IDENTITY[:3])
)
_agents = t.agents.c
_AGENT_COLUMNS = select(
    _agents.id,
    _agents.owner,
    sa.func.coalesce(_agents.mode_set, _agents.mode),
    _agents.runs,
    _agents.paused_at,
    _agents.generation,
    _agents.version,
)
_ONE_AGENT = _AGENT_COLUMNS.where(_agents.id == bindparam("is_agent"))
# SQLite has one writer at a time, and leaves the words out.
_AGENT = {
    "": Statement(_ONE_AGENT),
    "share": Statement(_ONE_AGENT.with_for_update(read=True)),
    "update": Statement(_ONE_AGENT.with_for_update()),
}
_AGENTS = Statement(_AGENT_COLUMNS.order_by(_agents.id))
_APPLIED_AGENTS = Statement(
    select(
        _agents.id,
        _agents.owner,
        # What was set by command stands in the place of what the file said, so that applying it again is a change.
        sa.case((_agents.mode.is_(None), None), else_=sa.func.coalesce(_agents.mode_set, _agents.mode)),
        _agents.runs,
    ).order_by(_agents.id)
)
_GENERATION = Statement(
    select(sa.func.coalesce(sa.func.max(t.approvals.c.generation), sa.literal_column("1"))).where(
        t.approvals.c.agent == bindparam("is_agent"), sa.text(t.IS_OPEN)
    )
)
_SET_MODE = Statement(
    update(t.agents).where(_agents.id == bindparam("is_agent")).values(mode_set=bindparam("to")).returning(_agents.id)
)
_PAUSE = Statement(
    update(t.agents)
    .where(_agents.id == bindparam("is_agent"), _agents.paused_at.is_(None))
    .values(paused_at=bindparam("at"), paused_by=bindparam("by"))
    .returning(_agents.id)
)
_RESUME = Statement(
    update(t.agents)
    .where(_agents.id == bindparam("is_agent"), _agents.paused_at.is_not(None))
    .values(paused_at=sa.null(), paused_by=sa.null())
    .returning(_agents.id)
)
_RAISE_GENERATION = Statement(
    update(t.agents)
    .where(_agents.id == bindparam("is_agent"))
    .values(generation=_agents.generation + sa.literal_column("1"))
    .returning(_agents.generation)
)
_RAISE_VERSION = Statement(
    update(t.agents)
    .where(_agents.id == bindparam("is_agent"))
    .values(version=_agents.version + sa.literal_column("1"))
    .returning(_agents.id)
)
_RAISE_VERSIONS = Statement(
    update(t.agents).values(version=_agents.version + sa.literal_column("1")).returning(_agents.id)
)
_rule = t.rules.c
_RULE_COLUMNS = select(*(_rule[name] for name in RULE))
_RULES = Statement(_RULE_COLUMNS.where(_rule.agent == bindparam("is_agent")).order_by(_rule.created_at, _rule.id))
_RULE = Statement(_RULE_COLUMNS.where(_rule.id == bindparam("is_rule")))
_RULE_OF_TOKEN = Statement(_RULE_COLUMNS.where(_rule.token == bindparam("button")))
_ADD_RULE = Statement(
    lambda insert: (
        (rule := insert(t.rules))
        .on_conflict_do_update(
            index_elements=["agent", "tool", "operation", "scope_kind", "scope_value"],
            set_={name: rule.excluded[name] for name in RENEWED},
            # What an administrator said of money, with its ceiling, is not undone by a rule without one.
            where=sa.or_(_rule.ceiling_amount.is_(None), rule.excluded.ceiling_amount.is_not(None)),
        )
        .returning(*(_rule[name] for name in RULE))
    )
)
_DROP_RULE = Statement(sa.delete(t.rules).where(_rule.id == bindparam("is_rule")).returning(_rule.agent))
_DOCUMENT = Statement(select(t.documents.c.document).where(t.documents.c.name == bindparam("named")))
_MAPPED_ROLES = Statement(
    select(t.roles.c.id, t.roles.c.permissions, t.roles.c.groups).where(t.roles.c.groups.is_not(None))
)
_ROUTES = Statement(select(t.routes.c.document).order_by(t.routes.c.position))
_LANGUAGES = Statement(select(t.chats.c.place, t.chats.c.language).order_by(t.chats.c.place))
_APPLIED_PEOPLE = Statement(
    select(t.people.c.id, t.people.c.name, t.people.c.identities, t.people.c.language).order_by(t.people.c.id)
)
_APPLIED_ROLES = Statement(
    select(t.roles.c.id, t.roles.c.permissions, t.roles.c.members, t.roles.c.groups).order_by(t.roles.c.id)
)

_ADD_PAIRING = Statement(
    lambda insert: insert(t.pairings).values(
        {name: bindparam(name) for name in ("code_hash", "person", "issued_by", "expires_at")}
    )
)
_TAKE_PAIRING = Statement(
    update(t.pairings)
    .where(
        t.pairings.c.code_hash == bindparam("code"),
        t.pairings.c.used_at.is_(None),
        t.pairings.c.expires_at > bindparam("now"),
    )
    .values(used_at=bindparam("now"))
    .returning(t.pairings.c.person)
)
_ADD_IDENTITY = Statement(lambda insert: insert(t.identities).on_conflict_do_nothing().returning(t.identities.c.person))
_ADD_TOKEN = Statement(lambda insert: insert(t.tokens))
_TOKEN = Statement(
    select(t.tokens.c.id, t.tokens.c.kind, t.tokens.c.subject).where(t.tokens.c.token_hash == bindparam("hashed"))
)
_TOKENS_HELD = Statement(
    select(t.tokens.c.kind, t.tokens.c.subject, sa.func.count()).group_by(t.tokens.c.kind, t.tokens.c.subject)
)

_KEY = Statement(select(t.keys.c.secret).where(t.keys.c.name == bindparam("named")))
_ADD_KEY = Statement(lambda insert: insert(t.keys).on_conflict_do_nothing())

# Two processes that apply a directory at the same time do it one after the other.
_ONE_AT_A_TIME = Statement(select(sa.func.pg_advisory_xact_lock(sa.literal_column("7091224861"))))


@cache
def _put(table: sa.Table, *names: str) -> Statement:
    """Insert a row, or change the one of its key: all its columns, or those that are named."""
    key = [column.name for column in table.primary_key]
    written = names or tuple(column.name for column in table.c)
    rest = [name for name in written if name not in key]

    def build(insert: Any) -> Any:
        row = insert(table).values({name: bindparam(name) for name in written})
        if not rest:
            return row.on_conflict_do_nothing()
        return row.on_conflict_do_update(index_elements=key, set_={name: row.excluded[name] for name in rest})

    return Statement(build)


@cache
def _all_ids(table: sa.Table) -> Statement:
    return Statement(select(table.c.id))


@cache
def _clear(table: sa.Table) -> Statement:
    return Statement(sa.delete(table))


@cache
def _delete(table: sa.Table, *names: str) -> Statement:
    return Statement(sa.delete(table).where(*[table.c[name] == bindparam(f"is_{name}") for name in names]))


def tenant_and_id(written: Any) -> tuple[str, str]:
    """An identity as the directory file writes it: `T01/U01` is a team and a user, anything else a user."""
    text = str(written)
    tenant, _, user = text.rpartition("/")
    return tenant, user


@lru_cache(maxsize=256)
def _permissions(text: str) -> frozenset[Permission]:
    return frozenset(map(Permission, json.loads(text)))


def _person(rows: Sequence[Row]) -> Person:
    held = [(role, permissions) for *_, role, permissions in rows if role is not None]
    return Person(
        id=rows[0][0],
        name=rows[0][1],
        permissions=frozenset().union(*(_permissions(permissions) for _, permissions in held)),
        roles=frozenset(role for role, _ in held),
        language=rows[0][2] or "",
    )


@lru_cache(maxsize=256)
def _runs(text: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((run["tool"], run["activity"], run["task_queue"]) for run in json.loads(text))


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


class People:
    """The part of `core.ports.Ledger` that is about people and what they set up."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def _rows(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Row]:
        line = self._line
        compiled = statement.on(line.dialect)
        return line.rows(compiled.sql, compiled.parameters(values))

    def _moment(self, value: Any) -> Any:
        return datetime.fromisoformat(value) if isinstance(value, str) else value

    def person(self, person_id: str) -> Person | None:
        rows = self._rows(_PERSON, {"is_person": person_id})
        return _person(rows) if rows else None

    def person_of(self, actor: Actor) -> Person | None:
        rows = self._rows(_PERSON_OF, {"on": actor.platform, "within": actor.tenant, "as_user": actor.id})
        return _person(rows) if rows else None

    def people(self) -> Sequence[Person]:
        by_person: dict[str, list[Row]] = {}
        for row in self._rows(_PEOPLE, {}):
            by_person.setdefault(row[0], []).append(row)
        return [_person(rows) for rows in by_person.values()]

    def identities(self, person_id: str) -> Sequence[Actor]:
        return [Actor(*row) for row in self._rows(_IDENTITIES, {"of_person": person_id})]

    def agent(self, agent_id: str, hold: Literal["", "share", "update"] = "") -> Agent | None:
        rows = self._rows(_AGENT[hold], {"is_agent": agent_id})
        return self._agent(rows[0]) if rows else None

    def agents(self) -> Sequence[Agent]:
        return [self._agent(row) for row in self._rows(_AGENTS, {})]

    def _agent(self, row: Row) -> Agent:
        name, owner, mode, runs, paused_at, generation, version = row
        return Agent(
            id=name,
            owner=owner,
            mode=Mode(mode or Mode.OUTSIDE),
            runs=() if runs is None else _runs(runs),
            paused_at=self._moment(paused_at),
            generation=generation,
            version=version,
        )

    def set_mode(self, agent_id: str, mode: Mode) -> bool:
        return bool(self._rows(_SET_MODE, {"is_agent": agent_id, "to": mode.value}))

    def set_paused(self, agent_id: str, at: datetime | None, by: str | None) -> bool:
        if at is None:
            return bool(self._rows(_RESUME, {"is_agent": agent_id}))
        return bool(self._rows(_PAUSE, {"is_agent": agent_id, "at": at, "by": by}))

    def raise_generation(self, agent_id: str) -> int | None:
        rows = self._rows(_RAISE_GENERATION, {"is_agent": agent_id})
        return int(rows[0][0]) if rows else None

    def effects(self) -> Mapping[str, Any]:
        rows = self._rows(_DOCUMENT, {"named": EFFECTS})
        found: Mapping[str, Any] = json.loads(rows[0][0]) if rows else {}
        return found

    def rules(self, agent_id: str) -> Sequence[Rule]:
        return [self._rule(row) for row in self._rows(_RULES, {"is_agent": agent_id})]

    def rule(self, rule_id: str = "", *, token: str = "") -> Rule | None:
        rows = self._rows(_RULE_OF_TOKEN, {"button": token}) if token else self._rows(_RULE, {"is_rule": rule_id})
        return self._rule(rows[0]) if rows else None

    def _rule(self, row: Row) -> Rule:
        values = dict(zip(RULE, row, strict=True))
        moments = {name: self._moment(value) for name, value in values.items() if name.endswith("_at")}
        return Rule(**{**values, **moments, "scope_kind": ScopeKind(values["scope_kind"])})

    def add_rule(self, rule: Rule) -> Rule | None:
        # First, since a call that is being opened holds the agent: either it sees the rule, or it is pending by then
        # and the rule settles it.
        if not self._rows(_RAISE_VERSION, {"is_agent": rule.agent}):
            return None
        values = {name: getattr(rule, name) for name in RULE}
        rows = self._rows(_ADD_RULE, {**values, "token": rule_token(rule.id)})
        return self._rule(rows[0]) if rows else None

    def drop_rule(self, rule_id: str) -> bool:
        rows = self._rows(_DROP_RULE, {"is_rule": rule_id})
        for (agent,) in rows:
            self._rows(_RAISE_VERSION, {"is_agent": agent})
        return bool(rows)

    def mapped_roles(self) -> Sequence[Role]:
        return [
            Role(role, _permissions(permissions), frozenset(json.loads(groups)))
            for role, permissions, groups in self._rows(_MAPPED_ROLES, {})
        ]

    def languages(self) -> Mapping[str, str]:
        return {row[0]: row[1] for row in self._rows(_LANGUAGES, {})}

    def languages_of_people(self) -> Sequence[tuple[Actor, str]]:
        return [(Actor(*identity), language) for *identity, language in self._rows(_LANGUAGES_OF_PEOPLE, {})]

    def routes(self) -> Sequence[Route]:
        return [route_from(json.loads(row[0])) for row in self._rows(_ROUTES, {})]

    def directory(self) -> Mapping[str, Any]:
        people: dict[str, Any] = {}
        for person, name, identities, language in self._rows(_APPLIED_PEOPLE, {}):
            people[person] = {"name": name}
            if identities is not None:
                people[person]["identities"] = json.loads(identities)
            if language is not None:
                people[person]["language"] = language
        chats = {place: {"language": language} for place, language in self.languages().items()}
        roles: dict[str, Any] = {}
        members: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for role, permissions, held_by, mapped in self._rows(_APPLIED_ROLES, {}):
            roles[role] = json.loads(permissions)
            if held_by is not None:
                members[role] = json.loads(held_by)
            if mapped is not None:
                groups[role] = json.loads(mapped)
        agents: dict[str, Any] = {}
        for agent, owner, mode, runs in self._rows(_APPLIED_AGENTS, {}):
            agents[agent] = {"owner": owner}
            if mode is not None:
                agents[agent]["mode"] = mode
            if runs is not None:
                agents[agent]["runs"] = json.loads(runs)
        routes = [json.loads(row[0]) for row in self._rows(_ROUTES, {})]
        return {
            "people": people,
            "chats": chats,
            "roles": roles,
            "members": members,
            "groups": groups,
            "agents": agents,
            "routes": routes,
            "effects": self.effects(),
        }

    def replace_directory(self, directory: Mapping[str, Any]) -> None:
        if self._line.dialect.name == "postgresql":
            self._rows(_ONE_AT_A_TIME, {})
        people, roles = directory.get("people") or {}, directory.get("roles") or {}
        members, agents = directory.get("members") or {}, directory.get("agents") or {}
        groups = directory.get("groups") or {}
        self._put_people(people)
        for role, permissions in roles.items():
            self._rows(
                _put(t.roles),
                {
                    "id": role,
                    "permissions": _json(list(permissions)),
                    "members": _json(members.get(role)),
                    "groups": _json(groups.get(role)),
                },
            )
        self._drop_others(t.roles, roles)
        self._rows(_clear(t.memberships), {})
        for role, held_by in members.items():
            for person in dict.fromkeys(held_by):
                self._rows(_put(t.memberships), {"person": person, "role": role})
        known = {row[0] for row in self._rows(_all_ids(t.agents), {})}
        for agent, settings in agents.items():
            row = {
                "id": agent,
                "owner": settings["owner"],
                "mode": settings.get("mode"),
                "runs": _json(settings.get("runs")),
            }
            if agent not in known:
                # An agent that comes back must never reach a version under which somebody keeps its old rules, and
                # its next reset must not leave out what waits from before.
                row["version"] = 1 + secrets.randbelow(2**30)
                ((row["generation"],),) = self._rows(_GENERATION, {"is_agent": agent})
            if row["mode"] is not None:
                # A mode of the file's stands over one that was set before; where the file has none, that one stays.
                row["mode_set"] = None
            self._rows(_put(t.agents, *row), row)
        for gone in self._drop_others(t.agents, agents):
            self._rows(_delete(t.tokens, "kind", "subject"), {"is_kind": "agent", "is_subject": gone})
        for gone in self._drop_others(t.people, people):
            self._rows(_delete(t.tokens, "kind", "subject"), {"is_kind": "person", "is_subject": gone})
        self._rows(_clear(t.chats), {})
        for place, chat in (directory.get("chats") or {}).items():
            self._rows(_put(t.chats), {"place": place, "language": chat["language"]})
        self._rows(_clear(t.routes), {})
        for position, route in enumerate(directory.get("routes") or ()):
            self._rows(_put(t.routes), {"position": position, "document": _json(route)})
        self._rows(_put(t.documents), {"name": EFFECTS, "document": _json(directory.get("effects") or {})})
        self._rows(_RAISE_VERSIONS, {})

    def _put_people(self, people: Mapping[str, Any]) -> None:
        self._rows(_delete(t.identities, "source"), {"is_source": "file"})
        for person, described in people.items():
            written = described.get("identities")
            row = {"id": person, "name": described["name"], "identities": _json(written)}
            self._rows(_put(t.people), {**row, "language": described.get("language")})
            for platform, value in (written or {}).items():
                # The file's word stands over what was linked from chat: this person's, and whoever else's this was.
                self._rows(_delete(t.identities, "person", "platform"), {"is_person": person, "is_platform": platform})
                tenant, user = tenant_and_id(value)
                self._rows(
                    _put(t.identities),
                    {
                        "platform": platform,
                        "tenant": tenant,
                        "id": user,
                        "person": person,
                        "name": described["name"],
                        "source": "file",
                    },
                )

    def _drop_others(self, table: sa.Table, kept: Mapping[str, Any]) -> list[str]:
        gone = [row[0] for row in self._rows(_all_ids(table), {}) if row[0] not in kept]
        for row_id in gone:
            self._rows(_delete(table, "id"), {"is_id": row_id})
        return gone

    def add_pairing(self, code_hash: str, person: str, issued_by: str, expires_at: datetime) -> None:
        self._rows(
            _ADD_PAIRING,
            {"code_hash": code_hash, "person": person, "issued_by": issued_by, "expires_at": expires_at},
        )

    def take_pairing(self, code_hash: str, now: datetime) -> str | None:
        rows = self._rows(_TAKE_PAIRING, {"code": code_hash, "now": now})
        return rows[0][0] if rows else None

    def add_identity(self, person_id: str, actor: Actor) -> bool:
        row = {"platform": actor.platform, "tenant": actor.tenant, "id": actor.id, "name": actor.name}
        return bool(self._rows(_ADD_IDENTITY, {**row, "person": person_id, "source": "chat"}))

    def add_token(self, token_hash: str, kind: str, subject: str, at: datetime) -> str:
        token_id = str(uuid7())
        row = {"id": token_id, "token_hash": token_hash, "kind": kind, "subject": subject, "created_at": at}
        self._rows(_ADD_TOKEN, row)
        return token_id

    def token(self, token_hash: str) -> tuple[str, str, str] | None:
        rows = self._rows(_TOKEN, {"hashed": token_hash})
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def tokens_held(self) -> Mapping[tuple[str, str], int]:
        return {(kind, subject): int(count) for kind, subject, count in self._rows(_TOKENS_HELD, {})}

    def key(self, name: str) -> bytes:
        found = self._rows(_KEY, {"named": name})
        if not found:
            # Whoever is first writes it; the others read what was written.
            self._rows(_ADD_KEY, {"name": name, "secret": secrets.token_hex(32)})
            found = self._rows(_KEY, {"named": name})
        return bytes.fromhex(found[0][0])

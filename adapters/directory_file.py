"""Reads placet.yaml (design section 7) whole, or refuses it with the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from adapters.directory_forms import WHOLE, forms_of, is_group, is_place, right_group, right_place
from adapters.settings import PLATFORMS
from adapters.strict_yaml import (
    TEXT,
    DirectoryError,
    Entry,
    Reading,
    is_nothing,
    line_at,
    line_of,
    refuse,
    root_of,
    shown,
    unknown,
)
from core.approvals import AUTO, Effect, Mode, Permission
from core.asks import LIFETIME_MAX_S, LIFETIME_MIN_S, PLACET_QUEUES
from core.effects_file import BadEffects, tables_from
from core.people import place_of
from core.wording import LANGUAGES

__all__ = ["DirectoryError", "read_directory"]

# Who else stands in a row, a rule or a line of the audit where a person would.
TAKEN = {AUTO: "a call that runs unasked", "admin": "whoever holds the admin token"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DURATION = re.compile(r"([0-9]{1,9})([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

T = TypeVar("T")


def read_directory(text: str, platforms: Collection[str] = PLATFORMS) -> dict[str, Any]:
    """The directory that `text` (YAML 1.2) declares for these platforms, every reference checked; or DirectoryError.

    `{"people": {id: {"name", "identities": {platform: id text}, "language"}}, "chats": {place: {"language"}}, "roles":
    {id: [permission]}, "members": {role: [person]}, "groups": {role: [group]}, "agents": {id: {"owner", "mode", "runs":
    [{"tool", "activity", "task_queue"}]}}, "routes": [{"match", "ask", "at", "needed", "four_eyes", "timeout_s",
    "remind_s", "escalate": {"after_s", "ask", "at"}}], "effects": as it is written}`; durations are seconds or None. An
    agent without a mode of its own has none here.
    """
    return _File(platforms=platforms).read(root_of(text))


@dataclass(slots=True)
class _File(Reading):
    """One reading of the file: what was declared so far, for the references that come after."""

    platforms: Collection[str] = PLATFORMS
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    roles: dict[str, list[str]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    identities: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    def read(self, root: Node) -> dict[str, Any]:
        # In this order whatever the file's own, so that every name is known before it is referred to.
        sections = self.fields(root, "the file", ("people", "chats", "roles", "members", "agents", "routes", "effects"))
        self._each(sections, "people", "person", self._person, self.people)
        self._each(sections, "roles", "role", self._role, self.roles)
        self._each(sections, "members", "role", self._members, self.members)
        self._each(sections, "agents", "agent", self._agent, self.agents)
        routes, chats = sections.get("routes"), sections.get("chats")
        return {
            "people": self.people,
            "chats": {chat.key: self._chat(chat) for chat in self.entries(chats.value, "chats")} if chats else {},
            "roles": self.roles,
            "members": self.members,
            "groups": self.groups,
            "agents": self.agents,
            "routes": [self._route(node) for node in self.items(routes.value, "routes")] if routes else [],
            "effects": self._effects(sections["effects"].value) if "effects" in sections else {},
        }

    def _each(
        self, sections: Mapping[str, Entry], name: str, what: str, read: Callable[[Entry], T], into: dict[str, T]
    ) -> None:
        if name in sections:
            for entry in self.entries(sections[name].value, name):
                pattern = TEXT if what == "agent" else NAME
                if not pattern.fullmatch(entry.key):
                    refuse(entry.line, f"{shown(entry.key)} is no name of a {what}: use letters, digits, '.', '_', '-'")
                if what == "person" and entry.key in TAKEN:
                    refuse(
                        entry.line, f"nobody can be called {entry.key}: that is what Placet calls {TAKEN[entry.key]}"
                    )
                into[entry.key] = read(entry)

    # The sections

    def _person(self, entry: Entry) -> dict[str, Any]:
        fields = self.fields(entry.value, f"person {entry.key}", ("name", "identities", "language"))
        identities = {}
        if "identities" in fields:
            for identity in self.entries(fields["identities"].value, "identities"):
                identities[identity.key] = self._identity(entry.key, identity)
        name = self.text(fields["name"].value, "name") if "name" in fields else entry.key
        language = self._language(fields["language"].value) if "language" in fields else ""
        return {"name": name, "identities": identities, **({"language": language} if language else {})}

    def _language(self, node: Node) -> str:
        language = self.text(node, "language")
        if language not in LANGUAGES:
            unknown(line_of(node), language, "language", LANGUAGES)
        return language

    def _chat(self, entry: Entry) -> dict[str, str]:
        if entry.key == "dm":
            refuse(entry.line, "dm is nobody's chat; give the person a language")
        self._check_place(entry.key, entry.line)
        found = place_of(entry.key)
        if found is not None and found.account and f"@{found.account}:" in entry.key:
            refuse(entry.line, f"a chat speaks one language with every bot: leave @{found.account} out")
        fields = self.fields(entry.value, f"chat {entry.key}", ("language",))
        if "language" not in fields:
            refuse(entry.line, f"chat {entry.key} needs a language")
        return {"language": self._language(fields["language"].value)}

    def _identity(self, person: str, entry: Entry) -> str:
        if entry.key not in self.platforms:
            unknown(entry.line, entry.key, "platform", self.platforms)
        forms = forms_of(entry.key)
        text = self.scalar(entry.value, f"identity {entry.key}", "str", "int")
        if not forms.person.fullmatch(text):
            refuse(line_of(entry.value), f"the {entry.key} identity of {person} must be {forms.person_words}")
        holder, line = self.identities.setdefault((entry.key, text), (person, entry.line))
        if holder != person:
            refuse(entry.line, f"this {entry.key} identity is already {holder}'s, on line {line}")
        return text

    def _role(self, entry: Entry) -> list[str]:
        what, known = f"role {entry.key}", tuple(Permission)
        if not isinstance(entry.value, MappingNode):
            if isinstance(entry.value, ScalarNode) and not is_nothing(entry.value):
                refuse(line_of(entry.value), f"{what} must be a list of permissions, or a mapping with permissions and "
                       "groups")  # fmt: skip
            return self.names(entry.value, what, "permission", known)
        fields = self.fields(entry.value, what, ("permissions", "groups"))
        if "permissions" not in fields:
            refuse(entry.line, f"{what} needs permissions")
        if "groups" in fields and (groups := self._groups(fields["groups"].value, entry.key)):
            self.groups[entry.key] = groups
        return self.names(fields["permissions"].value, f"permissions of {entry.key}", "permission", known)

    def _groups(self, node: Node, role: str) -> list[str]:
        groups: dict[str, None] = {}
        for item in self.items(node, f"groups of {role}"):
            group = self.text(item, "a group")
            if not is_group(group, self.platforms):
                refuse(line_of(item), f"{shown(group)} is no group: write {right_group(self.platforms)}")
            if group in groups:
                refuse(line_of(item), f"{group} is there twice in groups of {role}")
            groups[group] = None
        return list(groups)

    def _members(self, entry: Entry) -> list[str]:
        if entry.key not in self.roles:
            unknown(entry.line, entry.key, "role", self.roles)
        return self.names(entry.value, f"members of {entry.key}", "person", self.people)

    def _agent(self, entry: Entry) -> dict[str, Any]:
        what = f"agent {entry.key}"
        fields = self.fields(entry.value, what, ("owner", "mode", "runs"))
        if "owner" not in fields:
            refuse(entry.line, f"{what} needs an owner")
        owner = self.text(fields["owner"].value, "owner")
        if owner not in self.people:
            unknown(line_of(fields["owner"].value), owner, "person", self.people)
        mode = {"mode": self._mode(fields["mode"].value)} if "mode" in fields else {}
        runs = [self._run(node) for node in self.items(fields["runs"].value, "runs")] if "runs" in fields else []
        return {"owner": owner, **mode, "runs": runs}

    def _mode(self, node: Node) -> str:
        mode = self.text(node, "mode")
        if mode not in tuple(Mode):
            unknown(line_of(node), mode, "mode", tuple(Mode))
        return mode

    def _run(self, node: Node) -> dict[str, str]:
        known = ("tool", "activity", "task_queue")
        fields = self.fields(node, "a run", known, known)
        if (queue := self.text(fields["task_queue"].value, "task_queue")) in PLACET_QUEUES:
            refuse(line_of(fields["task_queue"].value), f"the task queue {queue} is Placet's own; name the caller's")
        return {name: self.text(entry.value, name) for name, entry in fields.items()}

    def _route(self, node: Node) -> dict[str, Any]:
        known = ("match", "ask", "at", "needed", "four_eyes", "timeout", "remind", "escalate")
        fields = self.fields(node, "a route", known, ("ask", "at"))
        ask = self._ask(fields["ask"].value)
        at = self._places(fields["at"], ask)
        needed = self._needed(fields["needed"].value) if "needed" in fields else 1
        able = self._who_may_answer(ask)
        if not able:
            refuse(fields["ask"].line, f"nobody of {', '.join(ask)} holds approvals:answer, so nobody could decide")
        if len(able) < needed:
            only = f"{', '.join(able)} {'hold' if len(able) > 1 else 'holds'}"
            refuse(fields["needed"].line, f"needed is {needed}, but of {', '.join(ask)} only {only} approvals:answer")
        timeout = self._duration(fields.get("timeout"))
        remind = self._duration(fields.get("remind"))
        if timeout is not None and remind is not None and remind >= timeout:
            refuse(fields["remind"].line, "remind counts back from the expiry and must be shorter than timeout")
        escalate = self._escalation(fields["escalate"].value) if "escalate" in fields else None
        if escalate is not None:
            line = fields["escalate"].line
            if timeout is not None and escalate["after_s"] >= timeout:
                refuse(line, "escalate counts from the ask and must come before the timeout")
            if not {*escalate["ask"]} - {*ask} and not {*escalate["at"]} - {*at}:
                refuse(line, "escalate asks nobody and nowhere that the route does not ask already")
        return {
            "match": self._match(fields["match"].value) if "match" in fields else {},
            "ask": ask,
            "at": at,
            "needed": needed,
            "four_eyes": self.flag(fields["four_eyes"].value, "four_eyes") if "four_eyes" in fields else False,
            "timeout_s": timeout,
            "remind_s": remind,
            "escalate": escalate,
        }

    def _escalation(self, node: Node) -> dict[str, Any]:
        known = ("after", "ask", "at")
        fields = self.fields(node, "escalate", known, known)
        ask = self._ask(fields["ask"].value)
        if not self._who_may_answer(ask):
            refuse(fields["ask"].line,
                   f"nobody of {', '.join(ask)} holds approvals:answer, so the escalation could not help")  # fmt: skip
        return {"after_s": self._duration(fields["after"]), "ask": ask, "at": self._places(fields["at"], ask)}

    def _ask(self, node: Node) -> list[str]:
        return self.names(node, "ask", "person or role", {*self.people, *map("role:{}".format, self.roles)})

    def _match(self, node: Node) -> dict[str, str]:
        fields = self.fields(node, "match", ("agent", "effect", "tool"))
        known: dict[str, Collection[str]] = {"agent": self.agents, "effect": tuple(Effect)}
        match = {}
        for name, entry in fields.items():
            match[name] = self.text(entry.value, name)
            if name in known and match[name] not in known[name]:
                unknown(line_of(entry.value), match[name], name, known[name])
        return match

    def _effects(self, node: Node) -> dict[str, Any]:
        if not is_nothing(node) and not isinstance(node, MappingNode):
            refuse(line_of(node), "effects must be a mapping (name: value)")
        effects: dict[str, Any] = self.plain(node, "effects") or {}
        try:
            tables_from(effects)
        except BadEffects as bad:
            section, *path = bad.path
            refuse(line_at(node, path), f"{'.'.join([section, *path])}: {bad.problem}")
        return effects

    def _needed(self, node: Node) -> int:
        text = self.scalar(node, "needed", "int")
        if not WHOLE.fullmatch(text):
            refuse(line_of(node), "needed must be a whole number from 1")
        return int(text)

    def _who_may_answer(self, ask: Iterable[str]) -> list[str]:
        """Those of the people asked who could hold approvals:answer: a role with groups could be anybody's here."""
        asked: dict[str, None] = {}
        for name in ask:
            asked |= dict.fromkeys(self._could_be(name.removeprefix("role:")) if name.startswith("role:") else [name])
        answering = [role for role, permissions in self.roles.items() if Permission.ANSWER in permissions]
        able = {person for role in answering for person in self._could_be(role)}
        return [person for person in asked if person in able]

    def _could_be(self, role: str) -> Iterable[str]:
        return self.people if role in self.groups else self.members.get(role, ())

    def _places(self, entry: Entry, ask: Collection[str]) -> list[str]:
        places: list[str] = []
        for item in self.items(entry.value, "at", least=1):
            place, line = self.text(item, "a place"), line_of(item)
            if place != "dm":
                self._check_place(place, line)
            if place in places:
                refuse(line, f"the place {place} is there twice")
            places.append(place)
        roles = [name.removeprefix("role:") for name in ask if name.startswith("role:")]
        if places == ["dm"] and len(roles) == len(ask) and all(not self.members.get(role) for role in roles):
            refuse(entry.line, f"dm reaches nobody: who is in the groups of {', '.join(roles)} is known only once they "
                   "press; name a channel")  # fmt: skip
        return places

    def _check_place(self, place: str, line: int) -> None:
        if not is_place(place, self.platforms):
            refuse(line, f"{shown(place)} is no place: write {right_place(place, self.platforms)}")

    def _duration(self, entry: Entry | None) -> int | None:
        if entry is None:
            return None
        match = DURATION.fullmatch(self.scalar(entry.value, entry.key, "str", "int"))
        if match is None:
            refuse(line_of(entry.value), f"{entry.key} must be a number with s, m, h or d, such as 90m or 24h")
        seconds = int(match[1]) * SECONDS[match[2]]
        if not LIFETIME_MIN_S <= seconds <= LIFETIME_MAX_S:
            refuse(line_of(entry.value), f"{entry.key} must be from 10s to 720h")
        return seconds

"""Reads placet.yaml (design section 7) whole, refuses with the line, and says what applying it would change."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ruamel.yaml.nodes import Node

from adapters.strict_yaml import TEXT, DirectoryError, Entry, Reading, line_of, refuse, root_of, shown, unknown
from core.approvals import Effect, Permission
from core.asks import LIFETIME_MAX_S, LIFETIME_MIN_S, PLACET_QUEUES
from core.people import place_of
from core.wording import LANGUAGES

__all__ = ["DirectoryError", "changes", "read_directory"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
WHOLE = re.compile(r"[1-9][0-9]{0,18}")
CHAT = re.compile(r"-?[1-9][0-9]{0,18}")
BOT = re.compile(r"[A-Za-z0-9_]{1,64}")
SLACK_TEAM = re.compile(r"[TE][A-Z0-9]{1,31}")
SLACK_CHANNEL = re.compile(r"[CGDUW][A-Z0-9]{1,31}")
DISCORD_BOT = re.compile(r"[\w.]{2,32}")
SLACK_PERSON = re.compile(r"[A-Z0-9]{2,32}/[A-Z0-9]{2,32}")
DURATION = re.compile(r"([0-9]{1,9})([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MODES_TO_COME = ("everything", "money_only")

T = TypeVar("T")


def read_directory(text: str) -> dict[str, Any]:
    """The directory that `text` (YAML 1.2) declares, every reference checked. Raises DirectoryError.

    `{"people": {id: {"name", "identities": {platform: id text}, "language"}}, "chats": {place: {"language"}}, "roles":
    {id: [permission]}, "members": {role: [person]}, "agents": {id: {"owner", "mode", "runs": [{"tool",
    "activity", "task_queue"}]}}, "routes": [{"match", "ask", "at", "needed", "four_eyes", "timeout_s", "remind_s"}]}`;
    durations are seconds or None.
    """
    return _File().read(root_of(text))


@dataclass(slots=True)
class _File(Reading):
    """One reading of the file: what was declared so far, for the references that come after."""

    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    roles: dict[str, list[str]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    entitled: set[str] = field(default_factory=set)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    identities: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    def read(self, root: Node) -> dict[str, Any]:
        # In this order whatever the file's own, so that every name is known before it is referred to.
        sections = self.fields(root, "the file", ("people", "chats", "roles", "members", "agents", "routes"))
        self._each(sections, "people", "person", self._person, self.people)
        self._each(sections, "roles", "role", self._permissions, self.roles)
        self._each(sections, "members", "role", self._members, self.members)
        for role, people in self.members.items():
            if Permission.ANSWER in self.roles[role]:
                self.entitled.update(people)
        self._each(sections, "agents", "agent", self._agent, self.agents)
        routes, chats = sections.get("routes"), sections.get("chats")
        return {
            "people": self.people,
            "chats": {chat.key: self._chat(chat) for chat in self.entries(chats.value, "chats")} if chats else {},
            "roles": self.roles,
            "members": self.members,
            "agents": self.agents,
            "routes": [self._route(node) for node in self.items(routes.value, "routes")] if routes else [],
        }

    def _each(
        self, sections: Mapping[str, Entry], name: str, what: str, read: Callable[[Entry], T], into: dict[str, T]
    ) -> None:
        if name in sections:
            for entry in self.entries(sections[name].value, name):
                pattern = TEXT if what == "agent" else NAME
                if not pattern.fullmatch(entry.key):
                    refuse(entry.line, f"{shown(entry.key)} is no name of a {what}: use letters, digits, '.', '_', '-'")
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
        _check_place(entry.key, entry.line)
        found = place_of(entry.key)
        if found is not None and found.account and f"@{found.account}:" in entry.key:
            refuse(entry.line, f"a chat speaks one language with every bot: leave @{found.account} out")
        fields = self.fields(entry.value, f"chat {entry.key}", ("language",))
        if "language" not in fields:
            refuse(entry.line, f"chat {entry.key} needs a language")
        return {"language": self._language(fields["language"].value)}

    def _identity(self, person: str, entry: Entry) -> str:
        known = {
            "telegram": (WHOLE, "a positive whole number: the user's id, not the @name"),
            "slack": (SLACK_PERSON, "<team>/<user>, such as T01/U01"),
            "discord": (WHOLE, "a positive whole number: the user's id"),
        }
        if entry.key not in known:
            unknown(entry.line, entry.key, "platform", known)
        pattern, right = known[entry.key]
        text = self.scalar(entry.value, f"identity {entry.key}", "str", "int")
        if not pattern.fullmatch(text):
            refuse(line_of(entry.value), f"the {entry.key} identity of {person} must be {right}")
        holder, line = self.identities.setdefault((entry.key, text), (person, entry.line))
        if holder != person:
            refuse(entry.line, f"this {entry.key} identity is already {holder}'s, on line {line}")
        return text

    def _permissions(self, entry: Entry) -> list[str]:
        return self.names(entry.value, f"role {entry.key}", "permission", tuple(Permission))

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
        if "mode" in fields:
            self._mode(fields["mode"].value)
        runs = [self._run(node) for node in self.items(fields["runs"].value, "runs")] if "runs" in fields else []
        return {"owner": owner, "mode": "outside", "runs": runs}

    def _mode(self, node: Node) -> None:
        mode = self.text(node, "mode")
        if mode in MODES_TO_COME:
            refuse(line_of(node), f"the mode {mode} is not built yet; only outside is")
        if mode != "outside":
            unknown(line_of(node), mode, "mode", ("outside",))

    def _run(self, node: Node) -> dict[str, str]:
        fields = self.fields(node, "a run", ("tool", "activity", "task_queue"))
        for name in ("tool", "activity", "task_queue"):
            if name not in fields:
                refuse(line_of(node), f"a run needs {name}")
        if (queue := self.text(fields["task_queue"].value, "task_queue")) in PLACET_QUEUES:
            refuse(line_of(fields["task_queue"].value), f"the task queue {queue} is Placet's own; name the caller's")
        return {name: self.text(entry.value, name) for name, entry in fields.items()}

    def _route(self, node: Node) -> dict[str, Any]:
        known = ("match", "ask", "at", "needed", "four_eyes", "timeout", "remind", "escalate")
        fields = self.fields(node, "a route", known)
        for name in ("ask", "at"):
            if name not in fields:
                refuse(line_of(node), f"a route needs {name}")
        if "escalate" in fields:
            refuse(fields["escalate"].line, "escalate is not built yet")
        if "four_eyes" in fields and self.flag(fields["four_eyes"].value, "four_eyes"):
            refuse(fields["four_eyes"].line, "four_eyes is not built yet; leave it out or say false")
        ask = self.names(
            fields["ask"].value, "ask", "person or role", {*self.people, *map("role:{}".format, self.roles)}
        )
        needed = self._needed(fields["needed"].value) if "needed" in fields else 1
        if len(self.entitled.intersection(self._asked(ask))) < needed:
            refuse(fields["ask"].line, f"nobody of {', '.join(ask)} holds approvals:answer, so nobody could decide")
        timeout = self._duration(fields.get("timeout"))
        remind = self._duration(fields.get("remind"))
        if timeout is not None and remind is not None and remind >= timeout:
            refuse(fields["remind"].line, "remind counts back from the expiry and must be shorter than timeout")
        return {
            "match": self._match(fields["match"].value) if "match" in fields else {},
            "ask": ask,
            "at": self._places(fields["at"].value),
            "needed": needed,
            "four_eyes": False,
            "timeout_s": timeout,
            "remind_s": remind,
        }

    def _match(self, node: Node) -> dict[str, str]:
        fields = self.fields(node, "match", ("agent", "effect", "tool"))
        known: dict[str, Collection[str]] = {"agent": self.agents, "effect": tuple(Effect)}
        match = {}
        for name, entry in fields.items():
            match[name] = self.text(entry.value, name)
            if name in known and match[name] not in known[name]:
                unknown(line_of(entry.value), match[name], name, known[name])
        return match

    def _needed(self, node: Node) -> int:
        text = self.scalar(node, "needed", "int")
        if not WHOLE.fullmatch(text):
            refuse(line_of(node), "needed must be a whole number from 1")
        if text != "1":
            refuse(line_of(node), "needed above 1 is not built yet")
        return 1

    def _asked(self, ask: Iterable[str]) -> Iterator[str]:
        for name in ask:
            yield from self.members.get(name.removeprefix("role:"), ()) if name.startswith("role:") else (name,)

    def _places(self, node: Node) -> list[str]:
        places: list[str] = []
        for item in self.items(node, "at", least=1):
            place, line = self.text(item, "a place"), line_of(item)
            _check_place(place, line)
            if place in places:
                refuse(line, f"the place {place} is there twice")
            places.append(place)
        return places

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


def _check_place(place: str, line: int) -> None:
    platform = place.partition(":")[0].partition("@")[0]
    if platform == "slack" and not _on_slack(place):
        form = "slack:[<team>/]<channel>, both by their ids, such as slack:T01/C0123"
        refuse(line, f"{shown(place)} is no place: write {form}")
    if platform == "discord" and not _on_discord(place):
        form = "discord[@bot]:<channel>[/<thread>], both as their numbers, such as discord:123456/789"
        refuse(line, f"{shown(place)} is no place: write {form}")
    if platform not in ("slack", "discord") and place != "dm" and not _on_telegram(place):
        form = "dm or telegram[@bot]:<chat>[/<topic>], the chat as its number, such as telegram:-1001234/31"
        refuse(line, f"{shown(place)} is no place: write {form}")


def _on_telegram(place: str) -> bool:
    found = place_of(place)
    return (
        found is not None
        and found.platform == "telegram"
        and CHAT.fullmatch(found.chat) is not None
        and (not found.account or BOT.fullmatch(found.account) is not None)
        and (not found.thread or WHOLE.fullmatch(found.thread) is not None)
    )


def _on_slack(place: str) -> bool:
    found = place_of(place)
    return (
        found is not None
        and SLACK_CHANNEL.fullmatch(found.chat) is not None
        and (not found.account or SLACK_TEAM.fullmatch(found.account) is not None)
        and not found.thread
    )


def _on_discord(place: str) -> bool:
    found = place_of(place)
    return (
        found is not None
        and WHOLE.fullmatch(found.chat) is not None
        and (not found.account or DISCORD_BOT.fullmatch(found.account) is not None)
        and (not found.thread or WHOLE.fullmatch(found.thread) is not None)
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What applying `after` over `before` (both as read_directory gives them) changes, a line each; [] when nothing."""
    return [
        *_named(before, after, "people", "person", _person_lines),
        *_named(before, after, "chats", "chat", lambda chat: {"language": chat["language"]}),
        *_named(before, after, "roles", "role", lambda permissions: {"": ", ".join(permissions)}),
        *_named(before, after, "members", "members of", lambda people: {"": ", ".join(people)}),
        *_named(before, after, "agents", "agent", _agent_lines),
        *_ordered(before.get("routes") or [], after.get("routes") or []),
    ]


def _named(
    before: Mapping[str, Any], after: Mapping[str, Any], section: str, what: str, told: Callable[[Any], dict[str, str]]
) -> Iterator[str]:
    old, new = before.get(section) or {}, after.get(section) or {}
    for name in old:
        if name not in new:
            yield f"- {what} {name}"
    for name, value in new.items():
        now = told(value)
        if name not in old:
            summary = next(iter(now.values()))
            yield f"+ {what} {name}" + (f" ({summary})" if summary else "")
        else:
            yield from _differences(f"{what} {name}", told(old[name]), now)


def _ordered(old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    """Routes have no names: those that stayed are matched up in order, so that one put in between is one line."""
    was, now = ([json.dumps(route, sort_keys=True) for route in routes] for routes in (old, new))
    for verb, i, i_end, j, j_end in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if verb == "equal":
            continue
        both = min(i_end - i, j_end - j)
        for step in range(both):
            yield from _differences(f"route {j + step + 1}", _route_lines(old[i + step]), _route_lines(new[j + step]))
        for at in range(i + both, i_end):
            yield f"- route {at + 1} ({_route_summary(old[at])})"
        for at in range(j + both, j_end):
            yield f"+ route {at + 1} ({_route_summary(new[at])})"


def _differences(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name, ""), new.get(name, "")
        if was != now:
            yield f"~ {what}:{f' {name}' if name else ''} {was or 'nothing'} -> {now or 'nothing'}"


def _person_lines(person: Mapping[str, Any]) -> dict[str, str]:
    identities = {platform: str(identity) for platform, identity in (person.get("identities") or {}).items()}
    return {"name": person["name"], **identities, "language": person.get("language") or ""}


def _agent_lines(agent: Mapping[str, Any]) -> dict[str, str]:
    runs = (f"{run['tool']} by {run['activity']} on {run['task_queue']}" for run in agent.get("runs") or ())
    return {"owner": agent["owner"], "mode": agent.get("mode") or "outside", "runs": ", ".join(runs)}


def _route_lines(route: Mapping[str, Any]) -> dict[str, str]:
    match = ", ".join(f"{name} {value}" for name, value in (route.get("match") or {}).items())
    durations = {name: _duration_text(route[key]) for name, key in (("timeout", "timeout_s"), ("remind", "remind_s"))
                 if route.get(key) is not None}  # fmt: skip
    return {"match": match or "everything", "ask": ", ".join(route["ask"]), "at": ", ".join(route["at"]), **durations}


def _duration_text(seconds: int) -> str:
    unit = next(unit for unit in ("h", "m", "s") if seconds % SECONDS[unit] == 0)
    return f"{seconds // SECONDS[unit]}{unit}"


def _route_summary(route: Mapping[str, Any]) -> str:
    lines = _route_lines(route)
    return f"{lines['match']}: ask {lines['ask']} at {lines['at']}"

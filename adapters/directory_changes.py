"""What applying a directory over another changes, a line each."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

UNITS = {"h": 3600, "m": 60, "s": 1}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What applying `after` over `before` (both as read_directory gives them) changes, a line each; [] when nothing."""
    return [
        *_named(before, after, "people", "person", _person_lines),
        *_named(before, after, "chats", "chat", lambda chat: {"language": chat["language"]}),
        *_named(before, after, "roles", "role", lambda permissions: {"": ", ".join(permissions)}),
        *_named(before, after, "members", "members of", lambda people: {"": ", ".join(people)}),
        *_named(before, after, "groups", "groups of", lambda groups: {"": ", ".join(groups)}),
        *_named(before, after, "agents", "agent", _agent_lines),
        *_ordered(before.get("routes") or [], after.get("routes") or []),
        *_named(_flat(before), _flat(after), "effects", "effects", lambda said: {"": _text(said)}),
    ]


def _flat(directory: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the effects section says, each under its section and tool."""
    flat: dict[str, Any] = {}
    for section, tools in (directory.get("effects") or {}).items():
        said = tools if isinstance(tools, Mapping) else dict.fromkeys(tools or (), "")
        flat |= {f"{section}.{tool}": value for tool, value in said.items()}
    return {"effects": flat}


def _text(said: Any) -> str:
    match said:
        case Mapping():
            return ", ".join(
                f"{name} {{{_text(value)}}}" if isinstance(value, Mapping | list) else f"{name} {_text(value)}"
                for name, value in said.items()
            )
        case list():
            return ", ".join(map(_text, said))
        case bool():
            return str(said).lower()
    return "" if said is None else str(said)


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
    return {"owner": agent["owner"], "mode": agent.get("mode") or "", "runs": ", ".join(runs)}


def _route_lines(route: Mapping[str, Any]) -> dict[str, str]:
    match = ", ".join(f"{name} {value}" for name, value in (route.get("match") or {}).items())
    durations = {name: duration_text(route[key]) for name, key in (("timeout", "timeout_s"), ("remind", "remind_s"))
                 if route.get(key) is not None}  # fmt: skip
    return {
        "match": match or "everything",
        **_asks(route),
        "needed": str(route.get("needed") or 1),
        "four_eyes": "true" if route.get("four_eyes") else "",
        **durations,
        "escalate": _escalation_text(later) if (later := route.get("escalate")) else "",
    }


def _asks(asking: Mapping[str, Any]) -> dict[str, str]:
    return {"ask": ", ".join(asking["ask"]), "at": ", ".join(asking["at"])}


def _escalation_text(escalation: Mapping[str, Any]) -> str:
    lines = _asks(escalation)
    return f"after {duration_text(escalation['after_s'])}, ask {lines['ask']} at {lines['at']}"


def tokens_that_go(
    before: Mapping[str, Any], after: Mapping[str, Any], held: Mapping[tuple[str, str], int]
) -> list[str]:
    """The bearer tokens that go with who is gone, a line each; `held` counts them by kind and subject."""
    return [
        f"- {count} {'token' if count == 1 else 'tokens'} of {kind} {subject}"
        for kind, section in (("person", "people"), ("agent", "agents"))
        for subject in _gone(before, after, section)
        if (count := held.get((kind, subject), 0))
    ]


def rules_that_go(before: Mapping[str, Any], after: Mapping[str, Any], held: Mapping[str, int]) -> list[str]:
    """The standing rules that go with an agent, a line each; `held` counts them by agent."""
    return [
        f"- {count} {'rule' if count == 1 else 'rules'} of agent {agent}"
        for agent in _gone(before, after, "agents")
        if (count := held.get(agent, 0))
    ]


def _gone(before: Mapping[str, Any], after: Mapping[str, Any], section: str) -> list[str]:
    return [name for name in before.get(section) or () if name not in (after.get(section) or {})]


def duration_text(seconds: int) -> str:
    unit, length = next((unit, length) for unit, length in UNITS.items() if seconds % length == 0)
    return f"{seconds // length}{unit}"


def _route_summary(route: Mapping[str, Any]) -> str:
    lines = _route_lines(route)
    more = [f"needed {lines['needed']}"] if lines["needed"] != "1" else []
    more += ["four_eyes"] if lines["four_eyes"] else []
    more += [f"escalate {lines['escalate']}"] if lines["escalate"] else []
    return ", ".join([f"{lines['match']}: ask {lines['ask']} at {lines['at']}", *more])

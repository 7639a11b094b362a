"""Writes an applied directory as placet.yaml writes it, so that what was read can be applied again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.directory_changes import duration_text

_DURATIONS = {"timeout_s": "timeout", "remind_s": "remind", "after_s": "after"}


def written(directory: Mapping[str, Any]) -> dict[str, Any]:
    """The directory (as read_directory gives it) in the shape of the file: groups stand with their roles, durations
    have their unit, and what was not said is left out."""
    sections = {name: said for name, said in directory.items() if name != "groups"}
    groups = directory.get("groups") or {}
    return sections | {
        "roles": {
            role: {"permissions": held, "groups": groups[role]} if groups.get(role) else held
            for role, held in (directory.get("roles") or {}).items()
        },
        "routes": [_route(route) for route in directory.get("routes") or ()],
    }


def _route(route: Mapping[str, Any]) -> dict[str, Any]:
    said = {_DURATIONS.get(name, name): _value(name, value) for name, value in route.items() if value is not None}
    return {name: value for name, value in said.items() if name != "match" or value}


def _value(name: str, value: Any) -> Any:
    if name == "escalate":
        return _route(value)
    return duration_text(value) if name in _DURATIONS else value

"""The calls that another call carries: tools that pass on whatever they are given, one call or several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.effects_rows import key_of

_TOOLS = frozenset(str.split("tool toolname name recipientname toolslug slug function functionname"))
_SERVERS = frozenset(str.split("server servername serverlabel serverid mcpserver toolkit app appname"))
_OPERATIONS = frozenset(str.split("operation action"))
_ARGUMENTS = frozenset(str.split("""
    arguments args parameters params input toolinput toolarguments toolargs argumentsjson inputs
"""))  # fmt: skip
_BESIDE = frozenset(str.split("id callid toolcallid type description explanation reason timeout timeoutms"))
_DEPTH, _NAME_LIMIT = 8, 200


@dataclass(frozen=True, slots=True)
class Carried:
    """One call inside another. `served`: the tool's name begins with its server's; `whole`: there is nothing beside it
    that nobody thought of."""

    tool: str
    operation: str
    arguments: Mapping[str, Any]
    served: bool
    whole: bool


class CannotRead(Exception):
    """What is carried is not spelt as any known tool spells it."""


def carried_by(arguments: Mapping[str, Any], depth: int = 0) -> Iterator[Carried]:
    """Every call in these arguments; raises CannotRead where one, or where it goes, cannot be told."""
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if given.setdefault(key_of(name), value) is not value:
            raise CannotRead
    named = [name for name in given if name in _TOOLS and given[name] not in (None, "")]
    if not named:
        yield from _several(given, depth)
        return
    if len(named) == 1 and isinstance(given[named[0]], dict):
        # OpenAI's own spelling: {"type": "function", "function": {"name": ..., "arguments": ...}}
        yield from carried_by(given[named[0]], _deeper(depth))
        return
    held = [name for name in given if name in _ARGUMENTS]
    servers = [name for name in given if name in _SERVERS]
    operations = [name for name in given if name in _OPERATIONS]
    if max(map(len, (named, held, servers, operations))) > 1:
        raise CannotRead
    tool, server, operation = (
        _text(given[found[0]]) if found else "" for found in (named, servers, operations)
    )  # fmt: skip
    if server:
        tool = f"mcp__{server}__{tool}"
    whole = given.keys() <= {*named, *held, *servers, *operations, *_BESIDE}
    yield Carried(tool, operation, _object(given[held[0]]) if held else {}, bool(server), whole)


def _several(given: Mapping[str, Any], depth: int) -> Iterator[Carried]:
    found = False
    for name, value in given.items():
        value = _parsed(value)
        if isinstance(value, dict | list) and value:
            for each in value if isinstance(value, list) else [value]:
                found = True
                yield from carried_by(_object(each), _deeper(depth))
        elif name not in _BESIDE and value not in (None, "", [], {}):
            raise CannotRead
    if not found:
        raise CannotRead


def _deeper(depth: int) -> int:
    if depth >= _DEPTH:
        raise CannotRead
    return depth + 1


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _NAME_LIMIT:
        raise CannotRead
    return value


def _parsed(value: Any) -> Any:
    """JSON in a text, as several tools hand arguments on."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise CannotRead from None


def _object(value: Any) -> Mapping[str, Any]:
    value = _parsed(value)
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise CannotRead
    return value

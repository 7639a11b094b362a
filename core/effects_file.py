"""The directory's own word on effects: its `effects` section, checked, and laid over the table that is shipped."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from core.approvals import Effect
from core.effects_rows import ANY, Nobody, Row, Tables, key_of
from core.effects_table import SHIPPED

SECTIONS = (
    "tools", "operations", "fields", "defaults", "url_fields", "recipients", "amounts", "commands", "reaches_nobody",
)  # fmt: skip
_NOBODY = ("operations", "empty", "equal", "only")


class BadEffects(ValueError):
    """A section that cannot be used: `path` leads to the key that is wrong, `problem` says what would be right."""

    def __init__(self, path: tuple[str, ...], problem: str) -> None:
        super().__init__(f"{'.'.join(path)}: {problem}")
        self.path = path
        self.problem = problem


def tables_from(section: Mapping[str, Any] | None) -> Tables:
    """The shipped tables with the directory's `effects` section over them; raises BadEffects.

    ```yaml
    effects:
      tools: {acme.lookup: read, acme.export: send}   # a tool without operations, whatever its arguments
      operations:                                     # by operation; `*` is every other one
        crm: {find: read, note: write, mail: send, merge: money}
        stripe: {list_charges: read}
      fields:                                         # by the value of an argument; the worst counts
        crm: {visibility: {private: write, public: send}}
      defaults: {crm: {operation: find, visibility: private}}   # what the tool takes where one is unset
      url_fields: {acme.fetch: [url]}                 # where it fetches from
      recipients: {crm: [to, cc]}                     # all arguments that say whom it reaches
      amounts: {acme.pay: [total, currency], paypal: [/amount/value, /amount/currency_code]}   # for rules about money
      commands: [acme.run]                            # its arguments are a program
      reaches_nobody:                                 # these calls are a write where they would be a send
        crm: [{operations: [mail], empty: [to, cc], equal: {visibility: [private]}, only: [subject, body]}]
    ```

    An entry under `tools` takes the place of everything that is shipped about how far that tool reaches; an entry under
    `operations` or `fields` that of the one operation or argument. Each may raise or lower: it is the administrator's
    word.
    """
    if not section:
        return SHIPPED
    for name in section:
        _known(("effects",), str(name), "section", SECTIONS)
    return _Overlay(section).tables()


class _Overlay:
    """One reading of a section: the rows it changes, by key."""

    def __init__(self, section: Mapping[str, Any]) -> None:
        self.section = section
        self.rows = dict(SHIPPED.rows)
        self.changed: dict[str, str] = {}

    def tables(self) -> Tables:
        for path, tool, value in self._each("tools"):
            self._change(tool, effect=_effect(path, value), operations={}, operation_fields=(), fields={},
                         defaults={}, reaches_nobody=(), sends=frozenset(), spends=frozenset(), words=frozenset(),
                         stated=True, reads="", texts=())  # fmt: skip
        for path, tool, value in self._each("operations"):
            self._operations(path, tool, value)
        for path, tool, value in self._each("fields"):
            self._fields(path, tool, value)
        for path, tool, value in self._each("defaults"):
            given = {
                key_of(_name(path, name)): _value((*path, str(name)), each) for name, each in _mapping(path, value)
            }
            self._change(tool, defaults={**self._row(tool).defaults, **given})
        for path, tool, value in self._each("url_fields"):
            self._change(tool, url_fields=_names(path, value))
        for path, tool, value in self._each("recipients"):
            self._change(tool, recipients=_names(path, value))
        for path, tool, value in self._each("amounts"):
            names = tuple(_place(path, name) for name in _list(path, value))
            if len(names) != 2:
                raise BadEffects(
                    path, "must name two arguments: the amount and its currency, such as [amount, currency]"
                )
            self._change(tool, amount=(names[0], names[1]))
        path = ("effects", "commands")
        for tool in _list(path, self.section.get("commands")):
            self._change(_name(path, tool), command=True)
        for path, tool, value in self._each("reaches_nobody"):
            found = tuple(_nobody((*path, str(at)), each) for at, each in enumerate(_list(path, value)))
            self._change(tool, reaches_nobody=found)
        return Tables(self.rows, SHIPPED.programs)

    def _each(self, section: str) -> Iterator[tuple[tuple[str, ...], str, Any]]:
        """Path, tool and value of a section's entries; two spellings of one tool are refused."""
        path = ("effects", section)
        seen: dict[str, str] = {}
        for tool, value in _mapping(path, self.section.get(section)):
            tool = _name(path, tool)
            before = seen.setdefault(key_of(tool), tool)
            if before != tool:
                raise BadEffects((*path, tool), f"is the same tool as {before}; leave one of them out")
            yield (*path, tool), tool, value

    def _row(self, tool: str) -> Row:
        family = key_of(tool.rpartition(".")[0])
        return self.rows.get(key_of(tool)) or Row(Effect.SEND, family)

    def _change(self, tool: str, **changes: Any) -> None:
        self.rows[key_of(tool)] = replace(self._row(tool), **changes)

    def _operations(self, path: tuple[str, ...], tool: str, value: Any) -> None:
        given: dict[str, Effect] = {}
        for name, effect in _mapping(path, value):
            key = ANY if name == ANY else key_of(_name(path, name))
            if key in given:
                raise BadEffects((*path, str(name)), "this operation is there twice, spelt in two ways")
            given[key] = _effect((*path, str(name)), effect)
        if not given:
            raise BadEffects(path, "must name at least one operation, such as {find: read}")
        row = self._row(tool)
        before = {} if ANY in given else row.operations
        fields = row.operation_fields or ("operation", "action")
        self._change(tool, operations={**before, **given}, operation_fields=fields)
        # What is shipped under the whole name of such an operation would speak beside the administrator's word.
        for key, other in list(self.rows.items()):
            said = key.removeprefix(key_of(tool)) in given or (ANY in given and other.family == key_of(tool))
            if said and key.startswith(key_of(tool)) and key != key_of(tool) and not other.stated:
                del self.rows[key]

    def _fields(self, path: tuple[str, ...], tool: str, value: Any) -> None:
        fields = dict(self._row(tool).fields)
        for name, values in _mapping(path, value):
            here = (*path, _name(path, name))
            given = {
                ANY if each == ANY else _value(here, each): _effect((*here, str(each)), effect)
                for each, effect in _mapping(here, values)
            }
            if not given:
                raise BadEffects(here, "must name at least one value, such as {private: write}")
            fields[key_of(here[-1])] = given
        known = key_of(tool) in self.rows
        # Of a tool that nothing else is said of, the argument says it all.
        self._change(tool, fields=fields, **({} if known else {"effect": Effect.READ}))


def _nobody(path: tuple[str, ...], value: Any) -> Nobody:
    parts = dict(_mapping(path, value))
    for name in parts:
        _known(path, str(name), "part", _NOBODY)
    equal = {
        key_of(_name((*path, "equal"), name)): frozenset(_unset_or_value(path, each) for each in _list(path, values))
        for name, values in _mapping((*path, "equal"), parts.get("equal"))
    }
    empty = frozenset(_names((*path, "empty"), parts.get("empty")))
    if not empty and not equal:
        raise BadEffects(path, "must say by `empty` or `equal` which arguments tell that nobody is reached")
    operations = frozenset(_names((*path, "operations"), parts.get("operations")))
    only = frozenset(_names((*path, "only"), parts.get("only")))
    return Nobody(operations, empty, equal, only)


def _effect(path: tuple[str, ...], value: Any) -> Effect:
    if isinstance(value, str) and value in tuple(Effect):
        return Effect(value)
    raise BadEffects(path, f"must be one of {', '.join(Effect)}")


def _value(path: tuple[str, ...], value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return key_of(_name(path, value))


def _unset_or_value(path: tuple[str, ...], value: Any) -> str:
    return "" if value is None else _value(path, value)


def _name(path: tuple[str, ...], name: Any) -> str:
    if not isinstance(name, str) or not name.isascii() or not key_of(name):
        raise BadEffects(path, f"{_shown(name)} is no name: it must be text with letters or digits of ASCII")
    return name


def _names(path: tuple[str, ...], value: Any) -> tuple[str, ...]:
    return tuple(key_of(_name(path, name)) for name in _list(path, value))


def _place(path: tuple[str, ...], name: Any) -> str:
    """An argument by its name, or a value further in by its pointer."""
    return name if isinstance(name, str) and re.fullmatch(r"(/([^~/]|~[01])+)+", name) else key_of(_name(path, name))


def _list(path: tuple[str, ...], value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise BadEffects(path, "must be a list, such as [url]")
    return list(value)


def _mapping(path: tuple[str, ...], value: Any) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise BadEffects(path, "must be a mapping (name: value)")
    return list(value.items())


def _known(path: tuple[str, ...], name: str, what: str, known: Collection[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name[:200], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise BadEffects((*path, name), f"unknown {what}; {hint}")


def _shown(value: Any) -> str:
    return ascii(value)[:60]

"""How far a call reaches (design section 6): the tables as data, and the one function that reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from core.approvals import Effect
from core.asks import Presentation
from core.effects_calls import CannotRead, carried_by
from core.effects_file import BadEffects, tables_from
from core.effects_rows import ANY, MONEY_WORDS, PAYMENT_PROVIDERS, Nobody, Row, Tables, key_of, words_of, worst
from core.effects_shell import effect_of_code, effect_of_program, effect_of_request, effect_of_shell
from core.effects_sql import effect_of_sql
from core.effects_table import SHIPPED

__all__ = [
    "BODIES", "OVERRIDE", "SHIPPED", "BadEffects", "Call", "Reading", "Row", "Tables", "arguments_of", "effect_of",
    "key_of", "members", "readings_of", "said_by_name", "sends_by_an_argument", "tables_from",
]  # fmt: skip

_PLAIN = re.compile(r"[A-Za-z0-9._:/ -]*")
_MCP = re.compile(r"mcp(?:__|[.:/])(?P<rest>.+)", re.DOTALL)
_MCP_WORDS = frozenset(("mcp", "server"))
_MUTATION = re.compile(r"(?<![A-Za-z0-9_])mutation(?=[\s({@])")
_DELETED_FILE = re.compile(r"^(\*\*\* Delete File: |\+\+\+ /dev/null|deleted file mode )", re.MULTILINE)
OVERRIDE = re.compile(r"x-?http-?method|x-?method-?override|(?<![a-z])_method(?![a-z])", re.IGNORECASE)
NAME_WORDS, NAME_LIMIT = 16, 500
# Arguments whose words say what a call does, also where no table speaks of them.
_SAYING = frozenset(str.split("""
    operation op action actions method httpmethod requestmethod verb mode type requesttype command subcommand mutation
    event folder folderid mailbox destination destinationfolder targetfolder labelids addlabels addlabelids
"""))  # fmt: skip
_ADDRESS = re.compile(r"\s*(?!file:///)[A-Za-z][A-Za-z0-9+.-]{1,20}://", re.IGNORECASE)
_OPTION = re.compile(r"(?:^|\s)--[A-Za-z]")
_DEPTH = 8
# What a request hands over.
BODIES = frozenset(str.split("body data json payload form formdata files file content variables"))


_UNPRESENTED = Presentation()


@dataclass(frozen=True, slots=True)
class Call:
    """What is about to run, as far as effects and rules look at it.

    `arguments` are the final ones, `digest` is the row's (design section 3; "" where none was taken).
    `unlisted_run`: the directory does not list the activity that would run for the agent's tool.
    """

    tool: str
    operation: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    agent: str = ""
    digest: str = ""
    presentation: Presentation = _UNPRESENTED
    unlisted_run: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a name: a row, and the operation that is left of the name ("" where it is all the row's)."""

    row: Row
    operation: str
    words: tuple[str, ...]


def effect_of(call: Call, tables: Tables, depth: int = 0) -> Effect:
    """How far a call reaches; SEND or MONEY for whatever the tables do not list.

    A name is read as agents spell it: letters in any case, words joined by dots, underscores, hyphens, slashes, colons
    or capitals; the operation in the call's own field, at the end of the tool's name, or in an argument. A tool of an
    MCP server is only what the table says of that server's tools. Where a name can be read in several ways that are
    listed, the worst counts; where none is listed, the worst default. A name with other characters is not listed.

    `depth` is how many calls this one is carried in.
    """
    given = arguments_of(call.arguments)
    readings = readings_of(tables, call.tool, call.operation)
    for each in readings:
        if each.row.reads == "calls" and not each.row.operations and each.operation in ("", key_of(call.operation)):
            return _of_carried(each.row, call, tables, depth)
    listed = [effect for effect in (_listed(each, call, given, tables) for each in readings) if effect is not None]
    if listed:
        return worst(listed)
    return worst([
        _unlisted(tables, call.tool, call.operation), _of_saying(given, ()),
        *(_default(each, call, given, tables) for each in readings),
    ])  # fmt: skip


def said_by_name(call: Call, tables: Tables) -> bool:
    """Whether tool and operation alone say how far the call reaches, whatever its arguments."""
    return not any(
        each.row.fields
        or each.row.reaches_nobody
        or each.row.reads == "calls"
        or (each.row.operations and not each.operation)
        for each in readings_of(tables, call.tool, call.operation)
    )


def sends_by_an_argument(call: Call, tables: Tables) -> bool:
    """Whether an argument makes a send of a call that would be less, and it is none that says where it fetches."""
    given = arguments_of(call.arguments)
    for each in readings_of(tables, call.tool, call.operation):
        stated = _stated(each, call, given, tables)
        if stated is Effect.READ and _goes_further(each.row, given):
            return True
        if stated in (Effect.READ, Effect.WRITE) and _any_is_set(each.row.sends.difference(each.row.url_fields), given):
            return True
    return False


def arguments_of(arguments: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The arguments by key, without those that are null; two spellings of one key are both there."""
    given: dict[str, list[Any]] = {}
    for name, value in arguments.items():
        if value is not None:
            given.setdefault(key_of(name), []).append(value)
    return given


# Names


@lru_cache(maxsize=8192)
def readings_of(tables: Tables, tool: str, operation: str) -> tuple[Reading, ...]:
    """Every row that may be meant by a call's name; none for a name with characters, or a length, that no listed one
    has."""
    if len(tool) + len(operation) > NAME_LIMIT or not (_PLAIN.fullmatch(tool) and _PLAIN.fullmatch(operation)):
        return ()
    found = tuple(_every_reading(tables, tool, operation))
    # The directory's own word on a whole name stands before what is shipped.
    return tuple(each for each in found if not each.operation and each.row.stated) or found


def _every_reading(tables: Tables, tool: str, operation: str) -> Iterator[Reading]:
    words, last = words_of(tool), words_of(operation)
    yield from _named(tables, tool, words, last)
    if last and words[-len(last) :] == last:
        # `gmail.search` with the operation `search` says it twice.
        yield from _named(tables, tool, words, ())


def _named(tables: Tables, tool: str, words: tuple[str, ...], last: tuple[str, ...]) -> Iterator[Reading]:
    yield from _split(tables, (*words, *last), whole=True)
    if (mcp := _MCP.fullmatch(tool)) is not None:
        for server, name in _servers(mcp["rest"]):
            family = "".join(word for word in server if word not in _MCP_WORDS)
            rest = (*name, *last)
            key = "".join(rest)
            if (row := tables.rows.get(family)) is not None and rest:
                yield Reading(row, key, rest)
            if (row := tables.rows.get(family + key)) is not None and row.family == family:
                yield Reading(row, "", ())
    elif words[:1] == ("mcp",):
        # `mcp_github_create_issue`: where the server's name ends is not to be seen.
        yield from _split(tables, (*words[1:], *last), whole=False)
    elif words[:1] == ("functions",) or words[:2] == ("default", "api"):
        yield from _split(tables, (*words[1 if words[0] == "functions" else 2 :], *last), whole=True)


def _split(tables: Tables, words: tuple[str, ...], *, whole: bool) -> Iterator[Reading]:
    """Every row whose name the words begin with; `whole` False: none that is no family's."""
    for end in range(1, min(len(words), NAME_WORDS) + 1):
        row = tables.rows.get("".join(words[:end]))
        if row is None:
            continue
        rest = words[end:]
        if rest or whole or row.family:
            yield Reading(row, "".join(rest), rest)


def _servers(rest: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """`github__create_issue` as server and tool, at every place where that can be split."""
    for found in re.finditer(r"__|[.:/]", rest):
        server = words_of(rest[: found.start()])
        if server[:2] == ("claude", "ai"):
            server = server[2:]
        yield server, words_of(rest[found.end() :])


# One reading


def _listed(reading: Reading, call: Call, given: Mapping[str, Sequence[Any]], tables: Tables) -> Effect | None:
    """The effect that the row states for this call; None where it does not list the operation."""
    stated = _stated(reading, call, given, tables)
    if stated is None:
        return None
    effect = _raised(reading.row, stated, given)
    names = frozenset(name for name, _ in _operations(reading, given))
    if effect is Effect.SEND and any(_holds(each, names, given) for each in reading.row.reaches_nobody):
        return Effect.WRITE
    return effect


def _stated(reading: Reading, call: Call, given: Mapping[str, Sequence[Any]], tables: Tables) -> Effect | None:
    """The same before anything that could go with any operation counts."""
    row = reading.row
    operations = _operations(reading, given)
    if row.operations:
        if not operations or not all(name in row.operations or ANY in row.operations for name, _ in operations):
            return None
        effects = [row.operations.get(name, row.operations.get(ANY, Effect.SEND)) for name, _ in operations]
    elif reading.operation and (row.reads not in tables.programs or reading.operation != key_of(call.operation)):
        return None
    else:
        effects = [row.effect]
    for name, values in row.fields.items():
        effects += [_of_value(row, values, value) for value in _values(row, name, given)]
    effects.append(_of_text(row, call, given, tables))
    return worst(effects)


def _default(reading: Reading, call: Call, given: Mapping[str, Sequence[Any]], tables: Tables) -> Effect:
    """What a row that does not list the operation says all the same."""
    said = [_by_words(words) for _, words in _operations(reading, given)]
    said.append(_of_text(reading.row, call, given, tables))
    return _raised(reading.row, worst([Effect.SEND, reading.row.effect, *said]), given)


def _raised(row: Row, effect: Effect, given: Mapping[str, Sequence[Any]]) -> Effect:
    """The effect, with what arguments say that could go with any operation."""
    if row.stated or effect is Effect.MONEY:
        return effect
    if _any_is_set(row.spends, given):
        return Effect.MONEY
    if effect is not Effect.SEND:
        further = effect is Effect.READ and _goes_further(row, given)
        return Effect.SEND if further or _any_is_set(row.sends, given) else effect
    return effect if row.command else worst([effect, _of_saying(given, row.fields)])


def _any_is_set(names: frozenset[str], given: Mapping[str, Sequence[Any]]) -> bool:
    return any(_is_set(value) for name in names & given.keys() for value in given[name])


def _is_set(value: Any) -> bool:
    return value not in ("", [], {}, False) and not (isinstance(value, str) and value.lower() in ("false", "no"))


def _goes_further(row: Row, given: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a value makes more of a look, whatever its argument is called: an address that would be fetched, or an
    option where a command line takes one."""
    if row.reads == "line":
        return any(_OPTION.search(text) for text in _texts_in(given.values()))
    if not row.words:
        return False
    return any(_ADDRESS.match(text) for text in _texts_in(given[name] for name in given.keys() - row.words))


def _texts_in(values: Iterable[Any]) -> Iterator[str]:
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, str):
            yield value


def _of_saying(given: Mapping[str, Sequence[Any]], known: Collection[str]) -> Effect:
    """MONEY where an argument that no table speaks of says that something is deleted or paid; else SEND."""
    said = (value for name in _SAYING & given.keys() if name not in known for value in members(given[name]))
    return worst([Effect.SEND, *(_by_words(words_of(value)) for value in said if isinstance(value, str))])


def _of_carried(row: Row, call: Call, tables: Tables, depth: int) -> Effect:
    """The worst of the calls that are passed on; MONEY where they cannot be read, since they may be anything."""
    if depth >= _DEPTH:
        return Effect.MONEY
    try:
        carried = list(carried_by(call.arguments))
    except CannotRead:
        return Effect.MONEY
    effects = [Effect.READ if all(each.whole for each in carried) else Effect.SEND]
    for each in carried:
        # Whose tool it is that no server is named for is not to be seen.
        tool = each.tool if each.served or not row.family else f"{row.family}_{each.tool}"
        effects.append(effect_of(Call(tool, each.operation, each.arguments), tables, depth + 1))
    return worst(effects)


def _operations(reading: Reading, given: Mapping[str, Sequence[Any]]) -> list[tuple[str, tuple[str, ...]]]:
    """The operations that a call names, each with its words, or the one that its tool takes where it names none."""
    row = reading.row
    found = [(reading.operation, reading.words)] if reading.operation else []
    for name in row.operation_fields:
        for value in members(given.get(name, ())):
            found.append((_value_key(value) or "?", words_of(value) if isinstance(value, str) else ()))
    # With an address and no operation a browser may be meant to go there.
    if not found and "operation" in row.defaults and given.keys().isdisjoint({*row.url_fields, *row.sends}):
        found.append((row.defaults["operation"], ()))
    return found


def _values(row: Row, name: str, given: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    if name in given:
        return list(members(given[name]))
    return [row.defaults[name]] if name in row.defaults else [None]


def _of_value(row: Row, values: Mapping[str, Effect], value: Any) -> Effect:
    key = _value_key(value)
    if key is not None and (listed := values.get(key, values.get(ANY))) is not None:
        return listed
    return worst([Effect.SEND, row.effect, _by_words(words_of(value)) if isinstance(value, str) else Effect.SEND])


def members(values: Iterable[Any]) -> Iterator[Any]:
    """The values that are no lists, in order, lists within lists spelt out."""
    waiting = list(values)[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting.extend(reversed(value))
        else:
            yield value


def _value_key(value: Any) -> str | None:
    """How a table writes a value; None for what it cannot list."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return key_of(value) if isinstance(value, str) and value and _PLAIN.fullmatch(value) else None


def _of_text(row: Row, call: Call, given: Mapping[str, Sequence[Any]], tables: Tables) -> Effect:
    """What the text of a command says; a floor of READ where the row has none."""
    if not row.reads or row.reads == "calls":
        return Effect.READ
    if row.reads in ("shell", "code", "patch", "http"):
        text = "\n".join(str(value) for values in given.values() for value in members(values))
        if row.reads == "shell":
            return effect_of_shell(text, tables.programs)
        if row.reads == "code":
            return effect_of_code(text)
        if row.reads == "patch":
            return Effect.MONEY if _DELETED_FILE.search(text) else Effect.READ
        named = "\n".join(f"{name}: {value}" for name, values in given.items() for value in values)
        if OVERRIDE.search(named) and "delete" in text.lower():
            return Effect.MONEY
        if (found := _MUTATION.search(text)) and not MONEY_WORDS.isdisjoint(words_of(text[found.start() :])):
            return Effect.MONEY
        return effect_of_request(named, looks=_only_looks(row, given))
    texts = [value for name in row.texts for value in given.get(name, ())]
    beyond = given.keys() - {*row.texts, *row.beside, *row.words}
    strange = "\n".join(str(value) for name in beyond for value in given[name])
    if row.reads == "sql":
        effects = [effect_of_sql(str(value)) for value in members(texts)]
    else:
        line = " ".join([*call.operation.split(), *map(_command_line, texts)])
        effects = [
            effect_of_shell(f"{call.tool} {line}", tables.programs)
            if row.reads == "line"
            else effect_of_program(row.reads, line, tables.programs)
        ]
    # An argument that nobody thought of may hold more to run, or another place to run it.
    alone = bool(effects) and given.keys() <= {*row.texts, *row.beside}
    effects.append(effect_of_shell(f"{call.tool} {strange}", tables.programs) if strange else Effect.READ)
    if row.operations:
        return Effect.MONEY if Effect.MONEY in effects else Effect.READ
    return worst([Effect.READ if alone else Effect.SEND, *effects])


def _only_looks(row: Row, given: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a request asks for something to look at: by its method, or as a fetch that has nothing to hand over."""
    stated = [str(value).strip().lower() for name in row.fields for value in members(given.get(name, ()))]
    return all(each in ("get", "head", "options") for each in stated) and not _any_is_set(BODIES, given)


def _command_line(value: Any) -> str:
    """A command line as text; of a list, a word that would not be one word any more is quoted, so not plain."""
    if not isinstance(value, list):
        return str(value)
    return " ".join(word if isinstance(word, str) and word and " " not in word else repr(word) for word in value)


def _holds(nobody: Nobody, operations: frozenset[str], given: Mapping[str, Sequence[Any]]) -> bool:
    if nobody.operations and not (operations and operations <= nobody.operations):
        return False
    for name, values in given.items():
        if name in nobody.empty:
            if any(value not in ("", [], {}) for value in values):
                return False
        elif name not in nobody.equal and name not in nobody.only:
            return False
    return all(
        all(_value_key(value) in wanted for value in members(given[name])) if name in given else "" in wanted
        for name, wanted in nobody.equal.items()
    )


# What is not listed


@lru_cache(maxsize=8192)
def _unlisted(tables: Tables, tool: str, operation: str) -> Effect:
    if any(provider in key_of(tool) + "." + key_of(operation) for provider in PAYMENT_PROVIDERS):
        return Effect.MONEY
    words = (*words_of(tool), *words_of(operation))
    # Whoever's `place_order` it is, it places an order.
    for start in range(max(1, len(words) - NAME_WORDS), len(words)):
        row = tables.rows.get("".join(words[start:]))
        if row is not None and row.effect is Effect.MONEY and not row.operations:
            return Effect.MONEY
    return _by_words(words)


def _by_words(words: Iterable[str]) -> Effect:
    """MONEY for what says by its name that it spends or deletes."""
    return Effect.SEND if MONEY_WORDS.isdisjoint(words) else Effect.MONEY

"""Standing rules: which calls somebody has allowed in advance, and how far such a word reaches (design section 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from core.approvals import Effect
from core.canonical import pointer_of, value_at
from core.effects import (
    BODIES,
    OVERRIDE,
    Call,
    Reading,
    Row,
    Tables,
    arguments_of,
    key_of,
    members,
    readings_of,
    said_by_name,
    sends_by_an_argument,
)
from core.effects_rows import METHOD_FIELDS
from core.formats import money_of
from core.origins import origin_of
from core.redaction import SECRETS
from core.visible import units, visible
from core.wording import VALUE_LIMIT, bounded, fill, moment_text

# Arguments that say whom a call reaches, where it goes, what it runs, and how much it moves: one that a rule does not
# look at could make another call of an allowed one.
_PEOPLE = frozenset(str.split("""
    to cc bcc recipient recipients torecipients ccrecipients bccrecipients email emails attendees invitees guests
    participants channel channels channelid chat chatid conversation conversationid user users userid phone phonenumber
    sharewith
"""))  # fmt: skip
_ADDRESSES = frozenset(str.split("""
    url urls uri href endpoint link baseurl apiurl targeturl requesturl webhook webhookurl callbackurl hostname
"""))  # fmt: skip
# The head of a message, whole or as lines, may name more people than any argument does.
_HEADS = frozenset(str.split("headers rawheaders extraheaders raw rawmessage mime mimemessage rfc822 eml"))
# With these a request to one host ends at another.
_DETOURS = frozenset(str.split("""
    host proxy proxies proxyurl httpproxy httpsproxy allproxy baseurl unixsocket socketpath resolve connectto
"""))  # fmt: skip
_PROGRAMS = frozenset(str.split("""
    command commands cmd commandline argv script scripts code source program sql statement statements expression shell
    bash python javascript stdin eval
"""))  # fmt: skip
_AMOUNTS = frozenset(str.split("""
    amount amounts total totalamount subtotal price unitamount unitprice sum value fee tip cost quantity qty
    amountdue applicationfee applicationfeeamount transferamount
"""))  # fmt: skip
_METHOD = re.compile(r"[A-Z]{1,20}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ScopeKind(StrEnum):
    """How far a rule reaches, the narrowest first."""

    ARGUMENTS = "arguments"
    RECIPIENT = "recipient"
    HOST = "host"
    OPERATION = "operation"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a rule covers: calls of this tool and operation of which `value` is said, compared exactly.

    `value` is the digest; the recipients as a JSON list; `GET https://api.example.com` or, of a tool without methods,
    the origin alone; "" for an operation or a tool. A `tool` scope has operation "".
    """

    kind: ScopeKind
    tool: str
    operation: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rules table. A rule with a ceiling is for money, and only such a rule covers money.

    `ceiling_amount` is a decimal in the currency's major unit, the most that one call may move; such a rule covers
    nothing without an expiry. Only an administrator makes one, by command line or HTTP.
    """

    id: str
    agent: str
    tool: str
    operation: str
    scope_kind: ScopeKind
    scope_value: str
    label: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    ceiling_amount: str | None = None
    ceiling_currency: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.scope_kind, self.tool, self.operation, self.scope_value)

    @property
    def for_money(self) -> bool:
        return self.ceiling_amount is not None or self.ceiling_currency is not None


class BadRule(ValueError):
    """A rule that cannot be made; says what would be right."""


# Which calls a rule covers


class RuleBook:
    """The rules of one agent, found by what a call is: as fast with a thousand rules as with one."""

    def __init__(self, rules: Iterable[Rule], tables: Tables) -> None:
        self.tables = tables
        self._by_scope: dict[Scope, list[Rule]] = {}
        for rule in rules:
            self._by_scope.setdefault(rule.scope, []).append(rule)
        self._tools = {scope.tool for scope in self._by_scope}

    def covering(self, call: Call, effect: Effect, now: datetime) -> Iterator[Rule]:
        """The rules that cover a call of this effect, the narrowest first."""
        if call.tool not in self._tools:
            return
        for scope in scopes_of(call, self.tables):
            for rule in self._by_scope.get(scope, ()):
                if _holds(rule, call, effect, self.tables, now):
                    yield rule


def covers(rule: Rule, call: Call, effect: Effect, tables: Tables, now: datetime) -> bool:
    """Whether a rule lets this call run unasked."""
    return rule.scope in scopes_of(call, tables) and _holds(rule, call, effect, tables, now)


def _holds(rule: Rule, call: Call, effect: Effect, tables: Tables, now: datetime) -> bool:
    if rule.agent != call.agent or (rule.expires_at is not None and rule.expires_at <= now):
        return False
    if not rule.for_money:
        return effect is not Effect.MONEY
    if rule.expires_at is None or rule.ceiling_amount is None:
        return False
    ceiling, amounts = Decimal(rule.ceiling_amount), _amounts(call, tables)
    readable = bool(amounts) and all(code == rule.ceiling_currency and amount > 0 for amount, code in amounts)
    return readable and sum(amount for amount, _ in amounts) <= ceiling


def scopes_of(call: Call, tables: Tables) -> list[Scope]:
    """Every scope that the call lies in, the narrowest first.

    A command lies in that of exactly its arguments alone, and so does what an argument makes a send, and a call whose
    activity the directory does not list: any other rule names a tool, not what would run under its name.
    """
    tool, operation = call.tool, call.operation
    found = [Scope(ScopeKind.ARGUMENTS, tool, operation, call.digest)] if call.digest else []
    readings = readings_of(tables, tool, operation)
    rows = [reading.row for reading in readings]
    given = _Given(call.arguments)
    if call.unlisted_run or _is_command(rows, given) or sends_by_an_argument(call, tables):
        return found
    if (people := _people(rows, given)) is not None:
        found.append(Scope(ScopeKind.RECIPIENT, tool, operation, people))
    if (host := _host(readings, given)) is not None:
        found.append(Scope(ScopeKind.HOST, tool, operation, host))
    if operation:
        found.append(Scope(ScopeKind.OPERATION, tool, operation))
    found.append(Scope(ScopeKind.TOOL, tool, ""))
    return found


# Which scopes a card offers


def scopes_for(call: Call, effect: Effect, tables: Tables, needed: int = 1) -> list[Scope]:
    """The scopes that the card of a held call may offer, the narrowest first; each only where its label names all that
    the rule would cover.

    Exactly these arguments, and at most one that is wider: the recipients or the host where the call has such, and only
    where they can be read; the operation, or the tool of a call without one, only where no argument says more about how
    far a call reaches. Nothing for money, nor where more than one must allow. The runtime plays no part: drafts and
    external calls are opened through the same rules as turns, so a rule is as good for them.
    """
    if effect in (Effect.READ, Effect.MONEY) or needed > 1:
        return []
    rows, shown = _rows(call, tables), call.presentation
    if any(row.recipients for row in rows) or shown.recipient:
        wider = ScopeKind.RECIPIENT
    elif any(row.url_fields for row in rows) or shown.url:
        wider = ScopeKind.HOST
    elif call.operation:
        wider = ScopeKind.OPERATION
    else:
        wider = ScopeKind.TOOL
    if wider in (ScopeKind.OPERATION, ScopeKind.TOOL) and not said_by_name(call, tables):
        wider = ScopeKind.ARGUMENTS
    offered = (scope for scope in scopes_of(call, tables) if scope.kind in (ScopeKind.ARGUMENTS, wider))
    return [scope for scope in offered if all(map(_can_be_named, _named(scope)))]


# What a call says of whom it reaches, where, and how much it moves


class _Member(NamedTuple):
    """A value of an object at any depth of the arguments, and the key of its name."""

    pointer: str
    name: str
    value: Any

    @property
    def outermost(self) -> bool:
        return self.pointer.count("/") == 1


class _Given:
    """The arguments by key, and every value in them at any depth."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.outermost = arguments_of(arguments)
        self._arguments = arguments

    @cached_property
    def all(self) -> Sequence[_Member]:
        return tuple(_walk(self._arguments))

    def values(self, names: Collection[str]) -> list[Any]:
        return [value for name, found in self.outermost.items() if name in names for value in found]

    def says_more(
        self, names: Collection[str], *, nested: bool = False, besides: Collection[str] = frozenset()
    ) -> bool:
        """Whether an argument of these names says something, be it further in alone, in any argument `besides` some."""
        return any(
            each.name in names
            # What an object says, its members say.
            and not (_is_empty(each.value) or isinstance(each.value, dict))
            and not (nested and each.outermost)
            and not (besides and key_of(each.pointer.split("/")[1]) in besides)
            for each in self.all
        )


def _is_command(rows: Sequence[Row], given: _Given) -> bool:
    """Whether the arguments hold a program: the table says so, or the name of an argument does."""
    if not rows:
        return any(each.name in _PROGRAMS for each in given.all)
    operations = {name for row in rows if row.operations for name in row.operation_fields}
    return any(row.command for row in rows) or any(name in _PROGRAMS - operations for name in given.outermost)


def _rows(call: Call, tables: Tables) -> list[Row]:
    return [reading.row for reading in readings_of(tables, call.tool, call.operation)]


def _people(rows: Sequence[Row], given: _Given) -> str | None:
    """The value of the recipient scope; None where a recipient cannot be read, or there is none.

    Only where the table names the arguments: what the presentation says is the asker's own word, and whom else the call
    reaches, no label would name.
    """
    known = {name for row in rows for name in row.recipients}
    if not known or given.says_more(_PEOPLE, nested=True):
        return None
    if any(not (_is_empty(value) or isinstance(value, dict)) for value in given.values(_HEADS)):
        return None
    people: set[str] = set()
    for value in members(value for value in given.values(known | _PEOPLE) if not _is_empty(value)):
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not _is_plain(text):
            return None
        people.add(text)
    return json.dumps(sorted(people), ensure_ascii=False) if people else None


def _host(readings: Sequence[Reading], given: _Given) -> str | None:
    """The value of the host scope: one origin, with the method of a tool that has one."""
    rows = [reading.row for reading in readings]
    fields = {name for row in rows for name in row.url_fields}
    values = [value for value in given.values(fields) if not _is_empty(value)]
    origins = {origin_of(value) for value in members(values)}
    origin = origins.pop() if len(origins) == 1 else None
    others = _ADDRESSES.difference(fields)
    if origin is None or not all(map(_is_empty, given.values(others))) or given.says_more(_DETOURS):
        return None
    if given.says_more(_ADDRESSES | fields, nested=True, besides=BODIES):
        return None
    if not any("method" in row.fields for row in rows):
        return origin
    method = _method(readings, given)
    return f"{method} {origin}" if method else None


def _method(readings: Sequence[Reading], given: _Given) -> str:
    """The one HTTP method that a call names, or its tool takes; "" where that cannot be read."""
    readings = [each for each in readings if "method" in each.row.fields]
    # `http.post`, or an operation `POST`, names the method too.
    named = min((each.operation for each in readings), key=len)
    stated = [*([named] if named else []), *given.values(METHOD_FIELDS)]
    if given.says_more(METHOD_FIELDS, nested=True, besides=BODIES):
        return ""
    # What hands something over may well post it.
    if not stated and not all(map(_is_empty, given.values(BODIES))):
        return ""
    stated = stated or [each.row.defaults["method"] for each in readings if "method" in each.row.defaults]
    methods = {value.upper() if isinstance(value, str) else "" for value in members(stated)}
    method = methods.pop() if len(methods) == 1 else ""
    overridden = any(OVERRIDE.search(str(value)) for values in given.outermost.values() for value in values)
    return method if _METHOD.fullmatch(method) and not overridden else ""


def _amounts(call: Call, tables: Tables) -> list[tuple[Decimal, str]]:
    """Every amount that the call would move; none where any cannot be read.

    The arguments that the table names: what the presentation says is the asker's own word, which nobody would see. An
    amount that the table does not name, or a quantity other than 1, makes all of it unreadable.
    """
    pairs = {row.amount for row in _rows(call, tables) if row.amount is not None}
    given = _Given(call.arguments)

    def values(name: str) -> Sequence[Any]:
        return [value_at(call.arguments, name)] if name.startswith("/") else given.outermost.get(name, [None])

    found = [
        money_of(value, code) for amount, currency in pairs for value in values(amount) for code in values(currency)
    ]
    read = {amount for amount, _ in pairs}
    if not all(_is_read(each, read) for each in given.all):
        return []
    readable = [money for money in found if money is not None]
    return readable if len(readable) == len(found) else []


def _is_read(member: _Member, read: set[str]) -> bool:
    """Whether an argument is no amount, or one that was looked at."""
    if member.name not in _AMOUNTS or isinstance(member.value, dict | list) or member.value is None:
        return True
    if member.name in ("quantity", "qty"):
        return bool(member.value == 1)
    return member.pointer in read or (member.outermost and member.name in read)


def _walk(arguments: Any) -> Iterator[_Member]:
    waiting = [("", arguments)]
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, Mapping):
            for name, member in value.items():
                here = f"{pointer}/{name}" if name.isalnum() else f"{pointer}{pointer_of([name])}"
                yield _Member(here, key_of(name), member)
                waiting.append((here, member))
        elif isinstance(value, list):
            waiting += [(f"{pointer}/{at}", member) for at, member in enumerate(value)]


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _is_plain(text: str) -> bool:
    """Whether a text is on a label what it is in the call: nothing unseen, nothing around it, on one line."""
    return text != "" and text.strip() == text and visible(text, lines=False) == text


# Making one


def scope_named(kind: str, tool: str, operation: str, value: str, tables: Tables, *, money: bool = False) -> Scope:
    """The scope that an administrator names without a call, of a rule for `money` or of another; raises BadRule.

    `value` is a digest, a recipient, or `GET https://api.example.com` (the method only where the tool has one).
    """
    if kind not in tuple(ScopeKind):
        raise BadRule(f"the scope must be one of {', '.join(ScopeKind)}")
    scope = Scope(ScopeKind(kind), tool, operation, value)
    rows = _rows(Call(tool, operation), tables)
    if any(row.command for row in rows) and scope.kind is not ScopeKind.ARGUMENTS:
        raise BadRule(f"{tool} runs commands: a rule for it can cover exactly these arguments and nothing wider")
    if money and not _names_an_amount(scope, rows, tables):
        raise BadRule(f"nothing says what {tool} moves; list its arguments under effects.amounts")
    match scope.kind:
        case ScopeKind.ARGUMENTS:
            if not _DIGEST.fullmatch(value):
                raise BadRule("the value must be the digest of a request (sha256:...), all of it, as `placet show ID "
                              "--json` prints it")  # fmt: skip
        case ScopeKind.RECIPIENT:
            if not any(row.recipients for row in rows):
                raise BadRule(f"nothing says whom {tool} reaches; list its arguments under effects.recipients")
            if not _is_plain(value):
                raise BadRule("the value must be the recipient, exactly as the agent writes it")
            scope = Scope(scope.kind, tool, operation, json.dumps([value], ensure_ascii=False))
        case ScopeKind.HOST:
            scope = Scope(scope.kind, tool, operation, _named_host(rows, tool, value))
        case ScopeKind.OPERATION:
            if not operation or value:
                raise BadRule("this scope needs an operation, and no value")
        case ScopeKind.TOOL:
            if operation or value:
                raise BadRule("this scope covers every operation of the tool: name neither an operation nor a value")
    return scope


def _names_an_amount(scope: Scope, rows: Sequence[Row], tables: Tables) -> bool:
    if scope.kind is ScopeKind.TOOL:
        # It covers every operation, and the table may name the amounts of those alone.
        beginning = key_of(scope.tool)
        rows = [*rows, *(row for key, row in tables.rows.items() if key.startswith(beginning))]
    return any(row.amount is not None for row in rows)


def _named_host(rows: Sequence[Row], tool: str, value: str) -> str:
    method, _, url = value.rpartition(" ")
    has_method = any("method" in row.fields for row in rows)
    origin = origin_of(url)
    if not any(row.url_fields for row in rows):
        raise BadRule(f"nothing says where {tool} goes; list its arguments under effects.url_fields")
    if origin is None or re.search("[/?#]", url.partition("://")[2].rstrip("/")):
        raise BadRule("the value must end in an address without a path, such as https://api.example.com")
    if has_method != bool(_METHOD.fullmatch(method)):
        needs = (
            "must begin with a method, such as GET https://api.example.com" if has_method else "takes no method here"
        )
        raise BadRule(f"the value {needs}")
    return f"{method} {origin}".strip()


def ceiling_of(amount: str, currency: str) -> tuple[str, str]:
    """The ceiling of a money rule as it is kept; raises BadRule."""
    money = money_of(amount, currency)
    if money is None or money[0] <= 0:
        raise BadRule("the ceiling must be an amount above 0 with its currency, such as 50.00 GBP")
    return format(money[0], "f"), money[1]


# Words


def label_of(
    scope: Scope,
    locale: str = "en",
    *,
    expires_at: datetime | None = None,
    ceiling: tuple[str, str] | None = None,
    here: bool = False,
) -> str:
    """What a rule of this scope covers, how much, and for how long; `here`, on the card of such a call, the tool is
    "this tool"."""
    tool = what = fill("rule_this_tool", locale=locale) if here else _cut(scope.tool)
    if scope.operation and scope.kind is not ScopeKind.OPERATION:
        what = fill("rule_tool_operation", locale=locale, tool=tool, operation=_cut(scope.operation))
    match scope.kind:
        case ScopeKind.ARGUMENTS:
            words = fill("rule_arguments", locale=locale, what=what)
        case ScopeKind.RECIPIENT:
            words = fill("rule_recipient", locale=locale, what=what, recipient=_cut(_named(scope)[-1]))
        case ScopeKind.HOST if " " in scope.value:
            method, _, origin = scope.value.partition(" ")
            words = fill("rule_host_method", locale=locale, what=what, method=_cut(method), origin=_cut(origin))
        case ScopeKind.HOST:
            words = fill("rule_host", locale=locale, what=what, origin=_cut(scope.value))
        case ScopeKind.OPERATION:
            operation = _cut(scope.operation)
            words = fill("rule_operation", locale=locale, tool=tool, operation=operation)
        case ScopeKind.TOOL:
            words = fill("rule_every_call", locale=locale, what=what)
    if ceiling is not None:
        words = fill("rule_ceiling", locale=locale, rule=words, amount=" ".join(ceiling))
    if expires_at is None:
        return fill("rule_until_removed", locale=locale, rule=words)
    return fill("rule_until", locale=locale, rule=words, when=moment_text(expires_at, locale=locale))


def label_of_rule(rule: Rule, locale: str = "en") -> str:
    ceiling = (rule.ceiling_amount or "", rule.ceiling_currency or "") if rule.for_money else None
    return label_of(rule.scope, locale, expires_at=rule.expires_at, ceiling=ceiling)


def listed_label(label: str, scope: ScopeKind, value: str, locale: str = "en") -> str:
    """What is said of a rule among others: with the digest, where it is about exactly some arguments."""
    if scope is not ScopeKind.ARGUMENTS:
        return label
    return fill("rule_listed", locale=locale, label=label, digest=value[: len("sha256:") + 12])


def _named(scope: Scope) -> list[str]:
    """The parts of a scope that its label names; the last is what it says of the value."""
    names = [name for name in (scope.tool, scope.operation) if name]
    if scope.kind is ScopeKind.RECIPIENT:
        return [*names, ", ".join(json.loads(scope.value))]
    return [*names, scope.value] if scope.kind is ScopeKind.HOST else names


def _can_be_named(text: str) -> bool:
    # What its card hides stands on no button either.
    return _is_plain(text) and units(text) <= VALUE_LIMIT and SECRETS.text(text) == text


def _cut(text: str) -> str:
    return bounded(text, VALUE_LIMIT)

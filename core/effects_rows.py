"""The shape of the tables of effects, and how the names in them are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from core.approvals import Effect
from core.effects_shell import Program

ANY = "*"
_RANKS = {effect: effect.rank for effect in Effect}
# What is never lower than money once a name says it, listed or not.
MONEY_WORDS = frozenset(
    str.split("""
    delete deletes deleted deletion destroy drop purge erase wipe remove removes removed rm rmdir unlink del trash
    truncate terminate uninstall unpublish flushall flushdb
    refund refunds pay payment payout charge purchase buy withdraw donate donation
""")
)
PAYMENT_PROVIDERS = frozenset(
    str.split("""
    stripe paypal braintree adyen razorpay paddle checkoutcom gocardless mollie klarna squareup wise coinbase
    lemonsqueezy dodopayments plaid quickbooks venmo cashapp zelle dwolla worldpay payoneer skrill paytm phonepe alipay
    chargebee recurly authorizenet
""")
)
# Values are compared as names are; a long one is not kept for the next time.
KEPT_LENGTH = 200
# Arguments that name the method of an HTTP request.
METHOD_FIELDS = ("method", "httpmethod", "requestmethod", "verb")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Nobody:
    """When a call reaches nobody, which lowers a send to a write: every part must hold.

    `operations` (none: any), `empty` arguments, arguments that `equal` one of some values, and no argument beyond
    these and `only`: an argument that nobody thought of may be one more way to reach somebody.
    """

    operations: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    equal: Mapping[str, frozenset[str]] = field(default_factory=dict)
    only: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says of one tool. Names of operations, arguments and values are keys (`key_of`).

    Where `operations` are listed, each has its own effect, else `effect` is that of the tool; fields and texts only add
    to it. An operation or value that is not listed is `effect`, and SEND at least. `operation_fields` are the arguments
    that name the operation where the call does not; `defaults` are what the tool takes where an argument (or
    "operation") is unset. `family` is the first part of a name of two parts.

    `sends` are arguments beside which nothing is less than SEND, `spends` those that make it MONEY, where they are set.
    `words` are arguments with something to look for, to store or to tell: no part of a command, and of a tool that has
    them, the ones where an address is not fetched.
    `stated`: the directory's own word on the whole tool, whatever its arguments.

    `reads` is the language of what is run (shell, line, code, patch, http, calls, sql or a program). The words of the
    last two, in `texts`, may say that a call only looks, if there are no arguments but these and those `beside` them;
    of a tool with operations they may only say that it is MONEY, as a `line` does. `command`: the arguments are a
    program, so that a rule can cover nothing wider than exactly these.
    """

    effect: Effect
    family: str = ""
    operations: Mapping[str, Effect] = field(default_factory=dict)
    operation_fields: tuple[str, ...] = ()
    fields: Mapping[str, Mapping[str, Effect]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    url_fields: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    amount: tuple[str, str] | None = None
    reaches_nobody: tuple[Nobody, ...] = ()
    sends: frozenset[str] = frozenset()
    spends: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    stated: bool = False
    reads: str = ""
    texts: tuple[str, ...] = ()
    beside: frozenset[str] = frozenset()
    command: bool = False


@dataclass(frozen=True, eq=False)
class Tables:
    """Everything that says how far calls reach. `rows` are by key."""

    rows: Mapping[str, Row]
    programs: Mapping[str, Program] = field(default_factory=dict)


def worst(effects: Iterable[Effect]) -> Effect:
    return max(effects, key=_RANKS.__getitem__)


def key_of(name: str) -> str:
    """A name without case and separators: `Create_Issue` and `createIssue` are one."""
    return _kept_key(name) if len(name) <= KEPT_LENGTH else "".join(_words(name))


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, split at separators and capitals."""
    return _kept_words(name) if len(name) <= KEPT_LENGTH else _words(name)


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=8192)
def _kept_words(name: str) -> tuple[str, ...]:
    return _words(name)


@lru_cache(maxsize=8192)
def _kept_key(name: str) -> str:
    return "".join(_words(name))

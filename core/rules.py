"""Standing rules: which calls somebody has allowed in advance, and how far such a word reaches (design section 6)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class ScopeKind(StrEnum):
    """How far a rule reaches, the narrowest first."""

    ARGUMENTS = "arguments"
    RECIPIENT = "recipient"
    HOST = "host"
    OPERATION = "operation"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a rule would cover: `value` is compared exactly, `shown` is the part of it that a label names."""

    kind: ScopeKind
    tool: str
    operation: str
    value: str
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rules table. A rule for money has a ceiling and an expiry; no other rule covers money.

    `ceiling_amount` is a decimal in the currency's major unit. A `tool` rule has operation "".
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
    def for_money(self) -> bool:
        return self.ceiling_amount is not None

    @property
    def method(self) -> str:
        """The HTTP method of a host rule whose tool has one, else ""."""
        method, space, _ = self.scope_value.partition(" ")
        return method if space and self.scope_kind is ScopeKind.HOST else ""


def token_of(rule_id: str) -> str:
    """What a button about a rule carries: 96 of the bits of its id, in base64url, as long as a message's token."""
    return urlsafe_b64encode(UUID(rule_id).bytes[4:]).decode()

"""Whether a call asks first: modes, standing rules, and the one function of their order (design section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.approvals import Effect
from core.rules import Rule


class Mode(StrEnum):
    """What an agent asks for; there is no "never"."""

    OUTSIDE = "outside"
    EVERYTHING = "everything"
    MONEY_ONLY = "money_only"

    def asks_for(self, effect: Effect) -> bool:
        return effect in _ASKS[self]


_ASKS = {
    Mode.OUTSIDE: frozenset((Effect.SEND, Effect.MONEY)),
    Mode.EVERYTHING: frozenset((Effect.WRITE, Effect.SEND, Effect.MONEY)),
    Mode.MONEY_ONLY: frozenset((Effect.MONEY,)),
}


@dataclass(frozen=True, slots=True)
class Held:
    """The call waits for a person. `fault` names the type of the error that held it, "" where none did."""

    fault: str = ""


@dataclass(frozen=True, slots=True)
class Unasked:
    """The call runs at once, recorded as `auto`; `reason` is the row's note, `rule` the rule that let it run."""

    reason: str
    rule: Rule | None = None

"""Whether a call asks first: modes, standing rules, and the one function of their order (design section 6)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from core.approvals import Effect, Mode
from core.effects import Call, Tables, effect_of
from core.effects_rows import worst
from core.rules import Rule, RuleBook
from core.wording import say

log = logging.getLogger(__name__)

ASKED_FOR: Mapping[Mode, frozenset[Effect]] = {
    Mode.OUTSIDE: frozenset((Effect.SEND, Effect.MONEY)),
    Mode.EVERYTHING: frozenset((Effect.WRITE, Effect.SEND, Effect.MONEY)),
    Mode.MONEY_ONLY: frozenset((Effect.MONEY,)),
}


@dataclass(frozen=True, slots=True)
class Held:
    """The call waits for a person. `fault` is the type of the error that held it, "" where its mode did."""

    fault: str = ""


@dataclass(frozen=True, slots=True)
class Unasked:
    """The call runs at once, recorded as `auto`; `reason` is the row's note, `rule` the rule that let it run."""

    reason: str
    rule: Rule | None = None


def effect_to_judge(call: Call, claimed: Effect | None, tables: Tables) -> Effect:
    """The effect of a call: the table's, raised to what the asker claims, and to SEND for an activity that the
    directory does not list. Never raises: of a call that cannot be judged it is MONEY, which no mode lets through."""
    try:
        least = Effect.SEND if call.unlisted_run else Effect.READ
        return worst((effect_of(call, tables), claimed or Effect.READ, least))
    except Exception as error:
        _report(call, error)
        return Effect.MONEY


def decide_whether_to_ask(
    call: Call,
    effect: Effect,
    mode: Mode,
    rules: RuleBook,
    now: datetime,
    *,
    needed: int = 1,
    barred: str | None = None,
) -> Held | Unasked:
    """The one order, first match wins: a read runs; a standing rule lets it run; what the mode asks for is held; the
    rest runs. Never raises: an error in any of this holds the call.

    The runtime plays no part: turns, drafts and external calls are all opened through here, so rules hold for each. A
    rule cannot stand in for several people, so none counts where more than one is `needed`, save one for money: an
    administrator, who also says how many are needed, has made it with its ceiling. Nor can a rule stand in for somebody
    who may not answer: none counts that the `barred` person made, on whose behalf the agent acts where the route wants
    four eyes; and none at all where that is "", since nobody can tell who it is.
    """
    try:
        if effect is Effect.READ:
            return Unasked(say("unasked_read"))
        for rule in rules.covering(call, effect, now):
            if stands_in(rule, needed, barred):
                return Unasked(rule.label, rule)
        if effect in ASKED_FOR[mode]:
            return Held()
        return Unasked(say("unasked_mode", mode=mode.value))
    except Exception as error:
        _report(call, error)
        return Held(type(error).__name__)


def stands_in(rule: Rule, needed: int, barred: str | None) -> bool:
    """Whether a rule counts as the answer that is missing (see `decide_whether_to_ask`)."""
    return (needed == 1 or rule.for_money) and (barred is None or barred not in ("", rule.created_by))


def _report(call: Call, error: Exception) -> None:
    # The error's own words may hold an argument.
    log.error("judging failed", extra={"agent": call.agent, "tool": call.tool, "error": type(error).__name__})

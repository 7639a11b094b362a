"""Whether a call asks: every effect, mode, rule and runtime against the answer, and faults that hold."""

from __future__ import annotations

import itertools
import json
import logging
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from core.approvals import Effect, Mode, Runtime
from core.asking import Held, Unasked, decide_whether_to_ask, effect_to_judge
from core.asks import Asked, read_ask
from core.canonical import digest_of
from core.effects import SHIPPED, Call, Tables
from core.rules import Rule, RuleBook, Scope, ScopeKind, label_of, scopes_of
from tests.builders import NOW

READ, WRITE, SEND, MONEY = Effect
RUN = {"activity": "notify", "task_queue": "desk"}
CALLS: dict[Effect, dict[str, Any]] = {
    READ: {"tool": "read_file", "arguments": {"path": "a.txt"}},
    WRITE: {"tool": "write_file", "arguments": {"path": "a.txt", "text": "x"}},
    SEND: {"tool": "slack.post_message", "arguments": {"channel": "#ops", "text": "x"}},
    MONEY: {"tool": "stripe.refund", "operation": "create", "arguments": {"amount": 4900, "currency": "GBP"}},
}
ASKS = {Mode.OUTSIDE: {SEND, MONEY}, Mode.EVERYTHING: {WRITE, SEND, MONEY}, Mode.MONEY_ONLY: {MONEY}}
RULES = (
    "none",
    "another",
    "expired",
    "a rule",
    "a rule for money",
    "a rule for less money",
    "an expired rule for money",
)


def asked(body: dict[str, Any], runtime: Runtime) -> Asked:
    over = "temporal" if runtime is Runtime.TURN else "http"
    run = {"run": RUN} if runtime is Runtime.DRAFT else {}
    return read_ask(json.dumps({"agent": "desk", "runtime": runtime.value, **body, **run}), over=cast(Any, over))


def call_of(one: Asked) -> Call:
    ask = one.ask
    digest = digest_of(ask.tool, ask.operation, None, one.arguments_text)
    return Call(ask.tool, ask.operation, ask.arguments, ask.agent, digest, ask.presentation)


def rule(scope: Scope, **more: Any) -> Rule:
    fields: dict[str, Any] = {"created_by": "dana", **more}
    return Rule("r1", "desk", scope.tool, scope.operation, scope.kind, scope.value, label_of(scope), NOW, **fields)


def rules_for(what: str, call: Call) -> list[Rule]:
    later = NOW + timedelta(days=1)
    return [
        {
            "another": rule(replace(scope, tool="another.tool")),
            "expired": rule(scope, expires_at=NOW),
            "a rule": rule(scope, expires_at=later),
            "a rule for money": rule(scope, expires_at=later, ceiling_amount="49.00", ceiling_currency="GBP"),
            "a rule for less money": rule(scope, expires_at=later, ceiling_amount="48.99", ceiling_currency="GBP"),
            "an expired rule for money": rule(scope, expires_at=NOW, ceiling_amount="49.00", ceiling_currency="GBP"),
        }[what]
        for scope in scopes_of(call, SHIPPED)
        if what != "none"
    ]


def expected(effect: Effect, mode: Mode, what: str) -> str:
    if effect is READ:
        return "it only looks things up"
    if (effect is MONEY and what == "a rule for money") or (effect is not MONEY and what == "a rule"):
        return "rule"
    return "held" if effect in ASKS[mode] else f"mode {mode}"


@pytest.mark.parametrize("runtime", list(Runtime))
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("effect", list(Effect))
def test_the_whole_order_of_decision(effect: Effect, mode: Mode, runtime: Runtime) -> None:
    call = call_of(asked(CALLS[effect], runtime))
    assert effect_to_judge(call, None, SHIPPED) is effect
    for what in RULES:
        rules = rules_for(what, call)
        for chosen in [rules, *([each] for each in rules)]:
            found = decide_whether_to_ask(call, effect, mode, RuleBook(chosen, SHIPPED), NOW)
            wanted = expected(effect, mode, what)
            if wanted == "held":
                assert found == Held(), what
            elif wanted == "rule":
                assert found == Unasked(chosen[0].label, chosen[0]), what
            else:
                assert found == Unasked(wanted), what


def test_an_asker_may_raise_the_effect_and_not_lower_it() -> None:
    for effect, claimed in itertools.product(Effect, Effect):
        call = call_of(asked(CALLS[effect], Runtime.TURN))
        assert effect_to_judge(call, claimed, SHIPPED) is max(effect, claimed, key=lambda each: each.rank)


def test_an_activity_that_the_directory_does_not_list_makes_it_a_send() -> None:
    for effect, body in CALLS.items():
        call = replace(call_of(asked(body, Runtime.TURN)), unlisted_run=True)
        assert effect_to_judge(call, None, SHIPPED) is max(effect, SEND, key=lambda each: each.rank)


def test_a_rule_stands_in_for_one_person_and_never_for_one_who_may_not_answer() -> None:
    call = call_of(asked(CALLS[SEND], Runtime.TURN))
    made = rules_for("a rule", call)
    book = RuleBook(made, SHIPPED)
    assert decide_whether_to_ask(call, SEND, Mode.OUTSIDE, book, NOW, needed=2) == Held()
    assert decide_whether_to_ask(call, SEND, Mode.OUTSIDE, book, NOW, barred="dana") == Held()
    assert decide_whether_to_ask(call, SEND, Mode.OUTSIDE, book, NOW, barred="") == Held()
    assert isinstance(decide_whether_to_ask(call, SEND, Mode.OUTSIDE, book, NOW, barred="ola"), Unasked)
    # Another's rule counts where the own one does not.
    both = RuleBook([*made, replace(made[-1], id="r2", created_by="ola")], SHIPPED)
    found = decide_whether_to_ask(call, SEND, Mode.OUTSIDE, both, NOW, barred="dana")
    assert isinstance(found, Unasked)
    assert found.rule is not None
    assert found.rule.created_by == "ola"


def test_a_money_rule_counts_where_several_must_allow_and_not_for_who_may_not_answer() -> None:
    call = call_of(asked(CALLS[MONEY], Runtime.DRAFT))
    book = RuleBook(rules_for("a rule for money", call), SHIPPED)
    assert isinstance(decide_whether_to_ask(call, MONEY, Mode.OUTSIDE, book, NOW, needed=2), Unasked)
    assert decide_whether_to_ask(call, MONEY, Mode.OUTSIDE, book, NOW, needed=2, barred="dana") == Held()


# Faults


class Broken(RuleBook):
    def covering(self, *_: Any) -> Any:
        raise RuntimeError("the path /home/secret is not readable")


def test_an_error_in_any_of_it_holds_the_call_and_is_reported_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = call_of(asked(CALLS[WRITE], Runtime.TURN))
    good = RuleBook([], SHIPPED)
    with caplog.at_level(logging.ERROR):
        assert decide_whether_to_ask(call, WRITE, Mode.MONEY_ONLY, Broken([], SHIPPED), NOW) == Held("RuntimeError")
        assert decide_whether_to_ask(call, WRITE, cast(Any, "never"), good, NOW) == Held("KeyError")
        assert effect_to_judge(replace(call, arguments=cast(Any, None)), READ, SHIPPED) is MONEY
        assert effect_to_judge(call, None, cast(Tables, None)) is MONEY
        broken = replace(
            rules_for("a rule for money", call_of(asked(CALLS[MONEY], Runtime.TURN)))[-1], ceiling_amount="x"
        )
        book = RuleBook([broken], SHIPPED)
        refund = call_of(asked(CALLS[MONEY], Runtime.TURN))
        assert isinstance(decide_whether_to_ask(refund, MONEY, Mode.OUTSIDE, book, NOW), Held)
    reports = [record for record in caplog.records if record.message == "judging failed"]
    assert len(reports) == 5
    assert {record.__dict__["tool"] for record in reports} == {"write_file", "stripe.refund"}
    assert "secret" not in caplog.text


def test_a_thousand_rules_are_no_slower_than_a_few() -> None:
    call = call_of(asked(CALLS[SEND], Runtime.TURN))
    one = rule(Scope(ScopeKind.RECIPIENT, call.tool, "", json.dumps(["#other"])))
    many = [replace(one, scope_value=json.dumps([f"#channel-{at}"])) for at in range(1000)]
    books = RuleBook(many[:3], SHIPPED), RuleBook(many, SHIPPED)

    def took(book: RuleBook) -> float:
        started = time.perf_counter()
        for _ in range(300):
            decide_whether_to_ask(call, SEND, Mode.OUTSIDE, book, NOW)
        return time.perf_counter() - started

    few, thousand = (min(took(book) for _ in range(5)) for book in books)
    assert thousand < few * 5

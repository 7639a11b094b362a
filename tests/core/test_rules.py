"""Standing rules: what a card may offer, what a rule covers, and that its words say exactly that."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.approvals import Effect
from core.asks import Presentation
from core.canonical import digest_of
from core.effects import Call, Tables, effect_of, tables_from
from core.origins import origin_of
from core.rules import (
    BadRule,
    Rule,
    RuleBook,
    Scope,
    ScopeKind,
    ceiling_of,
    covers,
    label_of,
    label_of_rule,
    scope_named,
    scopes_for,
    scopes_of,
)
from core.wording import LANGUAGES
from tests.builders import NOW

READ, WRITE, SEND, MONEY = Effect
ARGUMENTS, RECIPIENT, HOST, OPERATION, TOOL = ScopeKind
TABLES = tables_from({"url_fields": {"acme.fetch": ["url"]}, "recipients": {"acme.mail": ["to", "cc"]}})
SOON = NOW + timedelta(days=1)


def call(tool: str, operation: str = "", /, *, shown: dict[str, Any] | None = None, **arguments: Any) -> Call:
    digest = digest_of(tool, operation, None, json.dumps(arguments))
    return Call(tool, operation, arguments, "billing", digest, Presentation.model_validate(shown or {}))


def offered(
    one: Call, effect: Effect | None = None, tables: Tables = TABLES, needed: int = 1
) -> dict[ScopeKind, Scope]:
    scopes = scopes_for(one, effect or effect_of(one, tables), tables, needed)
    assert [scope.kind for scope in scopes] == sorted((scope.kind for scope in scopes), key=list(ScopeKind).index)
    return {scope.kind: scope for scope in scopes}


def rule(scope: Scope, **more: Any) -> Rule:
    return Rule(
        "r1", "billing", scope.tool, scope.operation, scope.kind, scope.value, label_of(scope), NOW, "dana", **more
    )


def lets(scope: Scope | Rule, other: Call, tables: Tables = TABLES) -> bool:
    """Whether a rule of this scope lets the call run, found by itself and in a book of others."""
    one = scope if isinstance(scope, Rule) else rule(scope)
    effect = effect_of(other, tables)
    alone = covers(one, other, effect, tables, NOW)
    others = [rule(Scope(OPERATION, "other.tool", f"o{at}")) for at in range(3)]
    found = list(RuleBook([*others, one], tables).covering(other, effect, NOW))
    assert found == ([one] if alone else [])
    return alone


# Which scopes a card offers


def test_a_message_may_be_allowed_to_its_recipient_and_exactly_as_it_is() -> None:
    post = call("slack.post_message", channel="#ops", text="hello")
    assert set(offered(post)) == {ARGUMENTS, RECIPIENT}
    reach = offered(post)[RECIPIENT]
    assert lets(reach, call("slack.post_message", channel="#ops", text="something else"))
    for other in (
        call("slack.post_message", channel="#all", text="hello"),
        call("slack.post_message", channel="#Ops", text="hello"),
        call("slack.post_message", channel="#ops ", text="hello"),
        call("slack.post_message", channel=["#ops", "#all"], text="hello"),
        call("slack.post_message", channel="#ops", user="U1", text="hello"),
        call("slack.post_message", channel="#ops", bcc="x@example.com"),
        call("slack.post_message", "now", channel="#ops", text="hello"),
        call("slack.update_message", channel="#ops", text="hello"),
        call("slack.post_message", text="hello"),
        call("Slack.post_message", channel="#ops", text="hello"),
    ):
        assert not lets(reach, other), other


def test_all_recipients_of_a_call_make_one_scope_in_any_order() -> None:
    reach = offered(call("acme.mail", to=["b@example.com", "a@example.com"], cc="c@example.com"))[RECIPIENT]
    assert "a@example.com, b@example.com, c@example.com" in label_of(reach)
    assert lets(reach, call("acme.mail", to="c@example.com", cc=["a@example.com", "b@example.com"], body="x"))
    assert not lets(reach, call("acme.mail", to=["a@example.com", "b@example.com"]))
    assert not lets(reach, call("acme.mail", to=["a@example.com", "b@example.com", "c@example.com", "d@example.com"]))


def test_w2_an_empty_argument_gives_no_rule_that_is_wider_than_the_call() -> None:
    nothing: list[Any] = ["", None, [], {}]
    for empty in nothing:
        assert set(offered(call("slack.post_message", channel=empty, text="hello"))) == {ARGUMENTS}
        assert set(offered(call("web_fetch", url=empty))) == {ARGUMENTS}
        assert set(offered(call("acme.notify", shown={"recipient": "/to"}, to=empty))) == {ARGUMENTS}
        assert set(offered(call("acme.notify", shown={"url": "/url"}, url=empty))) == {ARGUMENTS}
    assert set(offered(call("slack.post_message", text="hello"))) == {ARGUMENTS}
    assert set(offered(call("acme.notify", shown={"recipient": "/nobody"}, to="x"))) == {ARGUMENTS}


@pytest.mark.parametrize(
    "recipient",
    [" ", " #ops", "#ops\n", "#o\u200bps", "\u202e#ops",
    "#ops\u00a0", True, 1.5, {"id": "#ops"}, ["#ops", {"id": 1}], ["#ops", ""],
     "x" * 121],
)  # fmt: skip
def test_a_recipient_that_a_label_cannot_show_as_it_is_is_not_offered(recipient: Any) -> None:
    assert set(offered(call("slack.post_message", channel=recipient, text="hello"))) == {ARGUMENTS}


def test_nobody_is_known_from_the_presentation_which_is_the_askers_own_word() -> None:
    for shown in ({"recipient": "/who"}, {"recipient": "/mail/to"}, {"recipient": "ops"}):
        made = call("acme.notify", shown=shown, who="ops", mail={"to": "ops"}, memo="ops", dest="everybody")
        assert set(offered(made)) == {ARGUMENTS}


def test_a_presentation_cannot_point_away_from_the_recipient_that_the_table_knows() -> None:
    reach = offered(call("slack.post_message", channel="#ops", text="x"))[RECIPIENT]
    assert not lets(reach, call("slack.post_message", shown={"recipient": "/text"}, channel="#all", text="#ops"))


def test_a_fetch_may_be_allowed_to_its_host_with_its_method() -> None:
    reach = offered(call("http_request", url="https://api.example.com/v1?a=1", method="post"))[HOST]
    assert reach.value == "POST https://api.example.com"
    assert lets(reach, call("http_request", url="https://API.example.com.:443/other", method="POST"))
    for other in (
        call("http_request", url="https://api.example.com/v1"),
        call("http_request", url="https://api.example.com/v1", method="PUT"),
        call("http_request", url="http://api.example.com/v1", method="POST"),
        call("http_request", url="https://api.example.com:8443/v1", method="POST"),
        call("http_request", url="https://evil.example.com/https://api.example.com", method="POST"),
        call("http_request", url="https://api.example.com@evil.example/", method="POST"),
        call("http_request", url="https://api.example.com\\@evil.example/", method="POST"),
        call("http_request", urls=["https://api.example.com", "https://evil.example"], method="POST"),
        call("http_request", url="https://api.example.com", URL="https://evil.example", method="POST"),
        call("http_request", url="https://api.example.com", proxy="https://evil.example", method="POST"),
        call("http_request", url="https://api.example.com", method=["POST", "PUT"]),
        call("http_request", url="https://api.example.com", method="POST", options={"proxy": "https://evil.example"}),
        call("http_request", url="https://api.example.com", method="POST", headers={"Host": "evil.example"}),
        call("http_request", url="/v1", base_url="https://api.example.com", method="POST"),
        call("http_request", url="https://api.example.com", method="POST", headers={"X-HTTP-Method-Override": "PUT"}),
    ):
        assert not lets(reach, other), other
    assert not lets(replace(reach, value="DELETE https://api.example.com"),
                    call("http_request", url="https://api.example.com", method="DELETE"))  # fmt: skip


def test_a_method_counts_wherever_a_request_may_say_it() -> None:
    reach = offered(call("http_request", url="https://a.example", method="GET"))[HOST]
    assert lets(reach, call("http_request", url="https://a.example"))
    for other in (
        call("http_request", url="https://a.example", http_method="POST"),
        call("http_request", url="https://a.example", method="GET", verb="PUT"),
        call("http_request", url="https://a.example", options={"method": "POST"}),
        call("http_request", url="https://a.example?_method=put"),
        call("http_request", url="https://a.example", json={"title": "x"}),
    ):
        assert not lets(reach, other), other
    # What a body says is the other side's matter.
    rpc = call("http_request", url="https://a.example", method="POST", json={"method": "add"})
    assert offered(rpc)[HOST].value == "POST https://a.example"


def test_what_an_argument_makes_a_send_is_allowed_only_word_for_word() -> None:
    for raised in (
        call("github", "get_issue", url="https://a.example"),
        call("browser", "snapshot", script="x()"),
        call("browser", "snapshot", url="https://a.example", actions=["click"]),
        call("gmail", "create_draft", to="ada@example.com", send=True),
    ):
        assert effect_of(raised, TABLES) is SEND
        assert set(offered(raised)) == {ARGUMENTS}
        for kind in (OPERATION, TOOL):
            assert not lets(Scope(kind, raised.tool, raised.operation if kind is OPERATION else ""), raised)
    there = call("browser", "snapshot", url="https://a.example")
    assert set(offered(there)) == {ARGUMENTS, HOST}
    carried = call("use_mcp_tool", server_name="github", tool_name="create_issue")
    assert set(offered(carried)) == {ARGUMENTS}


def test_an_address_further_in_is_another_place_unless_it_is_handed_over() -> None:
    reach = offered(call("http_request", url="https://a.example", method="GET"))[HOST]
    for more in ({"options": {"url": "https://b.example"}}, {"requests": [{"URI": "https://b.example"}]},
                 {"config": {"more": {"endpoint": "b.example"}}}):  # fmt: skip
        assert not lets(reach, call("http_request", url="https://a.example", method="GET", **more)), more
        assert HOST not in offered(call("browser.navigate", url="https://a.example", **more))
    posts = offered(call("http_request", url="https://a.example", method="POST"))[HOST]
    assert lets(posts, call("http_request", url="https://a.example", method="POST", json={"url": "https://b.example"}))
    assert lets(reach, call("http_request", url="https://a.example", method="GET", options={"url": ""}))


@pytest.mark.parametrize(
    "more",
    [{"headers": "Bcc: b@example.com"}, {"headers": [["Bcc", "b@example.com"]]}, {"raw": "To: b@example.com"},
     {"mime_message": "To: b@example.com"}],
)  # fmt: skip
def test_a_message_that_may_name_more_people_in_its_head_has_no_known_recipient(more: dict[str, Any]) -> None:
    reach = offered(call("send_email", to="a@example.com"))[ScopeKind.RECIPIENT]
    assert lets(reach, call("send_email", to="a@example.com", headers={"Reply-By": "Monday"}, raw=""))
    assert not lets(reach, call("send_email", to="a@example.com", **more))
    assert ScopeKind.RECIPIENT not in offered(call("send_email", to="a@example.com", **more))


def test_no_host_is_known_from_the_presentation_which_is_the_askers_own_word() -> None:
    for shown in ({"url": "/endpoint"}, {"url": "/note"}, {"url": "https://a.example"}):
        made = call("acme.pull", shown=shown, endpoint="https://a.example/x", note="https://a.example")
        assert set(offered(made)) == {ARGUMENTS}


def test_a_fetch_without_a_method_is_what_the_tool_takes_and_a_browser_has_none() -> None:
    assert offered(call("web_fetch", url="https://a.example"))[HOST].value == "GET https://a.example"
    for tool, operation in (("http", "POST"), ("http.post", ""), ("http_post", "")):
        assert offered(call(tool, operation, url="https://a.example"))[HOST].value == "POST https://a.example"
        assert HOST not in offered(call(tool, operation, url="https://a.example", method="PUT"))
    reach = offered(call("browser", "navigate", url="https://shop.example/cart"))[HOST]
    assert reach.value == "https://shop.example"
    assert lets(reach, call("browser", "navigate", url="https://shop.example/"))
    assert not lets(reach, call("browser", "open", url="https://shop.example/"))


def test_the_operation_or_the_tool_may_be_allowed_only_where_no_argument_says_how_far_it_reaches() -> None:
    assert set(offered(call("github", "create_issue", title="x"))) == {ARGUMENTS, OPERATION}
    assert set(offered(call("mcp__github__create_issue", title="x"))) == {ARGUMENTS, TOOL}
    assert set(offered(call("acme.notify", "now", text="x"))) == {ARGUMENTS, OPERATION}
    assert set(offered(call("acme.notify", text="x"))) == {ARGUMENTS, TOOL}
    # Here an argument is the operation, or decides the effect.
    assert set(offered(call("memory", action="write"), WRITE)) == {ARGUMENTS}
    tables = tables_from({"fields": {"poster": {"draft": {True: "write", False: "send"}}}})
    assert set(offered(call("poster", draft=True), WRITE, tables)) == {ARGUMENTS}


def test_a_rule_for_an_operation_or_a_tool_covers_that_alone() -> None:
    operation = offered(call("acme.notify", "now", text="x"))[OPERATION]
    assert lets(operation, call("acme.notify", "now", text="y"))
    assert not lets(operation, call("acme.notify", "later", text="x"))
    assert not lets(operation, call("acme.notify", text="x"))
    assert not lets(operation, call("acme.notify2", "now", text="x"))
    tool = offered(call("acme.notify", text="x"))[TOOL]
    assert lets(tool, call("acme.notify", "now", text="y"))
    assert not lets(tool, call("acme.Notify", text="x"))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "python3 safe.py"}), ("functions.exec_command", {"cmd": ["python3", "safe.py"]}),
        ("python", {"code": "print(1)"}), ("postgres.query", {"sql": "UPDATE t SET a = 1"}),
        ("kubectl", {"command": "apply -f x"}),
        ("mcp__anything__run", {"command": "python3 safe.py"}), ("acme.job", {"script": "x"}),
        ("acme.job", {"SQL": "update t set a = 1"}),
        ("playwright", {"action": "evaluate", "code": "x", "url": "https://a.example"}),
        ("monty", {"capabilities": ["http_get"], "code": "x"}),
    ],
)  # fmt: skip
def test_w1_a_command_may_be_allowed_only_exactly_as_it_is(tool: str, arguments: dict[str, Any]) -> None:
    safe = call(tool, shown={"recipient": "/to", "url": "/url"}, **arguments)
    assert set(offered(safe)) == {ARGUMENTS}
    exactly = offered(safe)[ARGUMENTS]
    assert lets(exactly, safe)
    for name in arguments:
        assert not lets(exactly, call(tool, **{**arguments, name: "python3 evil.py"}))
    assert not lets(exactly, call(tool, **arguments, cwd="/elsewhere"))
    for kind, value in ((OPERATION, ""), (TOOL, ""), (RECIPIENT, '["x"]'), (HOST, "https://a.example")):
        assert not lets(Scope(kind, tool, "", value), safe), kind


def test_nothing_is_offered_for_money_for_a_read_or_where_several_must_allow() -> None:
    post = call("slack.post_message", channel="#ops", text="hello")
    assert offered(call("stripe.refund", amount=1, currency="GBP")) == {}
    assert offered(post, MONEY) == {}
    assert offered(call("read_file", path="x")) == {}
    assert offered(post, needed=2) == {}
    assert offered(post, needed=1) != {}


def test_a_call_whose_activity_is_not_listed_may_be_allowed_only_exactly_as_it_is() -> None:
    listed = call("slack.post_message", channel="#ops", text="hello")
    unlisted = replace(listed, unlisted_run=True)
    assert set(offered(unlisted)) == {ARGUMENTS}
    assert not lets(offered(listed)[RECIPIENT], unlisted)
    assert not lets(Scope(TOOL, "slack.post_message", ""), unlisted)


@pytest.mark.parametrize("name", ["t" * 121, "a\u200bb", " a", "a\u202eb"])
def test_a_tool_that_a_label_cannot_show_as_it_is_is_offered_nothing(name: str) -> None:
    assert offered(call(name, text="x")) == {}
    assert set(offered(call("acme.notify", name, text="x"))) == set()


# What a rule covers


def test_s11_a_rule_made_from_one_of_two_equal_calls_covers_the_other() -> None:
    first = call("acme.notify", text="x", count=1)
    second = call("acme.notify", count=1, text="x")
    assert all(lets(scope, second) for scope in offered(first).values())


def test_a_rule_covers_its_own_agent_until_it_expires_and_never_money() -> None:
    post = call("acme.notify", text="x")
    scope = offered(post)[TOOL]
    assert not lets(rule(scope), replace(post, agent="other"))
    assert lets(rule(scope, expires_at=NOW + timedelta(microseconds=1)), post)
    assert not lets(rule(scope, expires_at=NOW), post)
    assert not lets(rule(scope, expires_at=NOW - timedelta(days=1)), post)
    for each in scopes_of(post, TABLES):
        assert not covers(rule(each), post, MONEY, TABLES, NOW)


def test_the_narrowest_rule_is_named_first() -> None:
    post = call("acme.notify", "now", text="x")
    rules = [rule(scope) for scope in scopes_of(post, TABLES)]
    found = list(RuleBook(reversed(rules), TABLES).covering(post, SEND, NOW))
    assert [each.scope_kind for each in found] == [ARGUMENTS, OPERATION, TOOL]


VALUES = st.recursive(st.none() | st.booleans() | st.integers(-9, 9_999) | st.text(max_size=8), st.lists, max_leaves=4)
ARGS = st.dictionaries(
    st.sampled_from(["to", "channel", "cc", "url", "method", "text", "command", "amount", "action"]), VALUES
)
TOOLS = st.sampled_from(
    [
        "slack.post_message",
        "slack",
        "http_request",
        "browser",
        "bash",
        "acme.notify",
        "memory",
        "stripe.refund",
        "gmail",
    ]
)
OPERATIONS = st.sampled_from(["", "send", "post", "navigate", "write", "delete"])


@settings(max_examples=200, deadline=None)
@given(TOOLS, OPERATIONS, ARGS, st.none() | TOOLS, st.none() | OPERATIONS, ARGS, st.booleans())
def test_no_offered_rule_covers_another_tool_or_operation_or_money_or_another_place(
    tool: str,
    operation: str,
    arguments: dict[str, Any],
    another_tool: str | None,
    another_operation: str | None,
    changed: dict[str, Any],
    anew: bool,
) -> None:
    tool2, operation2 = another_tool or tool, operation if another_operation is None else another_operation
    arguments2 = changed if anew else {**arguments, **changed}
    one, other = call(tool, operation, **arguments), call(tool2, operation2, **arguments2)
    for scope in offered(one).values():
        assert lets(scope, one)
        if lets(scope, other):
            assert tool2 == tool
            assert effect_of(other, TABLES) is not MONEY
            assert operation2 == operation or scope.kind is TOOL
            if scope.kind is ARGUMENTS:
                assert json.dumps(arguments2, sort_keys=True) == json.dumps(arguments, sort_keys=True)
            if scope.kind is HOST:
                assert origin_of(arguments2["url"]) == origin_of(arguments["url"])
            if scope.kind is RECIPIENT:
                assert any(arguments2.get(name) not in (None, "", [], {}) for name in ("to", "channel", "cc"))


# Money


REFUND: dict[str, Any] = {"charge": "ch_1", "amount": 4900, "currency": "gbp"}
SHOWN = {"lines": [["Amount", "/sum", "money:/unit"], ["Note", "/note"]]}


def money_rule(scope: Scope, amount: str = "50.00", currency: str = "GBP", **more: Any) -> Rule:
    return rule(scope, ceiling_amount=amount, ceiling_currency=currency, **{"expires_at": SOON, **more})


def test_a_money_rule_covers_calls_up_to_its_ceiling_in_its_currency() -> None:
    limit = money_rule(Scope(TOOL, "stripe.refund", ""))
    assert lets(limit, call("stripe.refund", "create", **REFUND))
    assert lets(limit, call("stripe.refund", **{**REFUND, "amount": 5000}))
    assert lets(limit, call("stripe.refund", **{**REFUND, "amount": "50.00"}))
    assert not lets(limit, call("stripe.refund", **{**REFUND, "amount": 5001}))
    assert not lets(limit, call("stripe.refund", **{**REFUND, "amount": "50.01"}))
    assert not lets(limit, call("stripe.refund", **{**REFUND, "currency": "USD"}))
    assert not lets(limit, call("stripe.payout", **REFUND))


@pytest.mark.parametrize(
    "arguments",
    [
        {"charge": "ch_1"}, {"amount": 4900}, {"currency": "GBP"}, {"amount": 0, "currency": "GBP"},
        {"amount": -1, "currency": "GBP"},
        {"amount": 49.0, "currency": "GBP"}, {"amount": "all", "currency": "GBP"}, {"amount": True, "currency": "GBP"},
        {"amount": None, "currency": "GBP"}, {"amount": [100, 9_000_000], "currency": "GBP"},
        {"amount": 100, "currency": "XXX"},
        {"amount": 100, "Amount": 9_000_000, "currency": "GBP"}, {"amount": 4900, "Amount": 4900, "currency": "GBP"},
        {"amount": 100, "currency": "GBP", "Currency": "KWD"},
        {"amount": 100, "currency": "GBP", "quantity": 1000}, {"amount": 100, "currency": "GBP", "tip": 9_000_000},
        {"amount": 100, "currency": "GBP", "items": [{"price": 9_000_000}]}, {"amount": "1e3", "currency": "GBP"},
    ],
)  # fmt: skip
def test_a_money_rule_does_not_cover_an_amount_that_cannot_be_read(arguments: dict[str, Any]) -> None:
    assert not lets(money_rule(Scope(TOOL, "stripe.refund", "")), call("stripe.refund", **arguments))


def test_a_money_rule_does_not_take_the_askers_word_for_which_argument_is_the_amount() -> None:
    limit = money_rule(Scope(TOOL, "acme.delete_order", ""))
    shown = call("acme.delete_order", shown=SHOWN, sum=4900, unit="GBP", note="x")
    assert effect_of(shown, TABLES) is MONEY
    assert not lets(limit, shown)
    tables = tables_from({"amounts": {"acme.delete_order": ["sum", "unit"]}})
    assert lets(limit, shown, tables)
    assert not lets(limit, call("acme.delete_order", sum=4900, unit="GBP", total=1), tables)
    away = {"lines": [["Amount", "/note", "money:/unit"]]}
    assert not lets(limit, call("acme.delete_order", shown=away, cents=9_000_000, unit="GBP", note=1))
    # A refund of no amount is of all of it.
    known = money_rule(Scope(TOOL, "stripe.refund", ""))
    assert not lets(known, call("stripe.refund", shown=away, amount=9_000_000, currency="GBP", unit="GBP", note=1))
    assert not lets(known, call("stripe.refund", shown=away, charge="ch_1", unit="GBP", note=1))


def test_a_money_rule_reads_an_amount_further_in_where_the_directory_points_at_it() -> None:
    tables = tables_from({"amounts": {"paypal": ["/amount/value", "/amount/currency_code"]}})
    limit = money_rule(Scope(OPERATION, "paypal", "refund"))
    refund = {"amount": {"value": "49.00", "currency_code": "GBP"}}
    assert lets(limit, call("paypal", "refund", **refund), tables)
    assert not lets(limit, call("paypal", "refund", **refund))
    assert not lets(limit, call("paypal", "refund", amount={"value": "50.01", "currency_code": "GBP"}), tables)
    assert not lets(limit, call("paypal", "refund", **refund, fee={"value": "1.00", "currency_code": "GBP"}), tables)


def test_a_money_rule_needs_an_expiry_and_both_halves_of_its_ceiling() -> None:
    refund, scope = call("stripe.refund", **REFUND), Scope(TOOL, "stripe.refund", "")
    assert not lets(money_rule(scope, expires_at=None), refund)
    assert not lets(money_rule(scope, expires_at=NOW), refund)
    assert not lets(rule(scope, expires_at=SOON, ceiling_currency="GBP"), refund)
    assert not lets(rule(scope, expires_at=SOON, ceiling_amount="50"), refund)
    assert not lets(rule(scope, expires_at=SOON), refund)


def test_a_money_rule_lets_no_command_run_and_nothing_that_is_no_amount() -> None:
    assert not lets(money_rule(Scope(TOOL, "bash", "")), call("bash", command="rm -rf /"))
    assert not lets(money_rule(Scope(OPERATION, "github", "delete_repo")), call("github", "delete_repo", repo="x"))
    assert not lets(money_rule(Scope(TOOL, "acme.notify", "")), call("acme.notify", text="x"))


@pytest.mark.parametrize(
    ("amount", "currency"), [("0", "GBP"), ("-1", "GBP"), ("x", "GBP"), ("1", "XXX"), ("1.001", "GBP"), ("", "")]
)
def test_a_ceiling_that_is_no_amount_is_refused(amount: str, currency: str) -> None:
    with pytest.raises(BadRule, match=r"such as 50\.00 GBP"):
        ceiling_of(amount, currency)
    assert ceiling_of("50", "gbp") == ("50", "GBP")


# Hosts


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("HTTPS://API.Example.COM:443/a?b#c", "https://api.example.com"),
        ("http://example.com:80", "http://example.com"), ("http://example.com:443/", "http://example.com:443"),
        ("https://example.com:8443", "https://example.com:8443"), ("https://example.com./x", "https://example.com"),
        ("https://bücher.example/", "https://xn--bcher-kva.example"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]/", "http://[::1]"), ("http://[0:0:0:0:0:0:0:1]:80/", "http://[::1]"),
        ("http://localhost", "http://localhost"),
        ("http://intranet./", "http://intranet."), ("https://example.com?x", "https://example.com"),
        ("https://a_b.example", "https://a_b.example"),
        # None of these is plain.
        ("https://user@example.com", None), ("https://user:pw@example.com", None),
        ("https://example.com@evil.example", None),
        ("https://example.com\\@evil.example", None), ("https:/example.com", None), ("//example.com", None),
        ("example.com", None),
        ("ftp://example.com", None), ("file:///etc/passwd", None), ("javascript:alert(1)", None),
        ("https://", None), ("https:///x", None),
        ("https://exa mple.com", None), (" https://example.com", None), ("https://example.com\n", None),
        ("https://example.com/\t", None),
        ("https://example.com:", None), ("https://example.com:0", None), ("https://example.com:99999", None),
        ("https://example.com:8o", None),
        ("https://ex%61mple.com", None), ("https://.example.com", None), ("https://example..com", None),
        ("https://example.com..", None),
        ("http://2130706433/", None), ("http://0x7f000001/", None), ("http://0177.0.0.1/", None),
        ("http://127.1/", None), ("http://1.2.3.4.5", None),
        ("http://[::1", None), ("http://[::1%25eth0]/", None), ("http://[x]/", None), ("https://straße.example", None),
        ("https://example。com", None), ("https://ｅxample.com", None), ("https://exam\u00adple.com", None),
        ("https://-a.example", None),
        ("https://" + "a" * 64 + ".example", None), ("https://" + "a." * 150 + "example", None), (None, None),
        (7, None), ("", None),
    ],
)  # fmt: skip
def test_an_address_is_one_text_for_one_place_or_none_at_all(url: Any, origin: str | None) -> None:
    assert origin_of(url) == origin
    found = offered(call("web_fetch", url=url)).get(HOST)
    assert (found.value if found else None) == (f"GET {origin}" if origin else None)


# Words


@pytest.mark.parametrize("language", LANGUAGES)
def test_w4_a_label_says_exactly_how_far_a_rule_reaches_and_for_how_long(language: str) -> None:
    scopes = [
        *offered(call("acme.mail", "send", to=["a@example.com"])).values(),
        *offered(call("http_request", url="https://api.example.com:8443/x", method="PUT")).values(),
        *offered(call("browser", "navigate", url="http://shop.example")).values(),
        *offered(call("acme.notify", "now")).values(),
        *offered(call("acme.notify")).values(),
    ]
    labels = [label_of(scope, language) for scope in scopes]
    assert len(set(labels)) == len(labels)
    for scope, label in zip(scopes, labels, strict=True):
        named = (
            json.loads(scope.value)[1:]
            if scope.kind is RECIPIENT
            else scope.value.split(" ")
            if scope.kind is HOST
            else []
        )
        assert all(part in label for part in (scope.tool, scope.operation, *named)), label
        assert "…" not in label
        dated = label_of(scope, language, expires_at=SOON)
        assert "2026" in dated
        assert "12:00 UTC" in dated
        assert dated != label
        capped = label_of(scope, language, expires_at=SOON, ceiling=("50.00", "GBP"))
        assert "50.00 GBP" in capped


def test_w4_labels_in_english() -> None:
    said = {
        label_of(Scope(ARGUMENTS, "bash", "", "sha256:0")): "bash with exactly these arguments, until removed",
        label_of(offered(call("acme.mail", to="a@b.example"))[RECIPIENT]): "acme.mail to a@b.example, until removed",
        label_of(
            Scope(HOST, "http", "", "GET https://a.example")
        ): "http: GET requests to https://a.example, until removed",
        label_of(
            Scope(HOST, "browser", "open", "https://a.example")
        ): "browser (open) at https://a.example, until removed",
        label_of(Scope(OPERATION, "calendar", "create")): "every create of calendar, until removed",
        label_of(Scope(TOOL, "acme.notify", "")): "every call of acme.notify, until removed",
        label_of_rule(
            money_rule(Scope(TOOL, "stripe.refund", ""))
        ): "every call of stripe.refund, up to 50.00 GBP a call, until Mar 10, 2026, 12:00 UTC",
    }
    assert all(label == wanted for label, wanted in said.items()), said
    assert (
        label_of(Scope(ARGUMENTS, "bash", "run", "x"), here=True)
        == "this tool (run) with exactly these arguments, until removed"
    )
    assert label_of(Scope(OPERATION, "calendar", "create"), here=True) == "every create of this tool, until removed"


# What an administrator names


def test_an_administrator_names_a_scope_as_a_call_would_have_it() -> None:
    assert (
        scope_named("recipient", "acme.mail", "", "a@example.com", TABLES)
        == offered(call("acme.mail", to="a@example.com"))[RECIPIENT]
    )
    reach = scope_named("host", "http_request", "", "PUT https://API.example.com/", TABLES)
    assert reach == offered(call("http_request", url="https://api.example.com/x", method="put"))[HOST]
    assert scope_named("host", "browser", "open", "https://a.example", TABLES).value == "https://a.example"
    assert scope_named("operation", "stripe", "refund", "", TABLES) == Scope(OPERATION, "stripe", "refund")
    assert scope_named("tool", "stripe.refund", "", "", TABLES) == Scope(TOOL, "stripe.refund", "")
    assert scope_named("arguments", "bash", "", f"sha256:{'0' * 64}", TABLES).kind is ARGUMENTS


@pytest.mark.parametrize(
    ("kind", "tool", "operation", "value", "problem"),
    [
        ("never", "t", "", "", "must be one of arguments, recipient"),
        ("tool", "bash", "", "", "exactly these arguments"),
        ("operation", "postgres", "query", "", "exactly these arguments"),
        ("arguments", "t", "", "x", "the digest of a request"),
        ("recipient", "t", "", "x", "effects.recipients"),
        ("recipient", "slack", "post", " x", "exactly as the agent writes it"),
        ("recipient", "slack", "post", "", "exactly as the agent writes it"),
        ("host", "t", "", "https://a.example", "effects.url_fields"),
        ("host", "http", "", "https://a.example", "must begin with a method"),
        ("host", "browser", "open", "GET https://a.example", "no method"),
        ("host", "http", "", "GET https://a.example/path", "without a path"),
        ("host", "http", "", "GET https://u@a.example", "without a path"),
        ("operation", "t", "", "", "needs an operation"), ("tool", "t", "x", "", "name neither"),
        ("tool", "t", "", "x", "name neither"),
    ],
)  # fmt: skip
def test_a_scope_that_cannot_be_is_refused_with_what_would_be_right(
    kind: str, tool: str, operation: str, value: str, problem: str
) -> None:
    with pytest.raises(BadRule, match=problem):
        scope_named(kind, tool, operation, value, TABLES)


@pytest.mark.parametrize(
    ("kind", "tool", "operation", "value"),
    [
        ("tool", "acme.notify", "", ""), ("operation", "acme", "notify", ""),
        ("arguments", "acme.notify", "", f"sha256:{'0' * 64}"), ("recipient", "slack", "post", "#ops"),
    ],
)  # fmt: skip
def test_a_rule_for_money_needs_to_know_what_the_tool_moves(kind: str, tool: str, operation: str, value: str) -> None:
    scope_named(kind, tool, operation, value, TABLES)
    words = f"nothing says what {tool} moves; list its arguments under effects.amounts"
    with pytest.raises(BadRule, match=words):
        scope_named(kind, tool, operation, value, TABLES, money=True)
    named = tables_from({"amounts": {"acme.notify": ["total", "currency"], "slack.post": ["total", "currency"]}})
    assert scope_named(kind, tool, operation, value, named, money=True) == scope_named(
        kind, tool, operation, value, named
    )


def test_a_rule_for_money_of_a_whole_tool_may_know_the_amounts_of_its_operations_alone() -> None:
    named = tables_from({"amounts": {"acme.pay": ["total", "currency"]}})
    assert scope_named("tool", "acme", "", "", named, money=True) == Scope(TOOL, "acme", "")
    assert scope_named("tool", "stripe.refund", "", "", TABLES, money=True) == Scope(TOOL, "stripe.refund", "")

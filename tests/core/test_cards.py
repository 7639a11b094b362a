"""Cards as people read them: golden texts, nothing hidden, nothing unbounded, the whole in a file."""

from __future__ import annotations

import json
import re
import tracemalloc
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.approvals import Card, Effect, Outcome, Runtime, Status, Tone
from core.cards import CARD_LIMIT, LINE_LIMIT, MAX_LINES, Surroundings, card_json, card_of, short_digest, text_of
from core.formats import bytes_text, date_text, money_text
from core.redaction import Redaction
from core.visible import units, visible
from core.wording import say
from tests.builders import NOW, REFUND, RUN, an_approval

REDACTION = Redaction(b"a key of the installation")
PEOPLE = {"dana": "Dana Reyes"}
ID = "019cd2a0-7c00-7abc-8def-0123456789ab"
LATER = NOW + timedelta(minutes=5)


def a_card(*, unlisted_run: bool = False, now: Any = NOW, **changes: Any) -> Card:
    approval = an_approval(**{"id": ID, **changes})
    return card_of(approval, Surroundings(PEOPLE, unlisted_run), now, redaction=REDACTION)


def a_plain_card(arguments: dict[str, Any], **changes: Any) -> Card:
    """A call of a tool that brings no presentation."""
    return a_card(**{"arguments": arguments, "presentation": {}, "run": None, "reasoning": None, **changes})


def values(card: Card) -> dict[str, str]:
    return {line.label: line.value for line in card.lines}


def settled(status: Status, **changes: Any) -> Card:
    fields = {"status": status, "decided_by": "dana", "decided_via": "telegram", "decided_at": LATER, **changes}
    return a_card(now=LATER, **fields)


# Golden texts


def test_the_card_of_a_refund_reads() -> None:
    card = a_card()
    assert (
        text_of(card)
        == f"""\
Refund a duplicate charge
[Money or deletes]
billing wants to use stripe.refund (create).
Amount: 49.00 GBP
Charge: ch_1
Customer (agent's words): Ada Lovelace
reason: duplicate
In the agent's own words:
  > The customer was charged twice.
Content {card.digest}
Expires Mar 16, 2026, 12:00 UTC"""
    )
    assert re.fullmatch("sha256:[0-9a-f]{12}", card.digest)
    assert [(button.verb, button.label, button.style) for button in card.buttons] == [
        ("a", "Allow", "success"),
        ("d", "Decline", "danger"),
        ("n", "Decline with a note", ""),
    ]
    assert card.buttons[0].confirm == "Allow billing to use stripe.refund? It spends money or deletes something."
    assert card.attachments == ()


def test_the_card_of_a_command_without_a_presentation_reads() -> None:
    command = 'curl -H "Authorization: Bearer sk-live-0123456789" \\\n  https://api.example/deploy'
    card = a_plain_card({"command": command, "cwd": "/srv"}, agent="ops", tool="bash", operation="", effect=Effect.SEND)
    assert (
        text_of(card)
        == f"""\
ops wants to use bash
[Reaches out]
command:
    curl -H "Authorization: Bearer {REDACTION.hide("sk-live-0123456789")}" \\
      https://api.example/deploy
cwd: /srv
Content {card.digest}
Expires Mar 16, 2026, 12:00 UTC"""
    )
    assert card.lines[0].code
    assert not card.lines[1].code
    assert [button.confirm for button in card.buttons] == ["", "", ""]


def test_w5_the_settled_card_still_shows_what_was_asked_and_who_answered_when() -> None:
    before, after = a_card(), settled(Status.DECLINED, note="Ask the customer first")
    assert text_of(after) == text_of(before).replace(
        "Expires Mar 16, 2026, 12:00 UTC",
        "Declined by Dana Reyes through Telegram, Mar 9, 2026, 12:05 UTC. Nothing was run.\n"
        "Note: Ask the customer first",
    )
    assert after.buttons == ()
    assert (before.title, before.body, before.lines, before.claim) == (
        after.title,
        after.body,
        after.lines,
        after.claim,
    )


# After the answer

ALLOWED = "Allowed by Dana Reyes through Telegram, Mar 9, 2026, 12:05 UTC."


@pytest.mark.parametrize(
    ("changes", "status", "tone"),
    [
        ({}, f"{ALLOWED} It has not run yet.", Tone.GOOD),
        ({"run": None}, ALLOWED, Tone.GOOD),
        ({"run": None, "runtime": Runtime.EXTERNAL}, f"{ALLOWED} Its asker runs it.", Tone.GOOD),
        ({"outcome": Outcome.SENDING}, f"{ALLOWED} Running now.", Tone.GOOD),
        ({"outcome": Outcome.SENT}, f"{ALLOWED} Done.", Tone.GOOD),
        ({"outcome": Outcome.NOT_SENT, "outcome_note": "no worker."},
         f"{ALLOWED} It could not be started: no worker. Nothing was run.", Tone.BAD),
        ({"outcome": Outcome.UNKNOWN, "outcome_note": "ValueError: --token abc"},
         f"{ALLOWED} It failed: ValueError: --token {REDACTION.hide('abc')}. It may have partly happened.", Tone.ALERT),
        ({"outcome": Outcome.UNKNOWN}, f"{ALLOWED} It broke off. It may or may not have happened.", Tone.ALERT),
        ({"outcome": Outcome.SENT, "final_arguments": {**REFUND, "reason": "error"}},
         "Allowed by Dana Reyes after an edit, through Telegram, Mar 9, 2026, 12:05 UTC. Done.", Tone.GOOD),
        ({"outcome": Outcome.SENT, "decided_by": "auto", "note": "the rule for refunds"},
         "Ran without asking, Mar 9, 2026, 12:05 UTC: the rule for refunds. Done.", Tone.GOOD),
        ({"outcome": Outcome.SENT, "note": "Fine\nby me"}, f"{ALLOWED} Done.\nNote: Fine\nby me", Tone.GOOD),
    ],
)  # fmt: skip
def test_the_status_of_an_allowed_call(changes: dict[str, Any], status: str, tone: Tone) -> None:
    card = settled(Status.APPROVED, **changes)
    assert (card.status, card.tone, card.buttons, card.expiry) == (status, tone, (), "")


@pytest.mark.parametrize(("locale", "told"), [
    ("en", "From now on without asking: mail.send to ada@example.com, until removed."),
    ("de", "Ab jetzt ohne Nachfrage: mail.send an ada@example.com, bis zum Widerruf."),
])  # fmt: skip
def test_a_rule_made_with_the_answer_is_told_as_placets_own_word(locale: str, told: str) -> None:
    rule = "mail.send to ada@example.com, until removed"
    fields = {"status": Status.APPROVED, "decided_by": "dana", "decided_via": "telegram", "decided_at": LATER}
    approval = an_approval(**fields, note=say("always_note", label=rule))
    card = card_of(approval, Surroundings(PEOPLE), LATER, locale, redaction=REDACTION)
    assert card.status.splitlines()[-1] == told


@pytest.mark.parametrize("via", ["http", "cli"])
def test_a_note_that_only_reads_like_placets_own_word_is_somebodys(via: str) -> None:
    note = say("always_note", label="every call of mail.send, until removed")
    card = settled(Status.APPROVED, decided_via=via, note=note)
    assert card.status.splitlines()[-1] == f"Note: {note}"


def test_s9_the_card_tells_expiry_refusal_and_withdrawal_apart() -> None:
    expired = settled(Status.EXPIRED, decided_by=None, decided_via=None)
    assert expired.status == "Expired Mar 9, 2026, 12:05 UTC: nobody decided in time. Nothing was run."
    declined = settled(Status.DECLINED)
    assert declined.status == "Declined by Dana Reyes through Telegram, Mar 9, 2026, 12:05 UTC. Nothing was run."
    replied = settled(Status.DECLINED, note="Use the test account", by_message=True)
    assert replied.status == declined.status + "\nDana Reyes replied: Use the test account"
    withdrawn = settled(Status.CANCELLED, decided_by=None, decided_via=None)
    assert withdrawn.status == "Withdrawn Mar 9, 2026, 12:05 UTC. Nothing was run."


def test_a_card_whose_time_is_up_offers_no_answer_before_the_row_says_expired() -> None:
    card = a_card(now=NOW + timedelta(days=7))
    assert card.buttons == ()
    assert card.status == "The time is up; no answer counts any more."


def test_an_undeliverable_card_says_why_and_can_still_be_answered() -> None:
    card = a_card(undeliverable="the chat or topic no longer exists")
    assert card.status == "Cannot be delivered: the chat or topic no longer exists."
    assert len(card.buttons) == 3


# What is shown


def test_t3_markup_is_shown_as_it_is_and_left_to_the_platform_to_escape() -> None:
    text = "`a_b` [x](y) <b> & <!channel> @everyone *bold* https://evil.example"
    card = a_plain_card({"body": text}, reasoning=text)
    assert values(card)["body"] == text
    assert card.claim == text


def test_w3_what_runs_is_unchanged_and_no_part_of_the_card_shows_the_secret() -> None:
    secret = "sk-0123456789abcdef"
    header = f"Authorization: Bearer {secret}"
    approval = an_approval(
        id=ID,
        arguments={"command": f'curl -H "{header}" x', "headers": {"x-api-key": secret}, "text": "x\n" * 400},
        presentation={"title": header, "lines": [[header, "/command"], ["Literal", header]], "url": f"https://u:{secret}@h"},
        reasoning=header, context=header, operation=header, on_behalf_of=header,
    )  # fmt: skip
    before = approval.final_arguments
    for state in (approval, replace(approval, status=Status.DECLINED, note=header, decided_by="dana", decided_at=NOW)):
        card = card_of(state, Surroundings(PEOPLE, True), NOW, redaction=REDACTION)
        assert card.attachments
        assert secret not in text_of(card) + json.dumps(card_json(card)) + card.attachments[0].text
        assert "[hidden: 19 characters, #" in text_of(card)
    assert approval.final_arguments == before
    assert secret in before


def test_ac12_a_card_without_a_presentation_says_who_wants_what_and_shows_no_secret() -> None:
    hidden = {"Authorization": "Bearer abc123secret", "Cookie": "session=abc123secret", "db_password": "abc123secret"}
    card = a_plain_card({"url": "https://example.com", "headers": hidden, **hidden}, operation="")
    assert card.title == "billing wants to use stripe.refund"
    assert "abc123secret" not in text_of(card) + "".join(file.text for file in card.attachments)
    assert values(card)["Address"] == "https://example.com"


def test_a_title_of_the_agents_never_hides_agent_and_tool() -> None:
    card = a_card(presentation={"title": "ops wants to use calculator"})
    assert card.body == "billing wants to use stripe.refund (create)."
    assert a_plain_card({}, operation="").title == "billing wants to use stripe.refund"


def test_a_value_of_several_lines_cannot_look_like_more_lines_of_the_card() -> None:
    card = a_plain_card({"note": "x\nAmount: 1.00 GBP", "one\nAmount": "1.00 GBP"})
    assert "note:\n    x\n    Amount: 1.00 GBP\n" in text_of(card)
    assert r"one\u000aAmount: 1.00 GBP" in text_of(card)
    said = a_card(reasoning="fine\nAllowed by Dana Reyes")
    assert "  > fine\n  > Allowed by Dana Reyes\n" in text_of(said)


def test_unseen_characters_are_shown_everywhere() -> None:
    card = a_card(
        agent="bil\u200bling", tool="to\u202eol", operation="o\u2066p", reasoning="be\u200bcause",
        arguments={"k\u200bey": "va\u202elue", "deep": {"x": "\ufeff"}},
        presentation={"title": "ti\u00adtle", "lines": [["la\u200bbel", "lit\u2060eral"]]},
    )  # fmt: skip
    text = text_of(card)
    assert not re.search("[\u200b\u202e\u2066\ufeff\u00ad\u2060]", text)
    for escape in ("bil\\u200bling", "to\\u202eol", "o\\u2066p", "be\\u200bcause", "k\\u200bey", "va\\u202elue",
                   "\\ufeff", "ti\\u00adtle", "la\\u200bbel", "lit\\u2060eral"):  # fmt: skip
        assert escape in text


@pytest.mark.parametrize(
    ("arguments", "presentation", "addresses"),
    [
        ({"url": "https://a.example"}, {}, [("https://a.example", False)]),
        ({"request": {"URI": "https://a.example"}}, {}, [("https://a.example", False)]),
        ({"url": "https://a.example"}, {"lines": [["Page", "/url"]]}, []),
        ({"x": 1}, {"url": "https://claimed.example"}, [("https://claimed.example", True)]),
        ({"page": "https://a.example"}, {"url": "/page"}, [("https://a.example", False)]),
        ({"url": "https://a.example"}, {"url": "https://claimed.example"},
         [("https://a.example", False), ("https://claimed.example", True)]),
    ],
)  # fmt: skip
def test_the_address_of_a_call_is_shown_once(
    arguments: dict[str, Any], presentation: dict[str, Any], addresses: list[tuple[str, bool]]
) -> None:
    card = a_plain_card(arguments, presentation=presentation)
    assert [(line.value, line.claim) for line in card.lines if line.label == "Address"] == addresses


def test_the_recipient_and_on_whose_behalf_are_shown() -> None:
    card = a_card(arguments={"to": ["ann@x.example", "bob@x.example"], "text": "hi"},
                  presentation={"recipient": "/to"}, on_behalf_of="dana")  # fmt: skip
    assert values(card)["Recipient"] == '["ann@x.example", "bob@x.example"]'
    assert "to" not in values(card)
    assert values(card)["On behalf of"] == "Dana Reyes"


def test_an_activity_that_the_directory_does_not_list_is_named() -> None:
    assert "Runs" not in values(a_card())
    assert values(a_card(unlisted_run=True))["Runs"] == (
        "activity refund on task queue billing, which the directory does not list for this agent"
    )
    hostile = a_card(unlisted_run=True, run={**RUN, "activity": "wipe\u202e" + "x" * 190})
    assert values(hostile)["Runs"].startswith("activity wipe\\u202exxx")


def test_lines_come_from_the_final_arguments() -> None:
    card = a_card(final_arguments={**REFUND, "amount": 100}, content_revision=2)
    assert values(card)["Amount"] == "1.00 GBP"
    assert card.content_revision == 2


def test_an_argument_that_no_line_shows_is_listed_also_when_only_part_of_it_is_shown() -> None:
    card = a_card(arguments={"who": {"name": "Ann", "iban": "GB00"}, "all": {"a": 1}}, presentation={
        "lines": [["Name", "/who/name"], ["All", "/all/a"]]})  # fmt: skip
    assert values(card) == {"Name": "Ann", "All": "1", "who": '{"name": "Ann", "iban": "GB00"}'}


def test_a_currency_is_still_listed_when_its_amount_is_no_amount() -> None:
    lines = {"lines": [["Amount", "/amount", "money:/currency"]]}
    assert values(a_card(arguments={"amount": 1.5, "currency": "GBP"}, presentation=lines)) == {
        "Amount": "1.5",
        "currency": "GBP",
    }


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (4900, "GBP", "49.00 GBP"), (4900, "gbp", "49.00 GBP"), (4900, "JPY", "4,900 JPY"), (4900, "KWD", "4.900 KWD"),
        (4900, "HUF", "49.00 HUF"), (4900, "IQD", "4.900 IQD"), (4900, "CLF", "0.4900 CLF"), (-5, "USD", "-0.05 USD"),
        (2**53 - 1, "EUR", "90,071,992,547,409.91 EUR"), ("49", "EUR", "49.00 EUR"), ("1234.5", "EUR", "1,234.50 EUR"),
        ("49.005", "EUR", None), ("49.0", "JPY", None), ("1e3", "EUR", None), ("NaN", "EUR", None), (49.5, "EUR", None),
        (True, "EUR", None), (None, "EUR", None), (1, "ZZZ", None), (1, "XAU", None), (1, 5, None), ("٤٩", "EUR", None),
    ],
)  # fmt: skip
def test_money(amount: Any, currency: Any, shown: str | None) -> None:
    assert money_text(amount, currency) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-03-09", "Mar 9, 2026"), ("2026-03-09T12:00:00Z", "Mar 9, 2026, 12:00:00 (UTC)"),
        ("2026-03-09T12:00+01:00", "Mar 9, 2026, 12:00:00 (UTC+01:00)"), ("2026-02-30", None), (1_700_000_000, None),
        ("2026-03-09T12:00:00", None), ("2026-03-09T12:00:00.5Z", None), ("tomorrow", None),
    ],
)  # fmt: skip
def test_dates(value: Any, shown: str | None) -> None:
    assert date_text(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1, "1 byte"), (999, "999 bytes"), (1_500_000, "1.5 MB (1,500,000 bytes)"), (-1, None), ("5", None), (True, None)],
)
def test_sizes(value: Any, shown: str | None) -> None:
    assert bytes_text(value) == shown


def test_a_value_that_is_not_what_its_format_says_is_shown_raw() -> None:
    lines = {"lines": [["When", "/at", "date"], ["Size", "/size", "bytes"], ["Code", "/code", "code"]]}
    card = a_card(arguments={"at": 1_700_000_000, "size": "big", "code": "x = 1"}, presentation=lines)
    assert values(card) == {"When": "1700000000", "Size": "big", "Code": "x = 1"}
    assert [line.code for line in card.lines] == [False, False, True]


# What does not fit


def test_cut_text_says_how_much_and_the_whole_is_in_the_file() -> None:
    text = "".join(chr(97 + number % 26) for number in range(1000))
    card = a_plain_card({"body": text})
    value = values(card)["body"]
    found = re.fullmatch(r"([a-z]+)… \((\d+) more characters\)", value)
    assert found is not None
    assert text.startswith(found[1])
    assert len(found[1]) + int(found[2]) == len(text)
    assert len(value) <= LINE_LIMIT
    assert [file.name for file in card.attachments] == ["approval-456789ab.txt"]
    assert text in card.attachments[0].text
    assert card.body == "Not everything fits here. The whole text is in approval-456789ab.txt."


def test_arguments_beyond_six_lines_are_counted_and_attached() -> None:
    card = a_plain_card({f"key{number}": f"value{number}" for number in range(9)})
    assert list(values(card)) == [f"key{number}" for number in range(6)]
    assert "Arguments not shown here: 3." in card.body
    assert all(f'"key{number}": "value{number}"' in card.attachments[0].text for number in range(9))


def test_lines_beyond_six_and_long_literals_are_attached_whole() -> None:
    lines = [[f"Line {number}", f"literal {number} " + "x" * 400] for number in range(8)]
    card = a_card(arguments={}, presentation={"lines": lines})
    assert len(card.lines) == 6
    assert "Lines not shown here: 2." in card.body
    assert all(f"{label} (agent's words): {text}" in card.attachments[0].text for label, text in lines)


def lines_of_the_file(card: Card) -> str:
    return card.attachments[0].text.split("\nThe lines of the card:\n")[1].split("\n\nAll arguments, as JSON:\n")[0]


def test_the_file_has_every_line_of_the_card_whole() -> None:
    arguments = {"long": "y" * 5_000, "tall": "row\n" * 40 + "end", "list": list(range(1_000))}
    card = a_card(arguments=arguments, presentation={"lines": [[key, f"/{key}"] for key in arguments]})
    long, tall, numbers = "y" * 5_000, "row\n  | " * 40 + "end", json.dumps(arguments["list"], separators=(",", ":"))
    assert lines_of_the_file(card).replace(", ", ",") == f"  long: {long}\n  tall: {tall}\n  list: {numbers}"


def test_a_file_whose_lines_say_the_same_over_and_over_has_it_whole_once_at_least() -> None:
    arguments = {"text": "y" * 200_000}
    card = a_card(arguments=arguments, presentation={"lines": [[f"Line {n}", "/text"] for n in range(50)]})
    rows = lines_of_the_file(card).splitlines()
    assert rows[0] == "  Line 0: " + "y" * 200_000
    assert re.fullmatch(r"  Line 49: y+… \([0-9,]+ more characters\)", rows[49])
    assert len(card.attachments[0].text) < 1_000_000


def test_the_file_holds_everything_under_heads_that_no_text_can_imitate() -> None:
    script = "set -e\n\nAll arguments, as JSON:\nrm -rf /srv/\u202eold"
    card = a_card(arguments={"script": script, "n": 1}, reasoning="why\nDone", context="more", unlisted_run=True)
    text = card.attachments[0].text
    approval = an_approval(id=ID, arguments={"script": script, "n": 1})
    assert text.startswith(f"Placet approval {ID}\n\nAgent: billing\nTool: stripe.refund\nOperation: create\n")
    assert "Runs: activity refund on task queue billing (not in the directory for this agent)\n" in text
    assert f"Content digest: {approval.digest}\n" in text
    assert short_digest(approval.digest) == card.digest
    assert "Argument /script, line by line:\n  | set -e\n  | \n  | All arguments, as JSON:\n  | rm -rf" in text
    assert "Why, in the agent's own words:\n  | why\n  | Done\n" in text
    assert "Context, in the agent's own words:\n  | more\n" in text
    assert text.count("\nAll arguments, as JSON:\n") == 1
    document, _ = json.JSONDecoder().raw_decode(text.split("\nAll arguments, as JSON:\n")[1])
    assert document == {"script": script, "n": 1}
    assert "\u202e" not in text


def test_the_file_is_the_same_before_and_after_the_answer() -> None:
    before, after = a_card(context="more"), settled(Status.APPROVED, context="more", outcome=Outcome.SENT)
    assert before.attachments == after.attachments != ()


def test_a_tall_value_does_not_push_the_buttons_away() -> None:
    card = a_plain_card({"text": "\n" * 250 + "rm"})
    assert values(card)["text"].count("\n") <= 12
    assert card.attachments


def test_the_card_reads_the_same_whenever_it_is_drawn() -> None:
    assert text_of(a_card(now=NOW)) == text_of(a_card(now=NOW + timedelta(days=6)))


KEYS = st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=1500) | st.builds(lambda text: text * 400, st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
HOSTILE = st.builds(
    lambda text, times: text * times, st.text("\u202e\U0001f469\u200d\U000e0041\\u\n\ta<[&👍é" + "\u0301", max_size=6),
    st.integers(1, 120),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    arguments=st.dictionaries(KEYS | HOSTILE, JSON | HOSTILE, max_size=9),
    words=st.tuples(*[HOSTILE] * 6),
    lines=st.lists(st.tuples(HOSTILE, HOSTILE), max_size=9),
)
def test_whatever_is_asked_the_card_is_bounded_and_hides_nothing_of_it(
    arguments: dict[str, Any], words: tuple[str, ...], lines: list[tuple[str, str]]
) -> None:
    title, reasoning, context, agent, note, behalf = words
    approval = an_approval(
        arguments=arguments, reasoning=reasoning, context=context, agent=agent or "a", tool=agent or "t", note=note,
        on_behalf_of=behalf, presentation={"title": title, "lines": [list(line) for line in lines], "url": title,
                                           "recipient": behalf},
    )  # fmt: skip
    for state in (
        approval,
        replace(approval, status=Status.DECLINED, decided_by=agent, decided_at=NOW, by_message=True),
    ):
        card = card_of(state, Surroundings(PEOPLE, True), NOW, redaction=REDACTION)
        assert units(card.title) + units(card.body) + units(card.claim) <= CARD_LIMIT
        assert sum(units(line.label) + units(line.value) for line in card.lines) <= CARD_LIMIT
        assert units(text_of(card)) <= 4096
        assert len(card.lines) <= MAX_LINES + 6
        assert all(units(line.value) <= LINE_LIMIT for line in card.lines)
        json.dumps(card_json(card))
        if card.attachments:
            text = card.attachments[0].text.split("\nAll arguments, as JSON:\n")[1]
            assert json.JSONDecoder().raw_decode(text)[0] == REDACTION.value(arguments)
        else:
            labels = {line.label for line in card.lines}
            assert {visible(REDACTION.text(key), lines=False) for key in arguments} <= labels


def test_an_ask_of_256_kb_makes_a_card_of_usual_size() -> None:
    card = a_plain_card({"blob": "é\u202e" * 60_000, "list": list(range(20_000))})
    assert units(text_of(card)) < 1500
    found = re.fullmatch(r"((?:é\\u202e)+é?)… \(([0-9,]+) more characters\)", values(card)["blob"])
    assert found is not None
    assert len(found[1].replace(r"\u202e", "x")) + int(found[2].replace(",", "")) == 120_000


def test_the_card_for_http() -> None:
    document = card_json(a_card())
    assert document == {
        "title": "Refund a duplicate charge",
        "pill": "Money or deletes",
        "body": "billing wants to use stripe.refund (create).",
        "lines": [["Amount", "49.00 GBP"], ["Charge", "ch_1"], ["Customer", "Ada Lovelace"], ["reason", "duplicate"]],
        "claimed": [2],
        "claim": "The customer was charged twice.",
        "status": "",
        "tone": "quiet",
        "expiry": "Expires Mar 16, 2026, 12:00 UTC",
        "digest": document["digest"],
        "attachments": [],
        "content_revision": 1,
    }


# Hostile calls


def test_a_deep_place_is_not_spelt_out_for_each_of_its_many_members() -> None:
    """Keys of 2,600 characters, 45 deep: their pointers would be a hundred times the call, for each of its members."""
    texts = {f"{number:x}": "two\nlines" for number in range(1_000)}
    nested: Any = texts | {"url": "https://pay.example/", "more": [[number] for number in range(1_000)]}
    for _ in range(45):
        nested = {"~" * 2_600: nested}
    tracemalloc.start()
    card = a_plain_card(nested)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000
    assert values(card)["Address"] == "https://pay.example/"
    assert len(card.attachments[0].text) < 10_000_000


def test_an_address_that_stands_only_on_a_line_that_is_not_shown_is_shown() -> None:
    arguments = {"url": "https://evil.example/", "body": "hello"}
    lines = [["Text", "/body"]] * MAX_LINES + [["Where", "/url"]]
    card = a_plain_card(arguments, presentation={"lines": lines})
    assert values(card)["Address"] == "https://evil.example/"


def test_an_address_is_shown_as_a_fact_though_the_agent_says_it_too() -> None:
    card = a_plain_card(
        {"url": "https://evil.example/"}, presentation={"lines": [["Website", "https://evil.example/"]]}
    )
    (fact,) = (line for line in card.lines if line.label == "Address")
    assert (fact.value, fact.claim) == ("https://evil.example/", False)


def test_the_name_of_the_activity_that_runs_cannot_be_hidden_as_a_secret() -> None:
    run = {**RUN, "activity": "refund token=transfer_all", "task_queue": "q password=other_queue"}
    card = a_card(run=run, unlisted_run=True)
    assert "refund token=transfer_all" in values(card)["Runs"]
    assert "q password=other_queue" in values(card)["Runs"]


@pytest.mark.parametrize("currency", ["u\u017fd", "\u00dfp", "\uff35\uff33\uff24", " usd", "USD\n"])
def test_a_currency_of_other_letters_is_no_currency(currency: str) -> None:
    assert money_text(4900, currency) is None
    card = a_plain_card(
        {"amount": 4900, "currency": currency}, presentation={"lines": [["Amount", "/amount", "money:/currency"]]}
    )
    assert values(card)["Amount"] == "4900"
    assert "currency" in values(card)


@pytest.mark.parametrize("value", [True, False, None, "true", "false", "null", '"true"', "", '""', " ", '" "', '"'])
def test_a_text_is_not_shown_as_the_flag_or_the_nothing_that_it_spells(value: Any) -> None:
    others = [True, False, None, "true", "false", "null", '"true"', "", '""', " ", '" "', '"']
    shown = values(a_plain_card({"dry_run": value}))["dry_run"]
    same = [other for other in others if values(a_plain_card({"dry_run": other}))["dry_run"] == shown]
    assert [json.dumps(other) for other in same] == [json.dumps(value)]

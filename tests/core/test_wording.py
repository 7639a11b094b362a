"""What people and models are told: every sentence in full, every reply short enough for an alert."""

from __future__ import annotations

import ast
import string
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.approvals import Effect, Outcome, Runtime, Status
from core.wording import bounded, is_affirmative, moment_text, say, sentence_for, when_text, words_of
from tests.builders import NOW, REFUND, an_approval

ROOT = Path(__file__).resolve().parents[2]
PEOPLE = {"dana": "Dana Reyes"}


def decided(status: Status, **changes: Any) -> str | None:
    fields = {"status": status, "decided_by": "dana", "decided_via": "telegram", "decided_at": NOW, **changes}
    return sentence_for(an_approval(**fields), PEOPLE)


# The sentences for the model (design section 6)


def test_a_draft_that_waits_says_so_and_a_waiting_turn_or_asker_is_told_nothing() -> None:
    assert sentence_for(an_approval(runtime=Runtime.DRAFT)) == "Waiting for a person. Nothing has run yet."
    assert sentence_for(an_approval(runtime=Runtime.TURN)) is None
    assert sentence_for(an_approval(runtime=Runtime.EXTERNAL)) is None


def test_s9_the_model_can_tell_expiry_refusal_and_withdrawal_apart() -> None:
    assert decided(Status.DECLINED) == (
        "Declined by Dana Reyes. Nothing was run. Do not look for another way to the same result."
    )
    assert decided(Status.DECLINED, note="Use the test account.") == (
        "Declined by Dana Reyes. Nothing was run. Note: Use the test account."
    )
    assert decided(Status.DECLINED, note="Ask me tomorrow", by_message=True) == (
        "Dana Reyes answered with a message instead of deciding. Nothing was run. Message: Ask me tomorrow"
    )
    assert decided(Status.EXPIRED, decided_by=None) == "Nobody decided in time. Nothing was run."
    assert decided(Status.CANCELLED, decided_by=None) == "The request was withdrawn. Nothing was run."


@pytest.mark.parametrize(
    ("outcome", "note", "sentence"),
    [
        (Outcome.SENT, None, "Approved by Dana Reyes and done."),
        (Outcome.NOT_SENT, "ActivityNotRegistered: refund.",
         "Approved by Dana Reyes, but it could not be started: ActivityNotRegistered: refund. Nothing was run."),
        (Outcome.UNKNOWN, "ValueError: card declined",
         "Approved and started, but it failed: ValueError: card declined. It may have partly happened. "
         "Do not repeat it unasked."),
        (Outcome.UNKNOWN, None,
         "Approved and started, but it broke off. It may or may not have happened. Do not repeat it unasked."),
        (Outcome.UNKNOWN, say("outcome_overdue"),
         "Approved and started, but it broke off. It may or may not have happened. Do not repeat it unasked."),
        (Outcome.SENDING, None, "Approved by Dana Reyes and started. How it ended is not known yet."),
        (Outcome.NONE, None, "Approved by Dana Reyes. It has not run yet."),
    ],
)  # fmt: skip
def test_what_became_of_an_approved_call(outcome: Outcome, note: str | None, sentence: str) -> None:
    assert decided(Status.APPROVED, outcome=outcome, outcome_note=note) == sentence


def test_an_ask_without_a_run_is_only_approved() -> None:
    assert decided(Status.APPROVED, run=None) == "Approved by Dana Reyes."


def test_an_edit_is_told_and_a_different_spelling_of_the_same_arguments_is_none() -> None:
    edited = {**REFUND, "amount": 100}
    assert decided(Status.APPROVED, outcome=Outcome.SENT, final_arguments=edited) == (
        "Approved by Dana Reyes and done, after an edit."
    )
    respelt = decided(Status.APPROVED, outcome=Outcome.SENT, arguments='{"a": true}', final_arguments='{ "a":true }')
    assert respelt == "Approved by Dana Reyes and done."
    flag = decided(Status.APPROVED, outcome=Outcome.SENT, arguments='{"a": true}', final_arguments='{"a": 1}')
    assert flag == "Approved by Dana Reyes and done, after an edit."


def test_a_call_that_ran_unasked_names_why() -> None:
    sentence = decided(Status.APPROVED, outcome=Outcome.SENT, decided_by="auto", note="the rule for example.com")
    assert sentence == "Done without asking: the rule for example.com."


def test_every_final_row_has_a_sentence() -> None:
    for status in set(Status) - {Status.PENDING}:
        for outcome in Outcome:
            for runtime in Runtime:
                assert decided(status, outcome=outcome, runtime=runtime)


def test_notes_and_errors_in_a_sentence_are_visible_and_bounded() -> None:
    sentence = decided(Status.DECLINED, note="a\u202eb\n" + "x" * 5000)
    assert sentence is not None
    assert "a\\u202eb\nxxx" in sentence
    assert len(sentence) < 2200
    failed = decided(Status.APPROVED, outcome=Outcome.UNKNOWN, outcome_note="E: \x1b\n" + "x" * 5000)
    assert failed is not None
    assert "E: \\u001b\\u000ax" in failed
    assert len(failed) < 700


# The catalogue


def said_in(path: Path) -> list[tuple[str, set[str]]]:
    """The keys and value names of every call of say and fill whose key is written out."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "fill")):
            continue
        given = {keyword.arg or "**" for keyword in node.keywords} - {"locale"}
        key = node.args[0]
        for option in (key.body, key.orelse) if isinstance(key, ast.IfExp) else (key,):
            if isinstance(option, ast.Constant) and isinstance(option.value, str):
                found.append((option.value, given))
    return found


@pytest.mark.parametrize("room", ["core", "bots", "adapters", "workflows"])
def test_every_word_that_is_said_is_in_the_catalogue_with_its_values(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        for key, values in said_in(path):
            words = words_of(key, number=2)
            wanted = {name for _, name, _, _ in string.Formatter().parse(words) if name}
            assert values == wanted or "**" in values, f"{path}: {key} wants {wanted}"


def test_every_effect_status_and_known_place_has_its_words() -> None:
    assert all(words_of(f"pill_{effect.value}") for effect in Effect)
    assert say("already_decided", who="Dana", what=say("status_approved"), when="12:05 UTC", where="cli") == (
        "Already decided: allowed by Dana, 12:05 UTC, through the command line."
    )


def test_what_others_wrote_is_made_visible_and_cut_in_every_word() -> None:
    assert say("linked", name="D\u202ea\nna") == r"Linked. You are D\u202ea\u000ana; what waits for you comes here."
    assert len(say("linked", name="x" * 10_000)) < 200
    assert say("linked", name="{0.__class__}") == "Linked. You are {0.__class__}; what waits for you comes here."


@given(st.text(), st.integers(2, 50))
def test_a_bounded_text_is_never_longer(text: str, limit: int) -> None:
    shown = bounded(text, limit)
    assert len(shown.encode("utf-16-le")) // 2 <= limit


def test_times_are_in_utc_with_the_date_where_it_is_not_today() -> None:
    assert moment_text(NOW, NOW) == "12:00 UTC"
    assert moment_text(NOW, NOW + timedelta(days=1)) == "Mar 9, 2026, 12:00 UTC"
    assert moment_text(NOW) == "Mar 9, 2026, 12:00 UTC"
    assert when_text(NOW, NOW + timedelta(minutes=2)) == "12:00 UTC (2 minutes ago)"
    assert when_text(NOW + timedelta(hours=23), NOW) == "Mar 10, 2026, 11:00 UTC (in 23 hours)"


# Affirmatives

YES = [
    "yes", "Yes.", " YES!! ", "ok", "OK", "okay", "allow", "Approve", "go ahead", "Go ahead!", "LGTM", "lgtm :)",
    "👍", "👍🏿", "👍🏽👍", "✅", "✔️", "yes please", "ok, go ahead", "looks good to me", "do it", "ja", "Ja bitte",
    "jawohl", "in Ordnung", "sí", "oui", "да", "はい", "+1", "ｙｅｓ", "yes\u200b", "Sure thanks", "yes\nyes",
]  # fmt: skip
NOT_YES = [
    "", "   ", "...", "no", "nein", "not ok", "don't do it", "yes but use the test account", "ok 100", "👎", "yes 👎",
    "please", "it", "thanks", "allow 50 only", "yes?no", "❤", "okay " * 50 + "no", "approve the other one",
]  # fmt: skip


@pytest.mark.parametrize("text", YES)
def test_a_message_that_only_says_yes(text: str) -> None:
    assert is_affirmative(text)


@pytest.mark.parametrize("text", NOT_YES)
def test_a_message_that_says_more_or_something_else(text: str) -> None:
    assert not is_affirmative(text)

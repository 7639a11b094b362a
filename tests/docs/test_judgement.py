"""What the documents say of effects, modes, states and sentences is what the code does."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from core.approvals import Effect, Mode, Outcome, Runtime, Status
from core.asking import Held, decide_whether_to_ask
from core.effects import Call, effect_of
from core.effects_table import SHIPPED
from core.rules import RuleBook
from core.wording import sentence_for
from tests.builders import an_approval
from tests.core.test_endings import ENDINGS as ALL
from tests.docs.states import diagram, edges
from tests.docs.test_docs import ROOT, blocks, rows

ASKS, ENDINGS = ROOT / "docs/what-asks.md", ROOT / "docs/endings.md"


async def test_the_states_are_drawn_as_the_code_takes_them() -> None:
    (drawn,) = blocks(ENDINGS, "mermaid")
    assert drawn.text.strip() == diagram(await edges())


@pytest.mark.parametrize("row", rows(ASKS, "Effects"), ids=lambda row: " ".join(row[:3]))
def test_the_effects_of_common_calls(row: list[str]) -> None:
    tool, operation, arguments, effect = (cell.strip("`") for cell in row)
    assert effect_of(Call(tool, operation, json.loads(arguments)), SHIPPED) == effect


def test_the_table_of_effects_and_modes() -> None:
    head = re.search(r"^\| Effect \|.*$", ASKS.read_text(), re.MULTILINE)
    assert head is not None
    modes = [Mode(name) for name in re.findall(r"`(\w+)`", head[0])]
    assert modes == list(Mode)
    table = rows(ASKS, "The order")
    assert [row[0] for row in table] == [f"`{effect}`" for effect in Effect]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for effect, *cells in table:
        for mode, cell in zip(modes, cells, strict=True):
            found = decide_whether_to_ask(Call("x"), Effect(effect.strip("`")), mode, RuleBook((), SHIPPED), now)
            assert ("held" if isinstance(found, Held) else "runs") == cell, (effect, mode)


def test_what_people_read_of_each_ending() -> None:
    told = [[cell.strip("`") for cell in row] for row in rows(ENDINGS, "What people read")]
    assert {(status, outcome) for status, outcome, *_ in told} == {(each.status, each.outcome) for each in ALL}
    for status, outcome, of_turn, of_draft, audit, log in told:
        for runtime, words in ((Runtime.TURN, of_turn), (Runtime.DRAFT, of_draft)):
            pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(words))
            assert [
                each
                for each in ALL
                if (each.runtime, each.status, each.outcome) == (runtime, status, outcome)
                and re.fullmatch(pattern, each.card)
                and (each.audit or "opened").split()[-1] == audit
                and (each.log or "opened").split()[-1] == log
            ], (status, outcome, words)


@pytest.mark.parametrize(
    ("when", "columns"),
    [
        ("draft, waiting", {"runtime": Runtime.DRAFT}),
        ("declined, no note", {"status": Status.DECLINED, "decided_by": "{who}"}),
        ("declined, with a note", {"status": Status.DECLINED, "decided_by": "{who}", "note": "{note}"}),
        (
            "declined by a message",
            {"status": Status.DECLINED, "decided_by": "{who}", "note": "{note}", "by_message": True},
        ),
        ("expired", {"status": Status.EXPIRED}),
        ("cancelled", {"status": Status.CANCELLED}),
        ("allowed, ran", {"status": Status.APPROVED, "decided_by": "{who}", "outcome": Outcome.SENT}),
        ("ran unasked", {"status": Status.APPROVED, "decided_by": "auto", "note": "{note}", "outcome": Outcome.SENT}),
        (
            "may run unasked, agent paused",
            {"status": Status.APPROVED, "decided_by": "auto", "note": "{note}", "run": "{}"},
        ),
        (
            "not sent",
            {"status": Status.APPROVED, "decided_by": "{who}", "outcome": Outcome.NOT_SENT, "outcome_note": "{error}"},
        ),
        (
            "failed",
            {"status": Status.APPROVED, "decided_by": "{who}", "outcome": Outcome.UNKNOWN, "outcome_note": "{error}"},
        ),
        ("broke off", {"status": Status.APPROVED, "decided_by": "{who}", "outcome": Outcome.UNKNOWN}),
    ],
)
def test_the_sentences_for_the_model(when: str, columns: dict[str, object]) -> None:
    written = {row[0]: row[1].strip("`") for row in rows(ENDINGS, "What the agent reads")}
    assert sentence_for(an_approval(**columns)) == written[when]

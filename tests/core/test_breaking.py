"""Attempts to get more done at the door than people allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.approvals import Approval, Effect, Outcome, Verdict
from core.buttons import Verb
from core.cards import card_of
from core.ports import Unavailable
from core.redaction import Redaction
from core.rules import Scope, ScopeKind
from tests.adapters.api import DIRECTORY, Api, an_api
from tests.core.door import DIRECTORY as NOTES
from tests.core.door import RUN, Door, door
from tests.core.office import office
from tests.faulty import Faulty

DRAFT: dict[str, Any] = {"runtime": "draft", "run": RUN}
TOOL = Scope(ScopeKind.TOOL, "notes.share", "")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Door]:
    async with door(f"sqlite:///{tmp_path / 'placet.db'}") as opened:
        yield opened


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path) as opened:
        yield opened


async def sent(here: Door, draft: Approval, outcome: Outcome) -> None:
    """The workflow sends a draft that was allowed, and that is what comes of it."""
    here.clock.time += timedelta(seconds=10)
    taken = await here.approvals.take(draft.id, f"run {next(here.numbers)}")
    assert taken is not None
    assert taken.claim is not None
    await here.approvals.record(draft.id, taken.claim.token, outcome)


async def test_a_word_to_send_again_is_good_for_one_sending(here: Door) -> None:
    draft, card = await here.asked(**DRAFT)
    await here.press(card, Verb.ALLOW)
    await sent(here, draft, Outcome.UNKNOWN)
    (sure,) = (await here.press(card, Verb.AGAIN)).menu
    assert (await here.press(card, Verb.AGAIN_SURE, revision=sure.number)).result == "sent_again"
    await sent(here, draft, Outcome.UNKNOWN)
    # The second of two taps, or another person who was asked before the first one sent it.
    asks = await here.press(card, Verb.AGAIN_SURE, by="ola", revision=sure.number)
    assert asks.result == "again_may_repeat"
    assert (await here.row(draft)).outcome is Outcome.UNKNOWN
    (sure,) = asks.menu
    assert (await here.press(card, Verb.AGAIN_SURE, by="ola", revision=sure.number)).result == "sent_again"


async def test_a_rule_whose_commit_failed_lets_nothing_run(here: Door) -> None:
    waiting, _ = await here.asked()
    line = Faulty(here.store)
    there = here.through(line)
    line.faults.append("before")
    with pytest.raises(Unavailable):
        await there.agents.add_rule("billing", TOOL)
    assert await there.agents.rules("billing") == []
    assert (await there.ask()).pending
    assert (await there.row(waiting)).pending


async def test_a_second_press_after_an_allow_with_a_note_is_told_the_allow(here: Door) -> None:
    _, card = await here.asked()
    first = await here.press(card, Verb.ALLOW, by="ola")
    other, card = await here.asked()
    await here.approvals.decide(
        other.id, "ola", Verdict.ALLOW, content_revision=1, note="for this once", key="k", via="http"
    )
    assert (await here.press(card, Verb.ALLOW, by="ola")).text == first.text


@pytest.mark.parametrize("written", ["[" * 20_000, "9" * 20_000, "NaN", "1e999", "12 13"])
async def test_no_text_in_the_place_of_a_number_breaks_the_door(here: Door, written: str) -> None:
    ask = {"arguments": {"to": "ada@example.com", "copies": 5}, "presentation": {"editable": ["/copies"]}}
    approval, card = await here.asked(**ask)
    told = await here.press(card, Verb.EDIT, fields={"1": written})
    assert told.result.startswith("edit_")
    assert (await here.row(approval)).content_revision == 1


async def test_w3_no_form_is_headed_by_a_secret(here: Door) -> None:
    secret = "sk-live-1234567890abcdef"
    lines = [[f"token={secret}", "/text"]]
    _, card = await here.asked(presentation={"editable": ["/text"], "lines": lines})
    opened = await here.press(card, Verb.EDIT)
    assert opened.form is not None
    assert opened.form.fields[0].label == "text"
    assert secret not in str(opened)


async def test_w3_no_rule_is_offered_whose_words_hold_a_secret(here: Door) -> None:
    _, card = await here.asked(
        tool="slack.post_message", arguments={"channel": "https://ada:hunter2pass99@x.example/", "text": ""}
    )
    assert [each.verb for each in (await here.press(card, Verb.ALWAYS)).menu] == [Verb.ALWAYS_ARGUMENTS]
    assert (await here.press(card, Verb.ALWAYS_RECIPIENT)).result == "always_not_here"
    _, card = await here.asked(tool="slack.post_message", arguments={"channel": "#ops", "text": ""})
    assert Verb.ALWAYS_RECIPIENT in [each.verb for each in (await here.press(card, Verb.ALWAYS)).menu]


async def test_an_agent_that_nobody_knows_is_not_asked_less_for(here: Door) -> None:
    await here.apply(f"{NOTES}effects: {{tools: {{notes.share: money}}}}\n")
    assert (await here.ask()).effect is Effect.MONEY
    assert (await here.ask(agent="nobody")).effect is Effect.MONEY


async def test_no_card_is_drawn_over_another_by_a_token_sent_from_there(tmp_path: Path) -> None:
    async with office(f"sqlite:///{tmp_path / 'placet.db'}") as here:
        first, _ = await here.card(arguments={"charge": "ch_first"})
        _, second = await here.card(arguments={"charge": "ch_second"})
        (posted,) = await here.store.read(lambda ledger: ledger.posted_for(first.id))
        copy = here.press(second, data=f"{Verb.ALLOW}.{posted.token}.2")
        assert "has changed" in await here.told(copy)
        await here.desk.close()
        assert "ch_second" in here.seen().message(second.id).text


async def status_of(here: Door, approval: Approval) -> str:
    """What the card says of the answer."""
    row = await here.row(approval)
    around = await here.store.read(lambda ledger: here.approvals.surroundings(ledger, row))
    return card_of(row, around, here.clock.now(), redaction=Redaction(bytes(32))).status


async def test_w5_who_declined_stands_on_the_card_and_not_who_had_allowed(here: Door) -> None:
    await here.apply(NOTES.replace("ask: [dana, ola]", "ask: [dana, ola, eve], needed: 3"))
    approval, card = await here.asked()
    for by in ("dana", "ola"):
        await here.press(card, Verb.ALLOW, by=by)
    await here.press(card, Verb.DECLINE, by="eve")
    assert (await status_of(here, approval)).startswith("Declined by Eve Moss through")


async def test_w5_who_allowed_stands_on_the_card_also_when_they_may_not_any_more(here: Door) -> None:
    await here.apply(NOTES.replace("ask: [dana, ola]", "ask: [dana, ola], needed: 2"))
    approval, card = await here.asked()
    for by in ("dana", "ola"):
        await here.press(card, Verb.ALLOW, by=by)
    await here.apply(NOTES.replace("approver: [dana, ola, eve]", "approver: [ola, eve]"))
    assert (await status_of(here, approval)).startswith("Allowed by Dana Reyes, Ola Berg through")


GONE = DIRECTORY.replace("  billing:", "  invoicing:").replace("{agent: billing}", "{agent: invoicing}")


async def test_what_a_pause_held_does_not_run_when_the_agent_leaves_the_directory(api: Api) -> None:
    call = await api.turn(run={"activity": "refund", "task_queue": "billing"})
    draft = await api.turn(runtime="draft", run={"activity": "refund", "task_queue": "billing"})
    waiting = await api.turn(run={"activity": "refund", "task_queue": "billing"})
    await api.call("admin", "POST", "/v1/agents/billing/pause")
    for row in (call, draft):
        decided = await api.decide("dana", {"id": row.id, "content_revision": 1})
        assert decided.status_code == 200
    await api.apply(GONE)
    await api.apply(DIRECTORY)
    api.clock.ahead += timedelta(seconds=10)
    for row in (call, draft):
        taken = await api.approvals.take(row.id, "run")
        assert taken is not None
        assert taken.claim is None
        assert taken.approval.outcome is Outcome.NOT_SENT
        seen = (await api.call("dana", "GET", f"/v1/approvals/{row.id}")).json()
        assert "left the directory" in seen["card"]["status"]
    assert (await api.decide("dana", {"id": waiting.id, "content_revision": 1})).json()["status"] == "approved"


async def test_what_a_reset_ended_is_not_revived_by_an_agent_that_comes_back(api: Api) -> None:
    draft = await api.turn(runtime="draft", run={"activity": "refund", "task_queue": "billing"})
    await api.call("admin", "POST", "/v1/agents/billing/reset")
    kept = await api.turn(runtime="draft", run={"activity": "refund", "task_queue": "billing"})
    await api.apply(GONE)
    await api.apply(DIRECTORY)
    assert (await api.decide("dana", {"id": draft.id, "content_revision": 1})).status_code == 409
    # The next reset is one for what waited from before as well.
    await api.call("admin", "POST", "/v1/agents/billing/reset")
    refused = await api.decide("dana", {"id": kept.id, "content_revision": 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "generation_over")

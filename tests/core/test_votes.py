"""Several who must allow, the one whose own request it is, and more people when nobody decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from core.approvals import Approval, Status, Verdict
from core.people import Refusal
from tests.core.office import DANA, DIRECTORY, EVE, GROUP, OLA, PAT, Office, office

PEOPLE = DIRECTORY.partition("routes:")[0]
QUORUM = PEOPLE + f'routes: [{{match: {{}}, ask: [role:approver], at: ["telegram:{GROUP}"], needed: %s}}]\n'
FOUR_EYES = PEOPLE + f'routes: [{{match: {{}}, ask: [dana, ola], at: ["telegram:{GROUP}"], four_eyes: true}}]\n'
ESCALATED = PEOPLE + (
    f'routes: [{{match: {{}}, ask: [dana], at: ["telegram:{GROUP}"], escalate: {{after: 8h, ask: [ola], at: [dm]}}}}]\n'
)


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Office]:
    async with office(sqlite_url) as opened:
        yield opened


async def decided(
    here: Office, approval: Approval, person: str, verdict: Verdict = Verdict.ALLOW
) -> Approval | Refusal:
    row = await here.row(approval)
    return await here.approvals.decide(approval.id, person, verdict, content_revision=row.content_revision, note=None,
                                       key=f"{person}-{verdict}", via="http")  # fmt: skip


async def test_two_must_allow_and_the_card_says_who_has(here: Office) -> None:
    await here.apply(QUORUM % 2)
    approval, card = await here.card()
    assert await here.told(here.press(card, "Allow")) == "Your Allow counts: 1 of 2 have allowed it."
    assert (await here.row(approval)).pending
    shown = await here.until(lambda: m if "1 of 2" in (m := here.seen().message(card.id)).text else None)
    assert "Dana Reyes" in shown.text
    assert "Allow" in shown.labels
    assert await here.told(here.press(shown, "Allow")) == "Your Allow counts already: 1 of 2 have allowed it."
    assert (await here.told(here.press(shown, "Allow", by=OLA))).startswith("Allowed.")
    settled = await here.settled(card, "Allowed by Dana Reyes, Ola Berg")
    assert "Telegram" in settled.text
    assert [line.action for line in await here.audit(approval)] == ["opened", "allow", "allow"]


async def test_one_decline_declines_and_an_allow_may_become_one(here: Office) -> None:
    await here.apply(QUORUM % 2)
    approval, card = await here.card()
    await here.told(here.press(card, "Allow"))
    shown = await here.until(lambda: m if "1 of 2" in (m := here.seen().message(card.id)).text else None)
    assert (await here.told(here.press(shown, "Decline"))).startswith("Declined.")
    row = await here.row(approval)
    assert (row.status, row.decided_by) == (Status.DECLINED, "dana")


async def test_r8_three_vote_at_once_and_a_new_route_changes_nothing(here: Office) -> None:
    await here.apply(QUORUM % 3)
    approval = await here.ask()
    await here.apply(QUORUM % 1)
    done = await asyncio.gather(*(decided(here, approval, person) for person in ("dana", "ola", "eve")))
    assert all(isinstance(each, Approval) for each in done)
    row = await here.row(approval)
    assert (row.status, row.needed) == (Status.APPROVED, 3)
    votes = await here.store.read(lambda ledger: ledger.votes_of(approval.id))
    assert {vote.person for vote in votes} == {"dana", "ola", "eve"}


async def test_a_vote_counts_only_while_its_giver_may_answer(here: Office) -> None:
    await here.apply(QUORUM % 2)
    approval = await here.ask()
    await decided(here, approval, "dana")
    await here.apply((QUORUM % 2).replace("approver: [dana, ola, eve, kim]", "approver: [ola, eve, kim]"))
    counted = await decided(here, approval, "ola")
    assert isinstance(counted, Approval)
    assert counted.pending
    assert (await here.row(approval)).pending
    await decided(here, approval, "eve")
    assert (await here.row(approval)).status is Status.APPROVED


async def test_w6_nobody_answers_their_own_request(here: Office) -> None:
    await here.apply(FOUR_EYES)
    approval, card = await here.card(on_behalf_of="telegram:1001")
    assert "your own request" in await here.told(here.press(card, "Allow"))
    assert "your own request" in await here.told(here.press(card, "Decline"))
    assert "your own request" in (await here.answered(here.say("no, rather not", to=card))).text
    refused = await decided(here, approval, "dana")
    assert isinstance(refused, Refusal)
    assert refused.code == "own_request"
    assert (await here.row(approval)).pending
    assert (await here.told(here.press(card, "Allow", by=OLA))).startswith("Allowed.")


async def test_whose_request_it_is_must_be_known_first(here: Office) -> None:
    await here.apply(FOUR_EYES)
    approval = await here.ask(on_behalf_of="slack:T01/U77")
    row = await here.row(approval)
    assert row.undeliverable is not None
    assert "on whose behalf" in row.undeliverable
    assert await here.post(approval) == []
    refused = await decided(here, approval, "ola")
    assert isinstance(refused, Refusal)
    assert refused.code == "not_entitled"
    assert "on whose behalf" in refused.text
    await here.apply(FOUR_EYES.replace("kim: {name: Kim Sato}", "kim: {name: Kim Sato, identities: {slack: T01/U77}}"))
    assert await here.post(approval) == ["posted"]
    assert isinstance(await decided(here, approval, "ola"), Approval)


async def test_more_people_are_asked_when_nobody_decides(here: Office) -> None:
    await here.apply(ESCALATED)
    approval, card = await here.card()
    assert "Dana Reyes" in await here.told(here.press(card, "Allow", by=OLA))
    before = await here.approvals.take(approval.id, "run")
    assert before is not None
    assert before.until == approval.created_at + timedelta(hours=8)
    here.clock.ahead += timedelta(hours=8, seconds=1)
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.approval.escalated_at is not None
    assert taken.until == approval.expires_at
    places = await here.approvals.places(approval.id, missing=True)
    assert [(place.destination.chat, place.person) for place in places] == [("1002", "ola")]
    assert (await here.told(here.press(card, "Allow", by=OLA))).startswith("Allowed.")
    assert " ".join(line.action for line in await here.audit(approval)) == "opened escalated allow"


async def test_who_presses_at_the_time_of_escalation_is_asked_already(here: Office) -> None:
    await here.apply(ESCALATED)
    approval = await here.ask()
    here.clock.ahead += timedelta(hours=8, seconds=1)
    assert isinstance(await decided(here, approval, "ola"), Approval)


@pytest.mark.parametrize("by", [EVE, PAT])
async def test_one_who_is_not_asked_moves_nothing(here: Office, by: int) -> None:
    await here.apply(FOUR_EYES)
    approval, card = await here.card(on_behalf_of="kim")
    assert "Dana Reyes, Ola Berg" in await here.told(here.press(card, "Allow", by=by))
    assert (await here.row(approval)).revision == approval.revision
    assert (await here.told(here.press(card, "Allow", by=DANA))).startswith("Allowed.")

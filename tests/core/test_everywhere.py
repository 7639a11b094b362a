"""Each case on each platform where it can occur: the real libraries, and one door and desk behind them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from adapters.sandbox import Sandbox
from adapters.sandbox.discord import token_of
from core.approvals import Approval, Press, Reply, Status, Verdict
from core.people import Refusal
from core.ports import Checking, Slow, Unavailable
from tests.core.office import FORUM, GROUP, TOPIC
from tests.core.office import TOKEN as TELEGRAM_TOKEN
from tests.core.three import (
    AT,
    BOT,
    CHANNEL,
    DANA,
    EVE,
    GUILD,
    IDS,
    OLA,
    OTHER_BOT,
    OTHER_CHANNEL,
    OTHER_MEMBER,
    OTHER_TEAM,
    PAT,
    PEOPLE,
    POSTS,
    REDRAWS,
    ROOM,
    SAM,
    SECOND_BOT,
    Three,
    directory,
    three,
)  # fmt: skip

PLATFORMS = tuple(AT)
NAMES = {"telegram": "Telegram", "slack": "Slack", "discord": "Discord"}
OTHERS = {name: [other for other in PLATFORMS if other != name] for name in PLATFORMS}
SECRET = "sk-live-0123456789abcdef"
NOTE: dict[str, Any] = {
    "tool": "notes.share",
    "arguments": {"to": "ada@example.com", "text": "Hello"},
    "presentation": {"editable": ["/text"], "lines": [["Text", "/text"]]},
}

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.parametrize("platform", PLATFORMS)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Three]:
    async with three(f"sqlite:///{tmp_path_factory.mktemp('everywhere') / 'placet.db'}") as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def here(shared: Three) -> AsyncIterator[Three]:
    """An office that the tests share: its people, places and routes are as before each of them."""
    await shared.office.apply(directory())
    yield shared
    shared.mend()
    await shared.quiet()


@pytest_asyncio.fixture(loop_scope="module")
async def spoiled(sqlite_url: str) -> AsyncIterator[Three]:
    """An office of a test's own, to be left in any state."""
    async with three(sqlite_url) as opened:
        yield opened


async def actions(here: Three, approval: Approval) -> list[str]:
    return [line.action for line in await here.office.audit(approval)]


def only(cards: dict[str, str], platform: str) -> dict[str, str]:
    return {platform: cards[platform]}


async def decided(here: Three, approval: Approval, person: str, via: str, **more: Any) -> Approval | Refusal:
    given = {"content_revision": None, "note": None, "verdict": Verdict.DECLINE} | more
    return await here.office.approvals.decide(approval.id, person, key=f"{via}-{person}", via=via, **given)


# Races


async def test_r1_a_double_press_of_decline_two_seconds_apart(here: Three, platform: str) -> None:
    approval, cards = await here.asked()
    card = cards[platform]
    data = here.data(platform, card, "Decline")
    drawn = len(here.worlds[platform].calls_of(REDRAWS[platform]))
    first = await here.told(platform, card, "Decline")
    await here.settled(cards, "Declined by Dana Reyes")
    here.office.clock.ahead += timedelta(seconds=2)
    assert await here.told(platform, card, None, data=data) == first
    await here.quiet()
    assert await actions(here, approval) == ["opened", "decline"]
    assert here.office.bell.ids.count(approval.id) == 1
    assert len(here.worlds[platform].calls_of(REDRAWS[platform])) == drawn + 1


async def test_r2_allow_and_decline_in_the_same_instant(here: Three, platform: str) -> None:
    approval, cards = await here.asked()
    told = await asyncio.gather(
        here.told(platform, cards[platform], "Allow"), here.told(platform, cards[platform], "Decline", OLA)
    )
    row = await here.office.row(approval)
    allowed = row.status is Status.APPROVED
    won, lost = told if allowed else reversed(told)
    assert won.startswith("Allowed." if allowed else "Declined.")
    what = "allowed by Dana Reyes" if allowed else "declined by Ola Berg"
    assert re.match(rf"Already decided: {what}, .*\d\d:\d\d UTC.*, through {NAMES[platform]}\.", lost), lost
    assert await actions(here, approval) == ["opened", "allow" if allowed else "decline"]


async def test_r3_a_decline_touches_its_own_card_and_an_unknown_token_none(here: Three, platform: str) -> None:
    one, first = await here.asked()
    two, second = await here.asked()
    assert (await here.told(platform, second[platform], "Decline")).startswith("Declined.")
    told = await here.told(platform, first[platform], None, data="a.AAAAAAAAAAAAAAAA.1")
    assert "do not know this card" in told
    await here.settled(second, "Declined by")
    assert ((await here.office.row(one)).status, (await here.office.row(two)).status) == ("pending", "declined")
    assert "Allow" in here.shown(platform, first[platform]).buttons


async def test_r4_three_opened_at_once_by_one_run_are_three_cards(here: Three, platform: str) -> None:
    asks = [here.asked(run_id="run-7", call_id="call-1") for _ in range(3)]
    opened = await asyncio.gather(*asks)
    assert len({cards[platform] for _, cards in opened}) == 3
    assert (await here.told(platform, opened[1][1][platform], "Decline")).startswith("Declined.")
    assert [(await here.office.row(row)).status for row, _ in opened] == ["pending", "declined", "pending"]


async def test_r8_three_vote_at_once_and_a_new_route_changes_nothing(here: Three, platform: str) -> None:
    await here.office.apply(directory(3))
    approval, cards = await here.asked()
    await here.office.apply(directory(1))
    told = await asyncio.gather(*(here.told(platform, cards[platform], "Allow", by) for by in (DANA, OLA, EVE)))
    assert sorted(text.partition(":")[0].partition(".")[0] for text in told) == ["Allowed", *["Your Allow counts"] * 2]
    votes = await here.office.store.read(lambda ledger: ledger.votes_of(approval.id))
    assert {vote.person for vote in votes} == {"dana", "ola", "eve"}
    await here.until_shown(cards, lambda shown: all(name in shown.text for name in ("Dana", "Ola", "Eve")))
    row = await here.office.row(approval)
    assert (row.status, row.needed) == (Status.APPROVED, 3)


# Stale, expired, restarted


async def test_s1_s3_s4_s6_after_a_restart_the_first_press_counts_and_a_stranger_is_told_why_not(
    platform: str, sqlite_url: str
) -> None:
    async with Sandbox(rate_scale=float("inf")) as sandbox:
        async with three(sqlite_url, sandbox=sandbox) as before:
            approval, cards = await before.asked(timeout_s=1800)
            data = before.data(platform, cards[platform], "Allow")
        sandbox.discord.skip(400)
        async with three(sqlite_url, sandbox=sandbox) as here:
            here.office.clock.ahead = timedelta(seconds=400)
            assert (await here.told(platform, cards[platform], "Allow")).startswith("Allowed.")
            await here.settled(cards, f"Allowed by Dana Reyes through {NAMES[platform]}")
            assert "linked to nobody" in await here.told(platform, cards[platform], None, SAM, data=data)
            assert (await here.office.row(approval)).decided_by == "dana"


async def test_s2_s5_a_press_at_61_seconds_is_told_that_it_expired_and_taken_once(here: Three, platform: str) -> None:
    approval, cards = await here.asked(timeout_s=60)
    here.office.clock.ahead += timedelta(seconds=61)
    told = await here.told(platform, cards[platform], "Allow")
    assert told.startswith("Too late: nobody decided in time")
    await here.settled(cards, "Expired")
    assert (await here.office.row(approval)).status is Status.EXPIRED
    assert await actions(here, approval) == ["opened", "expired"]
    match platform:
        case "telegram":
            await here.office.confirmed()
        case "slack":
            world = here.worlds["slack"]
            await world.until(lambda: all(each.acked_at for each in world.envelopes.values()))
            assert {each.attempts for each in world.envelopes.values()} == {1}
        case _:
            assert all(each.answered for each in here.worlds["discord"].interactions.values())


async def test_s7_what_has_expired_is_listed_to_nobody(here: Three, platform: str) -> None:
    await here.asked(timeout_s=60, tool="refund.stale")
    await here.asked(tool="refund.fresh")
    here.office.clock.ahead += timedelta(seconds=61)
    listed = await here.pending(platform)
    assert "refund.fresh" in listed
    assert "refund.stale" not in listed


async def test_s9_expiry_and_a_refusal_are_told_apart_on_the_card(here: Three, platform: str) -> None:
    refused, declined = await here.asked()
    late, expired = await here.asked(timeout_s=60)
    await here.told(platform, declined[platform], "Decline")
    here.office.clock.ahead += timedelta(seconds=61)
    await here.office.approvals.expire_due()
    await here.settled(only(declined, platform), "Declined by Dana Reyes")
    await here.settled(only(expired, platform), "nobody decided in time")
    assert "xpired" not in here.shown(platform, declined[platform]).text.partition("Declined by")[2]
    assert "Declined" not in here.shown(platform, expired[platform]).text
    rows = [await here.office.row(row) for row in (refused, late)]
    assert [(row.status, row.decided_by) for row in rows] == [("declined", "dana"), ("expired", None)]


async def test_s10_a_row_settled_before_its_card_or_on_its_way_has_no_live_buttons(here: Three, platform: str) -> None:
    await here.office.apply(directory(at=AT[platform]))
    early = await here.office.ask(arguments={"charge": "ch_early"})
    await here.office.approvals.withdraw(early.id, by="asker")
    assert await here.office.post(early) == ["final"]
    approval = await here.office.ask()
    here.worlds[platform].delay(POSTS[platform], 0.2)
    calls = len(here.worlds[platform].calls_of(POSTS[platform]))
    posting = asyncio.create_task(here.office.post(approval))
    await here.office.until(lambda: here.worlds[platform].calls_of(POSTS[platform])[calls:] or None)
    await here.office.approvals.withdraw(approval.id, by="asker")
    assert await posting == ["posted"]
    await here.settled(await here.cards(approval), "Withdrawn")
    assert not any("ch_early" in shown.text for shown in here.all_shown(platform))


# Places


def spoil(here: Three, platform: str) -> str:
    """A place that takes no card any more, as a route names it."""
    world = here.worlds[platform]
    match platform:
        case "telegram":
            world.delete_topic(FORUM, TOPIC)
            return f'"telegram:{FORUM}/{TOPIC}"'
        case "slack":
            world.add_channel("C09", "old-billing", [IDS["slack"][DANA]])
            world.archive("C09")
            return '"slack:C09"'
        case _:
            world.add_channel(609, GUILD, "old-billing")
            world.delete_channel(609)
            return '"discord:609"'


async def test_t9_a_place_that_is_gone_is_told_and_the_next_one_gets_the_card(
    spoiled: Three, platform: str, caplog: pytest.LogCaptureFixture
) -> None:
    here = spoiled
    gone = spoil(here, platform)
    await here.office.apply(directory(at=f"{gone}, {AT[platform]}"))
    approval = await here.office.ask()
    assert await here.office.post(approval) == ["failed", "posted"]
    assert "post failed" in caplog.messages
    rows = await here.office.store.read(lambda ledger: ledger.posted_for(approval.id))
    (failed,) = [row.failed for row in rows if row.message_id is None]
    assert failed == "the chat or topic no longer exists, or the bot may not write there"
    assert (await here.office.row(approval)).undeliverable is None
    told = await here.told(platform, (await here.cards(approval))[platform], "Allow")
    assert told.startswith("Allowed.")
    await here.office.apply(directory(at=gone))
    approval = await here.office.ask()
    assert await here.office.post(approval) == ["failed"]
    row = await here.office.row(approval)
    assert (row.status, row.undeliverable) == (Status.PENDING, failed)


async def test_t10_a_redraw_that_must_wait_holds_back_no_answer_and_is_drawn_after_it(
    here: Three, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The surface waits out what is shorter than its patience; this is for the desk to wait out.
    for module in ("bots.pacing", "bots.slack"):
        monkeypatch.setattr(f"{module}.PATIENCE_S", 0.1)
    approval, cards = await here.asked()
    _, others = await here.asked()
    world, method = here.worlds[platform], REDRAWS[platform]
    made, loop = len(world.calls_of(method)), asyncio.get_running_loop()
    here.tell_to_wait(platform, 1)
    begun = loop.time()
    assert (await here.told(platform, cards[platform], "Decline")).startswith("Declined.")
    await here.office.until(lambda: world.calls_of(method)[made:] or None)
    # Nothing waits for it, and nothing floods.
    assert (await here.office.row(approval)).status is Status.DECLINED
    assert (await here.told(platform, others[platform], "Allow")).startswith("Allowed.")
    await here.office.desk.redraw_stale()
    await here.settled(cards, "Declined by Dana Reyes")
    assert loop.time() - begun >= 1
    await here.settled(others, "Allowed by Dana Reyes")
    assert len(world.calls_of(method)) == made + 3


async def test_t11_the_card_of_either_account_works_and_the_row_knows_whose_it_is(
    platform: str, sqlite_url: str
) -> None:
    async with three(sqlite_url, second=True) as here:
        at, account = {
            "telegram": (f'"telegram@second_bot:{GROUP}"', SECOND_BOT.partition(":")[0]),
            "slack": (f'"slack:{OTHER_TEAM}/{OTHER_CHANNEL}"', OTHER_TEAM),
            "discord": (f'"discord@second:{ROOM}"', str(OTHER_BOT)),
        }[platform]
        by = OTHER_MEMBER if platform == "slack" else OLA
        people = directory(at=at).replace("slack: T01/U02", f"slack: {OTHER_TEAM}/{OTHER_MEMBER}")
        await here.office.apply(people)
        approval, cards = await here.asked()
        (row,) = await here.office.store.read(lambda ledger: ledger.posted_for(approval.id))
        assert row.account == account
        assert (await here.told(platform, cards[platform], "Allow", by)).startswith("Allowed.")
        await here.settled(cards, f"Allowed by Ola Berg through {NAMES[platform]}")
        # The first account's works as before.
        await here.office.apply(directory(at=AT[platform]))
        approval, cards = await here.asked()
        (row,) = await here.office.store.read(lambda ledger: ledger.posted_for(approval.id))
        assert row.account != account
        assert (await here.told(platform, cards[platform], "Decline")).startswith("Declined.")
        await here.settled(cards, "Declined by Dana Reyes")


async def test_t12_t13_two_who_may_answer_and_four_who_post_make_one_card(here: Three, platform: str) -> None:
    await here.office.apply(directory(ask="dana, ola", at=AT[platform]))
    charge = f"ch_{platform}_13"
    approval = await here.office.ask(arguments={"charge": charge})
    here.worlds[platform].delay(POSTS[platform], 0.2)
    done = await asyncio.gather(*(here.office.post(approval) for _ in range(4)), return_exceptions=True)
    assert [each for each in done if not isinstance(each, Slow)] == [["posted"]]
    assert await here.office.post(approval) == ["posted"]
    assert sum(charge in shown.text for shown in here.all_shown(platform)) == 1
    card = (await here.cards(approval))[platform]
    assert (await here.told(platform, card, "Decline", OLA)).startswith("Declined.")


# People


async def test_l1_without_any_approver_nobody_may_press(here: Three, platform: str) -> None:
    approval, cards = await here.asked(**NOTE)
    before = await here.office.row(approval)
    await here.office.apply(PEOPLE.replace("approvals:answer]", "approvals:delegate]"))
    for by in (DANA, OLA, EVE, PAT, SAM):
        for label in ("Allow", "Decline", "Edit…", "Always allow…"):
            told = await here.told(platform, cards[platform], label, by)
            assert "nobody at present" in told or "linked to nobody" in told, (by, label, told)
    assert "nobody at present" in await here.heard(platform, cards[platform], "not like this")
    assert await here.office.row(approval) == before
    assert await actions(here, approval) == ["opened"]


async def test_l2_l8_who_may_not_answer_comes_first_and_changes_nothing(here: Three, platform: str) -> None:
    await here.office.apply(directory(ask="dana, ola"))
    approval, cards = await here.asked()
    before = await here.office.row(approval)
    for by, word in ((SAM, "linked to nobody"), (PAT, "by Dana Reyes, Ola Berg"), (EVE, "by Dana Reyes, Ola Berg")):
        for label in ("Decline", "Allow"):
            assert word in await here.told(platform, cards[platform], label, by), (by, label)
        assert word in await here.heard(platform, cards[platform], "no, never", by)
    for via in ("http", "cli"):
        for person in ("pat", "eve"):
            assert isinstance(await decided(here, approval, person, via), Refusal)
    assert await here.office.row(approval) == before
    assert await actions(here, approval) == ["opened"]
    assert (await here.told(platform, cards[platform], "Allow")).startswith("Allowed.")
    assert (await here.office.row(approval)).decided_by == "dana"


async def test_l4_what_does_not_fit_is_attached_and_then_the_buttons_work(here: Three, platform: str) -> None:
    await here.office.apply(directory(at=AT[platform]))
    approval, cards = await here.asked(arguments={"text": "token " * 2000})
    assert any("token " * 2000 in text for text in here.files(platform, cards[platform]))
    assert (await here.told(platform, cards[platform], "Allow")).startswith("Allowed.")
    await here.settled(cards, "Allowed by")
    assert json.loads((await here.office.row(approval)).final_arguments) == {"text": "token " * 2000}


async def test_l5_a_handler_that_breaks_leaves_the_card_pending(
    here: Three, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(press: Press) -> Reply:
        raise KeyError("value")

    approval, cards = await here.asked()
    with monkeypatch.context() as broken:
        broken.setattr(here.office.approvals, "press", breaks)
        assert "Something went wrong" in await here.told(platform, cards[platform], "Allow")
    here.office.desk.start_redraw(approval.id)
    await here.quiet()
    assert (await here.office.row(approval)).pending
    assert here.shown(platform, cards[platform]).buttons[:2] == ("Allow", "Decline")
    assert (await here.told(platform, cards[platform], "Allow")).startswith("Allowed.")


def leave(here: Three, platform: str, by: int) -> None:
    """Somebody goes: blocks the bot, or leaves the workspace or the server."""
    world, who = here.worlds[platform], IDS[platform][by]
    match platform:
        case "telegram":
            world.block(who)
        case "slack":
            world.deactivate(who)
        case _:
            world.leave(who, GUILD)


async def test_l6_of_two_approvers_one_left_and_then_both(spoiled: Three, platform: str) -> None:
    here = spoiled
    alone = {other: rf",? ?{other}: [^,}}]+" for other in OTHERS[platform]}
    people = directory(ask="dana, ola", at="dm")
    for pattern in alone.values():
        people = re.sub(pattern, "", people)
    await here.office.apply(people.replace("{, ", "{"))
    if platform == "telegram":
        for by in (DANA, OLA):
            here.worlds[platform].start(IDS[platform][by])
    leave(here, platform, DANA)
    one = await here.office.ask()
    places = await here.office.approvals.places(one.id)
    came = [await here.office.desk.post(one.id, place.destination, place.person) for place in places]
    assert dict(zip([place.person for place in places], came, strict=True)) == {"dana": "failed", "ola": "posted"}
    row = await here.office.row(one)
    assert (row.pending, row.undeliverable) == (True, None)
    leave(here, platform, OLA)
    two = await here.office.ask()
    assert await here.office.post(two) == ["failed", "failed"]
    row = await here.office.row(two)
    assert row.pending
    assert row.undeliverable


@pytest.mark.parametrize(("via", "where"), [("cli", "the command line"), ("http", "HTTP")])
async def test_l7_a_decision_elsewhere_takes_the_buttons_away(here: Three, platform: str, via: str, where: str) -> None:
    approval, cards = await here.asked()
    done = await decided(here, approval, "ola", via, verdict=Verdict.ALLOW, content_revision=1)
    assert isinstance(done, Approval)
    here.office.desk.start_redraw(approval.id)
    await here.settled(only(cards, platform), f"Allowed by Ola Berg through {where}")


# Rules, secrets, wording


async def test_w3_nothing_that_is_sent_holds_the_secret_and_what_runs_is_unchanged(here: Three, platform: str) -> None:
    await here.office.apply(directory(at=AT[platform]))
    arguments = {"command": f'curl -H "Authorization: Bearer {SECRET}" https://x.example', "api_key": SECRET,
                 "text": f"--token {SECRET} and words", "pad": "pad " * 3000}  # fmt: skip
    lines = [["Command", "/command", "code"], ["Text", "/text"], ["Key", "/api_key"]]
    show = {"lines": lines, "editable": ["/text", "/command"]}
    approval, cards = await here.asked(tool="shell.run", arguments=arguments, presentation=show)
    card = cards[platform]
    for label in ("Edit…", "Always allow…"):
        if label in here.shown(platform, card).buttons:
            await here.press(platform, card, label)()
    await here.office.desk.remind(approval.id)
    await here.told(platform, card, "Allow")
    await here.settled(cards, "Allowed by")
    await here.quiet()
    sent = [json.dumps(call.params, default=str, ensure_ascii=False) for call in here.worlds[platform].calls]
    sent += here.files(platform, card)
    assert any("Authorization" in text for text in sent)
    assert [text for text in sent if SECRET in text] == []
    assert SECRET in (await here.office.row(approval)).final_arguments


async def test_w4_a_standing_rule_reaches_as_far_as_its_label_says(here: Three, platform: str) -> None:
    def note(to: str, text: str) -> dict[str, Any]:
        return {"tool": "slack.post_message", "arguments": {"channel": to, "text": text}}

    _, cards = await here.asked(**note(f"#{platform}", "Hello"))
    await here.press(platform, cards[platform], "Always allow…")()
    menu = await here.menu(platform, cards[platform])
    offered = here.shown(platform, menu)
    assert "until somebody removes it" in offered.text
    # A label that is too long for the platform's button stands whole above it.
    label = f"slack.post_message to #{platform}, until removed"
    assert label in "\n".join((offered.text, *offered.buttons))
    (button,) = [each for each in offered.buttons if f"#{platform}" in each]
    assert label in await here.told(platform, menu, button)
    await here.settled(cards, "Allowed by Dana Reyes")
    rules = await here.office.store.read(lambda ledger: ledger.rules("billing"))
    assert label in [rule.label for rule in rules]
    assert (await here.office.ask(**note(f"#{platform}", "Another"))).status is Status.APPROVED
    assert (await here.office.ask(**note("#all", "Hello"))).pending


async def test_w5_the_settled_card_says_what_was_asked_who_answered_and_when(here: Three, platform: str) -> None:
    _, cards = await here.asked(**NOTE | {"arguments": {"to": "bo@example.com", "text": "Hello"}})
    before = here.shown(platform, cards[platform]).text
    said = await here.heard(platform, cards[platform], "Use the other account", OLA)
    assert "gets your note" in said
    await here.settled(cards, "Ola Berg replied: Use the other account")
    after = here.shown(platform, cards[platform]).text
    assert re.search(rf"Declined by Ola Berg through {NAMES[platform]}, .*\d\d:\d\d UTC", after)
    for text in ("billing wants to use notes.share", "Hello", "bo@example.com", "Content sha256:"):
        assert text in before
        assert text in after


async def test_w6_nobody_answers_their_own_request(here: Three, platform: str) -> None:
    await here.office.apply(directory(more=", four_eyes: true"))
    approval, cards = await here.asked(**NOTE, on_behalf_of="slack:T01/U01")
    before = await here.office.row(approval)
    for label in ("Allow", "Decline", "Edit…", "Always allow…"):
        assert "your own request" in await here.told(platform, cards[platform], label), label
    assert "your own request" in await here.heard(platform, cards[platform], "rather not")
    for via in ("http", "cli"):
        refused = await decided(here, approval, "dana", via)
        assert isinstance(refused, Refusal)
        assert refused.code == "own_request"
    assert await here.office.row(approval) == before
    assert (await here.told(platform, cards[platform], "Allow", OLA)).startswith("Allowed.")


async def test_w7_the_thread_that_the_request_came_from_hears_of_an_answer_given_elsewhere(
    here: Three, platform: str
) -> None:
    world = here.worlds[platform]
    match platform:
        case "telegram":
            thread, at = str(TOPIC), f"telegram:{FORUM}/{TOPIC}"
        case "slack":
            # A route names channels there, no threads.
            thread, at = "", f"slack:{CHANNEL}"
        case _:
            thread = str(world.add_thread(ROOM, "Refunds of May").id)
            at = f"discord:{ROOM}/{thread}"
    await here.office.apply(directory(at=f'"{at}"'))
    approval = await here.office.ask()
    assert await here.office.post(approval) == ["posted"]
    done = await decided(here, approval, "dana", "cli", note="Not this month")
    assert isinstance(done, Approval)
    here.office.desk.start_redraw(approval.id)

    def told() -> list[str]:
        match platform:
            case "telegram":
                return [each.text for each in world.chat(FORUM).messages if each.thread == int(thread)]
            case "slack":
                return [each.shown for each in world.channels[CHANNEL].messages]
            case _:
                return [here.shown(platform, str(each.id)).text for each in world.channel(int(thread)).messages]

    heard = await here.office.until(lambda: next((text for text in told() if "Not this month" in text), None))
    assert "Declined by Dana Reyes through the command line" in heard


# A platform goes, and comes back


async def go_down(here: Three, platform: str) -> None:
    world = here.worlds[platform]
    world.fail("*", status=503, times=None)
    if platform == "slack":
        world.cut_sockets(refuse=1000)
    if platform == "discord":
        await world.shut_gateway()


async def come_back(here: Three, platform: str) -> None:
    world = here.worlds[platform]
    world.mend()
    if platform == "slack":
        await world.until(lambda: world.connected, 10)
    if platform == "discord":
        world.open_gateway()
        await world.until(world.online, 10)


@asynccontextmanager
async def swept(here: Three) -> AsyncIterator[None]:
    """The sweep comes by again and again: what is at hand when it comes, it leaves alone."""

    async def sweep() -> None:
        while True:
            await here.office.desk.redraw_stale()
            await asyncio.sleep(0.1)

    sweeping = asyncio.create_task(sweep())
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def posted(here: Three, approval: Approval) -> dict[str, Any]:
    """What became of its card on each platform."""
    places = await here.office.approvals.places(approval.id)
    posts = (here.office.desk.post(approval.id, place.destination, place.person) for place in places)
    came = await asyncio.gather(*posts, return_exceptions=True)
    return {place.destination.platform: each for place, each in zip(places, came, strict=True)}


async def test_a_platform_that_is_down_for_ten_minutes_catches_up_by_itself(spoiled: Three, platform: str) -> None:
    here, (other, third) = spoiled, OTHERS[platform]
    _, allowed = await here.asked()
    _, waiting = await here.asked()
    await go_down(here, platform)
    assert (await here.told(other, allowed[other], "Allow")).startswith("Allowed.")
    await here.settled(
        {name: allowed[name] for name in (other, third)}, f"Allowed by Dana Reyes through {NAMES[other]}"
    )
    calls = here.worlds[platform].calls_of
    async with swept(here):
        for _ in range(10):
            made = len(calls(REDRAWS[platform]))
            here.office.clock.ahead += timedelta(minutes=1)
            await here.office.until(lambda n=made: len(calls(REDRAWS[platform])) > n or None)  # type: ignore[misc]
    assert here.shown(platform, allowed[platform]).buttons
    # The others go on meanwhile.
    late = await here.office.ask()
    came = await posted(here, late)
    assert isinstance(came.pop(platform), Unavailable)
    assert came == {other: "posted", third: "posted"}
    assert (await here.office.row(late)).undeliverable is None
    assert (await here.told(third, waiting[third], "Decline", OLA)).startswith("Declined.")
    await come_back(here, platform)
    here.office.clock.ahead += timedelta(minutes=1)
    async with swept(here):
        await here.settled(allowed, f"Allowed by Dana Reyes through {NAMES[other]}")
        await here.settled(waiting, f"Declined by Ola Berg through {NAMES[third]}")
    assert await here.office.post(late) == ["posted"] * 3
    cards = await here.cards(late)
    assert (await here.told(platform, cards[platform], "Decline")).startswith("Declined.")
    await here.settled(cards, f"Declined by Dana Reyes through {NAMES[platform]}")


def revoke(here: Three, platform: str) -> None:
    match platform:
        case "telegram":
            here.office.sandbox.add_bot(TELEGRAM_TOKEN.replace("A", "Z"), "placet_test_bot")
        case "slack":
            here.worlds["slack"].revoke()
        case _:
            here.worlds["discord"].add_bot(BOT, "placet", token=token_of(BOT).replace("sandbox", "another"))


async def test_a_token_that_was_taken_back_is_named_and_the_other_platforms_go_on(
    spoiled: Three, platform: str
) -> None:
    here, (other, third) = spoiled, OTHERS[platform]
    approval, cards = await here.asked()
    revoke(here, platform)
    # What the doctor and /readyz say.
    wrong: dict[str, list[str]] = {}
    for name, surface in here.office.desk.surfaces.items():
        assert isinstance(surface, Checking)
        wrong[name] = [each.what for each in await surface.check() if each.level == "fail"]
    assert [name for name, said in wrong.items() if said] == [platform]
    assert wrong[platform][0].startswith(f"{NAMES[platform]} bot")
    assert "does not accept" in wrong[platform][0]
    assert (await here.told(other, cards[other], "Allow")).startswith("Allowed.")
    await here.settled({name: cards[name] for name in (other, third)}, "Allowed by Dana Reyes")
    assert (await here.office.row(approval)).status is Status.APPROVED
    again = await here.office.ask()
    came = await posted(here, again)
    assert came == {platform: "failed", other: "posted", third: "posted"}
    row = await here.office.row(again)
    assert (row.pending, row.undeliverable) == (True, None)
    assert (await here.told(third, (await here.cards(again))[third], "Decline")).startswith("Declined.")

"""One approval on three platforms at once: one answer, one person one vote, and every card shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.approvals import Approval, Status
from core.people import Refusal
from core.ports import Unavailable
from tests.core.three import AT, DANA, EVE, GUILD, IDS, OLA, POSTS, REDRAWS, ROLE, TEAM, Three, directory, three

PLATFORMS = ("telegram", "slack", "discord")
NAMES = {"telegram": "Telegram", "slack": "Slack", "discord": "Discord"}
NOTE = {
    "arguments": {"to": "ada@example.com", "text": "Hello"},
    "presentation": {"editable": ["/text"], "lines": [["Text", "/text"]]},
}


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Three]:
    async with three(sqlite_url) as opened:
        yield opened


async def votes_of(here: Three, approval: Approval) -> list[str]:
    votes = await here.office.store.read(lambda ledger: ledger.votes_of(approval.id))
    return [vote.person for vote in votes]


async def test_whoever_is_first_anywhere_settles_all_three(here: Three) -> None:
    for platform in PLATFORMS:
        approval, cards = await here.asked()
        assert set(cards) == set(PLATFORMS)
        assert (await here.told(platform, cards[platform], "Allow")).startswith("Allowed.")
        await here.settled(cards, f"Allowed by Dana Reyes through {NAMES[platform]}")
        assert (await here.office.row(approval)).decided_via == platform


async def test_r2_three_people_on_three_platforms_in_the_same_instant(here: Three) -> None:
    approval, cards = await here.asked()
    presses = [
        here.press(platform, cards[platform], label, by)
        for platform, label, by in (("telegram", "Allow", DANA), ("slack", "Decline", OLA), ("discord", "Allow", OLA))
    ]
    told = [str(getattr(answer, "text", answer)) for answer in await asyncio.gather(*(press() for press in presses))]
    row = await here.office.row(approval)
    assert row.status in (Status.APPROVED, Status.DECLINED)
    assert sum("Already decided" in text for text in told) in (1, 2)
    actions = [line.action for line in await here.office.audit(approval)]
    assert len([action for action in actions if action in ("allow", "decline")]) == 1
    await here.settled(cards, "Allowed by" if row.status is Status.APPROVED else "Declined by")


async def test_one_person_on_three_platforms_is_one_vote(here: Three) -> None:
    await here.office.apply(directory(2))
    approval, cards = await here.asked()
    assert "1 of 2" in await here.told("telegram", cards["telegram"], "Allow")
    for platform in ("slack", "discord"):
        assert "counts already" in await here.told(platform, cards[platform], "Allow")
    assert (await here.office.row(approval)).pending
    assert await votes_of(here, approval) == ["dana"]
    await here.until_shown(cards, lambda shown: "1 of 2" in shown.text and "Allow" in shown.buttons)
    assert (await here.told("discord", cards["discord"], "Allow", OLA)).startswith("Allowed.")
    await here.settled(cards, "Allowed by Dana Reyes, Ola Berg")
    assert await votes_of(here, approval) == ["dana", "ola"]


async def test_what_somebodys_groups_give_counts_at_the_press_and_until_the_last_vote(here: Three) -> None:
    mapped = directory(2, ask="role:finance").replace("roles:", "roles:\n  finance: %s")
    mapped = mapped.replace("[dana, ola, eve], ", "[], ")
    groups = (
        f'{{permissions: [approvals:view, approvals:answer], groups: ["slack:{TEAM}/S01", "discord:{GUILD}/{ROLE}"]}}'
    )
    await here.office.apply(mapped % groups)
    here.worlds["slack"].set_usergroup("S01", [IDS["slack"][DANA]])
    here.worlds["discord"].give_role(IDS["discord"][OLA], GUILD, ROLE)
    approval, cards = await here.asked()
    # Neither holds a role in the directory; Dana is in the group on Slack, Ola has the role on Discord.
    assert "right to answer" in await here.told("telegram", cards["telegram"], "Allow", DANA)
    assert "1 of 2" in await here.told("slack", cards["slack"], "Allow", DANA)
    assert "right to answer" in await here.told("slack", cards["slack"], "Allow", OLA)
    # Once no group gives the role any more, what was given for it counts no longer.
    held = mapped.replace("approver: [], ", "approver: [], finance: [eve, pat], ")
    await here.office.apply(held % "[approvals:view, approvals:answer]")
    assert "1 of 2" in await here.told("discord", cards["discord"], "Allow", EVE)
    assert (await here.office.row(approval)).pending


async def test_two_editors_at_once_and_every_card_shows_the_edit_that_stands(here: Three) -> None:
    approval, cards = await here.asked(**NOTE)

    async def edit(person: str, text: str) -> Approval | Refusal:
        return await here.office.approvals.edit(approval.id, person, {"/text": text}, content_revision=1, via="http")

    done = await asyncio.gather(edit("dana", "From Dana"), edit("ola", "From Ola"))
    (refused,) = [each for each in done if isinstance(each, Refusal)]
    assert refused.code == "changed"
    row = await here.office.row(approval)
    who, text = ("Dana Reyes", "From Dana") if row.edited_by == "dana" else ("Ola Berg", "From Ola")
    here.office.desk.start_redraw(approval.id)
    await here.until_shown(cards, lambda shown: text in shown.text and f"Changed by {who}" in shown.text)
    await all_attached(here, approval, 2)
    assert (await here.told("slack", cards["slack"], "Allow")).startswith("Allowed.")
    assert text in (await here.office.row(approval)).final_arguments


async def all_attached(here: Three, approval: Approval, content: int) -> None:
    async def attached() -> bool:
        rows = await here.office.store.read(lambda ledger: ledger.posted_for(approval.id))
        cards = [row for row in rows if row.kind == "card"]
        return all(row.attached_revision == content for row in cards)

    async with asyncio.timeout(10):
        while not await attached():
            # As the sweep does; what is at hand now it leaves alone.
            await here.office.desk.redraw_stale()
            await asyncio.sleep(0.1)


async def test_l4_a_draft_of_20000_characters_is_attached_everywhere_and_anew_after_an_edit(here: Three) -> None:
    text = "Dear Ada, " + "word " * 3998
    run = {"activity": "send", "task_queue": "billing"}
    approval, cards = await here.asked(
        runtime="draft", run=run, arguments={"to": "ada@example.com", "text": text},
        presentation={"editable": ["/text"], "lines": [["Text", "/text"]]},
    )  # fmt: skip
    await all_attached(here, approval, 1)
    for platform in PLATFORMS:
        assert text in "".join(here.files(platform, cards[platform])), platform
    # The new text is attached before Allow works anywhere.
    done = await here.office.approvals.edit(approval.id, "ola", {"/text": text + "Bye"}, content_revision=1, via="http")
    assert isinstance(done, Approval)
    for world, method in (
        ("telegram", "sendDocument"),
        ("slack", "files.getUploadURLExternal"),
        ("discord", "create_message"),
    ):
        here.worlds[world].fail(method, status=502, times=None)
    here.office.desk.start_redraw(approval.id)
    await here.until_shown(cards, lambda shown: "Changed by Ola Berg" in shown.text)
    for platform in PLATFORMS:
        told = await here.told(platform, cards[platform], "Allow")
        assert "attach" in told, (platform, told)
    assert (await here.office.row(approval)).pending
    here.mend()
    await all_attached(here, approval, 2)
    for platform in PLATFORMS:
        assert any("Bye" in file for file in here.files(platform, cards[platform])), platform
    assert (await here.told("discord", cards["discord"], "Allow")).startswith("Allowed.")
    row = await here.office.row(approval)
    assert row.status is Status.APPROVED
    assert row.final_arguments.endswith('Bye"}')


async def test_platforms_that_are_down_are_told_of_once_each_however_often_a_card_is_tried(here: Three) -> None:
    down = ("telegram", "slack")
    for platform in down:
        here.worlds[platform].fail(POSTS[platform], status=503, times=None)
    await here.office.apply(directory(at=", ".join(AT[platform] for platform in down)))
    approval = await here.office.ask()
    places = await here.office.approvals.places(approval.id)
    for _ in range(3):
        for place in places:
            with pytest.raises(Unavailable):
                await here.office.desk.post(approval.id, place.destination, place.person)
    assert (await here.office.row(approval)).undeliverable == "Slack cannot be reached; it is tried again"
    here.mend()
    assert await here.office.post(approval) == ["posted", "posted"]
    assert (await here.office.row(approval)).undeliverable is None
    actions = [line.action for line in await here.office.audit(approval)]
    assert actions == ["opened", "undeliverable", "undeliverable", "deliverable"]


async def test_a_platform_that_is_down_does_not_keep_the_sweep_from_the_others(here: Three) -> None:
    for platform in ("slack", "discord", "telegram"):
        await here.office.apply(directory(at=AT[platform]))
        await here.asked()
    for platform in ("slack", "discord"):
        here.worlds[platform].fail(REDRAWS[platform], status=503, times=None)
    await here.quiet()
    drawn = here.worlds["telegram"].calls_of(REDRAWS["telegram"])
    # Nobody is told.
    assert len(await here.office.store.write(lambda ledger: ledger.touch_open("billing"))) == 3
    assert await here.office.desk.redraw_stale(1) == 3
    await here.office.until(lambda: here.worlds["telegram"].calls_of(REDRAWS["telegram"])[len(drawn) :] or None)

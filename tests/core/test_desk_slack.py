"""The door and the desk on a real database with the real Slack library: who may answer, and what every card shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.database import Database
from adapters.directory_file import read_directory
from adapters.feed import RedisFeed
from adapters.metrics import Metrics
from adapters.migrate import migrate
from adapters.sandbox.slack import Message as Kept
from bots.slack import Slack
from core.approvals import Approval, Destination, Press, Reply, Status, Verdict
from core.commands import ChatCommands
from core.desk import Desk
from core.people import Directory
from core.ports import Hooks
from core.redaction import Redaction
from core.service import Approvals
from tests.bots.slack_bench import CHANNEL, DANA, GUEST, OLA, OUTSIDER, PRIVATE, SHARED, Setting, slack
from tests.core.door import OpenGate, opened
from tests.core.office import Free, Rung, TurnedClock, ended

# Dana is asked and may answer; Gus, a guest, is linked and asked; Ola is linked and only looks on; Otto is nobody.
DIRECTORY = """
people:
  dana: {name: Dana Reyes, identities: {slack: T01/U01}}
  ola: {name: Ola Berg, identities: {slack: T01/U02}}
  gus: {name: Gus Guest, identities: {slack: T01/U03}}
roles:
  approver: [approvals:view, approvals:answer]
  viewer: [approvals:view]
members: {approver: [dana%s], viewer: [ola]}
agents:
  billing: {owner: dana}
routes:
  - {match: {agent: billing}, ask: [dana, gus], at: [%s]}
"""


EDITABLE = {"title": "Refund", "lines": [["Reason", "/reason"]], "editable": ["/reason"]}


@dataclass
class Office:
    """What a test holds."""

    setting: Setting
    store: Database
    approvals: Approvals
    desk: Desk
    asked: int = 0

    @property
    def world(self) -> Any:
        return self.setting.world

    async def apply(self, place: str, *, guest: bool = False) -> None:
        wanted = read_directory(DIRECTORY % (", gus" if guest else "", place))
        await self.store.write(lambda ledger: ledger.replace_directory(wanted))

    async def card(self, chat: str = CHANNEL, **fields: Any) -> tuple[Approval, Kept]:
        """Ask and post; the row, and its card in the channel."""
        approval, became = await self.posted(**fields)
        assert {how for _, how in became} == {"posted"}
        return await self.row(approval), next(m for m in self.world.channels[chat].messages if m.buttons)

    async def posted(self, **fields: Any) -> tuple[Approval, list[tuple[str, str]]]:
        """Ask, and post to every place: the row, and what became of each person's card."""
        self.asked += 1
        ask = {"agent": "billing", "tool": "refund", "arguments": {"charge": "ch_1", "amount": 4900}} | fields
        approval = await opened(self.approvals, self.asked, ask)
        places = await self.approvals.places(approval.id)
        return approval, [(place.person, await self.desk.post(approval.id, place.destination, place.person))
                          for place in places]  # fmt: skip

    async def row(self, approval: Approval) -> Approval:
        row = await self.store.read(lambda ledger: ledger.approval(approval.id))
        assert row is not None
        return row

    async def told(self, person: str, card: Kept, label: str, chat: str = CHANNEL) -> str:
        press = self.world.press(person, chat, card.ts, label=label)
        return str((await self.world.until(lambda: press.words))[-1])

    async def settled(self, card: Kept, words: str, chat: str = CHANNEL) -> None:
        def shown() -> bool:
            message = self.world.channels[chat].message(card.ts)
            return not message.buttons and words in message.shown

        await self.world.until(shown, 10)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with AsyncExitStack() as stack:
        setting = await stack.enter_async_context(slack())
        url = f"sqlite:///{tmp_path / 'placet.db'}"
        await migrate(url)
        store = Database.open(url)
        stack.push_async_callback(store.close)
        clock, surfaces = TurnedClock(), dict[str, Any]()
        feed = RedisFeed("redis://127.0.0.1:1")
        stack.push_async_callback(feed.aclose)
        metrics = Metrics(version="0", clock=clock, waiting=lambda: store.read(lambda ledger: ledger.waiting()))
        approvals = Approvals(store=store, gate=OpenGate(), bell=Rung(), feed=feed, clock=clock, meter=metrics,
                              directory=Directory())  # fmt: skip
        stack.push_async_callback(approvals.close)
        desk = Desk(store=store, approvals=approvals, surfaces=surfaces, clock=clock, meter=metrics,
                    redaction=Redaction(b"k" * 32))  # fmt: skip
        hooks = Hooks((commands := ChatCommands(approvals, desk)), desk, lambda name: Free(), commands.groups,
                      approvals.spoken.to)  # fmt: skip
        surface = surfaces["slack"] = Slack(setting.settings, hooks, pace=0)
        stack.push_async_callback(surface.close)
        stack.push_async_callback(desk.close)
        made = Office(setting, store, approvals, desk)
        await made.apply(f"slack:T01/{CHANNEL}")
        for work in (desk.watch(feed), desk.listen(surface)):
            stack.push_async_callback(ended, asyncio.create_task(work))
        await setting.world.until(lambda: setting.world.connected)
        yield made


async def test_r1_two_presses_at_once_decide_once_and_the_card_settles(office: Office) -> None:
    approval, card = await office.card()
    first, second = (office.world.press(DANA, CHANNEL, card.ts, label="Decline") for _ in range(2))
    await office.world.until(lambda: first.words and second.words)
    await office.settled(card, "Declined by Dana Reyes through Slack")
    assert first.words == second.words
    assert len(await office.store.read(lambda ledger: ledger.votes_of(approval.id))) == 1


async def test_a_note_from_the_form_declines_with_it(office: Office) -> None:
    approval, card = await office.card()
    press = office.world.press(DANA, CHANNEL, card.ts, label="Decline with a note")
    office.world.submit(await office.world.opened(press), "Wrong customer")
    await office.settled(card, "Wrong customer")
    row = await office.row(approval)
    assert (row.status, row.note, row.decided_via) == (Status.DECLINED, "Wrong customer", "slack")
    assert not row.by_message


async def test_a_note_from_a_copy_that_a_crash_left_behind_declines_too(office: Office) -> None:
    approval, card = await office.card()
    (posted,) = await office.store.read(lambda ledger: ledger.posted_for(approval.id))
    drawn = await office.desk.draw(approval.id)
    assert drawn is not None
    copy = await office.setting.surface.post(Destination("slack", "T01", CHANNEL), drawn.card, token=posted.token)
    press = office.world.press(DANA, CHANNEL, copy.id, label="Decline with a note")
    office.world.submit(await office.world.opened(press), "Wrong customer")
    await office.settled(card, "Wrong customer")
    await office.settled(office.world.channels[CHANNEL].message(copy.id), "Wrong customer")


async def test_a_thread_reply_declines_with_the_note_and_a_yes_decides_nothing(office: Office) -> None:
    approval, card = await office.card()
    office.world.reply(DANA, CHANNEL, card.ts, "ok")
    await office.world.until(lambda: office.world.told(DANA))
    assert (await office.row(approval)).pending
    office.world.reply(DANA, CHANNEL, card.ts, "ask Ada first")
    await office.settled(card, "ask Ada first")
    assert (await office.row(approval)).by_message


async def test_l3_guests_and_external_members_are_refused_unless_linked(office: Office) -> None:
    await office.apply(f"slack:T01/{SHARED}")
    approval, card = await office.card(SHARED)
    assert "linked to nobody" in await office.told(OUTSIDER, card, "Allow", SHARED)
    office.world.reply(OUTSIDER, SHARED, card.ts, "no")
    assert "linked to nobody" in (await office.world.until(lambda: office.world.told(OUTSIDER)[1:]))[-1]
    assert "right to answer" in await office.told(GUEST, card, "Allow", SHARED)
    assert (await office.row(approval)).pending
    await office.apply(f"slack:T01/{SHARED}", guest=True)
    assert "Allowed" in await office.told(GUEST, card, "Allow", SHARED)


async def test_l4_what_does_not_fit_is_attached_in_the_thread_before_allow_works(office: Office) -> None:
    approval, card = await office.card(arguments={"text": "token " * 2000})
    files = [file for each in office.world.channels[CHANNEL].thread(card.ts) for file in each.files]
    assert "token " * 500 in "".join(office.world.content(file).decode() for file in files)
    assert "Allowed" in await office.told(DANA, card, "Allow")
    assert (await office.row(approval)).status is Status.APPROVED


async def test_l5_a_handler_that_breaks_leaves_the_card_pending(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(press: Press) -> Reply:
        raise KeyError("value")

    approval, card = await office.card()
    monkeypatch.setattr(office.approvals, "press", breaks)
    assert "Something went wrong" in await office.told(DANA, card, "Allow")
    office.desk.start_redraw(approval.id)
    await office.desk.close()
    assert (await office.row(approval)).pending
    assert office.world.channels[CHANNEL].message(card.ts).labels == ["Allow", "Decline", "Decline with a note"]


async def test_l6_an_approver_who_left_keeps_nobody_else_from_being_asked(office: Office) -> None:
    await office.apply("dm", guest=True)
    office.world.deactivate(GUEST)
    _, became = await office.posted()
    assert sorted(became) == [("dana", "posted"), ("gus", "failed")]
    (first,) = await office.approvals.rows()
    assert first.undeliverable is None
    private = office.world.direct(office.world.people[DANA], office.world.teams["T01"]).id
    assert "Allowed" in await office.told(DANA, office.world.channels[private].last("refund"), "Allow", private)
    office.world.deactivate(DANA)
    _, became = await office.posted()
    assert {how for _, how in became} == {"failed"}
    last = (await office.approvals.rows())[0]
    assert last.pending
    assert last.undeliverable is not None


async def test_a_user_group_gives_the_role_for_as_long_as_somebody_is_in_it(office: Office) -> None:
    groups = "approver: {permissions: [approvals:view, approvals:answer], groups: [slack:T01/S01]}"
    mapped = (DIRECTORY % ("", f"slack:T01/{CHANNEL}")).replace("approver: [approvals:view, approvals:answer]", groups)
    mapped = mapped.replace("ask: [dana, gus]", "ask: [role:approver]")
    await office.store.write(lambda ledger: ledger.replace_directory(read_directory(mapped)))
    office.world.set_usergroup("S01", [GUEST])
    approval, card = await office.card()
    assert "right to answer" in await office.told(OLA, card, "Allow")
    assert (await office.row(approval)).pending
    assert "Allowed" in await office.told(GUEST, card, "Allow")
    assert (await office.row(approval)).decided_by == "gus"


async def test_an_edit_in_the_form_is_shown_and_what_is_allowed_is_the_edited_text(office: Office) -> None:
    approval, card = await office.card(arguments={"reason": "a & <b>"}, presentation=EDITABLE)
    opened = await office.world.opened(office.world.press(DANA, CHANNEL, card.ts, label="Edit…"))
    assert opened.fields[0]["element"]["initial_value"] == "a & <b>"
    office.world.submit(opened, "charged twice")
    await office.world.until(lambda: office.world.told(DANA))
    assert "Look at the new text" in office.world.told(DANA)[-1]
    await office.world.until(lambda: "charged twice" in office.world.channels[CHANNEL].message(card.ts).shown)
    # What is shown is drawn first and written down then; Allow waits for both.
    while "still being attached" in (told := await office.told(DANA, card, "Allow")):
        pass
    assert "Allowed" in told
    row = await office.row(approval)
    assert (row.status, row.content_revision) == (Status.APPROVED, 2)
    assert json.loads(row.final_arguments) == {"reason": "charged twice"}


async def test_always_allow_is_a_menu_for_the_presser_alone(office: Office) -> None:
    rule = DIRECTORY.replace("approvals:answer]", "approvals:answer, approvals:delegate]", 1)
    await office.store.write(lambda ledger: ledger.replace_directory(
        read_directory(rule % ("", f"slack:T01/{CHANNEL}"))
    ))  # fmt: skip
    approval, card = await office.card(tool="notes.share")
    office.world.press(DANA, CHANNEL, card.ts, label="Always allow…")
    menu = await office.world.until(
        lambda: next((m for m in office.world.channels[CHANNEL].messages if m.only == DANA and m.buttons), None)
    )
    office.world.press(DANA, CHANNEL, menu.ts, label=menu.labels[0])
    await office.settled(card, "Dana Reyes")
    await office.world.until(lambda: not office.world.channels[CHANNEL].message(menu.ts).buttons)
    assert (await office.row(approval)).status is Status.APPROVED
    assert len(await office.store.read(lambda ledger: ledger.rules("billing"))) == 1


async def test_l7_a_decision_elsewhere_takes_the_buttons_away(office: Office) -> None:
    approval, card = await office.card()
    await office.approvals.decide(approval.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key="k", via="cli")
    office.desk.start_redraw(approval.id)
    await office.settled(card, "Allowed by Dana Reyes through the command line")


async def test_l8_a_stranger_presses_first_and_changes_nothing(office: Office) -> None:
    await office.apply(f"slack:T01/{SHARED}")
    approval, card = await office.card(SHARED)
    await office.told(OUTSIDER, card, "Decline", SHARED)
    assert "right to answer" in await office.told(OLA, card, "Decline", SHARED)
    assert "Allowed" in await office.told(DANA, card, "Allow", SHARED)
    assert (await office.row(approval)).decided_by == "dana"


async def test_two_channels_and_a_private_chat_settle_together(office: Office) -> None:
    await office.apply(f"slack:T01/{CHANNEL}, slack:{SHARED}, dm")
    _, card = await office.card()
    private = office.world.direct(office.world.people[DANA], office.world.teams["T01"])
    cards = {chat: next(m for m in office.world.channels[chat].messages if m.buttons) for chat in (SHARED, private.id)}
    await office.told(DANA, card, "Decline")
    for chat, copy in cards.items():
        await office.settled(copy, "Declined by Dana Reyes", chat)


async def test_a_card_follows_its_channel_to_a_new_id(office: Office) -> None:
    await office.apply(f"slack:T01/{PRIVATE}")
    _, card = await office.card(PRIVATE)
    to = office.world.change_channel_id(PRIVATE)

    async def moved() -> bool:
        now: str = await office.store.read(lambda ledger: ledger.moved_to("slack", "T01", PRIVATE))
        return bool(now == to)

    async with asyncio.timeout(10):
        while not await moved():
            await asyncio.sleep(0.01)
    await office.told(DANA, card, "Decline", to)
    await office.settled(card, "Declined by Dana Reyes", to)


async def test_a_link_code_links_the_account_and_pending_lists(office: Office) -> None:
    directory, now = office.approvals.directory, office.approvals.clock.now()
    code = await office.store.write(lambda ledger: directory.issue_pairing(ledger, "ola", "kim", now))
    private = office.world.direct(office.world.people[GUEST], office.world.teams["T01"])
    await office.store.write(lambda ledger: ledger.replace_directory(
        read_directory(DIRECTORY.replace(", identities: {slack: T01/U03}", "") % ("", f"slack:T01/{CHANNEL}"))
    ))  # fmt: skip
    linked = office.world.command(GUEST, private.id, f"link {code}")
    assert "Linked. You are Ola Berg" in (await office.world.until(lambda: linked.words))[0]
    before = office.world.direct(office.world.people[OLA], office.world.teams["T01"])
    await office.world.until(lambda: "was linked to you" in before.last().shown)
    await office.card()
    listed = office.world.command(DANA, CHANNEL, "pending")
    assert "Waiting for you: 1" in (await office.world.until(lambda: listed.words))[0]

"""Random presses, replies, edits, votes, crashes and platform errors over three platforms at once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from core.approvals import Approval, AuditLine, Kind, Outcome, Status, Verdict, Vote
from core.desk import CLAIM
from core.ports import Ledger, Unavailable
from tests.core.three import DANA, EVE, OLA, PAT, SAM, Three, directory, three

ENTITLED, OTHERS = (DANA, OLA, EVE), (PAT, SAM)
PLATFORMS = ("telegram", "slack", "discord")
REDRAWS = {"telegram": "editMessageText", "slack": "chat.update", "discord": "edit_message"}
WORDS = {
    Status.APPROVED: "Allowed by",
    Status.DECLINED: "Declined by",
    Status.EXPIRED: "xpired",
    Status.CANCELLED: "ithdrawn",
}
RUN = {"activity": "refund", "task_queue": "billing"}


@dataclass
class Schedule:
    """One approval from its ask to its end, and what is done to it on the way; the same for the same seed."""

    here: Three
    seed: int
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.wrong: list[tuple[str, Any]] = []
        self.under_way: list[asyncio.Task[Any]] = []

    async def play(self) -> None:
        self.needed = self.random.choice([1, 1, 2])
        await self.here.office.apply(directory(self.needed))
        text = f"Hello {self.seed}"
        self.approval, self.cards = await self.here.asked(
            arguments={"to": "ada@example.com", "text": text}, run=RUN, timeout_s=3600,
            presentation={"editable": ["/text"], "lines": [["Text", "/text"]]},
        )  # fmt: skip
        self.texts = [text]
        steps = [self.press, self.press, self.press, self.reply, self.edit, self.decide, self.errors, self.crash,
                 self.fault, self.time]  # fmt: skip
        for _ in range(self.random.randint(4, 8)):
            step = self.random.choice(steps)
            self.done.append(step.__name__)
            await step()
            if self.random.random() < 0.6:
                await self.finish()
        await self.finish()

    # What happens

    async def press(self) -> None:
        platform = self.random.choice(PLATFORMS)
        shown = self.here.shown(platform, self.cards[platform])
        by = self.random.choice(ENTITLED * 2 + OTHERS)
        label = self.random.choice(["Allow", "Allow", "Decline"])
        if label in shown.buttons:
            self.done.append(f"{by} presses {label} on {platform}")
            self.begin(self.here.press(platform, self.cards[platform], label, by)())

    async def reply(self) -> None:
        platform, by = self.random.choice(PLATFORMS), self.random.choice(ENTITLED + OTHERS)
        text = self.random.choice(["ok", "👍", "not before Friday"])
        self.here.reply(platform, self.cards[platform], text, by)

    async def edit(self) -> None:
        text = f"Edited {self.random.random()}"
        who = self.random.choice(["dana", "ola", "pat"])
        row = await self.row()
        done = await self.sure(self.here.office.approvals.edit(
            self.approval.id, who, {"/text": text}, content_revision=row.content_revision, via="http"
        ))  # fmt: skip
        if isinstance(done, Approval):
            assert who != "pat"
            self.here.office.desk.start_redraw(self.approval.id)
        # A lost answer may hide a commit.
        self.texts.append(text)

    async def decide(self) -> None:
        who, verdict = self.random.choice(["dana", "eve", "pat"]), self.random.choice(list(Verdict))
        seen = (await self.row()).content_revision - self.random.choice([0, 0, 1])
        done = await self.sure(self.here.office.approvals.decide(
            self.approval.id, who, verdict, content_revision=max(1, seen), note=None, key=f"h{self.random.random()}",
            via="http",
        ))  # fmt: skip
        if isinstance(done, Approval):
            assert who != "pat"
            self.here.office.desk.start_redraw(self.approval.id)

    async def errors(self) -> None:
        platform = self.random.choice(PLATFORMS)
        trouble: dict[str, Any] = self.random.choice(
            [
                {"status": 502, "times": 1},
                {"status": 502, "times": 2},
                {"status": 502, "times": None},
                {"retry_after": 1},
            ]
        )
        self.here.worlds[platform].fail(REDRAWS[platform], **trouble)

    async def crash(self) -> None:
        """Another process took a card to draw it and died: its claim is left."""
        now, platform = self.here.office.clock.now(), self.random.choice(PLATFORMS)

        def die(ledger: Ledger) -> None:
            for card in ledger.posted_for(self.approval.id, Kind.CARD):
                if card.platform == platform:
                    ledger.take_redraw(card.id, "dead", now, now + CLAIM)

        await self.here.office.store.write(die)

    async def fault(self) -> None:
        self.here.office.line.faults = [self.random.choice(["before", "after"])]

    async def time(self) -> None:
        self.here.office.clock.ahead += timedelta(seconds=self.random.choice([1, 61, 61, 900]))

    async def sure(self, work: Any) -> Any:
        try:
            return await work
        except Unavailable:
            return None

    def begin(self, work: Any) -> None:
        async def heard() -> None:
            # A press in a fault, or on a platform that is away, may get no words.
            try:
                async with asyncio.timeout(0.5):
                    await work
            except (TimeoutError, AssertionError):
                pass

        self.under_way.append(asyncio.create_task(heard()))

    async def finish(self) -> None:
        await asyncio.gather(*self.under_way)
        self.under_way.clear()

    async def row(self) -> Approval:
        return await self.here.office.row(self.approval)

    # What must hold in the end

    async def check(self) -> Status:
        office = self.here.office
        self.here.mend()
        office.line.faults = []
        # What met a fault is delivered once more.
        await office.confirmed()
        await office.approvals.close()
        # Claims of whoever died have run out by then; the sweep does the rest.
        office.clock.ahead += timedelta(seconds=121)
        await office.approvals.expire_due()
        row = await self.row()
        # A library may be in the middle of its own pauses.
        async with asyncio.timeout(40):
            while wrong := self.untrue(row):
                self.wrong = wrong
                await office.desk.redraw_stale()
                await asyncio.sleep(0.05)
                row = await self.row()
        await self.one_answer()
        await self.one_run()
        return row.status

    def untrue(self, row: Approval) -> list[tuple[str, Any]]:
        """The cards that show something else than the row."""
        shown = [(platform, self.here.shown(platform, card)) for platform, card in self.cards.items()]
        return [
            (platform, card)
            for platform, card in shown
            if text_of(row) not in card.text
            or ("Allow" in card.buttons) is not row.pending
            or (not row.pending and (card.buttons or WORDS[row.status] not in card.text))
        ]

    async def one_answer(self) -> None:
        def read(ledger: Ledger) -> tuple[Approval | None, Sequence[AuditLine], Sequence[Vote]]:
            approval_id = self.approval.id
            return ledger.approval(approval_id), ledger.audit_of(approval_id), ledger.votes_of(approval_id)

        # At one moment: a reply may be on its way still.
        row, lines, votes = await self.here.office.store.read(read)
        assert row is not None
        assert {line.person for line in lines if line.person} <= {"dana", "ola", "eve"}
        answers = Counter(line.action for line in lines)
        assert answers["decline"] <= 1
        assert answers["expired"] + answers["decline"] + (row.status is Status.APPROVED) == (not row.pending)
        allowed = {v.person for v in votes if v.content_revision == row.content_revision and v.verdict == "allow"}
        assert row.status is not Status.APPROVED or len(allowed) >= self.needed
        assert not row.pending or len(allowed) < self.needed
        assert text_of(row) in self.texts
        assert row.content_revision == 1 + answers["edited"]

    async def one_run(self) -> None:
        taken = [await self.here.office.approvals.take(self.approval.id, run) for run in ("one", "one", "two")]
        row = await self.row()
        tokens = {each.claim.token for each in taken if each is not None and each.claim is not None}
        assert len(tokens) == (row.status is Status.APPROVED)
        for each in taken:
            if each is not None and each.claim is not None:
                assert each.claim.arguments == row.final_arguments
        outcome = (await self.row()).outcome
        assert outcome is (Outcome.UNKNOWN if tokens else Outcome.NONE)


def text_of(row: Approval) -> str:
    return str(json.loads(row.final_arguments)["text"])


async def play(folder: Path, seeds: list[int]) -> Counter[str]:
    ended: Counter[str] = Counter()
    async with three(f"sqlite:///{folder / 'placet.db'}") as here:
        for seed in seeds:
            schedule = Schedule(here, seed)
            try:
                await schedule.play()
                ended[await schedule.check()] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}: {', '.join(schedule.done)}; last seen wrong: {schedule.wrong}")
                raise
    return ended


def seeds(number: int) -> list[int]:
    random = SystemRandom()
    return [random.randrange(2**32) for _ in range(number)]


@pytest.mark.timeout(300)
async def test_every_card_tells_the_truth_in_the_end(tmp_path: Path) -> None:
    ended = await play(tmp_path, seeds(200))
    # Schedules that end all alike would prove little.
    assert {Status.APPROVED, Status.DECLINED, Status.PENDING} <= set(ended), ended


@pytest.mark.soak
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("part", range(20))
async def test_every_card_tells_the_truth_in_the_end_for_long(tmp_path: Path, part: int) -> None:
    await play(tmp_path, seeds(500))

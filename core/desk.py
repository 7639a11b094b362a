"""Posts cards where people are and redraws them until they show the row's truth."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from core.agents import Agents
from core.approvals import Approval, Attachment, Card, Destination, Kind, Message, Posted, Press, Reply
from core.buttons import Verb, new_token
from core.cards import Surroundings, draw, for_form, short_id, text_of
from core.identifiers import new_id
from core.judging import SCOPES
from core.lines import Lines
from core.ports import (
    Clock,
    Feed,
    Forming,
    Gone,
    Ledger,
    Meter,
    Moved,
    Prompting,
    Refused,
    Saying,
    Slow,
    Store,
    Surface,
    Unavailable,
)
from core.redaction import Redaction
from core.service import Approvals
from core.wording import relative_text, say

T = TypeVar("T")

log = logging.getLogger("placet.desk")

CLAIM = timedelta(seconds=60)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 10.0
# What cards take of the database and the processor, they take in few slots, posts and redraws apart; in the hand of one
# platform are as many redraws as it takes while some wait there for their chat's turn.
AT_ONCE, IN_HAND = 8, 200
# What only the buttons of a menu say: the message that carries them is no copy of the card.
FROM_MENUS = frozenset((*SCOPES, Verb.AGAIN_SURE))
RULES = frozenset((Verb.REMOVE_RULE, Verb.RULES_PAGE))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A row together with the card that shows it now."""

    approval: Approval
    card: Card


class Desk:
    """Carries cards to the surfaces of this process; holds nothing that the database does not."""

    def __init__(
        self,
        *,
        store: Store,
        approvals: Approvals,
        surfaces: Mapping[str, Surface],
        clock: Clock,
        meter: Meter,
        redaction: Redaction,
    ) -> None:
        self.store, self.approvals, self.surfaces = store, approvals, surfaces
        self.clock, self.meter, self.redaction = clock, meter, redaction
        self.agents = Agents(approvals)
        self._working: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self._asked: dict[str, bool | None] = {}
        self._lines = Lines(self._in_turn, self._rest, self._start)
        self._posting, self._slots = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        self._hands: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(IN_HAND))

    # Posting

    async def post(self, approval_id: str, destination: Destination, person: str) -> str:
        """Post the card of an approval to one place, once: `posted`, `final` (too late to ask) or `failed` (for good).

        Raises Slow or Unavailable when it is to be tried again, also while another caller holds the same post.
        """
        surface = self.surfaces.get(destination.platform)
        if surface is None:
            await self._could_not(approval_id, say("undeliverable_off"))
            return "failed"
        claim = secrets.token_urlsafe(12)
        wanted = self._new_row(approval_id, destination, Kind.CARD, person, claim)

        async def prepare() -> tuple[Drawn, Posted | None] | None:
            # Card for card: were all prepared before the first is sent, a crowd would keep everybody waiting.
            async with self._posting:
                drawn = await self.draw(approval_id, wanted)
                if drawn is None or not drawn.approval.pending:
                    return None
                row = wanted
                if not self._files(surface, drawn):
                    # Set before the card is sent: should its id get lost, the buttons of the copy work all the same.
                    row = replace(wanted, attached_revision=drawn.approval.content_revision)

                def reserve(ledger: Ledger) -> tuple[bool, Posted | None]:
                    standing = ledger.approval(approval_id)
                    if standing is None or not standing.pending:
                        return False, None
                    return True, ledger.reserve(row, self.clock.now())

                pending, held = await self.store.write(reserve)
                return (drawn, held) if pending else None

        prepared = await self._insist(prepare)
        if prepared is None:
            return "final"
        drawn, held = prepared
        if held is None:
            return await self._posted_before(drawn.approval, destination, person)
        try:
            message = await self._post(surface, destination, drawn.card, held.token)
        except (Gone, Refused) as error:
            why = say("undeliverable_gone" if isinstance(error, Gone) else "undeliverable_refused")
            await self._give_back(held, claim, why)
            await self._could_not(approval_id, why)
            log.warning("post failed", extra={"approval": approval_id, "platform": surface.name,
                                              "chat": destination.chat, "error": str(error)})  # fmt: skip
            return "failed"
        except Exception as error:
            await self._give_back(held, claim, say("undeliverable_retrying", platform=surface.name))
            if not isinstance(error, Slow):
                await self._could_not(approval_id, say("undeliverable_retrying", platform=surface.name))
            raise
        await self._save(held, claim, message, drawn)
        log.info("posted", extra={"approval": approval_id, "platform": surface.name, "chat": message.chat})
        await self._insist(lambda: self.approvals.mark_undeliverable(approval_id, None))
        try:
            if held.attached_revision != drawn.approval.content_revision:
                await self._attach(surface, held.id)
        finally:
            self.start_redraw(approval_id)
        return "posted"

    async def _post(self, surface: Surface, destination: Destination, card: Card, token: str) -> Message:
        chat = await self.store.read(
            lambda ledger: ledger.moved_to(surface.name, destination.account, destination.chat)
        )
        try:
            return await surface.post(replace(destination, chat=chat), card, token=token)
        except Moved as moved:
            to = moved.to
        message = await surface.post(replace(destination, chat=to), card, token=token)
        # The message names the account by its id, as every other message of that chat does.
        await self._insist(lambda: self.moved(surface.name, message.account, chat, to))
        return message

    async def moved(self, platform: str, account: str, chat: str, to: str) -> None:
        """A chat has a new id: remember it, for the messages in it too."""
        await self.store.write(lambda ledger: ledger.move(platform, account, chat, to))
        log.info("chat moved", extra={"platform": platform, "chat": chat, "to": to})

    async def _follow(self, message: Message, call: Callable[[Message], Awaitable[Message]]) -> Message:
        """Make a call about a message; where its chat has a new id, that is remembered and the call made there."""
        try:
            return await call(message)
        except Moved as moved:
            to = moved.to
        await self._insist(lambda: self.moved(message.platform, message.account, message.chat, to))
        return await call(replace(message, chat=to))

    def _new_row(self, approval_id: str, destination: Destination, kind: Kind, person: str, claim: str) -> Posted:
        now = self.clock.now()
        return Posted(
            id=new_id(now), approval_id=approval_id, destination=destination.key, kind=kind, person=person,
            token=new_token(), platform=destination.platform, account=destination.account, chat=destination.chat,
            thread=destination.thread, message_id=None, shown_revision=0, shown_id=None, attached_revision=0,
            posted_at=None, claim=claim, claim_until=now + CLAIM,
        )  # fmt: skip

    async def _posted_before(self, approval: Approval, destination: Destination, person: str) -> str:
        """The card is there already, or another caller is at it: finish its file, or come back when the claim ends."""
        rows = await self.store.read(lambda ledger: ledger.posted_for(approval.id, Kind.CARD))
        row = next((r for r in rows if r.destination == destination.key and r.person == person), None)
        if row is None or row.message_id is None:
            left = (row.claim_until - self.clock.now()).total_seconds() if row and row.claim_until else 1.0
            raise Slow(max(1.0, left))
        if row.attached_revision != approval.content_revision:
            try:
                await self._attach(self.surfaces[destination.platform], row.id)
            finally:
                # While the file was on its way, nobody else could redraw the card.
                self.start_redraw(approval.id)
        return "posted"

    async def _save(self, held: Posted, claim: str, message: Message, drawn: Drawn) -> None:
        def save(ledger: Ledger) -> bool:
            now = self.clock.now()
            shown_id = ledger.show(text_of(drawn.card), now)
            return ledger.mark(
                held.id, claim=claim, message_id=message.id, account=message.account, chat=message.chat,
                thread=message.thread, posted_at=now, shown_revision=drawn.approval.revision, shown_id=shown_id,
                failed=None, claim_until=now,
            )  # fmt: skip

        if not await self._insist(lambda: self.store.write(save)):
            # Somebody took the post over meanwhile: this copy is an orphan, redrawn when it is pressed.
            log.warning("orphan card", extra={"approval": held.approval_id, "platform": message.platform})

    async def _give_back(self, held: Posted, claim: str, why: str) -> None:
        def give_back(ledger: Ledger) -> None:
            ledger.mark(held.id, claim=claim, failed=why, claim_until=self.clock.now())

        with suppress(Unavailable):
            await self._insist(lambda: self.store.write(give_back))

    async def _could_not(self, approval_id: str, why: str) -> None:
        """Mark the row undeliverable unless some card of it stands; a fault never answers."""
        await self.approvals.mark_undeliverable(approval_id, why, unless_seen=True)

    async def _attach(self, surface: Surface, posted_id: str) -> None:
        """Attach what the card could not hold; Allow is refused until it is there (design section 8).

        Raises Slow while another caller is at the card: what it lacks must not be left out for good.
        """
        claim = secrets.token_urlsafe(12)
        posted = await self._insist(lambda: self.store.write(lambda ledger: self._take(ledger, posted_id, claim)))
        if posted is None:
            raise Slow(1.0)
        drawn = await self._insist(lambda: self.draw(posted.approval_id, posted))
        message = posted.message
        if drawn is None or message is None or posted.attached_revision == drawn.approval.content_revision:
            await self._release(posted_id, claim)
            return
        try:
            for file in self._files(surface, drawn):
                sent = await self._follow(message, lambda message, file=file: surface.attach(message, file))  # type: ignore[misc]
                await self._note(posted, Kind.FILE, sent, posted.person)
        except (Gone, Refused) as error:
            log.warning("attach failed", extra={"approval": posted.approval_id, "error": str(error)})
            await self.approvals.mark_undeliverable(posted.approval_id, say("undeliverable_file"))
            await self._release(posted_id, claim)
            return
        except Exception:
            await self._release(posted_id, claim)
            raise
        revision = drawn.approval.content_revision

        def attached(ledger: Ledger) -> None:
            ledger.mark(posted_id, attached_revision=revision, claim=claim, claim_until=self.clock.now())

        await self._insist(lambda: self.store.write(attached))

    @staticmethod
    def _files(surface: Surface, drawn: Drawn) -> tuple[Attachment, ...]:
        if drawn.card.attachments:
            return drawn.card.attachments
        if surface.fits(drawn.card):
            return ()
        return (Attachment(f"approval-{short_id(drawn.approval.id)}.txt", text_of(drawn.card)),)

    async def _note(self, of: Posted, kind: Kind, message: Message, person: str) -> None:
        """Remember a message that belongs to a card, so that a reply to it counts as one to the card."""
        row = replace(
            of, id=new_id(self.clock.now()), kind=kind, person=person, token=new_token(), message_id=message.id,
            destination=f"{of.destination}|{message.id}", account=message.account, chat=message.chat,
            thread=message.thread, posted_at=self.clock.now(), claim=None, claim_until=None,
        )  # fmt: skip
        await self._insist(lambda: self.store.write(lambda ledger: ledger.reserve(row, self.clock.now())))

    # Redrawing

    async def draw(self, approval_id: str, posted: Posted | None = None) -> Drawn | None:
        """The row as it stands, expiry applied, and its card, in the language of where it was or will be posted."""
        approval = await self.approvals.get(approval_id)
        if approval is None:
            return None

        def context(ledger: Ledger) -> tuple[Surroundings, str]:
            directory = self.approvals.directory
            language = directory.language_of_card(ledger, posted) if posted else directory.default_language
            return self.approvals.surroundings(ledger, approval), language

        around, language = await self.store.read(context)
        card = await draw(approval, around, self.clock.now(), language, redaction=self.redaction)
        if posted is not None:
            self.approvals.spoken.note_chat(posted, language)
            surface = self.surfaces.get(posted.platform)
            takes = (surface.form_fields, surface.form_characters) if isinstance(surface, Forming) else (0, 0)
            card = for_form(card, *takes)
        return Drawn(approval, card)

    async def redraw(self, posted_id: str, claim: str) -> float:
        """Make one message show the row, and again until it does (design section 4); raises nothing of a platform.

        Returns the seconds after which it is to be called again, as the platform asks; else 0. After that, and after
        Unavailable, which says that the database is away, it is to be called with the same `claim`: the message may be
        held under it.
        """
        while True:
            async with self._slots:
                posted = await self.store.write(lambda ledger: self._take(ledger, posted_id, claim))
                if posted is None:
                    return 0
                surface = self.surfaces.get(posted.platform)
                drawn = await self.draw(posted.approval_id, posted)
            if surface is None or drawn is None or posted.message is None:
                await self._release(posted_id, claim)
                return 0
            if posted.shown_revision != drawn.approval.revision:
                # No slot is held here: a chat's turn may be seconds away.
                left = await self._redraw(surface, posted, posted.message, drawn, claim)
                if left is not None:
                    return left
            async with self._slots:
                shown = await self._shown(surface, posted_id, claim, drawn)
            if shown:
                await self._attach_anew(surface, posted, drawn.approval)
                return 0

    async def _attach_anew(self, surface: Surface, posted: Posted, approval: Approval) -> None:
        """After an edit, what a waiting card cannot hold is another text, and Allow waits until that is attached."""
        try:
            if self._lacks_file(posted, approval):
                await self._attach(surface, posted.id)
        except Slow as slow:
            self._later(slow.after, posted.approval_id)
        except Unavailable:
            self.meter.redraw(posted.platform, "unavailable")

    @staticmethod
    def _lacks_file(posted: Posted, approval: Approval) -> bool:
        # The first file is the poster's to attach, which is tried until it is done.
        return approval.pending and 0 < posted.attached_revision != approval.content_revision

    async def _redraw(
        self, surface: Surface, posted: Posted, message: Message, drawn: Drawn, claim: str
    ) -> float | None:
        """Edit the message; where that is left for later, the seconds until then, or 0: the sweep comes by."""
        try:
            await surface.redraw(message, drawn.card, token=posted.token)
        except Slow as slow:
            self.meter.redraw(posted.platform, "slow")
            after = slow.after
            with suppress(Unavailable):
                if await self.store.write(lambda ledger: self._take(ledger, posted.id, claim, after)) is None:
                    return 0
            return after
        except Moved as moved:
            await self.moved(posted.platform, posted.account, posted.chat, moved.to)
            return await self._redraw(surface, posted, replace(message, chat=moved.to), drawn, claim)
        except (Gone, Refused) as error:
            self.meter.redraw(posted.platform, "gone")
            log.info("card gone", extra={"approval": posted.approval_id, "platform": posted.platform,
                                         "chat": posted.chat, "error": str(error)})  # fmt: skip
        except Unavailable:
            self.meter.redraw(posted.platform, "unavailable")
            await self._release(posted.id, claim)
            return 0
        else:
            self.meter.redraw(posted.platform, "drawn")
        return None

    def _later(self, after: float, approval_id: str) -> None:
        async def later() -> None:
            await asyncio.sleep(after)
            self.start_redraw(approval_id)

        self._waiting.add(self._start(later()))

    def _take(self, ledger: Ledger, posted_id: str, claim: str, longer: float = 0.0) -> Posted | None:
        now = self.clock.now()
        return ledger.take_redraw(posted_id, claim, now, now + CLAIM + timedelta(seconds=longer))

    async def _shown(self, surface: Surface, posted_id: str, claim: str, drawn: Drawn) -> bool:
        """Store which revision the message shows and let the claim go; True when that is the row's revision still.

        Found lost, the claim's message is marked as never drawn, so that the next one draws it again: whichever edit
        came last, the truth comes after it.
        """

        def save(ledger: Ledger) -> bool:
            now = self.clock.now()
            shown_id = ledger.show(text_of(drawn.card), now)
            revision = drawn.approval.revision
            shown = {"shown_revision": revision, "shown_id": shown_id, "claim_until": now}
            if not self._files(surface, drawn):
                shown["attached_revision"] = drawn.approval.content_revision
            if not ledger.mark(posted_id, claim=claim, **shown):
                ledger.mark(posted_id, shown_revision=0)
                return True
            approval = ledger.approval(drawn.approval.id)
            return approval is None or approval.revision == revision

        return await self.store.write(save)

    async def _release(self, posted_id: str, claim: str) -> None:
        def release(ledger: Ledger) -> None:
            ledger.mark(posted_id, claim=claim, claim_until=self.clock.now())

        await self._insist(lambda: self.store.write(release))

    async def redraw_stale(self, limit: int = 200) -> int:
        """Redraw what fell through: cards that show an old revision, at most so many of a platform; how many were taken
        up."""
        now = self.clock.now()

        def stale(ledger: Ledger) -> list[Posted]:
            # Each by itself: one that is down hides no other.
            return [row for platform in self.surfaces for row in ledger.stale_cards(now, limit, platform)]

        rows = await self.store.read(stale)
        for row in rows:
            self._lines.add(row, first=False)
        return len(rows)

    def start_redraw(self, approval_id: str, *, first: bool = False) -> None:
        """Redraw the cards of an approval in the background, each in its place's line; `first`, before all others."""
        looking = approval_id in self._asked
        self._asked[approval_id] = first or bool(self._asked.get(approval_id))
        if not looking:
            self._start(self._look(approval_id))

    async def _look(self, approval_id: str) -> None:
        """Line up what shows an old revision, and once more when that was asked for meanwhile."""
        try:
            while (first := self._asked[approval_id]) is not None:
                self._asked[approval_id] = None
                for posted in await self._insist(lambda: self._stale(approval_id), math.inf):
                    self._lines.add(posted, first=first)
        finally:
            del self._asked[approval_id]

    async def _stale(self, approval_id: str) -> list[Posted]:
        """The cards of an approval that show an old revision and that this process has a surface for."""

        def stale(ledger: Ledger) -> list[Posted]:
            approval = ledger.approval(approval_id)
            if approval is None:
                return []
            rows = ledger.posted_for(approval_id, Kind.CARD)
            mine = [row for row in rows if row.message_id and row.platform in self.surfaces]
            return [row for row in mine if row.shown_revision != approval.revision or self._lacks_file(row, approval)]

        async with self._slots:
            return await self.store.read(stale)

    async def _in_turn(self, platform: str, posted_id: str, claim: str) -> float:
        async def redraw() -> float:
            async with self._hands[platform]:
                return await self.redraw(posted_id, claim)

        try:
            return await self._insist(redraw, math.inf)
        except Exception as error:
            self._broke(error)
            return 0

    # Listening

    async def listen(self, surface: Surface) -> None:
        """Take a surface's presses to the door until cancelled."""
        await surface.listen(self.take)

    async def take(self, press: Press) -> Reply:
        """One press, to the door and back; the prompt and the redraw follow off its path."""
        if press.text is None and press.verb in RULES:
            return await self.agents.press(press)
        reply = await self.approvals.press(press)
        if reply.ask_note or reply.form is not None:
            self._start(self._prompt(press, reply))
        if reply.redraw and reply.approval_id:
            self._start(self._redraw_pressed(press, reply.approval_id))
        return reply

    async def _prompt(self, press: Press, reply: Reply) -> None:
        surface = self.surfaces[press.message.platform]
        if not isinstance(surface, Prompting):
            return
        found = await self.store.read(lambda ledger: ledger.posted_of_token(press.token))
        if found is None:
            return
        posted, _ = found
        text = reply.form.prompt if reply.form is not None else reply.text
        try:
            message = await self._follow(press.message, lambda message: surface.prompt(message, press.actor, text))
        except (Gone, Moved, Refused, Slow, Unavailable) as error:
            log.warning("prompt failed", extra={"approval": reply.approval_id, "error": type(error).__name__})
            return
        if reply.form is not None:
            posted = replace(posted, verb=reply.form.verb, content_revision=reply.form.content_revision)
        await self._note(posted, Kind.PROMPT, message, press.actor.id)

    async def _redraw_pressed(self, press: Press, approval_id: str) -> None:
        self.start_redraw(approval_id, first=True)
        if not press.token or press.verb in FROM_MENUS:
            return
        found, known = await self._insist(
            lambda: self.store.read(
                lambda ledger: (ledger.posted_of_token(press.token), ledger.posted_at(press.message))
            )
        )
        if found is None or known is not None:
            # A message that is known shows its own row, whatever token somebody sent from there.
            return
        # A copy that a crash left behind: nobody else knows of it, so it is redrawn from here.
        drawn = await self.draw(approval_id, found[0])
        if drawn is not None:
            with suppress(Gone, Moved, Refused, Slow, Unavailable):
                surface = self.surfaces[press.message.platform]
                await surface.redraw(press.message, drawn.card, token=press.token)

    async def watch(self, feed: Feed) -> None:
        """Redraw what other processes changed, until cancelled."""
        async for approval_id, _ in feed.subscribe():
            self.start_redraw(approval_id)

    # Reminding

    async def remind(self, approval_id: str) -> None:
        """Remind, once per place, under every card that stands; raises Slow or Unavailable to be tried again."""
        approval = await self.approvals.get(approval_id)
        if approval is None or not approval.pending:
            return
        rows = await self.store.read(lambda ledger: ledger.posted_for(approval_id, Kind.CARD))
        for row in rows:
            surface = self.surfaces.get(row.platform)
            if row.message is None or not isinstance(surface, Saying):
                continue
            if (there := await self.draw(approval_id, row)) is not None:
                await self._remind_at(surface, row, row.message, self._reminder(there))
        await self.approvals.mark_reminded(approval_id)

    def _reminder(self, drawn: Drawn) -> str:
        language = drawn.card.language
        left = relative_text(drawn.approval.expires_at, self.clock.now(), language)
        return say("reminder", locale=language, title=drawn.card.title, left=left)

    async def _remind_at(self, surface: Saying, card: Posted, message: Message, text: str) -> None:
        claim = secrets.token_urlsafe(12)
        place = Destination(card.platform, card.account, card.chat, card.thread)
        wanted = replace(self._new_row(card.approval_id, place, Kind.REMINDER, card.person, claim),
                         destination=card.destination)  # fmt: skip
        held = await self._insist(lambda: self.store.write(lambda ledger: ledger.reserve(wanted, self.clock.now())))
        if held is None:
            return
        try:
            sent = await self._follow(message, lambda message: surface.say(message, text))
        except (Gone, Refused, Moved) as error:
            await self._give_back(held, claim, type(error).__name__)
            return
        except (Slow, Unavailable):
            await self._give_back(held, claim, say("undeliverable_retrying", platform=card.platform))
            raise
        await self._insist(lambda: self.store.write(
            lambda ledger: ledger.mark(held.id, claim=claim, message_id=sent.id, posted_at=self.clock.now())
        ))  # fmt: skip

    # While the database is away

    async def _insist(self, work: Callable[[], Awaitable[T]], within: float = CLAIM.total_seconds()) -> T:
        """Do the work, again and again while the database is away; Unavailable goes up after so many seconds.

        For what leaves a claim behind, or was told to a platform already: where it is dropped, nobody goes on with it
        before the claim has run out, or what was sent is sent twice. The work must bear to be done twice.
        """
        loop = asyncio.get_running_loop()
        pause, until = FIRST_PAUSE_S, loop.time() + within
        while True:
            try:
                return await work()
            except Unavailable:
                if loop.time() + pause > until:
                    raise
            await self._rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _rest(self, pause: float) -> None:
        """Sleep; a task of the desk's own is then not waited for at the end."""
        resting = {task for task in self._working if task is asyncio.current_task()}
        self._waiting |= resting
        await asyncio.sleep(pause)
        self._waiting -= resting

    # Work off the path

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        self._waiting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broke(error)

    @staticmethod
    def _broke(error: BaseException) -> None:
        level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
        log.log(level, "desk work failed", extra={"error": type(error).__name__},
                exc_info=None if isinstance(error, Unavailable) else error)  # fmt: skip

    async def close(self, within: float = 5.0) -> None:
        """Finish what is at hand and what comes of it, for at most so many seconds; the sweep does the rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while busy := self._working - self._waiting:
                    # Looked at often: a task that begins to rest ends nothing.
                    await asyncio.wait(busy, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        for task in set(self._working):
            task.cancel()

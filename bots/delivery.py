"""What a surface was told, on its way to the door and back: read into few shapes, tried until it is done, answered."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from core.approvals import Actor, Press, Reply, Tone
from core.ports import Finding, Gone, Hooks, Lease, Moved, Refused, Slow, Unavailable
from core.wording import say, say_on

log = logging.getLogger("placet.bots")
T = TypeVar("T")
OnPress = Callable[[Press], Awaitable[Reply]]

TRIES, PRESS_S, DRAIN_S, LEASE_RETRY_S = 5, 15.0, 5.0, 2.0
# Health pages ask often and give a check 3 s; what is well is not asked again at once.
CHECK_S, CHECK_AGAIN_S = 2.5, 15.0
OF_AGENTS = ("rules", "mode", "pause", "resume")
# A link without its code is one of them.
ASKS_FOR_HELP = ("", "help", "start", "link")


class Late(Exception):
    """The press is too old to be answered, or was answered before; the decision stands."""


@dataclass(frozen=True, slots=True)
class Command:
    """`link` with its code, `pending`, or one of OF_AGENTS with the agent's name; `mode` may have the mode as well.

    Without an agent's name it asks which agents there are.
    """

    name: str
    actor: Actor
    argument: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """Something that decides nothing: the words to say, by their name in the catalogue."""

    key: str


@dataclass(frozen=True, slots=True)
class Migrated:
    """The chat got the new id `to`."""

    chat: str
    to: str


@dataclass(frozen=True, slots=True)
class NoteForm:
    """The button that opens the form for a note: from the button alone, before any other work (design section 4)."""

    press: Press
    title: str = ""


Reading = Press | Command | Hint | Migrated


def command_of(name: str, actor: Actor, words: Sequence[str], *, private: bool) -> Command | Hint:
    """A command as it was typed: its name, and the words after it. A code is nobody else's business."""
    if name == "pending":
        return Command(name, actor)
    if name == "link" and words and words[0]:
        return Command(name, actor, words[0]) if private else Hint("link_private_only")
    if name in OF_AGENTS:
        agent, more = [*words, "", ""][:2]
        return Command(name, actor, agent, more if name == "mode" else "")
    return Hint("help" if name in ASKS_FOR_HELP else "unknown_command")


def is_command(text: str) -> bool:
    """Whether a text was meant as a command, so that a mistyped one never answers a card."""
    return text.lstrip().startswith("/")


class Intake:
    """Takes what a platform tells to the door; `pace` scales every wait, and `on_press` is there while it listens."""

    def __init__(self, platform: str, hooks: Hooks, pace: float) -> None:
        self._platform, self._hooks, self._pace = platform, hooks, pace
        self.on_press: OnPress | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._told_to_wait: deque[str] = deque(maxlen=1000)

    @asynccontextmanager
    async def open(self, on_press: OnPress) -> AsyncIterator[None]:
        """Listen; at the end what is at hand gets DRAIN_S to finish."""
        self.on_press = on_press
        try:
            yield
        finally:
            self.on_press = None
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=DRAIN_S)

    async def tried(
        self, account: str, event: str, work: Callable[[], Awaitable[Reply | None]], *, comes_again: bool, language: str
    ) -> Reply | None:
        """What is to be said to an event, by us in this `language`; a bug is tried TRIES times, then let go.

        An event that was not committed raises Unavailable where it comes again, and else is tried again here.
        """
        failed = "went_wrong"
        for tries in range(1, TRIES + 1):
            try:
                async with asyncio.timeout(PRESS_S):
                    return await work()
            except (Unavailable, TimeoutError):
                if comes_again:
                    raise Unavailable("not committed") from None
                failed, wait = "not_saved", 0.5 * 2**tries
            except Exception as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                log.error("update failed", extra={"platform": self._platform, "account": account, "update": event,
                                                  "error": type(error).__name__, "at": f"{at.name}:{at.lineno}",
                                                  "tries": tries})  # fmt: skip
                failed, wait = "went_wrong", 0.1 * 2**tries
            if tries < TRIES:
                await self.pause(wait)
        return Reply(say(failed, locale=language), Tone.ALERT)

    async def carry_out(self, account: str, reading: Reading, language: str) -> Reply | None:
        """Do what a reading asks, once; a hint is said in this `language`."""
        match reading:
            case Press() as press if self.on_press is not None:
                return await self.on_press(press)
            case Command("pending", actor):
                return await self._hooks.commands.pending(actor)
            case Command("link", actor, code):
                return await self._hooks.commands.link(actor, code)
            case Command("rules", actor, agent):
                return await self._hooks.commands.rules(actor, agent)
            case Command("mode", actor, agent, mode):
                return await self._hooks.commands.mode(actor, agent, mode)
            case Command("pause", actor, agent):
                return await self._hooks.commands.pause(actor, agent)
            case Command("resume", actor, agent):
                return await self._hooks.commands.resume(actor, agent)
            case Hint(key):
                return Reply(say_on(self._platform, key, locale=language), refused=True, ours=True)
            case Migrated(chat, to):
                await self._hooks.chats.moved(self._platform, account, chat, to)
                return None
        raise Unavailable("nobody listens any more")

    def wait_is_news(self, event: str) -> bool:
        """Whether the one who caused the event has not been told yet that it cannot be saved just now."""
        if event in self._told_to_wait:
            return False
        self._told_to_wait.append(event)
        return True

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._pace)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that is held until it ends, whoever still waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, Unavailable):
            log.error("answer broke", extra={"platform": self._platform, "error": type(error).__name__})


@contextmanager
def answering(platform: str, account: str, approval: str = "") -> Iterator[None]:
    """An answer that cannot be given is logged and let go; what was pressed stands."""
    about = {"platform": platform, "account": account, "approval": approval}
    try:
        yield
    except Late:
        log.info("answer too late", extra=about)
    except (Gone, Moved, Slow, Refused, Unavailable) as error:
        log.warning("answer failed", extra=about | {"error": type(error).__name__})


class Checkup:
    """What a check finds; while all is well, it is asked for again after CHECK_AGAIN_S only."""

    def __init__(self, ask: Callable[[], Awaitable[Sequence[Finding]]]) -> None:
        self._ask = ask
        self._until = 0.0
        self._well: Sequence[Finding] = ()

    async def __call__(self) -> Sequence[Finding]:
        now = asyncio.get_running_loop().time()
        if now < self._until:
            return self._well
        found = await self._ask()
        if all(finding.level == "ok" for finding in found):
            self._until, self._well = now + CHECK_AGAIN_S, found
        return found

    def forget(self) -> None:
        self._until = 0.0


class Backoff:
    """Seconds to wait between tries: 1, doubled up to `most`."""

    def __init__(self, most: float) -> None:
        self._most, self._seconds = most, 0.5

    def __call__(self) -> float:
        self._seconds = min(self._seconds * 2, self._most)
        return self._seconds

    def reset(self) -> None:
        self._seconds = 0.5


async def still_held(lease: Lease, held: bool) -> bool:
    """Whether this process may listen; while that cannot be known, whoever did goes on and nobody else begins."""
    try:
        return await lease.held()
    except Unavailable:
        return held


def tidy(text: str) -> str:
    """Text without lone surrogates, which JSON can carry and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

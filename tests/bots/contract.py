"""What every chat platform's surface is held to, and what its bench must offer for that.

A platform's bench is `tests/bots/<platform>_bench.py` with `bench()`, an async context manager that gives a Bench over
the platform's real library and the sandbox. The suite finds it by the name in `PLATFORMS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol

import pytest

from core.approvals import (
    Attachment,
    Button,
    Card,
    Destination,
    Effect,
    Line,
    Message,
    Outcome,
    Press,
    Reply,
    Status,
    Tone,
)  # fmt: skip
from core.buttons import Verb
from core.cards import Surroundings, card_of
from core.ports import Surface, Unavailable
from core.redaction import Redaction
from core.wording import LANGUAGES
from tests.builders import NOW, an_approval

HOSTILE = (
    "`a_b` [x](y) <b>bold</b> & *z* <a href='http://evil.example'>go</a> @dana @everyone @here <!channel> <@U123> "
    "<@1001> #tag $USD /start deploy.sh main.py 10.0.0.1 https://evil.example/x?a=1 ```code``` ||hidden|| "
    "mail@evil.example +442079460958 <tg-spoiler>q</tg-spoiler> &lt;i&gt;"
)


@dataclass(frozen=True)
class Shown:
    """A message as a person sees it: text without markup, button data by label, and every live stretch in it."""

    text: str
    buttons: dict[str, str]
    live: list[str]


@dataclass(frozen=True)
class Bench:
    """One surface against the sandbox. `place` takes cards; `troubles` are the faults that the platform knows.

    `meet(trouble)`: the next call meets a fault (gone, moved, slow, refused, unavailable); it answers the chat's new id
    where it moved. `press` and `reply` are done by Dana Reyes, `press` also by the second or third of `people`; `told`
    waits for what the presser was told last. `menu` waits for the menu that Dana was shown last, `pick` presses a
    button of it, and `menu_now` is what stands there then.

    Where the platform has forms, `opened` waits for the one that Dana's press opened (title and values by label), and
    `submit` sends it with the texts of its fields in order. Where it has groups, `join` puts Dana into `group`.
    """

    surface: Surface
    place: Destination
    troubles: frozenset[str]
    shown: Callable[[Message], Shown]
    files: Callable[[Message], list[tuple[str, str]]]
    meet: Callable[[str], str]
    press: Callable[..., None]
    reply: Callable[[Message, str], None]
    told: Callable[[], Awaitable[str]]
    people: tuple[str, str, str]
    menu: Callable[[], Awaitable[Shown]]
    pick: Callable[[str], None]
    menu_now: Callable[[], Shown]
    opened: Callable[[], Awaitable[tuple[str, dict[str, str]]]] | None = None
    submit: Callable[[list[str]], None] | None = None
    group: str = ""
    join: Callable[[], object] = lambda: None


class Opens(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Bench]: ...


def bench_of(platform: str) -> AbstractAsyncContextManager[Bench]:
    opens: Opens = import_module(f"tests.bots.{platform}_bench").bench
    return opens()


BUTTONS = (
    Button(Verb.ALLOW, "Allow", "success", "Allow this refund of 49.00 GBP?"),
    Button(Verb.DECLINE, "Decline", "danger"),
    Button(Verb.NOTE, "Decline with a note"),
)
PLAIN = Card(
    title="Refund a duplicate charge",
    pill="Spends or deletes",
    lines=(
        Line("Amount", "49.00 GBP"),
        Line("Charge", "ch_1", code=True),
        Line("Customer", "Ada Lovelace", claim=True),
    ),
    body="",
    claim="The customer was charged twice.",
    status="",
    tone=Tone.QUIET,
    buttons=BUTTONS,
    attachments=(),
    digest="sha256:0123456789abcdef",
    expiry="Expires 16 Mar 2026, 12:00 UTC",
    content_revision=1,
    revision=1,
)


def rows(language: str) -> dict[str, Card]:
    """Cards as they are made of rows; each is made so as to fit on every platform, in every language."""
    text = f"{HOSTILE}\n" * 3
    hostile = an_approval(
        agent=HOSTILE[:150], tool=HOSTILE[:150], reasoning=text * 9, effect=Effect.SEND,
        arguments={"command": text * 20, "to": [HOSTILE] * 20, "note": "\u202eдлинный" * 99},
        presentation={"title": HOSTILE[:150], "lines": [[HOSTILE[:80], "/command", "code"], ["To", HOSTILE]]},
    )  # fmt: skip
    answered: dict[str, Any] = {"decided_by": "dana", "decided_via": "telegram", "decided_at": NOW, "revision": 2}
    made = {
        "pending": an_approval(),
        "hostile": hostile,
        "declined with a note": replace(hostile, status=Status.DECLINED, note=text * 9, **answered),
        "failed": replace(
            hostile, status=Status.APPROVED, outcome=Outcome.UNKNOWN, outcome_note=text * 9, note=text, **answered
        ),
        "expired": an_approval(status=Status.EXPIRED, decided_at=NOW),
        "undeliverable": an_approval(undeliverable=HOSTILE),
    }
    redaction = Redaction(b"k" * 32)
    around = Surroundings(people={"dana": "Dana Reyes"})
    return {kind: card_of(row, around, NOW, language, redaction=redaction) for kind, row in made.items()}


CARDS = {
    "plain": PLAIN,
    "bare": replace(PLAIN, lines=(), claim="", digest="", pill=""),
    "with a body": replace(PLAIN, body="rm -rf /var/tmp/build\nmake deploy"),
    "six long lines": replace(PLAIN, lines=tuple(Line(f"Line {n}", "x" * 300) for n in range(6))),
    "five thousand characters": replace(PLAIN, body="".join(f"{n:05}" for n in range(1000))),
    "everything long": replace(
        PLAIN,
        title="t" * 150,
        lines=tuple(Line("l" * 80, "ß" * 300) for _ in range(6)),
        body="b" * 6000,
        claim="c" * 20_000,
        status="s" * 4000,
    ),
    "emoji": replace(PLAIN, body="😀" * 3000, claim="👩‍👩‍👧" * 200),
    "hostile": replace(
        PLAIN,
        title=HOSTILE[:150],
        pill="Reaches people or services",
        lines=tuple(Line(f"To {HOSTILE[:60]}", HOSTILE, claim=bool(n % 2)) for n in range(6)),
        body=HOSTILE,
        claim=HOSTILE,
        status=f"Declined by {HOSTILE}",
    ),
    "Cyrillic": replace(PLAIN, title="Возврат платежа", lines=(Line("Клиент", "Ада" * 80),), content_revision=36**5),
    **{f"a row: {kind}": card for kind, card in rows("en").items()},
    "every button": replace(PLAIN, buttons=tuple(Button(verb, verb.name.lower()) for verb in Verb)),
    "about a rule": replace(PLAIN, buttons=(Button(Verb.REMOVE_RULE, "Take it back", token="R" * 16, number=7),)),
    "partly answered": replace(PLAIN, status="1 of 2 have allowed this", content_revision=3, revision=9),
}


# What core makes of rows, in every language.
ROWS = {f"{kind}, {language}": card for language in LANGUAGES for kind, card in rows(language).items()}


def settled(card: Card) -> Card:
    return replace(card, buttons=(), status="Allowed by Dana Reyes", tone=Tone.GOOD, revision=card.revision + 1)


FILE = Attachment("approval.txt", "the whole text ✓\n" * 500)


@dataclass
class Door:
    """Stands in for the approvals behind a surface: it records presses and answers what it was set to."""

    reply: Reply = field(default_factory=lambda: Reply("Allowed.", Tone.GOOD))
    down: int = 0
    failing: int = 0
    presses: list[Press] = field(default_factory=list)
    tries: int = 0

    async def on_press(self, press: Press) -> Reply:
        self.tries += 1
        if self.down > 0:
            self.down -= 1
            raise Unavailable("the database is down")
        if self.failing > 0:
            self.failing -= 1
            raise KeyError("a secret value")
        self.presses.append(press)
        return self.reply

    async def pressed(self, count: int = 1) -> list[Press]:
        """The presses that were decided, once there are so many."""
        await eventually(lambda: len(self.presses) >= count)
        return self.presses


async def eventually(check: Callable[[], object]) -> None:
    """Wait until `check` answers something true."""
    async with asyncio.timeout(10):
        while not check():
            await asyncio.sleep(0.005)


def whence(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Each line of the log with the platform that it names."""
    return [(record.message, getattr(record, "platform", "")) for record in caplog.records]

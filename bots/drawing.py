"""What the platforms' ways of drawing a card have in common: its small print, and cutting it to a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.approvals import Button, Card, Line, Press, Reply
from core.buttons import ButtonData
from core.wording import fill, say

Measure = Callable[[str], int]


@dataclass(slots=True)
class Piece:
    """A stretch of a card's text and how it is drawn. What has a higher `rank` is cut first; 0 is never cut."""

    text: str
    draw: Callable[[str], Any]
    rank: int = 0


def label_of(line: Line, locale: str) -> str:
    return f"{line.label}{fill('claimed', locale=locale)}:" if line.claim else f"{line.label}:"


def claim_label(card: Card) -> str:
    """The heading of what the agent says of its call."""
    return f"{fill('claim_label', locale=card.language)}:"


def foot_of(card: Card) -> str:
    """The small print: what is attached, the digest, and when it expires."""
    files = ", ".join(file.name for file in card.attachments)
    attached = fill("attached", locale=card.language, names=files) if files else ""
    digest = fill("digest", locale=card.language, digest=card.digest) if card.digest else ""
    return "\n".join(each for each in (attached, digest, card.expiry) if each)


@dataclass(frozen=True, slots=True)
class Menu:
    """What only the presser is shown: a text and, with the data of each, buttons."""

    text: str
    buttons: tuple[tuple[Button, str], ...]


def menu_of(reply: Reply, press: Press | None, room: int, measure: Measure = len) -> Menu:
    """A reply with its menu. A label that is too long for a button is said whole in the text, under a number."""
    long = any(measure(button.label) > room for button in reply.menu)
    text, buttons = reply.text, list(reply.menu)
    if long:
        numbered = [f"{number}. {button.label}" for number, button in enumerate(reply.menu, 1)]
        text = "\n".join([text, "", *numbered])
        buttons = [
            replace(button, label=shortened(label, room, measure))
            for button, label in zip(buttons, numbered, strict=True)
        ]
    token, revision = (press.token, press.content_revision) if press is not None else ("", 0)
    return Menu(text, tuple((button, data_of(button, token, revision)) for button in buttons))


def data_of(button: Button, token: str, revision: int) -> str:
    """The data of a button under the message of a token; a button may be about something else."""
    return ButtonData(button.verb, button.token or token, button.number or revision).pack()


def cut_to(
    pieces: Sequence[Piece], limit: int, size: Callable[[Piece], int], locale: str, *, beginnings: Sequence[int]
) -> bool:
    """Cut pieces until they hold at most `limit` together, and whether any had to be.

    Round by round each keeps its beginning, of the size that `beginnings` names.
    """
    over = sum(map(size, pieces)) - limit
    cut = over > 0
    for kept in beginnings:
        for piece in sorted(pieces, key=lambda piece: -piece.rank):
            before = size(piece)
            if over > 0 and piece.rank and before > kept:
                cut_piece(piece, max(before - over, kept), size, locale)
                over -= before - size(piece)
    return cut


def cut_piece(piece: Piece, limit: int, size: Callable[[Piece], int], locale: str) -> None:
    """Keep the start of a text, and say how many characters are missing, in `limit` if that is possible."""
    text, least, most = piece.text, 0, len(piece.text)
    while least < most:
        middle = (least + most + 1) // 2
        piece.text = text[:middle] + say("cut", locale=locale, count=len(text) - middle)
        least, most = (middle, most) if size(piece) <= limit else (least, middle - 1)
    piece.text = text[:least] + say("cut", locale=locale, count=len(text) - least)


def shortened(text: str, limit: int, measure: Measure = len) -> str:
    """The text in at most `limit`, with an ellipsis where it was cut."""
    return text if measure(text) <= limit else first(text, limit - 1, measure) + "…"


def first(text: str, limit: int, measure: Measure = len) -> str:
    """The longest start of a text that holds at most `limit`."""
    least, most = 0, len(text)
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if measure(text[:middle]) <= limit else (least, middle - 1)
    return text[:least]

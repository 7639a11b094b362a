"""What the sample agent says about itself on the page, and the buttons with which a person sets it off."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import BaseModel

from adapters.sandbox.change import Change
from adapters.sandbox.shelf import Shelf

Kind = Literal["asked", "waiting", "allowed", "declined", "expired", "cancelled", "failed", "edited", "note", "ended"]
KINDS: tuple[str, ...] = get_args(Kind)
_KEPT = 300


class Said(BaseModel):
    """One entry. Those of the same `ask` are shown as one turn; each `asked` begins a call, `ended` ends the turn.

    `detail` is shown in a fixed-width face.
    """

    id: int
    kind: Kind
    text: str
    ask: str = ""
    title: str = ""
    detail: str = ""
    at: float


@dataclass(frozen=True, slots=True)
class Action:
    """A button of the agent's panel; `run` gets the action's id."""

    id: str
    label: str
    run: Callable[[str], Awaitable[None]]


class AgentFeed:
    """The agent's column: its entries, oldest first, and its actions."""

    def __init__(self, shelf: Shelf, change: Change) -> None:
        self._shelf = shelf
        self._change = change
        self.entries = [Said.model_validate_json(body) for body in shelf.all("said")]
        self.actions: dict[str, Action] = {}
        self.version = 0

    def say(self, kind: Kind, text: str, *, ask: str = "", title: str = "", detail: str = "") -> Said:
        number = self.entries[-1].id + 1 if self.entries else 1
        said = Said(id=number, kind=kind, text=text, ask=ask, title=title, detail=detail, at=time.time())
        self.entries.append(said)
        self._shelf.put("said", str(said.id), said.model_dump_json())
        for old in self.entries[:-_KEPT]:
            self._shelf.drop("said", str(old.id))
        del self.entries[:-_KEPT]
        self._shelf.commit()
        self._tell()
        return said

    def add_action(self, id: str, label: str, run: Callable[[str], Awaitable[None]]) -> None:
        self.actions[id] = Action(id, label, run)
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        self._change.announce()

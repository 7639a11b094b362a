"""How far a call reaches (design section 6): the tables as data, and the one function that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.asks import Presentation


@dataclass(frozen=True, slots=True)
class Call:
    """What is about to run, as far as effects and rules look at it.

    `arguments` are the final ones, `digest` is the row's (design section 3; "" where none was taken).
    `unlisted_run`: the directory does not list the activity that would run for the agent's tool.
    """

    tool: str
    operation: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    agent: str = ""
    digest: str = ""
    presentation: Presentation = Presentation()
    unlisted_run: bool = False

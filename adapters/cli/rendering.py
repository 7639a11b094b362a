"""How the command line shows approvals: as a table, as a card, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from core.visible import visible

SHORT_ID = 13
PIPE_WIDTH = 1000


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Text that came from elsewhere: whatever cannot be seen in it is shown as an escape."""
    for line in lines:
        sys.stdout.write(visible(line) + "\n")


def print_approvals(rows: Sequence[Mapping[str, Any]], now: datetime) -> None:
    short = short_ids([row["id"] for row in rows])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ID", "AGE", "AGENT", "TOOL", "EFFECT", "STATUS", "EXPIRES"):
        table.add_column(name, no_wrap=name in ("ID", "AGE", "EFFECT", "EXPIRES"), overflow="fold")
    for row, identifier in zip(rows, short, strict=True):
        cells = (identifier, short_time(now, row["created_at"]), row["agent"], tool_of(row), row["effect"],
                 status_of(row), expires_in(now, row))  # fmt: skip
        table.add_row(*(Text(visible(cell, lines=False)) for cell in cells))
    # Into a pipe every row stays one line, however long.
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False).print(table)


def short_ids(ids: Sequence[str]) -> list[str]:
    """The beginnings of the ids, long enough to tell these apart."""
    length = SHORT_ID
    while length < 36 and len({identifier[:length] for identifier in ids}) < len(ids):
        length += 1
    return [identifier[:length] for identifier in ids]


def tool_of(row: Mapping[str, Any]) -> str:
    return f"{row['tool']} {row['operation']}" if row["operation"] else str(row["tool"])


def status_of(row: Mapping[str, Any]) -> str:
    status = row["status"]
    if row["outcome"] != "none":
        status += f", {row['outcome'].replace('_', ' ')}"
    return f"{status}, undeliverable" if row["undeliverable"] else status


def expires_in(now: datetime, row: Mapping[str, Any]) -> str:
    return f"in {span((moment(row['expires_at']) - now).total_seconds())}" if row["status"] == "pending" else "-"


def short_time(now: datetime, since: str) -> str:
    return span((now - moment(since)).total_seconds())


def span(seconds: float) -> str:
    """A length of time in its largest unit: 45s, 12m, 3h, 6d."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def card_lines(row: Mapping[str, Any], now: datetime) -> list[str]:
    """The card as text: what is asked, whose word it is, until when, and what became of it."""
    card = row["card"]
    lines = [f"{card['title']}  [{row['effect']}]", ""]
    width = max((len(line[0]) for line in card["lines"]), default=0)
    for label, value, *_ in card["lines"]:
        lines.extend(_labelled(label, value, width))
    if card["claim"]:
        lines += ["", *_labelled("The agent says", card["claim"], 0)]
    lines += ["", f"agent {row['agent']}, tool {tool_of(row)}, {row['digest']}", f"id {row['id']}", told(row, now)]
    if row["undeliverable"]:
        lines.append(f"undeliverable: {row['undeliverable_reason'] or 'no card of it can be seen by anybody'}")
    return lines


def _labelled(label: str, value: str, width: int) -> list[str]:
    first, *rest = value.split("\n")
    return [f"{label}:{' ' * (width - len(label) + 1 if width else 1)}{first}", *(f"    {line}" for line in rest)]


def told(row: Mapping[str, Any], now: datetime) -> str:
    """Where an approval stands, in one line."""
    if row["status"] == "pending":
        waiting = ", ".join(row["waiting_for"]) or "nobody"
        return f"waiting for {waiting}, expires {expires_in(now, row)}, content revision {row['content_revision']}"
    decision = row["decision"]
    if not decision:
        return f"{status_of(row)} {row['text'] or ''}".strip()
    note = f", note: {decision['note']}" if decision["note"] else ""
    when = moment(decision["at"]).strftime("%Y-%m-%d %H:%M UTC")
    return f"{status_of(row)} by {decision['by']} through {decision['via']} at {when}{note}"

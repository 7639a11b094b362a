"""How the command line shows approvals: as a table, as a card, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from adapters.cli.context import seen
from core.approvals import Attachment, Card, Line, Tone
from core.cards import short_id, text_of
from core.rules import ScopeKind, listed_label
from core.wording import fill, moment_text

PIPE_WIDTH = 1000
# What a list shows of a title; `placet show` has all of it.
REQUEST_COLUMNS = 48


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_text(text: str) -> None:
    sys.stdout.write(seen(text) + "\n")


def print_approvals(rows: Sequence[Mapping[str, Any]], now: datetime) -> None:
    short = short_ids([row["id"] for row in rows])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ID", "AGE", "AGENT", "REQUEST", "EFFECT", "STATUS", "EXPIRES"):
        table.add_column(name, no_wrap=name in ("ID", "AGE", "EFFECT", "EXPIRES"), overflow="fold")
    for row, identifier in zip(rows, short, strict=True):
        cells = (identifier, short_time(now, row["created_at"]), row["agent"], request_of(row), row["effect"],
                 status_of(row), expires_in(now, row))  # fmt: skip
        texts = [Text(seen(cell)) for cell in cells]
        texts[3].truncate(REQUEST_COLUMNS, overflow="ellipsis")
        table.add_row(*texts)
    print_table(table)


def print_table(table: Table) -> None:
    # Into a pipe every row stays one line, however long.
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False).print(table)


def print_rules(rules: Sequence[Mapping[str, Any]]) -> None:
    """Whole ids: they are what `placet rules remove` takes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ID", "RULE", "BY", "SINCE"):
        table.add_column(name, no_wrap=name == "ID", overflow="fold")
    for rule in rules:
        label = listed_label(rule["label"], ScopeKind(rule["scope"]), rule["value"])
        cells = (rule["id"], label, rule["created_by"], moment_text(moment(rule["created_at"])))
        table.add_row(*(Text(seen(cell)) for cell in cells))
    print_table(table)


def short_ids(ids: Sequence[str]) -> list[str]:
    """The ids as the cards show them, or whole where that does not tell these apart."""
    short = [short_id(identifier) for identifier in ids]
    return short if len(set(short)) == len(ids) else list(ids)


def tool_of(row: Mapping[str, Any]) -> str:
    return f"{row['tool']} {row['operation']}" if row["operation"] else str(row["tool"])


def request_of(row: Mapping[str, Any]) -> str:
    """What tells a row from the others of its tool: the title that its asker gave it, or else the tool."""
    title: str = row["card"]["title"]
    without = {fill("title", agent=row["agent"], tool=row["tool"]),
               fill("title_operation", agent=row["agent"], tool=row["tool"], operation=row["operation"])}  # fmt: skip
    return tool_of(row) if title in without else title


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
    """A length of time in its largest unit, rounded as the chats round it: 45s, 12m, 3h, 7d."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 1.5 * size:
            return f"{round(seconds / size)}{unit}"
    return f"{max(0, int(seconds))}s"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def print_card(row: Mapping[str, Any]) -> None:
    """Everything that the card shows, as the audit keeps it, the files that belong to it, and where it stands."""
    card = card_in(row)
    print_text(text_of(card))
    for file in card.attachments:
        print_text(f"\n--- {file.name}\n{file.text}\n---")
    print_text("")
    print_text(f"id: {row['id']}\ncontent revision: {row['content_revision']}\nagent: {row['agent']}\n"
               f"tool: {tool_of(row)}\nstatus: {status_of(row)}")  # fmt: skip
    if row["waiting_for"]:
        print_text(f"waiting for: {', '.join(row['waiting_for'])}")
    if row["needed"] > 1:
        allowed = f" ({', '.join(row['allowed_by'])})" if row["allowed_by"] else ""
        print_text(f"allowed by: {len(row['allowed_by'])} of {row['needed']}{allowed}")
    if row["edited_by"]:
        print_text(f"edited by: {row['edited_by']}")
    if row["paused"]:
        print_text(f"paused: an answer takes effect when {row['agent']} resumes")
    for text in row["editable"] or ():
        print_text(f"editable: {text['pointer']}")
    for name in ("undeliverable_reason", "error"):
        if row[name]:
            print_text(f"{name.partition('_')[0]}: {row[name]}")


def card_in(row: Mapping[str, Any]) -> Card:
    """The card of an approval as the API gives it; buttons are for chats."""
    card = row["card"]
    return Card(
        title=card["title"], pill=card["pill"], body=card["body"], claim=card["claim"], status=card["status"],
        lines=tuple(
            Line(label, value, claim=number in card["claimed"]) for number, (label, value) in enumerate(card["lines"])
        ),
        tone=Tone(card["tone"]), buttons=(), expiry=card["expiry"], digest=card["digest"],
        attachments=tuple(Attachment(file["name"], file["text"] or "") for file in card["attachments"]),
        content_revision=card["content_revision"], revision=row["revision"],
    )  # fmt: skip

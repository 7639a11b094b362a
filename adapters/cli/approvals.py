"""`placet approvals`, `show`, `approve`, `decline` and `edit`."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapters.cli.context import api_of, fail

if TYPE_CHECKING:
    from adapters.cli.api import Api

SHORTEST = 8
WHOLE = 36
# As many as the API lists at once.
LATEST = 500
TARGET = re.compile(r"(?P<id>[0-9a-fA-F-]+)(@(?P<revision>[1-9][0-9]{0,9}))?")


class Shown(StrEnum):
    """Which approvals are listed."""

    PENDING = "pending"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    ALL = "all"


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[
    str, typer.Argument(metavar="ID", help="The approval's id, or its last (or first) 8 or more characters.")
]


def approvals(
    context: typer.Context,
    status: Annotated[Shown, typer.Option(help="Which to list.")] = Shown.PENDING,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    json: AsJson = False,
) -> None:
    """List approvals. Those that wait for an answer, unless told otherwise."""
    from adapters.cli.rendering import print_approvals, print_json

    rows = listed(api_of(context), status, agent)
    if json:
        print_json(rows)
    elif rows:
        print_approvals(rows, datetime.now(UTC))
        if len(rows) == LATEST:
            typer.echo(f"These are the latest {LATEST}; there may be more.", err=True)
    else:
        of_agent = f" of {agent}" if agent else ""
        typer.echo(f"Nothing{of_agent} is waiting for an answer." if status is Shown.PENDING
                   else f"There are no {'' if status is Shown.ALL else f'{status} '}approvals{of_agent}.")  # fmt: skip


def show(context: typer.Context, target: Target, json: AsJson = False) -> None:
    """Show one approval. Its card, where it stands, and what became of it."""
    from adapters.cli.rendering import print_card, print_json

    identifier, _ = split(target)
    row = found(api_of(context), identifier)
    if json:
        print_json(row)
    else:
        print_card(row)


def approve(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="ID[@REVISION]", help="The approval, and the content revision read.")
    ],
) -> None:
    """Allow a call. Shows its card and asks, unless the content revision that was read is given."""
    from adapters.cli.rendering import print_card

    identifier, revision = split(target)
    if revision is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("this is no terminal to ask on: read the card with `placet show ID`, then give its content revision, "
             "`placet approve ID@REVISION`", code=2)  # fmt: skip
    api = person_of(context)
    row = found(api, identifier)
    if revision is None:
        print_card(row)
        if row["status"] != "pending":
            fail(f"nothing to decide: it is {row['status']}")
        if not typer.confirm("Allow this?", default=False):
            fail("nothing was decided")
    decide(api, row, {"verdict": "allow", "content_revision": revision or row["content_revision"]})


def decline(
    context: typer.Context,
    target: Target,
    note: Annotated[str | None, typer.Argument(help="Why; the agent is told.")] = None,
) -> None:
    """Decline a call, with a note where one is given."""
    identifier, revision = split(target)
    api = person_of(context)
    body: dict[str, Any] = {"verdict": "decline"}
    if note is not None:
        body["note"] = note
    if revision is not None:
        body["content_revision"] = revision
    decide(api, found(api, identifier), body)


def decide(api: Api, row: dict[str, Any], body: dict[str, Any]) -> None:
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_text, tool_of

    after = api.post(path_of("approvals", row["id"], "decision"), body)
    done = "Allowed" if body["verdict"] == "allow" else "Declined"
    if after["status"] == "pending":
        votes = f"{len(after['allowed_by'])} of {after['needed']}"
        counts = "counts already" if after["allowed_by"] == row["allowed_by"] else "counts"
        print_text(f"Your Allow {counts}: {votes}. {tool_of(row)} for {row['agent']} still waits.")
        return
    print_text(f"{done}: {tool_of(row)} for {row['agent']}.")
    if after["paused"]:
        print_text(f"{row['agent']} is paused: it takes effect when the agent resumes.")


def edit(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="ID[@REVISION]", help="The approval, and the content revision read.")
    ],
    changes: Annotated[
        list[str], typer.Argument(metavar="POINTER=VALUE...", help="What is changed: /reason='asked by customer'.")
    ],
) -> None:
    """Change texts of a call that may be edited. It still waits: allow it then, at its new content revision."""
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_text, tool_of

    identifier, revision = split(target)
    wanted = dict(pair(change) for change in changes)
    api = person_of(context)
    row = found(api, identifier)
    before = {text["pointer"]: text["value"] for text in row["editable"]}
    if unknown := next((pointer for pointer in wanted if pointer not in before), None):
        may = f"may be edited here: {', '.join(before)}" if before else "nothing here may be edited"
        fail(f"{unknown} cannot be edited; {may}" if row["status"] == "pending"
             else f"nothing to edit: it is {row['status']}")  # fmt: skip
    values = {pointer: like(before[pointer], pointer, text) for pointer, text in wanted.items()}
    body = {"content_revision": revision or row["content_revision"], "changes": values}
    after = api.post(path_of("approvals", row["id"], "edit"), body)
    print_text(f"Edited: {tool_of(row)} for {row['agent']}. It waits as it is now: read it with `placet show "
               f"{row['id']}`, then `placet approve {row['id']}@{after['content_revision']}`.")  # fmt: skip


def pair(change: str) -> tuple[str, str]:
    pointer, equals, value = change.partition("=")
    if not equals or not pointer.startswith("/"):
        fail(f"write what is changed as POINTER=VALUE, such as /reason=duplicate: {change}", code=2)
    return pointer, value


def like(before: str | float | bool, pointer: str, text: str) -> str | float | bool:
    """The value that a text stands for, where one of this kind stands now."""
    import json

    if isinstance(before, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) is not isinstance(before, bool) or not isinstance(value, bool | int | float):
        fail(f"{pointer} must be {'true or false' if isinstance(before, bool) else 'a number'}", code=2)
    return value


def person_of(context: typer.Context) -> Api:
    """The API with a token that can answer; the admin token cannot, and that is said before anybody reads a card."""
    from adapters.cli.api import ANSWER_WITH_A_PERSON

    api = api_of(context)
    if api.administers:
        fail(ANSWER_WITH_A_PERSON)
    return api


def split(target: str) -> tuple[str, int | None]:
    """The id and the content revision of ID[@REVISION]; anything else is wrong usage."""
    match = TARGET.fullmatch(target)
    if match is None or len(match["id"]) < SHORTEST:
        fail(
            f"an approval is named by at least {SHORTEST} characters of its id, as `placet approvals` lists it", code=2
        )
    return match["id"].lower(), int(match["revision"]) if match["revision"] else None


def listed(api: Api, status: Shown, agent: str | None) -> list[dict[str, Any]]:
    from adapters.cli.api import path_of

    wanted = None if status is Shown.ALL else status.value
    rows: list[dict[str, Any]] = api.get(path_of("approvals"), status=wanted, agent=agent, limit=str(LATEST))[
        "approvals"
    ]
    return rows


def matches(identifier: str, part: str) -> bool:
    return identifier.endswith(part) or identifier.startswith(part)


def found(api: Api, identifier: str) -> dict[str, Any]:
    """The approval of an id, or of the end or beginning of one: of those that wait, else of the latest."""
    from adapters.cli.api import path_of

    if len(identifier) < WHOLE:
        for status in (Shown.PENDING, Shown.ALL):
            ids = [row["id"] for row in listed(api, status, None) if matches(row["id"], identifier)]
            if len(ids) > 1:
                fail(f"{identifier} names {len(ids)} approvals: give more of the id")
            if ids:
                identifier = ids[0]
                break
        else:
            fail(f"{identifier} names no approval that waits, and none of the latest {LATEST}: give the whole id")
    row: dict[str, Any] = api.get(path_of("approvals", identifier))
    return row

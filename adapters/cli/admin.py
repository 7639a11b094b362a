"""`placet apply`, `link` and `token`: what an administrator does to the directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adapters.cli.approvals import AsJson
from adapters.cli.context import api_of, fail


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The directory file, placet.yaml.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would change.")] = False,
    json: AsJson = False,
) -> None:
    """Apply the directory file. It takes the place of the one that was applied before; prints what changed."""
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_json, print_text

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error.strerror if isinstance(error, OSError) else 'it is no UTF-8 text'}")
    changed: list[str] = api_of(context).put_file(
        path_of("directory"), str(file), text, dry_run="true" if dry_run else None
    )["changes"]
    if json:
        print_json({"changes": changed})
    else:
        print_text("\n".join(changed) or "No changes.")
        if dry_run and changed:
            typer.echo("Nothing was applied.", err=True)


def link(context: typer.Context, person: Annotated[str, typer.Argument(help="Who, as in the directory.")]) -> None:
    """Print a code that links a chat account to a person. It works once, for 15 minutes."""
    from adapters.cli.api import path_of

    code = api_of(context).post(path_of("links"), {"person": person})["code"]
    typer.echo(f"/start {code}")
    typer.echo(
        f"{person} sends this line to the bot, in a private chat with it, within 15 minutes. It works once. "
        f"Everywhere but in Telegram the line is: /placet link {code}",
        err=True,
    )


def token(
    context: typer.Context,
    subject: Annotated[
        str, typer.Argument(metavar="AGENT|PERSON", help="Where one name is both: agent:NAME or person:NAME.")
    ],
) -> None:
    """Print a new bearer token of an agent or a person. It is shown only now."""
    from adapters.cli.api import path_of
    from core.wording import say

    api = api_of(context)
    directory: dict[str, Any] = api.get(path_of("directory"))
    kinds = [kind for kind, section in (("agent", "agents"), ("person", "people")) if subject in directory[section]]
    name = subject
    if not kinds and subject.partition(":")[0] in ("agent", "person"):
        kind, _, name = subject.partition(":")
        kinds = [kind]
    if len(kinds) > 1:
        fail(f"{subject} is both an agent and a person: write agent:{subject} or person:{subject}")
    if not kinds:
        fail(say("name_unknown", name=subject))
    typer.echo(api.post(path_of("tokens"), {kinds[0]: name})["token"])

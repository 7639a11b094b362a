"""What every command stands on: the settings, the API, and how a failure is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import typer

from core.ports import BadSetting, Finding

if TYPE_CHECKING:
    from adapters.cli.api import Api
    from adapters.settings import Settings

Check = Callable[[], Awaitable[Sequence[Finding] | None]]


@dataclass(frozen=True, slots=True)
class Outside:
    """What the entry point brings from the other rooms: the platforms, and their own checks.

    Of each platform `platforms` has the setting that switches it on.
    """

    platforms: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)


def fail(problem: str, code: int = 1) -> NoReturn:
    """End the command with one line on stderr: exit code 1 for refused or failed, 2 for wrong usage."""
    typer.echo(f"placet: {seen(' '.join(problem.split()))}", err=True)
    raise typer.Exit(code)


def seen(text: str) -> str:
    """Text that came from elsewhere: a character that a terminal would obey or hide is shown as an escape."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def outside_of(context: typer.Context) -> Outside:
    return context.obj if isinstance(context.obj, Outside) else Outside()


def settings_of(context: typer.Context) -> Settings:
    # Imported here, as every heavy part of a command is: `placet --help` answers at once.
    from adapters.settings import PLATFORMS, read_settings

    try:
        return read_settings({*PLATFORMS, *outside_of(context).platforms})
    except BadSetting as bad:
        fail(str(bad))


def api_of(context: typer.Context) -> Api:
    from adapters.cli.api import Api

    return Api.of(settings_of(context))

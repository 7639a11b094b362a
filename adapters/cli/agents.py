"""`placet mode`, `pause`, `resume` and `reset`: what is set for an agent, and whether it goes on."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from adapters.cli.approvals import AsJson
from adapters.cli.context import api_of

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent, as in the directory.")]


class Asks(StrEnum):
    """How much of what an agent does is asked for."""

    OUTSIDE = "outside"
    EVERYTHING = "everything"
    MONEY_ONLY = "money_only"


def mode(
    context: typer.Context,
    agent: Agent,
    mode: Annotated[
        Asks | None, typer.Argument(metavar="MODE", help="outside, everything or money_only: set it.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show or set what an agent asks for."""
    from adapters.cli.api import path_of
    from adapters.cli.rendering import moment, print_json, print_text
    from core.wording import moment_text, say

    api = api_of(context)
    if mode is None:
        found = api.get(path_of("agents", agent))
    else:
        found = api.put(path_of("agents", agent, "mode"), {"mode": mode.value})
    if json:
        print_json(found)
        return
    words = say(f"mode_{found['mode']}")
    print_text(say("mode_is" if mode is None else "mode_set", agent=agent, mode=words))
    if found["paused_at"]:
        print_text(f"{agent} is paused since {moment_text(moment(found['paused_at']))}.")


def pause(context: typer.Context, agent: Agent) -> None:
    """Pause an agent. Nothing that was allowed runs from now on; cards stay, and can be answered."""
    done(context, agent, "pause", f"{agent} is paused. What is allowed takes effect with `placet resume {agent}`.",
         "paused_already", lambda found: found["paused_at"] is not None)  # fmt: skip


def resume(context: typer.Context, agent: Agent) -> None:
    """Let an agent go on. What was decided while it was paused takes effect."""
    done(context, agent, "resume", f"{agent} goes on.", "resumed_already", lambda found: found["paused_at"] is None)


def reset(context: typer.Context, agent: Agent) -> None:
    """Reset an agent. What its turns wait for is cancelled; rules, mode and pause stay."""
    found = done(context, agent, "reset", f"{agent} was reset: what its turns waited for is cancelled.")
    if found["paused_at"]:
        typer.echo(f"It is still paused: `placet resume {agent}`.", err=True)


def done(
    context: typer.Context, agent: str, what: str, told: str, otherwise: str = "",
    already: Callable[[dict[str, Any]], bool] = lambda found: False,
) -> dict[str, Any]:  # fmt: skip
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_text
    from core.wording import say

    api = api_of(context)
    nothing_to_do = bool(otherwise) and already(api.get(path_of("agents", agent)))
    found: dict[str, Any] = api.post(path_of("agents", agent, what))
    print_text(say(otherwise, agent=agent) if nothing_to_do else told)
    return found

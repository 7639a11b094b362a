"""`placet rules`: what an agent may do without asking."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from adapters.cli.agents import Agent
from adapters.cli.approvals import AsJson
from adapters.cli.context import api_of, fail

LENGTH = re.compile(r"(?P<number>[1-9][0-9]{0,4})(?P<unit>[mhd])")
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
CEILING = re.compile(r"(?P<amount>[0-9]{1,12}(\.[0-9]{1,4})?) ?(?P<currency>[A-Za-z]{3})")
LISTING = "list"


class Scope(StrEnum):
    """How far a rule reaches."""

    ARGUMENTS = "arguments"
    RECIPIENT = "recipient"
    HOST = "host"
    OPERATION = "operation"
    TOOL = "tool"


class ByAgent(TyperGroup):
    """`rules AGENT` lists; an agent that is called as a command is here is listed with `rules list AGENT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [LISTING, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=ByAgent,
    help="List an agent's standing rules: rules AGENT. Or take one back, or make one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command(LISTING)
def rules(context: typer.Context, agent: Agent, json: AsJson = False) -> None:
    """List an agent's standing rules, the eldest first. The same as rules AGENT."""
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_json, print_rules, print_text
    from core.wording import say

    found = api_of(context).get(path_of("agents", agent, "rules"))["rules"]
    if json:
        print_json(found)
        return
    if found:
        print_rules(found)
    else:
        print_text(say("rules_none", agent=agent))
    print_text(say("rules_money"))


@app.command()
def remove(
    context: typer.Context, rule: Annotated[str, typer.Argument(metavar="ID", help="The rule's id, as it is listed.")]
) -> None:
    """Take a rule back. From the next call on the agent asks again."""
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_text
    from core.wording import say

    gone = api_of(context).delete(path_of("rules", rule))
    print_text(say("rule_removed", label=gone["label"], agent=gone["agent"]))


@app.command()
def add(
    context: typer.Context,
    agent: Agent,
    tool: Annotated[str, typer.Option(help="The tool, as the agent names it.")],
    scope: Annotated[
        str,
        typer.Option(
            metavar="KIND[=VALUE]",
            help="How far it reaches: arguments=DIGEST, recipient=WHO, 'host=GET https://api.example.com', operation, "
            "or tool.",
        ),
    ],
    operation: Annotated[
        str,
        typer.Option(
            help="The operation of the tool whose calls it covers. Without it: calls that name no operation; with "
            "--scope tool: every call of the tool."
        ),
    ] = "",
    ceiling: Annotated[
        str | None, typer.Option(metavar="AMOUNT CURRENCY", help="A rule for money: '50.00 GBP' a call at most.")
    ] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="It ends after 90m, 12h or 30d.")] = None,
    json: AsJson = False,
) -> None:
    """Make a rule that no card offers. A rule for money needs a ceiling and an end, and an administrator."""
    from adapters.cli.api import path_of
    from adapters.cli.rendering import print_json, print_text

    kind, _, value = scope.partition("=")
    if kind not in tuple(Scope):
        fail(f"--scope must begin with one of {', '.join(Scope)}", code=2)
    body: dict[str, Any] = {"tool": tool, "operation": operation, "scope": kind, "value": value}
    if ceiling is not None:
        if (money := CEILING.fullmatch(ceiling.strip())) is None:
            fail("--ceiling must be an amount with its currency, such as '50.00 GBP'", code=2)
        if expires is None:
            fail("a rule for money must expire: say when with --expires, such as --expires 30d", code=2)
        body["ceiling"] = {"amount": money["amount"], "currency": money["currency"].upper()}
    if expires is not None:
        if (length := LENGTH.fullmatch(expires)) is None:
            fail("--expires must be a length of time such as 90m, 12h or 30d", code=2)
        end = datetime.now(UTC) + int(length["number"]) * UNITS[length["unit"]]
        body["expires_at"] = end.isoformat(timespec="seconds")
    made = api_of(context).post(path_of("agents", agent, "rules"), body)
    if json:
        print_json(made)
    else:
        print_text(f"{agent} does not ask for this any more: {made['label']}.")
        if kind == Scope.TOOL:
            print_text(f"It covers every call of {tool}, whatever its operation.")
        elif not operation:
            print_text(f"It covers calls of {tool} that name no operation; for those that do, give --operation.")
        print_text(f"id: {made['id']}")

"""The command line, `placet`: everything but demo, serve, migrate and doctor goes through the HTTP API (section 9)."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from adapters.cli import admin, agents, approvals, doctor, processes, rules


class Commands(TyperGroup):
    """Says what a wrong argument should be without the words of the validator."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as bad:
            bad.message = bad.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="placet",
    cls=Commands,
    help="A person's yes or no in front of what an agent or a workflow is about to do.",
    epilog="Commands speak to the Placet at PLACET_URL, with the token in PLACET_TOKEN, else with the admin token of "
    "the data folder, which administers and cannot answer. "
    "Settings: PLACET_... variables, or placet.toml. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    # A trace with local variables would print tokens and arguments.
    pretty_exceptions_enable=False,
)

for command in (
    processes.demo,
    processes.serve,
    admin.apply,
    doctor.doctor,
    approvals.approvals,
    approvals.show,
    approvals.approve,
    approvals.decline,
    approvals.edit,
    agents.mode,
    agents.pause,
    agents.resume,
    agents.reset,
    admin.link,
    admin.token,
    processes.migrate,
):
    app.command()(command)
app.add_typer(rules.app, name="rules")


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"placet {version('placet')}")
        raise typer.Exit


@app.callback()
def placet(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version.")
    ] = False,
) -> None: ...

"""`placet doctor`: what is wrong with this installation, and how to mend it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence

import typer

from adapters.cli.approvals import AsJson
from adapters.cli.context import outside_of
from core.ports import BadSetting, Finding


def doctor(context: typer.Context, json: AsJson = False) -> None:
    """Check the settings, the services and the directory. Names the fix for what is wrong."""
    from adapters.settings import PLATFORMS, read_settings

    # Vendors log what they retry; here the findings are the log.
    logging.disable(logging.CRITICAL)
    outside = outside_of(context)
    try:
        settings = read_settings({*PLATFORMS, *outside.platforms})
    except BadSetting as bad:
        findings: Sequence[Finding] = [Finding("fail", str(bad), f"set {bad.name} right; nothing else was checked")]
    else:
        from adapters.doctor import examine

        findings = asyncio.run(examine(settings, outside.platforms, outside.checks))
    if json:
        from adapters.cli.rendering import print_json

        print_json([{"level": finding.level, "what": finding.what, "fix": finding.fix} for finding in findings])
    else:
        _print(findings)
    failed = sum(finding.level == "fail" for finding in findings)
    if failed:
        typer.echo(f"placet: {failed} of {len(findings)} checks failed", err=True)
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    for finding in findings:
        sys.stdout.write(f"{finding.level:<5} {finding.what}\n")
        if finding.fix:
            sys.stdout.write(f"      fix: {finding.fix}\n")

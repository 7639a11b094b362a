"""The entry point of `placet` and of `python -m adapters`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from adapters.cli import app
from adapters.cli.context import Check, Outside
from adapters.nobody import nobodys_hooks
from bots import PLATFORMS
from core.ports import BadSetting, Checking, Finding


def main() -> NoReturn:
    """Run the command line and end at once, with its exit code.

    The Temporal SDK crashes some processes while the interpreter winds down, after all work is done: nothing is left
    to the interpreter's own end.
    """
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of a command line: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    switches = {name: TOKENS.get(name, f"PLACET_{name.upper()}_TOKEN") for name in PLATFORMS}
    outside = Outside(switches, {name: platform_check(name) for name in PLATFORMS})
    try:
        app(list(arguments), prog_name="placet", obj=outside)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    except BaseException as fault:
        # A trace is for whoever looks for a bug; an error's message may quote what it was given, so it is left out.
        where = traceback.extract_tb(fault.__traceback__)[-1]
        at = f"{os.path.basename(where.filename)}:{where.lineno}"  # noqa: PTH119
        sys.stderr.write(f"placet: a fault ({type(fault).__name__} at {at}); PLACET_LOG_LEVEL=debug shows where\n")
        if os.environ.get("PLACET_LOG_LEVEL", "").lower() == "debug":
            traceback.print_tb(fault.__traceback__)
        return 1
    return 0


# The setting that switches a platform on, where it is not PLACET_<NAME>_TOKEN.
TOKENS = {"slack": "PLACET_SLACK_BOT_TOKEN"}


def platform_check(name: str) -> Check:
    """What `placet doctor` asks of a platform: its settings held against the running service."""

    async def check() -> Sequence[Finding] | None:
        try:
            surface = PLATFORMS[name](nobodys_hooks())
        except BadSetting as bad:
            return [Finding("fail", str(bad), f"set {bad.name} right")]
        if surface is None:
            return None
        try:
            return await surface.check() if isinstance(surface, Checking) else ()
        finally:
            await surface.close()

    return check


if __name__ == "__main__":
    main()

"""`placet doctor`: every setting held against what runs, each fault with its fix."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from adapters.doctor.local import check_admin_token, check_codec, check_data_folder, check_http, check_public_url
from adapters.doctor.people import check_directory
from adapters.doctor.services import check_database, check_redis, check_temporal
from adapters.settings import Settings
from core.ports import Finding

PATIENCE_S = 15.0

Check = Callable[[], Awaitable[Sequence[Finding] | None]]
"""What is found; None of a platform that is off."""


async def examine(
    settings: Settings, platforms: Mapping[str, str] | None = None, platform_checks: Mapping[str, Check] | None = None
) -> list[Finding]:
    """Everything that is found, in the order of the settings. Never raises; nothing of it carries a secret.

    `platforms` are those that a person can answer on, each with the setting that switches it on; `platform_checks` are
    theirs, by name.
    """
    checks: dict[str, Check] = {
        "data folder": lambda: check_data_folder(settings),
        "admin token": lambda: check_admin_token(settings),
        "HTTP": lambda: check_http(settings),
        "public URL": lambda: check_public_url(settings),
        "database": lambda: check_database(settings),
        "Redis": lambda: check_redis(settings),
        "Temporal": lambda: check_temporal(settings),
        "payload codec": lambda: check_codec(settings),
    }
    theirs, switches = platform_checks or {}, platforms or {}
    local, asked = await asyncio.gather(_all(checks), _all(theirs))
    on = {name for name in switches if name not in theirs or asked[name] is not None}
    off = {name: [Finding("ok", f"{name} is off: {switches[name]} is not set")] for name in switches if name not in on}
    reached = await _bounded("directory", lambda: check_directory(settings, on, switches))
    found = [*local.values(), *(off.get(name, findings) for name, findings in asked.items()), reached]
    return [finding for findings in found for finding in findings or ()]


async def _all(checks: Mapping[str, Check]) -> Mapping[str, Sequence[Finding] | None]:
    found = await asyncio.gather(*(_bounded(name, check) for name, check in checks.items()))
    return dict(zip(checks, found, strict=True))


async def _bounded(name: str, check: Check) -> Sequence[Finding] | None:
    try:
        return await asyncio.wait_for(check(), PATIENCE_S)
    except TimeoutError:
        return [
            Finding("fail", f"{name}: no answer within {PATIENCE_S:g} s", "see whether the network lets it through")
        ]
    except Exception as error:
        # One check that breaks must not hide what the others find.
        return [Finding("fail", f"{name}: the check itself broke ({type(error).__name__})", "report this as a bug")]

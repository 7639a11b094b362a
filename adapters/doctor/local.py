"""What can be checked on this machine: the data folder, the admin token, the HTTP address, the codec."""

from __future__ import annotations

import os
import shlex
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from adapters.doctor.services import embedded_down
from adapters.settings import ADMIN_TOKEN_FILE, DEMO_FILE, Settings, stored_admin_token
from adapters.temporal import load_codec
from core.ports import BadSetting, Finding

TIMEOUT_S = 5.0


async def check_data_folder(settings: Settings) -> Sequence[Finding]:
    folder = settings.data_dir.absolute()
    if not folder.exists():
        parent = next(parent for parent in folder.parents if parent.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            return [Finding("ok", f"the data folder {folder} will be made at the first start")]
        return [Finding("fail", f"the data folder {folder} cannot be made in {parent}",
                        "set PLACET_DATA_DIR to a folder that this user may write to")]  # fmt: skip
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [Finding("fail", f"the data folder {folder} cannot be written to by this user",
                        "chown it to this user, or set PLACET_DATA_DIR to another one")]  # fmt: skip
    if _mode(folder) & 0o077:
        return [Finding("warn", f"other users may look into the data folder {folder}", f"chmod 700 {folder}")]
    if (folder / DEMO_FILE).exists() and settings.temporal_address is None:
        return [Finding("warn", f"{folder} is a demo's data folder, and its servers and platforms are not set here",
                        f"tell this terminal: . {shlex.quote(str(folder / DEMO_FILE))}")]  # fmt: skip
    return [Finding("ok", f"the data folder {folder} is this user's alone")]


async def check_admin_token(settings: Settings) -> Sequence[Finding]:
    path = settings.data_dir.absolute() / ADMIN_TOKEN_FILE
    if settings.admin_token is not None:
        return [Finding("ok", "the admin token is PLACET_ADMIN_TOKEN's")]
    if not path.exists():
        return [Finding("ok", f"the admin token will be made at the first start, in {path}")]
    try:
        if stored_admin_token(settings) is None:
            return [Finding("fail", f"the admin token in {path} cannot be read by this user",
                            "run as the user that runs Placet, or set PLACET_ADMIN_TOKEN")]  # fmt: skip
    except BadSetting as bad:
        return [Finding("fail", str(bad), f"delete {path} and start Placet again")]
    if _mode(path) & 0o077:
        return [Finding("fail", f"other users may read the admin token in {path}",
                        f"chmod 600 {path}; if others are on this machine, delete it for a new one")]  # fmt: skip
    return [Finding("ok", f"the admin token in {path} is this user's alone")]


async def check_http(settings: Settings) -> Sequence[Finding]:
    findings = await _served(settings)
    if "Placet answers" in findings[0].what:
        findings += await _known(settings)
    # Bearer tokens that leave the machine must not leave it in the clear.
    loopback = settings.http_host in ("127.0.0.1", "::1", "localhost")
    if not loopback and not (settings.public_url or "").startswith("https://"):
        findings.append(
            Finding("warn", f"PLACET_HTTP_BIND ({settings.http_bind}) is open to other machines, without TLS",
                    "put a proxy with TLS in front and set PLACET_PUBLIC_URL to its address, or bind 127.0.0.1")
        )  # fmt: skip
    return findings


async def _served(settings: Settings) -> list[Finding]:
    url = settings.http_url
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=settings.url is not None) as client:
            ready = await client.get(f"{url}/readyz")
            document = ready.json()
    except (httpx.ConnectError, httpx.ConnectTimeout):
        return [_free(settings)]
    except (httpx.HTTPError, ValueError):
        return [_stranger(url)]
    checks = document.get("checks") if isinstance(document, dict) else None
    if ready.status_code == 200 and isinstance(checks, dict):
        return [Finding("ok", f"Placet answers at {url} and is ready"), *_down(settings, checks)]
    if isinstance(document, dict) and document.get("code") == "not_ready":
        return [Finding("fail", f"Placet answers at {url} but is not ready: {document.get('detail', '')}",
                        "mend the service that it names")]  # fmt: skip
    return [_stranger(url)]


def _down(settings: Settings, checks: Mapping[str, Any]) -> Iterator[Finding]:
    """The embedded servers that Placet cannot reach; one with a setting has a check of its own."""
    if settings.url is not None:
        return
    for name, address in (("redis", settings.redis_url), ("temporal", settings.temporal_address)):
        if address is None and checks.get(name, "ok") != "ok":
            yield embedded_down(name, settings)


def _stranger(url: str) -> Finding:
    return Finding("fail", f"what answers at {url} is not Placet: another program, or the page of a demo",
                   "end it, or set PLACET_HTTP_BIND to another port, such as 127.0.0.1:8430")  # fmt: skip


async def _known(settings: Settings) -> Sequence[Finding]:
    """Whether the server that answers takes the command line's token: another Placet may have the port."""
    name = "PLACET_TOKEN" if settings.token else "PLACET_ADMIN_TOKEN" if settings.admin_token else "the admin token"
    try:
        token = settings.token or settings.admin_token or stored_admin_token(settings)
        if token is None:
            return []
        headers = {"Authorization": f"Bearer {token.get_secret_value()}"}
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=settings.url is not None) as client:
            answer = await client.get(f"{settings.http_url}/v1/approvals?limit=1", headers=headers)
    except (BadSetting, httpx.HTTPError):
        return []
    if answer.status_code != 401:
        return [Finding("ok", f"it knows {name}")]
    return [Finding("fail", f"the Placet at {settings.http_url} does not know {name}",
                    "it is not this data folder's: set PLACET_URL, PLACET_DATA_DIR or PLACET_TOKEN right")]  # fmt: skip


def _free(settings: Settings) -> Finding:
    if settings.url is not None:
        return Finding(
            "fail", f"nothing answers at {settings.url}", "start `placet serve` there, or set PLACET_URL right"
        )
    try:
        family = socket.getaddrinfo(settings.http_host, settings.http_port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.http_host, settings.http_port))
    except OSError as error:
        return Finding("fail", f"PLACET_HTTP_BIND: {settings.http_bind} cannot be listened on ({error.strerror})",
                       "set PLACET_HTTP_BIND to an address of this machine and a free port")  # fmt: skip
    return Finding("ok", f"{settings.http_bind} is free; Placet does not run here now")


async def check_public_url(settings: Settings) -> Sequence[Finding]:
    if settings.public_url is None:
        return [Finding("ok", "PLACET_PUBLIC_URL is not set; only webhooks need it")]
    if not settings.public_url.startswith("https://"):
        return [Finding("fail", f"PLACET_PUBLIC_URL ({settings.public_url}) is not https, which platforms ask for",
                        "set it to the https:// address of the proxy in front of Placet")]  # fmt: skip
    return [Finding("ok", f"PLACET_PUBLIC_URL is {settings.public_url}")]


async def check_codec(settings: Settings) -> Sequence[Finding]:
    if settings.temporal_codec is None:
        return []
    try:
        load_codec(settings.temporal_codec)
    except BadSetting as bad:
        problem = str(bad)
    except Exception as error:
        problem = f"PLACET_TEMPORAL_CODEC: {settings.temporal_codec} breaks when it is loaded ({type(error).__name__})"
    else:
        return [Finding("ok", f"the payload codec {settings.temporal_codec} can be loaded")]
    return [Finding("fail", problem, "install the module where Placet runs, and name it module:object")]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)

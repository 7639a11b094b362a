"""The outermost layer: counts every request, keeps answers out of caches, and lets no fault out but as a problem."""

from __future__ import annotations

import logging
import time
from urllib.parse import unquote

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapters.http.problems import fault
from adapters.metrics import Metrics

log = logging.getLogger("placet.http")

HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class BrokenOff(Exception):
    """A response that had begun could not be finished; says nothing of why, for servers print it."""


# Stands for a slash within a name, which no name can hold itself.
_SLASH = "\x1f"


def parted(raw_path: bytes) -> str:
    """The path, parted where it was written so: a slash that is escaped belongs to a name (a lane, an agent)."""
    parts = (unquote(part.decode("latin-1")) for part in raw_path.split(b"/"))
    return "/".join(part.replace(_SLASH, "\x00").replace("/", _SLASH) for part in parts)


def with_slashes(name: str) -> str:
    """A name out of such a path."""
    return name.replace(_SLASH, "/")


class Edge:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path: bytes = scope.get("raw_path") or b""
        if any(escape in raw_path.lower() for escape in (b"%2f", b"%1f")):
            scope = {**scope, "path": parted(raw_path.partition(b"?")[0])}
        started = time.perf_counter()
        status = 0

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
                self._metrics.request(scope["method"], template(scope), status, time.perf_counter() - started)
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except ClientDisconnect:
            return
        except Exception as error:
            log.error("fault", extra={"route": template(scope)}, exc_info=error)
            if status:
                raise BrokenOff from None
            await fault().response()(scope, receive, counted)


def template(scope: Scope) -> str:
    """The path as it was declared, so that no id becomes a label."""
    return getattr(scope.get("route"), "path", "other")

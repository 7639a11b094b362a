"""The page that shows the sandbox's chats live, and the endpoints through which a person acts on it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapters.sandbox.agent import KINDS, AgentFeed
from adapters.sandbox.change import Change

log = logging.getLogger("placet.adapters")

_STATIC = Path(__file__).parent / "static"
_ACTS = ("press", "say", "start", "submit")
_BEAT_S = 10
_SETTLE_S = 0.02
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Platform(Protocol):
    """One column of the page. Acts take the page's JSON body and raise ValueError or KeyError for a bad one.

    A chat has `key`, `kind` (private, group, channel, forum), `title`, `people` (ids that see it), `members` (names),
    `bot`, `started`, `closed`, `topics`, `messages`, and a `command` that may be typed. A message has `id`, `at`,
    `author`, `text`, `parts` (each of a `kind`: text, title, small, divider or embed; with `text` and `entities`),
    `documents`, rows of `buttons`, `edited`; and where it applies `reply`, `under` (whose thread it is in), `only` (the
    one person who sees it), `prompt`, `service`.

    A platform with forms has the act `submit` too. What an act leads to is the `form` of its answer: `opened` (what to
    submit), `title`, `words`, `fields`, and the labels `submit` and `close`. A field has `name`, `label`, `value`,
    `hint`, `error` and its limits. A button's `confirm` is such a form, shown before the press.
    """

    name: str
    title: str

    def people(self) -> list[dict[str, Any]]: ...

    def versions(self) -> Iterator[tuple[str, int]]: ...

    def chat(self, key: str) -> dict[str, Any]: ...

    def file(self, file_id: str) -> tuple[str, bytes] | None: ...

    async def press(self, body: dict[str, Any]) -> dict[str, Any]: ...

    async def say(self, body: dict[str, Any]) -> dict[str, Any]: ...

    async def start(self, body: dict[str, Any]) -> dict[str, Any]: ...


class Page:
    """`routes` to mount, and `close` to end the open event streams."""

    def __init__(self, platforms: Sequence[Platform], agent: AgentFeed, change: Change) -> None:
        self._platforms = {platform.name: platform for platform in platforms}
        self._agent = agent
        self._change = change
        self._closing = False

    def close(self) -> None:
        self._closing = True
        self._change.announce()

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._index),
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route("/sandbox/events", self._events),
            Route("/sandbox/agent", self._say, methods=["POST"]),
            Route("/sandbox/action", self._action, methods=["POST"]),
            Route("/sandbox/{platform}/file/{file_id}", self._file),
            Route("/sandbox/{platform}/{act}", self._act, methods=["POST"]),
        ]

    async def _index(self, request: Request) -> Response:
        return FileResponse(_STATIC / "index.html", media_type="text/html; charset=utf-8")

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        """First everything (`hello`), then what changed (`change`), and a `beat` as a sign of life."""
        sent: dict[tuple[str, str], int] = {}
        heard = -1
        name = "hello"
        while not self._closing:
            next_change = self._change.next
            frame = self._frame(sent)
            if self._agent.version != heard:
                heard = self._agent.version
                frame["agent"] = self._agent_view()
            if name == "hello" or "agent" in frame or any(each["chats"] for each in frame["platforms"]):
                yield f"event: {name}\ndata: {json.dumps(frame)}\n\n"
                name = "change"
            try:
                async with asyncio.timeout(_BEAT_S):
                    await next_change.wait()
                # A burst of changes becomes one frame.
                await asyncio.sleep(_SETTLE_S)
            except TimeoutError:
                yield "event: beat\ndata: {}\n\n"

    def _frame(self, sent: dict[tuple[str, str], int]) -> dict[str, Any]:
        platforms = []
        for platform in self._platforms.values():
            # A platform without people is not in play; the first one says so where all are empty.
            if not platform.people() and platform is not next(iter(self._platforms.values())):
                continue
            chats = []
            for key, version in platform.versions():
                if sent.get((platform.name, key)) != version:
                    sent[platform.name, key] = version
                    chats.append(platform.chat(key))
            platforms.append(
                {"name": platform.name, "title": platform.title, "people": platform.people(), "chats": chats}
            )
        return {"platforms": platforms}

    def _agent_view(self) -> dict[str, Any]:
        return {
            "entries": [said.model_dump() for said in self._agent.entries],
            "actions": [{"id": action.id, "label": action.label} for action in self._agent.actions.values()],
        }

    async def _act(self, request: Request) -> Response:
        platform = self._platforms.get(request.path_params["platform"])
        act = request.path_params["act"]
        if platform is None or act not in _ACTS or not hasattr(platform, act):
            return _refuse(404, "There is no such place here.")
        body = await _body(request)
        try:
            return JSONResponse(await getattr(platform, act)(body))
        except KeyError as missing:
            return _refuse(400, f"{missing.args[0]}: missing, or unknown here")
        except (ValueError, TypeError, IndexError) as error:
            return _refuse(400, str(error))

    async def _say(self, request: Request) -> Response:
        body = await _body(request)
        kind, text = body.get("kind"), body.get("text")
        if kind not in KINDS or not isinstance(text, str):
            return _refuse(400, f"kind: one of {', '.join(KINDS)}; text: what the agent says")
        extra = {name: str(body[name]) for name in ("ask", "title", "detail") if name in body}
        return JSONResponse({"id": self._agent.say(kind, text, **extra).id})

    async def _action(self, request: Request) -> Response:
        action = self._agent.actions.get(str((await _body(request)).get("id")))
        if action is None:
            return _refuse(404, "id: there is no such action")
        try:
            await action.run(action.id)
        except Exception:
            log.exception("action failed", extra={"action": action.id})
            return _refuse(500, "That did not work. The log says why.")
        return JSONResponse({})

    async def _file(self, request: Request) -> Response:
        platform = self._platforms.get(request.path_params["platform"])
        found = platform.file(request.path_params["file_id"]) if platform else None
        if found is None:
            return _refuse(404, "There is no such file.")
        name, content = found
        # Never a page of its own: downloaded, or read as text by the page's script.
        disposition = f"attachment; filename*=utf-8''{quote(name)}"
        headers = {"content-disposition": disposition}
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)


class Guard:
    """Keeps web sites out of a server on a developer's machine.

    Only a loopback Host is served, which ends DNS rebinding; and whatever acts needs a header that another site's page
    cannot send without asking first, and no foreign Origin.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        why = _objection(scope)
        if why:
            await PlainTextResponse(why, 403)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, send_guarded)


def _objection(scope: Scope) -> str:
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    try:
        loopback = urlsplit(f"//{host}").hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        loopback = False
    if not loopback:
        return "The sandbox answers on 127.0.0.1 and localhost only."
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "The sandbox takes nothing from other sites."
    if scope["path"].startswith("/sandbox/") and scope["method"] == "POST" and "x-placet-sandbox" not in headers:
        return "Send the header X-Placet-Sandbox: 1."
    return ""


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _refuse(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status)

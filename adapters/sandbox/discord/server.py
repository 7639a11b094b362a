"""Discord over HTTP: tokens, bodies, scripted faults, rate limits with their headers; and the gateway's socket."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from adapters.sandbox.discord.api import Asked, RestApi
from adapters.sandbox.discord.faults import ApiError, TooFast
from adapters.sandbox.discord.records import Bot
from adapters.sandbox.discord.world import World
from adapters.sandbox.faults import Call
from adapters.sandbox.telegram import params

API, GATEWAY = "/discord/api/v10", "/discord/gateway"
_PATHS = (
    ("GET", "/users/@me", "me"),
    ("GET", "/oauth2/applications/@me", "application"),
    ("POST", "/users/@me/channels", "open_private"),
    ("POST", "/channels/{channel}/messages", "create_message"),
    ("GET", "/channels/{channel}/messages/{message}", "get_message"),
    ("PATCH", "/channels/{channel}/messages/{message}", "edit_message"),
    ("PATCH", "/channels/{channel}", "edit_channel"),
    ("PUT", "/applications/{application}/commands", "put_commands"),
    ("POST", "/interactions/{interaction:int}/{token}/callback", "respond"),
    ("PATCH", "/webhooks/{application}/{token}/messages/@original", "edit_response"),
    ("GET", "/webhooks/{application}/{token}/messages/@original", "get_response"),
    ("POST", "/webhooks/{application}/{token}", "followup"),
)
# Their paths carry a token of their own, so Discord asks for no other.
_OPEN = ("respond", "edit_response", "get_response", "followup")
BODY_LIMIT = 11 * 1024 * 1024


def routes(world: World, api: RestApi) -> list[BaseRoute]:
    """The REST API under /discord/api/v10, and the gateway at /discord/gateway."""

    async def gateway(socket: WebSocket) -> None:
        host = socket.headers.get("host", "")
        # A web page's script must not listen here: browsers send their page's origin, bots send none.
        if urlsplit(f"//{host}").hostname not in ("127.0.0.1", "localhost", "::1") or "origin" in socket.headers:
            await socket.close(1008)
            return
        await world.gateway.serve(socket)

    return [
        *(Route(API + path, _endpoint(world, api, name), methods=[method]) for method, path, name in _PATHS),
        WebSocketRoute(GATEWAY, gateway),
    ]


def _endpoint(world: World, api: RestApi, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await _call(world, api, name, request)

    return endpoint


async def _call(world: World, api: RestApi, name: str, request: Request) -> Response:
    path = {key: str(value) for key, value in request.path_params.items()}
    bot = _bot(world, request, name, path)
    if bot is None:
        return _refused(ApiError(401, 0))
    try:
        asked = await _asked(request, path)
    except ApiError as error:
        return _refused(error)
    channel = _channel(world, path)
    body = asked.body if isinstance(asked.body, dict) else {"value": asked.body}
    call = Call(str(bot.id), name, str(channel or ""), body, world.now())

    async def carry_out() -> Response:
        headers = world.pace.admit(bot.id, name, channel)
        result = await api.methods[name](bot, asked)
        call.status = 200 if result is not None else 204
        return Response(status_code=204, headers=headers) if result is None else _answer(result, 200, headers)

    try:
        return await world.met(call, carry_out)
    except TooFast as slow:
        call.status, call.error = 429, str(slow.code or "")
        return _too_fast(slow)
    except ApiError as error:
        call.status, call.error = error.status, str(error.code or "")
        return _refused(error)


def _bot(world: World, request: Request, name: str, path: dict[str, str]) -> Bot | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    bot = next((bot for bot in world.bots.values() if bot.token == token), None) if kind == "Bot" else None
    if bot is not None or name not in _OPEN:
        return bot
    if name == "respond":
        interaction = world.interactions.get(int(path["interaction"]))
        return world.bots[interaction.bot] if interaction else next(iter(world.bots.values()), None)
    application = path["application"]
    return world.bots.get(int(application)) if application.isdecimal() else None


def _channel(world: World, path: dict[str, str]) -> int:
    """The channel that a call is about, 0 for none."""
    if "channel" in path:
        return int(path["channel"]) if path["channel"].isdecimal() else 0
    found = world.interactions.get(int(path["interaction"])) if "interaction" in path else None
    if found is None and "token" in path:
        found = next((each for each in world.interactions.values() if each.token == path["token"]), None)
    return found.channel if found is not None else 0


async def _asked(request: Request, path: dict[str, str]) -> Asked:
    """The call's JSON, or that of `payload_json` with the files beside it. Raises ApiError."""
    if int(request.headers.get("content-length") or 0) > BODY_LIMIT:
        raise ApiError(413, 40005, message="Request entity too large")
    body, kind = await request.body(), request.headers.get("content-type", "")
    files: tuple[tuple[str, bytes], ...] = ()
    if kind.startswith("multipart/form-data"):
        form = params.read("", kind, body)
        files = tuple((upload.name, upload.content) for upload in form.files.values())
        body = form.text("payload_json").encode() or b"{}"
    elif body and kind != "application/json":
        raise ApiError(400, 50035)
    try:
        parsed: Any = json.loads(body) if body else {}
    except ValueError:
        raise ApiError(400, 50109, message="The request body contains invalid JSON.") from None
    return Asked(path, parsed, files, dict(request.query_params))


def _too_fast(slow: TooFast) -> Response:
    headers = {"Retry-After": str(math.ceil(slow.after))}
    if slow.via:
        headers |= {"X-RateLimit-Scope": "global" if slow.everywhere else "user"}
        headers |= {"X-RateLimit-Global": "true"} if slow.everywhere else {}
    return _answer(slow.body, 429, headers, via=slow.via)


def _refused(error: ApiError) -> Response:
    return _answer(error.body, error.status, {})


def _answer(body: object, status: int, headers: dict[str, str], *, via: bool = True) -> Response:
    # discord.py reads JSON only where the type is exactly this.
    return JSONResponse(body, status, headers={**headers, **({"Via": "1.1 sandbox"} if via else {})})

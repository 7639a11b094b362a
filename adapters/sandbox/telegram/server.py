"""The Bot API over HTTP: envelope, tokens, scripted faults, rate limits, and file downloads."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from adapters.sandbox.faults import Call
from adapters.sandbox.telegram import params as parameters
from adapters.sandbox.telegram.api import UPLOAD_LIMIT, BotApi
from adapters.sandbox.telegram.faults import ApiError
from adapters.sandbox.telegram.records import Bot
from adapters.sandbox.telegram.world import World

_COUNTED = ("send", "edit", "delete")


def routes(world: World, api: BotApi) -> list[Route]:
    """`/bot<token>/<method>` and `/file/bot<token>/<path>`."""

    async def call(request: Request) -> Response:
        return await _call(world, api, request)

    async def download(request: Request) -> Response:
        kind, _, file_id = request.path_params["path"].partition("/")
        document = world.document(file_id)
        if _bot(world, request) is None or kind != "documents" or document is None:
            return _envelope(ApiError(404, "Not Found"))
        return Response(world.content(document), media_type="application/octet-stream")

    return [
        Route("/bot{token}/{method}", call, methods=["GET", "POST"]),
        Route("/file/bot{token}/{path:path}", download, methods=["GET"]),
    ]


async def _call(world: World, api: BotApi, request: Request) -> Response:
    bot = _bot(world, request)
    if bot is None:
        return _envelope(ApiError(401, "Unauthorized"))
    name = request.path_params["method"]
    method = api.method(name)
    if method is None:
        return _envelope(ApiError(404, "Not Found: method not found"))
    if int(request.headers.get("content-length") or 0) > UPLOAD_LIMIT + 100_000:
        return _envelope(ApiError(413, "Request Entity Too Large"))
    try:
        params = parameters.read(request.url.query, request.headers.get("content-type", ""), await request.body())
    except ApiError as error:
        return _envelope(error)
    call = Call(str(bot.id), name, params.text("chat_id"), params.recorded(), world.now())

    async def carry_out() -> Response:
        if name.lower().startswith(_COUNTED) and call.chat and (wait := world.pace.admit(bot.id, call.chat)):
            raise ApiError(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        result = await method(bot, params)
        call.status = 200
        return JSONResponse({"ok": True, "result": result})

    try:
        return await world.met(call, carry_out)
    except ApiError as error:
        call.status, call.error = error.status, error.description
        return _envelope(error)


def _bot(world: World, request: Request) -> Bot | None:
    token = request.path_params["token"]
    return next((bot for bot in world.bots.values() if bot.token == token), None)


def _envelope(error: ApiError) -> JSONResponse:
    body = {"ok": False, "error_code": error.status, "description": error.description}
    return JSONResponse(body | ({"parameters": error.parameters} if error.parameters else {}), error.status)

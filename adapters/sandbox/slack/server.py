"""Slack over HTTP and web sockets: the Web API's envelope, uploads, response_urls, and Socket Mode."""

from __future__ import annotations

import asyncio
import contextlib
import json
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from adapters.sandbox.faults import Call
from adapters.sandbox.slack.api import SCOPES, WebApi, parameters
from adapters.sandbox.slack.faults import ApiError
from adapters.sandbox.slack.records import Team
from adapters.sandbox.slack.world import World

_TICK_S = 0.25
_REFRESH = {"type": "disconnect", "reason": "refresh_requested", "debug_info": {"host": "sandbox"}}


class Sockets:
    """Socket Mode: the open sockets, and `run`, which sends to any one of them what is due."""

    def __init__(self, world: World, api: WebApi) -> None:
        self._world, self._api = world, api
        self._open: list[WebSocket] = []
        self._turn = 0

    async def run(self) -> None:
        """Send what is due, until cancelled."""
        while True:
            change = self._world.next_change
            for envelope in self._world.due():
                await self._send(self._frame(envelope.id))
                self._world.attempted(envelope)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await change.wait()

    async def serve(self, socket: WebSocket) -> None:
        """One socket, from hello to its end."""
        ticket = socket.query_params.get("ticket", "")
        if self._world.sockets_refused > 0:
            self._world.sockets_refused -= 1
            self._api.tickets.discard(ticket)
        if ticket not in self._api.tickets:
            await socket.close(1008)
            return
        self._api.tickets.discard(ticket)
        await socket.accept()
        await socket.send_json({"type": "hello", "num_connections": len(self._open) + 1,
                                "connection_info": {"app_id": self._world.app.id},
                                "debug_info": {"host": "sandbox", "approximate_connection_time": 18060}})  # fmt: skip
        task, warnings = asyncio.current_task(), list[asyncio.Task[None]]()

        def cut(warn: bool) -> None:
            if warn:
                warnings.append(asyncio.create_task(socket.send_json(_REFRESH)))
            elif task is not None:
                task.cancel()

        forget = self._world.on_cut(cut)
        self._open.append(socket)
        self._world.announce()
        try:
            while True:
                self._take(await socket.receive_text())
        except WebSocketDisconnect:
            pass
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await socket.close(1001)
        finally:
            self._open.remove(socket)
            forget()
            self._world.announce()

    def _take(self, text: str) -> None:
        try:
            ack = json.loads(text)
        except ValueError:
            return
        if isinstance(ack, dict) and isinstance(ack.get("envelope_id"), str):
            self._world.acknowledge(ack["envelope_id"], ack.get("payload"))

    def _frame(self, envelope_id: str) -> str:
        envelope = self._world.envelopes[envelope_id]
        frame = {"envelope_id": envelope.id, "type": envelope.kind, "payload": envelope.payload,
                 "accepts_response_payload": envelope.kind != "events_api"}  # fmt: skip
        if envelope.kind == "events_api":
            again = envelope.attempts > 0
            frame |= {"retry_attempt": envelope.attempts, "retry_reason": "timeout" if again else ""}
        return json.dumps(frame)

    async def _send(self, frame: str) -> bool:
        for _ in range(len(self._open)):
            self._turn += 1
            socket = self._open[self._turn % len(self._open)]
            with contextlib.suppress(Exception):
                await socket.send_text(frame)
                return True
        return False


def routes(world: World, api: WebApi, sockets: Sockets) -> list[BaseRoute]:
    """`/api/<method>`, `/slack/upload/<file>`, `/slack/respond/<secret>` and `/slack/socket`."""

    async def call(request: Request) -> Response:
        return await _call(world, api, request)

    async def upload(request: Request) -> Response:
        file = world.files.get(request.path_params["file"])
        if file is None or file.done:
            return PlainTextResponse("Not found", 404)
        world.fill_file(file, await request.body())
        return PlainTextResponse(f"OK - {file.size}")

    async def respond(request: Request) -> Response:
        try:
            error = api.respond(request.path_params["secret"], json.loads(await request.body()))
        except ApiError as refused:
            error = refused.error
        if error == "ok":
            return PlainTextResponse("ok")
        return JSONResponse({"ok": False, "error": error}, 404 if error == "used_url" else 400)

    return [
        Route("/api/{method}", call, methods=["GET", "POST"]),
        Route("/slack/upload/{file}", upload, methods=["POST"]),
        Route("/slack/respond/{secret}", respond, methods=["POST"]),
        WebSocketRoute("/slack/socket", sockets.serve),
    ]


async def _call(world: World, api: WebApi, request: Request) -> Response:
    name, kind, body = request.path_params["method"], request.headers.get("content-type", ""), await request.body()
    form = dict(parse_qsl(body.decode())) if kind.startswith("application/x-www-form-urlencoded") else {}
    token = request.headers.get("authorization", "").removeprefix("Bearer ") or str(form.pop("token", ""))
    try:
        params = parameters(dict(request.query_params) | form, kind, body)
    except ApiError as error:
        return _refused(error)
    team = next((team for team in world.teams.values() if team.token == token), None)
    chat = str(params.get("channel") or params.get("channel_id") or "")
    call = Call(team.id if team else "", name, chat, params, world.now())

    async def carry_out() -> Response:
        result = await _result(world, api, call, token, team)
        call.status = 200
        return JSONResponse({"ok": True} | result, headers={"x-oauth-scopes": SCOPES})

    try:
        return await world.met(call, carry_out)
    except ApiError as error:
        call.status, call.error = error.status, error.error
        return _refused(error)


async def _result(world: World, api: WebApi, call: Call, token: str, team: Team | None) -> dict[str, object]:
    if call.method == "apps.connections.open":
        if token != world.app.token or not token:
            raise ApiError("invalid_auth")
        return api.open_connection()
    method = api.method(call.method)
    if method is None:
        raise ApiError("unknown_method")
    if team is None:
        raise ApiError("invalid_auth" if token else "not_authed")
    if team.revoked:
        raise ApiError("token_revoked")
    if wait := world.pace.admit(team.id, call.method, call.chat):
        raise ApiError("ratelimited", status=429, retry_after=wait)
    return await method(team, call.params)


def _refused(error: ApiError) -> Response:
    body: dict[str, object] = {"ok": False, "error": error.error}
    if error.details:
        body |= {"errors": list(error.details), "response_metadata": {"messages": list(error.details)}}
    headers = {"retry-after": str(error.retry_after)} if error.retry_after is not None else {}
    return JSONResponse(body, error.status, headers=headers)

"""The gateway: sessions that identify, beat and resume, and the events that they are sent."""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect

if TYPE_CHECKING:
    from adapters.sandbox.discord.holdings import Holdings

Json = dict[str, Any]

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID_SESSION, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
IGNORED = (3, 4, 8)
BEAT_MS = 41_250
MESSAGE_CONTENT, PRIVILEGED, KNOWN_INTENTS = 1 << 15, (1 << 1) | (1 << 8) | (1 << 15), (1 << 26) - 1
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES = 1 << 0, 1 << 9, 1 << 12
RESUMABLE_S = 120
KEPT = 1000


class _Closed(Exception):
    """The gateway ends a connection with a close code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


@dataclass(eq=False)
class Session:
    """What one identify began: it survives its connection for two minutes, and keeps what it was sent."""

    id: str
    bot: int
    intents: int
    sequence: int = 0
    sent: deque[Json] = field(default_factory=lambda: deque(maxlen=KEPT))
    wire: _Wire | None = None
    lost_at: float | None = None


class _Wire:
    """One connection, compressed as the client asked for."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self._zlib = zlib.compressobj() if socket.query_params.get("compress") == "zlib-stream" else None
        self._turn = asyncio.Lock()

    async def send(self, payload: Json) -> None:
        text = json.dumps(payload)
        async with self._turn:
            if self._zlib is None:
                await self.socket.send_text(text)
            else:
                data = self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
                await self.socket.send_bytes(data)

    async def close(self, code: int) -> None:
        await self.socket.close(code)


class Gateway:
    """Who is connected, and `dispatch` to tell them of something."""

    def __init__(self, held: Holdings) -> None:
        self._held = held
        self._sessions: dict[str, Session] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self.identified: list[int] = []
        self.resumed: list[int] = []
        self.shut = False

    def online(self, bot: int) -> bool:
        """Whether a bot is connected now."""
        return any(session.bot == bot and session.wire is not None for session in self._sessions.values())

    def intents_of(self, bot: int) -> int:
        return next((session.intents for session in self._live(bot)), 0)

    def dispatch(self, bot: int, name: str, data: Json, intent: int = 0) -> None:
        """Tell each session of a bot that asked for the intent; while it is away its session keeps the event."""
        for session in self._live(bot):
            if intent and not session.intents & intent:
                continue
            session.sequence += 1
            event = {"op": DISPATCH, "t": name, "s": session.sequence, "d": data}
            session.sent.append(event)
            if session.wire is not None:
                self._start(session.wire, event)

    async def end(self, bot: int, *, code: int | None = None, op: int | None = None) -> None:
        """Close a bot's connections with a code, or send them an op such as RECONNECT."""
        for session in list(self._live(bot)):
            if session.wire is not None:
                await (session.wire.close(code) if code is not None else session.wire.send({"op": op, "d": None}))

    async def serve(self, socket: WebSocket) -> None:
        """One connection, from hello to its end; none while the gateway is shut."""
        if self.shut:
            await socket.close(1013)
            return
        await socket.accept()
        wire, session = _Wire(socket), None
        try:
            await wire.send({"op": HELLO, "d": {"heartbeat_interval": BEAT_MS}})
            while True:
                async with asyncio.timeout(BEAT_MS / 1000 * 1.5):
                    op, data = _read(await socket.receive_text())
                if op == HEARTBEAT:
                    await wire.send({"op": ACK})
                elif op == IDENTIFY:
                    session = await self._identify(wire, session, data)
                elif op == RESUME:
                    session = await self._resume(wire, data)
                elif session is None:
                    raise _Closed(4003)
                elif op not in IGNORED:
                    raise _Closed(4001)
        except _Closed as closed:
            await wire.close(closed.code)
        except TimeoutError:
            await wire.close(4009)
        except WebSocketDisconnect as left:
            if left.code in (1000, 1001) and session is not None and session.wire is wire:
                self._sessions.pop(session.id, None)
        except RuntimeError:
            # The connection was closed from this side while it was being read.
            pass
        finally:
            if session is not None and session.wire is wire:
                session.wire, session.lost_at = None, self._held.now()
            self._held.announce()

    async def _identify(self, wire: _Wire, session: Session | None, data: Json) -> Session:
        if session is not None:
            raise _Closed(4005)
        bot = next((bot for bot in self._held.bots.values() if bot.token == data.get("token")), None)
        if bot is None:
            raise _Closed(4004)
        intents = data.get("intents")
        if type(intents) is not int or not 0 <= intents <= KNOWN_INTENTS:
            raise _Closed(4013)
        if intents & PRIVILEGED and not bot.privileged:
            raise _Closed(4014)
        if not {"os", "browser", "device"} <= data.get("properties", {}).keys():
            raise _Closed(4002)
        session = Session(secrets.token_hex(16), bot.id, intents, wire=wire)
        self._sessions[session.id] = session
        guilds = [guild for guild in self._held.guilds.values() if bot.id in guild.members]
        session.sequence += 1
        user = {"id": str(bot.id), "username": bot.username, "discriminator": "0", "global_name": None, "avatar": None,
                "bot": True, "verified": True, "mfa_enabled": False, "flags": 0, "email": None}  # fmt: skip
        host = wire.socket.headers.get("host", "")
        await wire.send({"op": DISPATCH, "t": "READY", "s": session.sequence, "d": {
            "v": 10, "user": user, "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "session_id": session.id, "resume_gateway_url": f"ws://{host}/discord/gateway", "shard": [0, 1],
            "application": {"id": str(bot.id), "flags": 0}, "session_type": "normal", "private_channels": [],
            "user_settings": {}, "relationships": [], "presences": [], "geo_ordered_rtc_regions": [],
        }})  # fmt: skip
        self.identified.append(bot.id)
        self._held.announce()
        return session

    async def _resume(self, wire: _Wire, data: Json) -> Session | None:
        session = self._sessions.get(str(data.get("session_id")))
        bot = self._held.bots.get(session.bot) if session is not None else None
        if session is None or bot is None or bot.token != data.get("token"):
            await wire.send({"op": INVALID_SESSION, "d": False})
            return None
        seq = data.get("seq")
        if type(seq) is not int or not 0 <= seq <= session.sequence:
            raise _Closed(4007)
        session.wire, session.lost_at = wire, None
        for event in [event for event in session.sent if event["s"] > seq]:
            await wire.send(event)
        session.sequence += 1
        await wire.send({"op": DISPATCH, "t": "RESUMED", "s": session.sequence, "d": {}})
        self.resumed.append(session.bot)
        self._held.announce()
        return session

    def _live(self, bot: int) -> list[Session]:
        now = self._held.now()
        for session in list(self._sessions.values()):
            if session.lost_at is not None and now - session.lost_at > RESUMABLE_S:
                del self._sessions[session.id]
        return [session for session in self._sessions.values() if session.bot == bot]

    def _start(self, wire: _Wire, event: Json) -> None:
        async def send() -> None:
            try:
                await wire.send(event)
            except (RuntimeError, WebSocketDisconnect):
                # The connection is gone; the session keeps the event.
                return

        task = asyncio.get_running_loop().create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


def _read(text: str) -> tuple[int, Json]:
    try:
        payload = json.loads(text)
        op, data = payload["op"], payload.get("d")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _Closed(4002) from None
    if op in (IDENTIFY, RESUME) and not isinstance(data, dict):
        raise _Closed(4002)
    return op, data if isinstance(data, dict) else {}

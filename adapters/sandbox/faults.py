"""The calls that bots made, the faults that a test scripts for them, and how a call meets one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_CALLS_KEPT = 20_000


@dataclass(slots=True)
class Call:
    """A call that a bot made, in a chat ("" for none).

    `status` is None until it was answered, and 0 when the connection was dropped; `error` is the platform's own word
    or code for a refusal.
    """

    bot: str
    method: str
    chat: str
    params: dict[str, Any]
    at: float
    status: int | None = None
    error: str = ""


@dataclass(slots=True)
class Fault:
    """What the next `times` calls of a method (`*`: any) meet; None is for ever. `chat` narrows it to one chat."""

    method: str
    times: int | None
    chat: str | None = None
    error: Exception | None = None
    drop: Literal["", "before", "after"] = ""
    delay: float = 0

    def fits(self, call: Call) -> bool:
        return self.method.lower() in ("*", call.method.lower()) and self.chat in (None, call.chat)


class Faults:
    """What goes wrong with bots' calls, and which were made. A chat is given by its id, as a number or as text."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._faults: list[Fault] = []

    def refuse(
        self, method: str, error: Exception, *, times: int | None = 1, chat: int | str | None = None
    ) -> None:  # fmt: skip
        """The next `times` calls of a method (`*`: any; None: until `mend`) get this error and change nothing."""
        self._faults.append(Fault(method, times, _text(chat), error=error))

    def drop(
        self, method: str, *, when: Literal["before", "after"], times: int | None = 1, chat: int | str | None = None
    ) -> None:
        """The connection breaks: before the call was carried out, or after, so that its answer is lost."""
        self._faults.append(Fault(method, times, _text(chat), drop=when))

    def delay(self, method: str, seconds: float, *, times: int | None = 1, chat: int | str | None = None) -> None:
        """The call is carried out after so many real seconds."""
        self._faults.append(Fault(method, times, _text(chat), delay=seconds))

    def mend(self) -> None:
        """Forget every scripted fault."""
        self._faults.clear()

    def calls_of(self, method: str, *, chat: int | str | None = None) -> list[Call]:
        """The calls of one method, oldest first."""
        return [
            call
            for call in self.calls
            if call.method.lower() == method.lower() and _text(chat) in (None, call.chat)
        ]  # fmt: skip

    def record(self, call: Call) -> None:
        self.calls.append(call)
        del self.calls[:-_CALLS_KEPT]

    async def met(self, call: Call, carry_out: Callable[[], Awaitable[Response]]) -> Response:
        """Carry a call out, with the fault that it meets. Raises the fault's error."""
        self.record(call)
        fault = self._take(call)
        if fault is None:
            return await carry_out()
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.error is not None:
            raise fault.error
        answer = Dropped() if fault.drop == "before" else await carry_out()
        if fault.drop:
            call.status = 0
        return Dropped() if fault.drop else answer

    def _take(self, call: Call) -> Fault | None:
        """The fault that this call meets, used up once."""
        for fault in self._faults:
            if fault.fits(call):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
        return None


class Dropped(Response):
    """A connection that breaks in the middle of its answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"64")]})
        # The server closes a connection whose announced body never came.


def _text(chat: int | str | None) -> str | None:
    return None if chat is None else str(chat)

"""Server-sent events: the state of every approval the token may see, whenever it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from adapters.http.approvals import door
from adapters.http.auth import By, Caller, Kind, Using, identify
from adapters.http.openapi import answers
from adapters.http.problems import Problem
from adapters.http.services import Services
from adapters.http.watch import Watch
from core.approvals import Approval, Status
from core.ports import Unavailable

SNAPSHOT = 500
OVERLAP = timedelta(seconds=10)
RETRY_MS = 2000

router = APIRouter(prefix="/v1/events", tags=["events"])

STREAM = {
    "description": "Events named `approval`, until either side closes.",
    "content": {
        "text/event-stream": {
            "schema": {"type": "string"},
            "example": 'id: 1773057600000000\nevent: approval\ndata: {"id":"019cd2a1-7c00-7d3e-9f00-2b6f0c1d4e5a",'
            '"revision":2,"content_revision":1,"status":"approved","outcome":"none"}\n\n',
        }
    },
}


@router.get("", summary="Follow changes", response_class=StreamingResponse,
            responses={200: STREAM, **answers(401, 403, 422, 500, 503)})  # fmt: skip
async def follow(
    request: Request, services: Using, caller: By,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,17}$", description="The last event's id.")
    ] = None,
) -> StreamingResponse:  # fmt: skip
    """Each event carries the state of one approval, not the step to it: the one with the highest revision is the truth.

    A stream begins with what waits now; after `Last-Event-ID`, also with what was answered or ended since that event,
    with 10 s of overlap, so an event may come twice. An event named `reload` says that more happened meanwhile than the
    stream tells: list again. A comment comes every 15 s while nothing happens. The stream ends when the token no longer
    holds, or the process stops; clients connect again with `Last-Event-ID`.
    """
    if not caller.views:
        raise Problem("needs_permission", "Following needs a role with approvals:view.")
    since = datetime.fromtimestamp(int(last_event_id) / 1e6, services.clock.now().tzinfo) if last_event_id else None
    token = request.headers["authorization"].partition(" ")[2].strip()
    stream = events(services, request.app.state.watch, caller, token, since)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def events(
    services: Services, watch: Watch, caller: Caller, token: str, since: datetime | None
) -> AsyncIterator[str]:
    """Listens before it reads, so that nothing is lost between the two."""
    with watch.stream(caller.sees) as listener:
        yield f"retry: {RETRY_MS}\n: open\n\n"
        try:
            before, waiting = await snapshot(services, caller)
        except Unavailable:
            return
        if since is not None and len(before) == SNAPSHOT:
            yield f"id: {instant(services)}\nevent: reload\ndata: {{}}\n\n"
        for approval in sorted({row.id: row for row in (*before, *waiting)}.values(), key=lambda row: row.id):
            watch.track(approval)
            if listener.know(approval) and (approval.pending or changed_since(approval, since)):
                yield event(services, approval)
        clock, every = asyncio.get_running_loop(), services.limits.keep_alive_s
        ask_again = clock.time() + every
        while not listener.closed:
            approval_now = await listener.take(every)
            # A busy stream is asked for its leave as often as a quiet one.
            if approval_now is None or clock.time() >= ask_again:
                if not await holds(services, caller, token):
                    return
                ask_again = clock.time() + every
            if approval_now is not None:
                yield event(services, approval_now)
            elif not listener.closed:
                yield ": still here\n\n"


async def snapshot(services: Services, caller: Caller) -> tuple[list[Approval], list[Approval]]:
    agent = caller.subject if caller.kind is Kind.AGENT else None
    before = await door(services).rows(agent=agent, limit=SNAPSHOT)
    waiting = await door(services).rows(status=Status.PENDING, agent=agent, limit=SNAPSHOT)
    return list(before), list(waiting)


async def holds(services: Services, caller: Caller, token: str) -> bool:
    """Whether the token still stands for what it did; a database that is away ends no stream."""
    try:
        return await identify(services, token) == caller
    except Unavailable:
        return True


def changed_since(approval: Approval, since: datetime | None) -> bool:
    if since is None:
        return False
    moments = (approval.created_at, approval.decided_at, approval.claimed_at, approval.outcome_at)
    return any(moment is not None and moment > since - OVERLAP for moment in moments)


def event(services: Services, approval: Approval) -> str:
    data = (
        f'{{"id":"{approval.id}","revision":{approval.revision},"content_revision":{approval.content_revision},'
        f'"status":"{approval.status.value}","outcome":"{approval.outcome.value}"}}'
    )
    return f"id: {instant(services)}\nevent: approval\ndata: {data}\n\n"


def instant(services: Services) -> int:
    """Microseconds since 1970: what an event's id is, so that any process can go on from it."""
    return int(services.clock.now().timestamp() * 1_000_000)

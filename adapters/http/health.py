"""Whether the process lives, what it stands on, what it counts; and the platforms' webhooks."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field

from adapters.http.auth import Using
from adapters.http.bodies import read_any
from adapters.http.openapi import answers
from adapters.http.problems import Problem
from adapters.http.services import Check, Services, Webhook
from adapters.http.views import View

log = logging.getLogger("placet.http")

router = APIRouter(tags=["operating"])


class AliveView(View):
    status: str = "alive"


class ReadyView(View):
    """What the process stands on."""

    status: str = "ready"
    checks: dict[str, str] = Field(examples=[{"database": "ok", "redis": "no answer"}])


@router.get("/healthz", summary="Alive", responses=answers(500))
async def healthz() -> AliveView:
    """Answers as long as the process does; asks nothing of anything else."""
    return AliveView()


@router.get("/readyz", summary="Ready", responses=answers(500, 503))
async def readyz(services: Using) -> ReadyView:
    """Names everything the process stands on, `ok` or what is wrong; 503 when something it needs is down."""
    found = await asyncio.gather(*(ask(services, check) for check in services.checks.values()))
    checks = dict(zip(services.checks, found, strict=True))
    down = sorted(name for name in services.needed if checks.get(name, "ok") != "ok")
    if down:
        raise Problem("not_ready", f"Down: {', '.join(down)}.", checks=checks)
    return ReadyView(checks=checks)


async def ask(services: Services, check: Check) -> str:
    try:
        async with asyncio.timeout(services.limits.check_s):
            return await check() or "ok"
    except TimeoutError:
        return f"no answer within {services.limits.check_s:g} s"
    except Exception as error:
        # Its text may name addresses or worse; this page needs no token.
        log.warning("check failed", extra={"error": type(error).__name__})
        return f"failed ({type(error).__name__})"


@router.get("/metrics", summary="Prometheus metrics", response_class=Response,
            responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **answers(500)})  # fmt: skip
async def metrics(services: Using) -> Response:
    """Needs no token: bind the process to loopback or a private network."""
    return Response(await services.metrics.scrape(), media_type=CONTENT_TYPE_LATEST)


def webhook_router(platform: str, take: Webhook) -> APIRouter:
    """Where a platform posts its updates; it is no part of the API's description, for only the platform calls it."""
    webhooks = APIRouter(include_in_schema=False)

    @webhooks.post(f"/{platform}/{{account}}")
    async def update(request: Request, services: Using, account: str) -> Response:
        body = await read_any(request, services.limits.webhook)
        answer = await take(account, dict(request.headers), body)
        status, text = (answer, "") if isinstance(answer, int) else answer
        if status >= 400:
            raise Problem("webhook_refused", "The update was not taken.", status=status)
        return Response(text, status_code=status, media_type="text/plain")

    return webhooks

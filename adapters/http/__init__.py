"""The HTTP API (design section 9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from adapters.http import administration, agents, approvals, events, health, lanes
from adapters.http.edge import Edge
from adapters.http.openapi import description_of
from adapters.http.problems import Problem, on_http, on_invalid, on_problem, on_unavailable
from adapters.http.services import Check, Limits, Services, Webhook
from adapters.http.watch import Watch
from core.ports import Unavailable

__all__ = ["Check", "Limits", "Services", "Webhook", "build_api", "release"]


def build_api(services: Services) -> FastAPI:
    """The application. Without `services.approvals` it serves health, metrics and the webhooks it is given.

    Before its server stops, `release` must be awaited: a server waits for the long polls and streams that are open.
    """
    watch = (
        Watch(services.approvals, services.feed, services.clock, services.limits.poll_s) if services.approvals else None
    )

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        if watch is not None:
            watch.start()
        yield
        await release(app)

    app = FastAPI(
        title="Placet", version=version("placet"), lifespan=running, docs_url=None, redoc_url=None,
        redirect_slashes=False, generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    routers = [health.router, *(health.webhook_router(name, take) for name, take in services.webhooks.items())]
    if watch is not None:
        routers += [approvals.router, events.router, agents.router, lanes.router, administration.router]
    for router in routers:
        app.include_router(router)
    app.state.services, app.state.watch = services, watch
    app.state.methods_at = partial(methods_at, routers)
    app.openapi = partial(description_of, app)  # type: ignore[method-assign]
    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(Unavailable, on_unavailable)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_middleware(Edge, metrics=services.metrics)
    return app


async def release(app: FastAPI) -> None:
    """Let every long poll answer now and every stream end; later ones do not wait."""
    if app.state.watch is not None:
        await app.state.watch.close()


def methods_at(routers: Iterable[APIRouter], path: str) -> str:
    """What may be done at a path, as the Allow header says it."""
    methods = {
        method
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and route.path_regex.match(path)
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods or {"GET"}))

"""A world of its own for each test, over the run's Temporal server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.workflows.world import World, a_world, serving


@pytest.fixture
async def idle(temporal_address: str, sqlite_url: str) -> AsyncIterator[World]:
    """A world whose workers do not run."""
    async with a_world(temporal_address, sqlite_url) as world:
        yield world


@pytest.fixture
async def world(idle: World) -> AsyncIterator[World]:
    """A world at work."""
    async with serving(idle):
        yield idle

"""The servers that the stacks share; a test that stops one starts its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.embedded import TemporalServer, ValkeyServer
from tests.e2e.stack import Servers, Stack, stack


@pytest.fixture
def servers(temporal_server: TemporalServer, valkey_server: ValkeyServer) -> Servers:
    """The run's Temporal and Valkey."""
    return temporal_server, valkey_server


@pytest.fixture
async def on_sqlite(tmp_path: Path, sqlite_url: str, servers: Servers) -> AsyncIterator[Stack]:
    """A stack over SQLite."""
    async with stack(tmp_path, sqlite_url, servers) as made:
        yield made

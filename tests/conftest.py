"""The services that tests ask for by name, and a browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest
from playwright.async_api import Browser
from redis import Redis

from adapters.embedded import Server, TemporalServer, ValkeyServer
from tests.browser import a_browser
from tests.services import PostgresServer, run, temporal_in

# What a failure found by chance was made from, so that it can be made again.
hypothesis.settings.register_profile("placet", print_blob=True)
hypothesis.settings.load_profile("placet")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several workers share the files, the long ones come first: no worker is left alone with one at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parent.name not in ("e2e", "workflows"))


@pytest.fixture(scope="session", autouse=True)
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a Placet that was told no data folder makes one: never among the files of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder := tmp_path_factory.mktemp("share")))
        yield folder


@pytest.fixture(autouse=True)
def data_folders_of_their_own(data_home: Path) -> Iterator[None]:
    """Every test gives what it starts a data folder, so that no test finds what another left."""
    yield
    if (made := data_home / "placet").exists():
        shutil.rmtree(made)
        pytest.fail("something was started without a data folder of its own: give it PLACET_DATA_DIR")


@pytest.fixture(scope="session")
def services_folder() -> Iterator[Path]:
    """A folder for the servers' files, removed at the end of the run."""
    with tempfile.TemporaryDirectory(prefix="placet-tests-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def started(server: Server) -> Iterator[Server]:
    try:
        run(server.start())
        yield server
    finally:
        run(server.stop())


@pytest.fixture(scope="session")
def valkey_server(services_folder: Path) -> Iterator[Server]:
    """The run's Valkey server."""
    yield from started(ValkeyServer(services_folder))


@pytest.fixture(scope="session")
def temporal_server(services_folder: Path) -> Iterator[Server]:
    """The run's Temporal development server."""
    yield from started(temporal_in(services_folder))


@pytest.fixture(scope="session")
def postgres_server(services_folder: Path) -> Iterator[Server]:
    """The run's PostgreSQL server."""
    yield from started(PostgresServer(services_folder))


@pytest.fixture(scope="session")
def valkey_url(valkey_server: ValkeyServer) -> str:
    """The URL of a real Valkey, emptied before each test that asks for it."""
    return valkey_server.url


@pytest.fixture(autouse=True)
def empty_valkey(request: pytest.FixtureRequest) -> None:
    """Nothing that one test left in the shared Valkey reaches the next."""
    if "valkey_url" in request.fixturenames:
        with Redis.from_url(request.getfixturevalue("valkey_url")) as client:
            client.flushall()


@pytest.fixture(scope="session")
def temporal_address(temporal_server: TemporalServer) -> str:
    """Host and port of a real Temporal development server; its namespace is `default`."""
    return temporal_server.address


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The SQLAlchemy URL of the real PostgreSQL's own database; see `postgres_database`."""
    return postgres_server.url()


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The SQLAlchemy URL of an empty PostgreSQL database of this test's own."""
    name = run(postgres_server.create_database())
    try:
        yield postgres_server.url(name)
    finally:
        run(postgres_server.drop_database(name))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The SQLAlchemy URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'placet.db'}"


@pytest.fixture(params=["sqlite_url", "postgres_database"], ids=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The SQLAlchemy URL of an empty database; the test runs once per kind of database."""
    url = request.getfixturevalue(request.param)
    assert isinstance(url, str)
    return url


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium."""
    async with a_browser() as launched:
        yield launched

"""PostgreSQL: the statements run on asyncpg's own connections.

SQLAlchemy's cursor over asyncpg made a press 2.4 times as slow as bare asyncpg; this way it is 1.1 times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg
import sqlalchemy as sa

from adapters.faults import postgres_fault
from adapters.greenlets import Side, wait
from adapters.ledger import Ledger
from adapters.statements import Row
from core.ports import Unavailable

T = TypeVar("T")

CONNECT_S = 5.0
CONNECTIONS = 16

WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


def connect_arguments(patience_s: float | None) -> dict[str, Any]:
    """What asyncpg is told; the server gives up a statement after `patience_s`, and a process that says no more."""
    settings = {"application_name": "placet", "jit": "off"}
    if patience_s is not None:
        milliseconds = int(patience_s * 1000)
        settings["statement_timeout"] = str(milliseconds)
        # A process that was stopped in the middle of a transaction must not hold its rows for ever.
        settings["idle_in_transaction_session_timeout"] = str(2 * milliseconds)
    return {"timeout": CONNECT_S, "server_settings": settings}


class AsyncpgLine:
    """`adapters.statements.Line` over a connection with an open transaction."""

    __slots__ = ("_connection", "dialect")

    def __init__(self, dialect: sa.Dialect, connection: Any) -> None:
        self.dialect = dialect
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[Any]) -> Sequence[Row]:
        try:
            found: Sequence[Row] = wait(self._connection.fetch(sql, *parameters))
        except _LOST as error:
            raise postgres_fault(error) from None
        return found


class PostgresTransactions:
    """A pool of connections; first come, first served. Who would wait too long is told Unavailable."""

    def __init__(self, url: sa.URL, patience_s: float) -> None:
        self._patience_s = patience_s
        self._dialect = url.get_dialect()()
        _, arguments = self._dialect.create_connect_args(url)
        self._arguments = {**arguments, **connect_arguments(patience_s)}
        # The connection used last comes first: it has its statements planned and its pages at hand.
        self._free: list[tuple[Any, Side]] = []
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def write(self, work: Callable[[Ledger], T]) -> T:
        return await self._in_turn(WRITE, work)

    async def read(self, work: Callable[[Ledger], T]) -> T:
        return await self._in_turn(READ, work)

    async def close(self) -> None:
        """Close the connections that are free now."""
        while self._free:
            connection, _ = self._free.pop()
            try:
                await connection.close(timeout=CONNECT_S)
            except _LOST:
                connection.terminate()

    async def _in_turn(self, begin: str, work: Callable[[Ledger], T]) -> T:
        try:
            # One timer for the whole of it: one for each statement cost a tenth of a press.
            async with asyncio.timeout(self._patience_s) as patience, self._turns:
                return await self._transact(begin, work)
        except TimeoutError:
            if not patience.expired():
                raise
            raise Unavailable("the database did not answer in time") from None

    async def _transact(self, begin: str, work: Callable[[Ledger], T]) -> T:
        connection, side = await self._begin(begin)
        sound = False
        try:
            ledger = Ledger(AsyncpgLine(self._dialect, connection))
            answer = await side.run(lambda: work(ledger))
            await self._end(connection, "COMMIT")
            sound = True
            return answer
        except Unavailable:
            raise
        except Exception:
            with suppress(Unavailable):
                await self._end(connection, "ROLLBACK")
                sound = True
            raise
        finally:
            if sound:
                self._free.append((connection, side))
            else:
                # Timed out, cut off or cancelled: whatever state it is in, nobody shall find it among the free.
                connection.terminate()

    async def _begin(self, begin: str) -> tuple[Any, Side]:
        """A connection with its transaction begun; what the server has closed since its last use is left behind."""
        while self._free:
            connection, side = self._free.pop()
            with suppress(*_LOST):
                await self._start(connection, begin)
                return connection, side
        try:
            connection = await asyncpg.connect(**self._arguments)
        except _LOST as error:
            raise Unavailable(f"the database cannot be reached ({type(error).__name__})") from None
        try:
            await self._start(connection, begin)
        except _LOST as error:
            raise postgres_fault(error) from None
        return connection, Side()

    @staticmethod
    async def _start(connection: Any, begin: str) -> None:
        try:
            await connection.execute(begin)
        except BaseException:
            connection.terminate()
            raise

    @staticmethod
    async def _end(connection: Any, how: str) -> None:
        """COMMIT or ROLLBACK. When the answer to COMMIT is lost nobody knows: it is not tried again here, since the
        door finds by the decision key whether it was committed."""
        try:
            await connection.execute(how)
        except _LOST as error:
            raise Unavailable(f"the database did not say whether it committed ({type(error).__name__})") from None

"""Statements compiled once for a database and then run as the driver's own SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Row = Sequence[Any]
Build = Callable[[Callable[[sa.Table], Any]], sa.Executable]

_INSERTS: dict[str, Callable[[sa.Table], Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class Compiled:
    """SQL text for one database, the order of its parameters, and how their values are handed to the driver."""

    __slots__ = ("_binds", "_constants", "sql")

    def __init__(self, clause: sa.Executable, dialect: sa.Dialect) -> None:
        compiled: Any = clause.compile(  # type: ignore[attr-defined]
            dialect=dialect, compile_kwargs={"render_postcompile": True}
        )
        self.sql: str = str(compiled)
        self._constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        self._binds = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup or ()
        ]

    def parameters(self, values: Mapping[str, Any]) -> list[Any]:
        if self._constants:
            values = {**self._constants, **values}
        return [values[name] if process is None else process(values[name]) for name, process in self._binds]


class Statement:
    """One statement, written once for both databases.

    `clause` is a SQLAlchemy statement, or, where the databases have each their own INSERT with ON CONFLICT, a function
    from that INSERT to the statement.
    """

    __slots__ = ("_build", "_compiled")

    def __init__(self, clause: sa.Executable | Build) -> None:
        self._build: Build = clause if not isinstance(clause, sa.Executable) else lambda _insert: clause
        self._compiled: dict[str, Compiled] = {}

    def on(self, dialect: sa.Dialect) -> Compiled:
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = Compiled(self._build(_INSERTS[dialect.name]), dialect)
        return compiled


class Line(Protocol):
    """An open transaction on a driver's connection."""

    dialect: sa.Dialect

    def rows(self, sql: str, parameters: Sequence[Any]) -> Sequence[Row]: ...

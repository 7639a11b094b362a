"""How the drivers' errors become Placet's own, which never carry a value."""

from __future__ import annotations

import sqlite3

import asyncpg

from core.ports import Repeated, Unavailable

DECISION_KEY = "uq_approvals_decision"

# Primary result codes of SQLite that say "not now": BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN,
# PROTOCOL, AUTH and PERM. A damaged file or a statement that is wrong is none of them.
_SQLITE_NOT_NOW = frozenset({3, 5, 6, 7, 8, 9, 10, 13, 14, 15, 23})

# Classes of SQLSTATE that say "not now": connection, rolled back (deadlock), resources, operator intervention; and the
# single states of a lock not got, a transaction left idle, and a server that became a standby.
_POSTGRES_NOT_NOW = ("08", "40", "53", "57", "58")
_POSTGRES_STATES = frozenset({"55P03", "25P02", "25P03", "25006"})


class Fault(Exception):
    """The database refused a statement: a bug, or a schema that is not this version's. Carries names, no values."""


def sqlite_fault(error: sqlite3.Error) -> Exception:
    """What to raise in the place of a driver's error."""
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code is not None and code & 0xFF in _SQLITE_NOT_NOW:
        return Unavailable(f"the database cannot be used now ({name})")
    if isinstance(error, sqlite3.IntegrityError) and "approvals.decision_key" in str(error):
        return Repeated("this event has decided an approval already")
    # SQLite's messages name tables, columns and constraints, never values.
    return Fault(f"{name}: {error}")


def postgres_fault(error: BaseException) -> Exception:
    """What to raise in the place of a driver's error."""
    name = type(error).__name__
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        if state[:2] in _POSTGRES_NOT_NOW or state in _POSTGRES_STATES:
            return Unavailable(f"the database cannot be used now ({name})")
        constraint = getattr(error, "constraint_name", None) or ""
        if constraint == DECISION_KEY:
            return Repeated("this event has decided an approval already")
        where = constraint or getattr(error, "table_name", None) or ""
        return Fault(f"{name} ({state}) {where}".rstrip())
    # A value that the driver cannot encode is our bug; its message would repeat the value.
    if isinstance(error, asyncpg.DataError | ValueError | TypeError):
        return Fault(f"{name}: a value does not fit its column")
    return Unavailable(f"the database cannot be reached ({name})")

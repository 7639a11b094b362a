"""What the sandbox holds, kept in one SQLite file, so that it runs again on the same data after a kill."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path


class Shelf:
    """Records (kind, key, JSON text) and files (key, bytes). Without a folder it lives in memory.

    Puts are collected in one transaction until `commit`; what was not committed is gone after a kill, so a caller
    commits before it answers.
    """

    def __init__(self, folder: Path | None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(":memory:" if folder is None else folder / "sandbox.db")
        self._db.execute("PRAGMA journal_mode = wal")
        self._db.execute("PRAGMA synchronous = normal")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records (kind TEXT, key TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, key))"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS files (key TEXT PRIMARY KEY, body BLOB NOT NULL)")
        self._db.commit()

    def all(self, kind: str) -> Iterator[str]:
        """The bodies of a kind, in the order in which their keys were first put."""
        for (body,) in self._db.execute("SELECT body FROM records WHERE kind = ? ORDER BY rowid", (kind,)):
            yield body

    def one(self, kind: str, key: str) -> str | None:
        row = self._db.execute("SELECT body FROM records WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        return None if row is None else str(row[0])

    def put(self, kind: str, key: str, body: str) -> None:
        self._db.execute(
            "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body",
            (kind, key, body),
        )

    def drop(self, kind: str, key: str) -> None:
        self._db.execute("DELETE FROM records WHERE kind = ? AND key = ?", (kind, key))

    def put_file(self, key: str, body: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (key, body))

    def file(self, key: str) -> bytes | None:
        row = self._db.execute("SELECT body FROM files WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def commit(self) -> None:
        self._db.commit()

    def close(self) -> None:
        self._db.commit()
        self._db.close()

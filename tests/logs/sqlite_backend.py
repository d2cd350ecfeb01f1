"""The backend of the conformance suite for the SQLite log."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.logs.backend import Backend
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog
from topicpolicies_server.logs.sqlite.log import IN_FLIGHT


class FaultyConnection(sqlite3.Connection):
    """A connection that can delay some statements or make them fail, as configured on the class. Each test uses a class of its own."""

    gate: ClassVar[threading.Event]
    statements: ClassVar[list[str]]
    """The matching statements that were executed so far."""
    sql: ClassVar[str]
    """The beginning of the statements that are affected."""
    error_code: ClassVar[int | None]
    once: ClassVar[bool]
    """Whether only the next statement fails."""
    after: ClassVar[bool]
    """Whether a failing statement takes effect all the same."""
    last: ClassVar[sqlite3.Connection]

    @classmethod
    def fresh(cls) -> type[FaultyConnection]:
        """Returns a new subclass, configured to cause no fault."""
        attributes = {"gate": threading.Event(), "statements": [], "error_code": None, "after": False, "once": False}
        made: type[FaultyConnection] = type("Connection", (cls,), attributes)
        made.sql = "INSERT INTO events"
        made.gate.set()
        return made

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        kind = type(self)
        kind.last = self
        if not sql.startswith(kind.sql):
            return super().execute(sql, parameters)
        kind.statements.append(sql)
        assert kind.gate.wait(30)
        code = kind.error_code
        if code is None:
            return super().execute(sql, parameters)
        if kind.once:
            kind.error_code = None
        if kind.after:
            super().execute(sql, parameters)
        error = sqlite3.OperationalError("a fault")
        error.sqlite_errorcode = code
        raise error


class SqliteBackend(Backend):
    name = "sqlite"
    exclusive = True

    def __init__(self, directory: Path) -> None:
        self.path = directory / "changes.db"
        self.faults = FaultyConnection.fresh()

    def namespace(self, name: str = "orders") -> str:
        return f"acme/{name}"

    async def start(self, *, in_flight_limit: int | None = None) -> SqliteLog:
        log = SqliteLog(
            self.path,
            in_flight_limit=in_flight_limit or IN_FLIGHT,
            connection=self.faults,
            compaction=Compaction(interval_seconds=3_600),  # no compaction in the background unless a test requests it
        )
        await log.start()
        return log

    async def stored(self, namespace: str) -> bool:
        with closing(sqlite3.connect(self.path)) as connection:
            return bool(connection.execute("SELECT 1 FROM namespaces WHERE name = ?", (namespace,)).fetchall())

    async def compact(self, namespace: str) -> None:
        log = SqliteLog(self.path, compaction=Compaction(retention_ms=-1, deletions_ms=-1))
        await log.compact(namespace)
        await log.close()

    @contextmanager
    def holding(self, log: NamespaceLog) -> Iterator[None]:
        del log
        self.faults.gate.clear()
        yield
        self.faults.gate.set()

    @contextmanager
    def failing(self, log: NamespaceLog, *, outcome_unknown: bool) -> Iterator[None]:
        if outcome_unknown:
            super().failing(log, outcome_unknown=True)  # such a failure ends the log: see test_sqlite_faults.py
        self.faults.error_code = sqlite3.SQLITE_FULL
        yield
        self.faults.error_code = None

    async def lose(self, log: NamespaceLog) -> None:
        del log
        self.faults.once = True
        self.faults.error_code = sqlite3.SQLITE_CORRUPT
        self.faults.gate.set()


@asynccontextmanager
async def one_file(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Backend]:
    """An SQLite log in an empty directory."""
    del request
    yield SqliteBackend(directory)

"""Drops what is beyond the bounds of a history."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from . import file

_ENTRIES = 1_000
"""How many entries are dropped in one transaction."""


class Bounds(NamedTuple):
    """What the history keeps: entries that are at most so old, and so many bytes."""

    age_seconds: float
    bytes: int


def trim(connection: sqlite3.Connection, bounds: Bounds, now: int) -> None:
    """Drops entries beyond the bounds, a transaction at a time. ``now``: milliseconds since 1970."""
    while _in_transaction(connection, file.trim_by_age, now - int(bounds.age_seconds * 1000), _ENTRIES):
        pass
    while file.used_bytes(connection) > bounds.bytes and _in_transaction(connection, file.trim_oldest, _ENTRIES):
        pass


def _in_transaction(connection: sqlite3.Connection, drop: Callable[..., int], *arguments: int) -> int:
    connection.execute("BEGIN IMMEDIATE")
    try:
        dropped = drop(connection, *arguments)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return dropped

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


def trim(connection: sqlite3.Connection, bounds: Bounds, now: int, may_go_on: Callable[[], bool] = lambda: True) -> bool:
    """Drops entries beyond the bounds, a transaction at a time.

    Args:
        connection: a connection that writes.
        bounds: what is kept.
        now: milliseconds since 1970.
        may_go_on: asked after each transaction.

    Returns:
        Whether nothing is left that is beyond the bounds.
    """
    while _in_transaction(connection, file.trim_by_age, now - int(bounds.age_seconds * 1000), _ENTRIES):
        if not may_go_on():
            return False
    return trim_to_size(connection, bounds.bytes, may_go_on)


def trim_to_size(connection: sqlite3.Connection, most_bytes: int, may_go_on: Callable[[], bool] = lambda: True) -> bool:
    """Drops the oldest entries until at most ``most_bytes`` are in use, as ``trim``."""
    while _in_transaction(connection, file.trim_to_size, most_bytes, _ENTRIES):
        if not may_go_on():
            return False
    return True


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

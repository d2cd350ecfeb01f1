"""Probes whether the log's file can be written: asks for the last commit's outcome; if that was refused, makes a small write."""

from __future__ import annotations

import sqlite3

from ...core.reasons import LogState
from ..change_log import LogError
from .namespace import InFlight
from .refusals import explained
from .writer import Writer


async def ask(writer: Writer, in_flight: InFlight) -> None:
    """Returns when the file can be written.

    Args:
        writer: the file's writer.
        in_flight: has the outcome of the last commit.

    Raises:
        LogError: the file can't be written (``APPEND_FAILED``).
    """
    try:
        if in_flight.doubt is not None:
            raise in_flight.doubt
        if in_flight.refused is not None:
            await writer.run(writer.probe)
            in_flight.refused = None
    except sqlite3.Error as error:
        raise LogError(LogState.APPEND_FAILED, f"The change log can't be written now: {explained(error)}") from error

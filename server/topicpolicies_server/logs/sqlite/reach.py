"""Probes whether the log's file can be written: checks its path and the last commit's outcome; if that was refused, makes a small write."""

from __future__ import annotations

import asyncio
import sqlite3

from ...core.reasons import LogState
from ...path_guard import PathGuard, secure
from ...threads import DaemonThreads
from ..change_log import LogError
from .file import overwrite_unfinished
from .namespace import InFlight
from .refusals import explained
from .writer import Writer


class Reach:
    """Probes one file, on a thread of its own."""

    def __init__(self, in_flight: InFlight) -> None:
        """``in_flight`` has the outcome of the last commit."""
        self._in_flight = in_flight
        self._looking = DaemonThreads(1, "sqlite-reach")

    async def ask(self, path_guard: PathGuard, writer: Writer) -> None:
        """Returns when the file can be written.

        Raises:
            LogError: the file can't be written (``APPEND_FAILED``).
        """
        try:
            await self._check(path_guard, writer)
            if self._in_flight.doubt is not None:
                raise self._in_flight.doubt
            if self._in_flight.refused is not None:
                await writer.run(overwrite_unfinished)
                self._in_flight.refused = None
        except sqlite3.Error as error:
            raise LogError(LogState.APPEND_FAILED, f"The change log can't be written now: {explained(error)}") from error

    async def _check(self, path_guard: PathGuard, writer: Writer) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._looking, path_guard.check)
        except sqlite3.Error:
            if self._in_flight.doubt is None:
                await writer.run(secure)
            raise

    def close(self) -> None:
        """Stops the thread."""
        self._looking.shutdown(wait=False)

"""Writes and reads checkpoints on threads: one is written at a time, and a few are read.

Several servers may write the checkpoint of one namespace. Each file is whole, and of a place that the log is asked for when it is opened,
so an older one in place of a newer one only costs time.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..core.fold.fold import FoldContext
from ..tasks import DaemonThreads
from .file import Checkpoint, Refused, Restored, clear, maker, path_of, read, write

_log = logging.getLogger(__name__)

READERS = 2
"""How many checkpoints are restored at the same time; the others wait."""
LAST_SECONDS = 5.0
"""How long closing a namespace waits for its last checkpoint, and closing the server for what is being written."""


class Pace(NamedTuple):
    """When checkpoints are written."""

    seconds: float = 300.0
    """How often it is checked which namespaces changed enough."""
    events: int = 1_000
    """The least number of events behind the last checkpoint for which the next one is written: so many are read within 0.1 s."""
    share: float = 0.05
    """The least number of them relative to that of the keys."""
    last_events: int = 100
    """The least number of events for which a checkpoint is written when the namespace is closed."""


class Checkpoints:
    """The checkpoints of all namespaces of a server. All methods are called on the event loop that made the object."""

    def __init__(self, folder: Path, pace: Pace | None = None) -> None:
        """Writes checkpoints to files in a folder, which is created if it is missing."""
        self.pace = pace or Pace()
        self._folder = folder
        self._writer = DaemonThreads(1, "checkpoint-writer")
        self._readers = DaemonThreads(READERS, "checkpoint-reader")
        self._failing = self._closed = False
        self.written = 0
        """How many checkpoints were written."""
        self.failed = 0
        """How many checkpoints could not be written."""
        maker()  # computed now: later, the sources on disk may be those of another release
        with suppress(OSError):
            clear(folder)

    async def restored(self, namespace: str, context: FoldContext, *, seconds: float) -> Restored | None:
        """Restores the view of a namespace's checkpoint; None: there is no checkpoint that can be used, or not in time.

        ``context``: what the fold knows before the log is open.
        """
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._readers, read, self._folder, namespace, context)
        except FileNotFoundError:
            return None
        except TimeoutError:
            why = f"it could not be read within {seconds:g} s"
        except (OSError, Refused) as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, the log can be read without)
            _log.exception("%s can't be read", path_of(self._folder, namespace))
            why = type(error).__name__
        _log.warning("%s: its checkpoint can't be used, so its log is read from the beginning: %s", namespace, why)
        return None

    async def write(self, checkpoint: Checkpoint) -> bool:
        """Writes a checkpoint; returns whether it was written. A series of failures is logged once, and affects no caller."""
        if self._closed:
            return False
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, write, self._folder, checkpoint)
        except OSError as error:
            self.failed += 1
            level = logging.DEBUG if self._failing else logging.WARNING
            _log.log(level, "the checkpoint of %s can't be written, so a restart reads its log: %s", checkpoint.namespace, error)
            self._failing = True
            return False
        self.written += 1
        if self._failing:
            _log.warning("checkpoints in %s are written again", self._folder)
        self._failing = False
        return True

    async def close(self) -> None:
        """Ends writing; takes ``LAST_SECONDS`` at most."""
        if self._closed:
            return
        self._closed = True
        written = asyncio.wrap_future(self._writer.submit(lambda: None))
        _, late = await asyncio.wait([written], timeout=LAST_SECONDS)
        if late:
            _log.warning("a checkpoint in %s was still being written after %g s", self._folder, LAST_SECONDS)
        self._writer.shutdown(wait=False)
        self._readers.shutdown(wait=False)

"""When checkpoints are written and read: each some minutes if a namespace changed enough, when it is closed, and when it is loaded.

Only the closing of a namespace waits for a checkpoint, and that not for long. The event loop copies the view at one moment, which takes
some milliseconds for 100,000 keys, because cells are immutable bytes; a thread writes the copy, one checkpoint at a time.

Several views, or servers, may write the checkpoint of one namespace. Each file is whole, and of a place that the log is asked for when it
is opened, so an older one in place of a newer one only costs time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from ..core.fold.fold import FoldContext
from ..core.policies.events import Position
from ..core.reading.view import View
from ..tasks import DaemonThreads, RestartedTask
from .file import Checkpoint, Place, Refused, Restored, clear, maker, path_of, read, write

_log = logging.getLogger(__name__)

READERS = 2
"""How many checkpoints are restored at the same time; the others wait."""
CONFIRMED_SECONDS = 10.0
"""How long a checkpoint waits until the log's reader has read the events that were taken by proof."""
LAST_SECONDS = 5.0
"""How long closing a namespace waits for its last checkpoint, and closing the server for what is being written."""
_LOOKS_SECONDS = 0.1
"""How often it is checked whether the log's reader has come as far as a copy."""


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


class Opening(Protocol):
    """What is needed of an opening of a log and its view (``namespaces/follower``)."""

    unsaved: int
    """How many events came since the last checkpoint."""
    size: int
    """The size of the view's documents in bytes."""
    unreadable: int
    """How many entries could not be read."""
    trusted: bool
    """Whether the log never contradicted what the view was built from."""
    view: View

    @property
    def place(self) -> Place | None:
        """The view's place in its log; None: it has no log."""

    def is_read_back(self, positions: Sequence[Position]) -> bool:
        """Whether the log's reader has read the events up to these positions that were taken by proof."""


class Checkpoints:
    """The checkpoints of all namespaces of a server. All methods are called on the event loop that made the object."""

    def __init__(self, folder: Path, pace: Pace | None = None) -> None:
        """Starts writing checkpoints to files in a folder, which is created if it is missing."""
        self._folder = folder
        self._pace = pace or Pace()
        self._loop = asyncio.get_running_loop()
        self._writer = DaemonThreads(1, "checkpoint-writer")
        self._readers = DaemonThreads(READERS, "checkpoint-reader")
        self._turn = asyncio.Lock()
        self._kept: dict[str, Opening] = {}
        self._failing = self._closed = False
        self.written = 0
        """How many checkpoints were written."""
        self.failed = 0
        """How many checkpoints could not be written."""
        maker()  # computed now: later, the sources on disk may be those of another release
        with suppress(OSError):
            clear(folder)
        self._moving = RestartedTask("writing checkpoints", self._move_on)
        self._moving.start()

    async def restored(self, namespace: str, context: FoldContext, *, seconds: float) -> Restored | None:
        """Restores the view of a namespace's checkpoint; None: there is no checkpoint that can be used, or not in time.

        ``context``: what the fold knows before the log is open.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._loop.run_in_executor(self._readers, read, self._folder, namespace, context)
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

    def keep(self, namespace: str, kept: Opening) -> None:
        """Notes that a view answers: checkpoints of its namespace are made of it from now on."""
        self._kept[namespace] = kept

    async def finish(self, namespace: str, kept: Opening) -> None:
        """Notes that a view has ended because its namespace is closed: writes its last checkpoint, if there is time for it."""
        if self._kept.get(namespace) is not kept:
            return
        del self._kept[namespace]
        if kept.unsaved >= self._pace.last_events and not self._closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._write(namespace, kept, confirmed_seconds=0)
                    return
            _log.warning("%s: its last checkpoint was not written within %g s", namespace, LAST_SECONDS)

    async def close(self) -> None:
        """Ends writing; takes ``LAST_SECONDS`` at most."""
        if self._closed:
            return
        self._closed = True
        await self._moving.stop()
        written = asyncio.wrap_future(self._writer.submit(lambda: None))
        _, late = await asyncio.wait([written], timeout=LAST_SECONDS)
        if late:
            _log.warning("a checkpoint in %s was still being written after %g s", self._folder, LAST_SECONDS)
        self._writer.shutdown(wait=False)
        self._readers.shutdown(wait=False)

    async def _move_on(self) -> None:
        while True:
            await asyncio.sleep(self._pace.seconds)
            for namespace, kept in list(self._kept.items()):
                enough = max(self._pace.events, self._pace.share * len(kept.view))
                if self._kept.get(namespace) is kept and kept.unsaved >= enough:
                    await self._write(namespace, kept, CONFIRMED_SECONDS)

    async def _write(self, namespace: str, kept: Opening, confirmed_seconds: float) -> None:
        """Writes the checkpoint of a view. A series of failures is logged once, and affects no caller."""
        events, checkpoint = kept.unsaved, checkpoint_of(namespace, kept) if kept.unsaved else None
        if checkpoint is None or not await self._read_back(kept, checkpoint.place.start.positions, confirmed_seconds):
            return
        async with self._turn:
            if kept.unsaved < events:
                return  # another one was written meanwhile
            try:
                await self._loop.run_in_executor(self._writer, write, self._folder, checkpoint)
            except OSError as error:
                self.failed += 1
                level = logging.DEBUG if self._failing else logging.WARNING
                _log.log(level, "the checkpoint of %s can't be written, so a restart reads its log: %s", namespace, error)
                self._failing = True
                return
            kept.unsaved -= events
        self.written += 1
        if self._failing:
            _log.warning("checkpoints in %s are written again", self._folder)
        self._failing = False

    async def _read_back(self, kept: Opening, positions: Sequence[Position], seconds: float) -> bool:
        """Waits until the log's reader has read up to these positions, as events may have been taken by proof; returns whether it has."""
        until = self._loop.time() + seconds
        while kept.trusted:
            if kept.is_read_back(positions):
                return True
            if self._loop.time() >= until:
                break
            await asyncio.sleep(_LOOKS_SECONDS)
        return False


def checkpoint_of(namespace: str, kept: Opening) -> Checkpoint | None:
    """Copies a view as it is now; None: it has no place in a log, or is not trusted."""
    place, view = kept.place, kept.view
    if place is None or not kept.trusted:
        return None
    return Checkpoint(namespace, place, view.context, tuple(view.complete), kept.size, kept.unreadable, view.copy())

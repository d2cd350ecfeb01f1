"""The checkpoints of all namespaces of a server: restored when a namespace is loaded, and moved on behind its log.

Nothing waits for a checkpoint but a namespace that is closed, and that not for long. There is one at a time, so that the file has one
writer, and it is copied some cells at a time, so that the loop goes on meanwhile.

Who writes the checkpoint of a namespace:

========  ==========================  ========  ==================================================================================
state     event                       next      what is done
========  ==========================  ========  ==================================================================================
FREE      ``keep`` a view             KEPT      its keeper writes from now on
KEPT      ``keep`` the same           KEPT      nothing
KEPT      ``keep`` another one        KEPT      the former keeper has ended, and that one's writes from now on
KEPT      ``finish``                  LAST      the last checkpoint is begun
LAST      it is written, or can't     FREE      its keeper has ended
          be, or its time is over
any       ``restored``                the same  what was committed last is read, as of one moment
========  ==========================  ========  ==================================================================================

A keeper that has ended commits nothing, not even what it had begun: that is asked on the writer's thread, just before. A disk may keep a
commit itself for longer than anybody waits. So each checkpoint says which one it goes on with, by name (``About.id``): its keeper's last
one, or that from which its view was restored. If another one stands in the file, it is not written, and the next has everything. So it does
not matter what is still being written when a checkpoint is read.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..core.fold.fold import FoldContext
from ..sqlite_file import ERRORS, FileError
from ..tasks import Kept
from ..threads import DaemonThreads
from . import requests
from .about import About, maker
from .keeper import Copy, Keeper
from .restoring import Restored, is_of_use, restore
from .store import Overtaken, Store

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

READERS = 2
"""Checkpoints that are restored at the same time; the others wait."""
_DOUBLINGS = 10
"""So often the pause after failures in a row is doubled; it has a bound of its own besides (``Pace``)."""


class Pace(NamedTuple):
    """When checkpoints are moved on."""

    seconds: float = 10.0
    """How long after the one before, if there is something new."""
    events: int = 20_000
    """After so many events sooner: that is what has to be read again when the process dies."""
    cells_at_once: int = 64
    """So many cells are copied in one turn of the loop: about a millisecond."""
    bytes_at_once: int = 64 << 10
    """After so many bytes a turn is over sooner: cells that are not settled take longer than others."""
    looks_seconds: float = 0.5
    """How often it is considered."""
    confirmed_seconds: float = 10.0
    """For so long a checkpoint waits for the log's reader to come to what was taken by proof."""
    last_seconds: float = 5.0
    """How long closing a namespace waits for its last checkpoint, and closing all of them for the file."""
    longest_pause_seconds: float = 300.0
    """The longest pause after failures in a row."""


class Checkpoints:
    """The checkpoints of all namespaces. All methods belong to the loop that made them."""

    def __init__(self, store: Store, pace: Pace | None = None) -> None:
        """``store`` is open."""
        self._store = store
        self._pace = pace or Pace()
        self._loop = asyncio.get_running_loop()
        self._writer = DaemonThreads(1, "checkpoint-writer")
        self._readers = DaemonThreads(READERS, "checkpoint-reader")
        self._turn = asyncio.Lock()
        self._keepers: dict[Keeper, float] = {}
        """Those that are kept, and when the next checkpoint of each is made, by the loop's time."""
        self._failures = 0
        """In a row."""
        self.written = 0
        """Checkpoints that were written."""
        self.failed = 0
        """Those that could not be."""
        self._closed = False
        self._moving = Kept("moving checkpoints on", self._move_on)
        self._moving.start()

    async def restored(self, namespace: str, context: FoldContext, *, seconds: float) -> Restored | None:
        """The view of a namespace's checkpoint; None: there is none that is of use.

        Args:
            namespace: ``tenant/namespace``.
            context: what the fold knows, before the log is open.
            seconds: how long it may take.
        """
        if self._closed:
            return None
        try:
            async with asyncio.timeout(seconds):
                return await self._loop.run_in_executor(self._readers, self._restore, namespace, context)
        except TimeoutError:
            _log.warning("%s: its checkpoint did not come within %g s; its log is read from the beginning", namespace, seconds)
        except ERRORS as error:
            _log.warning("%s: its checkpoint is of no use, so its log is read from the beginning: %s", namespace, error)
        except Exception:  # noqa: BLE001 (whatever it is, the log can be read without)
            _log.exception("%s: its checkpoint is of no use, so its log is read from the beginning", namespace)
        return None

    def behind_seconds(self) -> float:
        """The longest time for which something new is in no checkpoint; 0: nothing is. Other threads may ask."""
        now = time.monotonic()
        return max((keeper.behind_seconds(now) for keeper in list(self._keepers)), default=0.0)

    def keeper(self, namespace: str) -> Keeper:
        """Whoever notes what changes in one view of a namespace."""
        return Keeper(namespace)

    def keep(self, keeper: Keeper | None, older: Keeper | None = None) -> None:
        """A view answers, and is kept from now on, in place of an older one if that is another."""
        if older is not None and older is not keeper:
            self._keepers.pop(older, None)
            older.ended = True
        if keeper is not None:
            keeper.ended = False
            self._keepers.setdefault(keeper, self._loop.time() + self._pace.seconds)

    async def finish(self, keeper: Keeper | None) -> None:
        """A view has come to its end with its namespace: its last checkpoint is made, if there is time for it."""
        if keeper is None:
            return
        try:
            if self._keepers.pop(keeper, None) is not None and not self._closed and not self._failures:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pace.last_seconds):
                        await self._move(keeper)
        finally:
            keeper.ended = True

    async def close(self) -> None:
        """Closes the file; takes ``last_seconds`` at the worst."""
        if self._closed:
            return
        self._closed = True
        until = self._loop.time() + self._pace.last_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._moving.stop()
        closing = asyncio.wrap_future(self._writer.submit(self._store.close))
        _, late = await asyncio.wait([closing], timeout=max(until - self._loop.time(), 0))
        if late:
            _log.warning("the checkpoints %s were still being written after %g s", self._store.path, self._pace.last_seconds)
        self._writer.shutdown(wait=False)
        self._readers.shutdown(wait=False)

    # --- moving them on -------------------------------------------------------------------------------------------

    async def _move_on(self) -> None:
        pace, failed_rounds = self._pace, 0
        while True:
            await asyncio.sleep(pace.looks_seconds)
            before = self._failures
            for keeper, due in list(self._keepers.items()):
                if keeper in self._keepers and keeper.has_news and (self._loop.time() >= due or self._is_too_much(keeper)):
                    await self._move(keeper)
                    if keeper in self._keepers:
                        self._keepers[keeper] = self._loop.time() + pace.seconds
            if self._failures > before or not self._failures:
                failed_rounds = min(failed_rounds + 1, _DOUBLINGS) if self._failures else 0
            if self._failures:
                await asyncio.sleep(min(pace.seconds * 2**failed_rounds, pace.longest_pause_seconds))

    def _is_too_much(self, keeper: Keeper) -> bool:
        return keeper.events >= self._pace.events

    async def _move(self, keeper: Keeper) -> None:
        """Makes the next checkpoint of a view. What goes wrong is told once; nothing of it concerns whoever is served."""
        async with self._turn:
            copy = keeper.begin() if keeper.has_news and not keeper.ended else None
            if copy is None:
                return
            try:
                await self._write(keeper, copy)
            except Overtaken as error:
                _log.debug("a checkpoint is not written: %s", error)
                keeper.start_over()
                self._give_up()
            except (*ERRORS, OSError, FileError) as error:
                keeper.failed()
                self._tell(keeper.namespace, error)
                await self._mend(error)
            except BaseException:
                keeper.failed()
                self._give_up()
                raise
            else:
                keeper.done()
                keeper.written_at = time.monotonic()
                self.written += 1
                if self._failures:
                    _log.warning("the checkpoints %s are written again", self._store.path)
                self._failures = 0

    async def _write(self, keeper: Keeper, copy: Copy) -> None:
        store, about = self._store, copy.about
        await self._on_writer(lambda: store.begin(keeper.namespace, copy.base))
        while cells := keeper.next_cells(self._pace.cells_at_once, self._pace.bytes_at_once):
            rows = [row for _, row in cells if row is not None]
            gone = [name for name, row in cells if row is None]
            await self._on_writer(partial(store.add, rows, gone))
            if keeper.ended:
                raise Overtaken(f"{keeper.namespace} has another keeper")
        about = about._replace(forgotten=keeper.forgotten())
        for some in copy.requests:
            await self._on_writer(partial(_add_requests, store, some))
        await self._on_writer(lambda: store.drop_requests(copy.dropped_before))
        await self._confirmed(keeper, about)
        await self._on_writer(lambda: store.commit(about, ended=lambda: keeper.ended))

    async def _confirmed(self, keeper: Keeper, about: About) -> None:
        """Waits until the log's reader has come to what is claimed, where that was taken by proof.

        Raises:
            Damaged: it does not come there, or has contradicted the proof.
        """
        until = self._loop.time() + self._pace.confirmed_seconds
        while (kept := keeper.kept) is not None and kept.trusted:
            if kept.is_confirmed(about.positions):
                return
            if self._loop.time() >= until:
                break
            await asyncio.sleep(self._pace.looks_seconds)
        raise sqlite3.OperationalError("the log's reader has not come to where the view stands")

    def _tell(self, namespace: str, error: BaseException) -> None:
        self._failures += 1
        self.failed += 1
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        _log.log(level, "the checkpoint of %s can't be written, so a restart reads its log: %s", namespace, error)

    async def _mend(self, error: BaseException) -> None:
        """The file is as it was; one that can't be, that does not stand where it was opened, or that is not open, is made anew."""
        self._give_up()
        store = self._store
        was_open = store.is_open
        if was_open and (isinstance(error, sqlite3.OperationalError) or not isinstance(error, sqlite3.DatabaseError)):
            return
        for keeper in self._keepers:
            keeper.start_over()
        try:
            await self._on_writer(store.make_anew)
        except (*ERRORS, FileError) as failure:
            _log.log(logging.WARNING if was_open else logging.DEBUG, "the checkpoints can't be made anew: %s", failure)

    def _give_up(self) -> None:
        """Has what was begun given up, behind the step that is under way. Nobody waits for that: a disk may keep the step for ever."""
        with suppress(RuntimeError):  # the file is closed, or about to be
            self._writer.submit(self._store.give_up).add_done_callback(self._tell_giving_up)

    def _tell_giving_up(self, given_up: Future[None]) -> None:
        if (error := given_up.exception()) is not None:
            _log.error("a checkpoint in %s could not be given up: %s", self._store.path, error, exc_info=error)

    async def _on_writer(self, step: Callable[[], _T]) -> _T:
        """Does something on the writer's thread, behind what was begun before. Whoever is cancelled meanwhile does not wait for it."""
        return await self._loop.run_in_executor(self._writer, step)

    def _restore(self, namespace: str, context: FoldContext) -> Restored | None:
        with self._store.read(namespace) as stored:
            if stored is None or not is_of_use(stored.about, context):
                return None
            return restore(stored)


def _add_requests(store: Store, some: requests.Some) -> None:
    store.add_requests(some.number, requests.to_bytes(some.requests))


def open_checkpoints(path: Path, pace: Pace | None = None, *, named_here: bool = False) -> Checkpoints | None:
    """Opens the file of checkpoints, or makes it; None: it can't be used, which is told, and everything goes on without.

    Args:
        path: of the file.
        pace: when checkpoints are moved on.
        named_here: whether this server gave the file its name, and nobody else.
    """
    store = Store(path, named_here=named_here)
    try:
        maker()  # before anything is folded: the sources on the disk may be those of a later release by the time of the first checkpoint
        store.open()
    except (FileError, OSError, ImportError) as error:
        _log.warning("There are no checkpoints, so each start reads the logs from their beginning: %s", error)
        return None
    return Checkpoints(store, pace)

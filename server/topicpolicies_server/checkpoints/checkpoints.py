"""The checkpoints of all namespaces of a server: restored when a namespace is loaded, and advanced as its log grows.

Only the closing of a namespace waits for a checkpoint, and that not for long. One checkpoint is made at a time, so that the file has one
writer, and it is copied some cells at a time, so that the event loop goes on meanwhile.

Who writes the checkpoint of a namespace:

========  ==========================  ========  ==================================================================================
state     event                       next      what is done
========  ==========================  ========  ==================================================================================
FREE      ``keep`` a keeper           KEPT      that keeper writes from now on
KEPT      ``keep`` the same one       KEPT      nothing
KEPT      ``keep`` another one        KEPT      the older keeper has ended, and the other one writes from now on
KEPT      ``finish``                  LAST      the last checkpoint is begun
LAST      it is written, or can't     FREE      the keeper has ended
          be, or its time is over
any       ``restored``                the same  the checkpoint that was committed last is read, in one read transaction
========  ==========================  ========  ==================================================================================

A keeper that has ended commits nothing, not even a checkpoint that it had begun: this is checked on the writer's thread, just before the
commit. A disk may hold up a commit for longer than anything waits for it. So each checkpoint names its base
(``CheckpointHeader.id``): the keeper's last checkpoint, or the one from which its view was restored. If the file has another checkpoint
than the base, nothing is written, and the next checkpoint has all keys. So it does not matter what is still being written when a checkpoint
is read.
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
from ..tasks import RestartedTask
from ..threads import DaemonThreads
from . import requests
from .header import CheckpointHeader, maker
from .keeper import Copy, Keeper
from .restoring import Restored, is_usable, restore
from .store import Overtaken, Store

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

READERS = 2
"""How many checkpoints are restored at the same time; the others wait."""
_GIVEN_BACK = 256
"""Unused pages that are cut off the file in one step: 2 MB a second."""
_KEPT_PAGES = 256
"""Unused pages that stay in the file, because the next checkpoints will soon need them."""
_DOUBLINGS = 10
"""How often the pause after consecutive failures is doubled at most; ``Pace`` bounds the pause too."""


class Pace(NamedTuple):
    """When, and in what portions, checkpoints are advanced."""

    seconds: float = 10.0
    """How long after the one before the next checkpoint is made, if there is something new."""
    events: int = 20_000
    """After how many events it is made sooner: so many have to be read again when the process dies."""
    cells_at_once: int = 64
    """How many cells are copied in one turn of the event loop: this takes about a millisecond."""
    bytes_at_once: int = 64 << 10
    """After how many bytes a turn ends sooner: cells that are not settled take longer to copy."""
    looks_seconds: float = 0.5
    """How often it is checked whether a checkpoint is due, and whether the log's reader has confirmed one."""
    confirmed_seconds: float = 10.0
    """How long a checkpoint waits until the log's reader has read the events that were taken by proof."""
    last_seconds: float = 5.0
    """How long closing a namespace waits for its last checkpoint, and closing the file for what is being written."""
    longest_pause_seconds: float = 300.0
    """The longest pause after consecutive failures."""


class Checkpoints:
    """The checkpoints of all namespaces. All methods but ``behind_seconds`` are called on the event loop that made the object."""

    def __init__(self, store: Store, pace: Pace | None = None) -> None:
        """Starts advancing checkpoints. If ``store`` is not open, it is tried again and again to open it."""
        self._store = store
        self._pace = pace or Pace()
        self._loop = asyncio.get_running_loop()
        self._writer = DaemonThreads(1, "checkpoint-writer")
        self._readers = DaemonThreads(READERS, "checkpoint-reader")
        self._turn = asyncio.Lock()
        self._keepers: dict[Keeper, float] = {}
        """The keepers whose views answer, each with the time at which its next checkpoint is due, by the event loop's clock."""
        self._failures = 0 if store.is_open else 1
        """How many attempts to write, or to open the file, failed in a row."""
        self.written = 0
        """How many checkpoints were written."""
        self.failed = 0
        """How many checkpoints could not be written."""
        self._looked_at = -1
        """How many checkpoints were written when the file was last found to have no unused pages to give back."""
        self._closed = False
        self._moving = RestartedTask("writing checkpoints", self._move_on)
        self._moving.start()

    async def restored(self, namespace: str, context: FoldContext, *, seconds: float) -> Restored | None:
        """Restores the view of a namespace's checkpoint; None: there is no checkpoint that can be used, or not in time.

        Args:
            namespace: ``tenant/namespace``.
            context: what the fold knows before the log is open.
            seconds: how long restoring may take.
        """
        if self._closed:
            return None
        try:
            async with asyncio.timeout(seconds):
                return await self._loop.run_in_executor(self._readers, self._restore, namespace, context)
        except TimeoutError:
            _log.warning("%s: its checkpoint could not be read within %g s; its log is read from the beginning", namespace, seconds)
        except ERRORS as error:
            _log.warning("%s: its checkpoint can't be used, so its log is read from the beginning: %s", namespace, error)
        except Exception:  # noqa: BLE001 (whatever it is, the log can be read without)
            _log.exception("%s: its checkpoint can't be used, so its log is read from the beginning", namespace)
        return None

    def behind_seconds(self) -> float:
        """Returns for how many seconds at most something new has been in no checkpoint; 0: nothing is. Any thread may call this."""
        now = time.monotonic()
        return max((keeper.behind_seconds(now) for keeper in list(self._keepers)), default=0.0)

    def keeper(self, namespace: str) -> Keeper:
        """Makes a keeper, which notes what changes in one view of a namespace."""
        return Keeper(namespace)

    def keep(self, keeper: Keeper | None, older: Keeper | None = None) -> None:
        """Notes that a view answers: its keeper writes from now on, in place of an older keeper."""
        if older is not None and older is not keeper:
            self._keepers.pop(older, None)
            older.ended = True
        if keeper is not None:
            keeper.ended = False
            self._keepers.setdefault(keeper, self._loop.time() + self._pace.seconds)

    async def finish(self, keeper: Keeper | None) -> None:
        """Notes that a view has ended because its namespace is closed: makes its last checkpoint, if there is time for it."""
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
        """Closes the file; takes ``last_seconds`` at most."""
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

    # --- advancing checkpoints ------------------------------------------------------------------------------------

    async def _move_on(self) -> None:
        pace, failed_rounds = self._pace, 0
        while True:
            await asyncio.sleep(pace.looks_seconds)
            before = self._failures
            for keeper, due in list(self._keepers.items()) if await self._is_open() else ():
                if keeper in self._keepers and keeper.has_news and (self._loop.time() >= due or self._is_too_much(keeper)):
                    await self._move(keeper)
                    if keeper in self._keepers:
                        self._keepers[keeper] = self._loop.time() + pace.seconds
            await self._shrink()
            if self._failures > before or not self._failures:
                failed_rounds = min(failed_rounds + 1, _DOUBLINGS) if self._failures else 0
            if self._failures:
                await asyncio.sleep(min(pace.seconds * 2**failed_rounds, pace.longest_pause_seconds))

    async def _shrink(self) -> None:
        """Gives back some of the space of what is gone from the file: a step in each round, so that checkpoints are not kept waiting."""
        if self._looked_at == self.written or self._failures:
            return
        written = self.written
        async with self._turn:
            try:
                more = await self._on_writer(lambda: self._store.shrink(_GIVEN_BACK, _KEPT_PAGES))
            except ERRORS as error:
                _log.debug("the file of checkpoints can't be shortened: %s", error)
                more = False
        if not more:
            self._looked_at = written

    def _is_too_much(self, keeper: Keeper) -> bool:
        return keeper.events >= self._pace.events

    async def _is_open(self) -> bool:
        """Opens the file if it is not open, such as after a start on a full disk; returns whether it is open."""
        async with self._turn:
            if not self._store.is_open:
                try:
                    await self._on_writer(self._store.open)
                except (*ERRORS, OSError, FileError) as error:
                    self._failures += 1
                    self.failed += 1
                    _log.debug("the file of checkpoints can't be opened: %s", error)
                else:
                    _log.warning("the file of checkpoints %s can be used now", self._store.path)
        return self._store.is_open

    async def _move(self, keeper: Keeper) -> None:
        """Makes the next checkpoint of a view. A series of failures is logged once, and affects no caller."""
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
        store, header = self._store, copy.header
        await self._on_writer(lambda: store.begin(keeper.namespace, copy.base))
        while cells := keeper.next_cells(self._pace.cells_at_once, self._pace.bytes_at_once):
            rows = [row for _, row in cells if row is not None]
            gone = [name for name, row in cells if row is None]
            await self._on_writer(partial(store.add, rows, gone))
            if keeper.ended:
                raise Overtaken(f"{keeper.namespace} has another keeper")
        header = header._replace(forgotten=keeper.forgotten())
        for row in copy.requests:
            await self._on_writer(partial(_add_requests, store, row))
        await self._on_writer(lambda: store.drop_requests(copy.dropped_before))
        await self._confirmed(keeper, header)
        await self._on_writer(lambda: store.commit(header, ended=lambda: keeper.ended))

    async def _confirmed(self, keeper: Keeper, header: CheckpointHeader) -> None:
        """Waits until the log's reader has read up to the checkpoint's place, as events of it may have been taken by proof.

        Raises:
            sqlite3.OperationalError: the reader does not come there in time, or has contradicted the proof.
        """
        until = self._loop.time() + self._pace.confirmed_seconds
        while (kept := keeper.kept) is not None and kept.trusted:
            if kept.is_confirmed(header.positions):
                return
            if self._loop.time() >= until:
                break
            await asyncio.sleep(self._pace.looks_seconds)
        raise sqlite3.OperationalError("the log's reader is behind the view")

    def _tell(self, namespace: str, error: BaseException) -> None:
        self._failures += 1
        self.failed += 1
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        _log.log(level, "the checkpoint of %s can't be written, so a restart reads its log: %s", namespace, error)

    async def _mend(self, error: BaseException) -> None:
        """Gives up the transaction. If the file is damaged, was moved, or is not open, it is made anew, and all keepers start over."""
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
            _log.log(logging.WARNING if was_open else logging.DEBUG, "the file of checkpoints can't be created anew: %s", failure)

    def _give_up(self) -> None:
        """Has the transaction rolled back behind the present step. Nothing waits for this: a disk may hold up that step for ever."""
        with suppress(RuntimeError):  # raised if the file is closed, or about to be
            self._writer.submit(self._store.give_up).add_done_callback(self._tell_giving_up)

    def _tell_giving_up(self, given_up: Future[None]) -> None:
        if (error := given_up.exception()) is not None:
            _log.error("a checkpoint in %s could not be deleted: %s", self._store.path, error, exc_info=error)

    async def _on_writer(self, step: Callable[[], _T]) -> _T:
        """Runs a step on the writer's thread, behind those before. A caller that is cancelled does not wait for the step to end."""
        return await self._loop.run_in_executor(self._writer, step)

    def _restore(self, namespace: str, context: FoldContext) -> Restored | None:
        with self._store.read(namespace) as stored:
            if stored is None or not is_usable(stored.header, context):
                return None
            return restore(stored)


def _add_requests(store: Store, row: requests.RequestRow) -> None:
    store.add_requests(row.number, requests.to_bytes(row.requests))


def open_checkpoints(path: Path, pace: Pace | None = None, *, named_here: bool = False) -> Checkpoints | None:
    """Opens the file of checkpoints, or creates it. If that fails, it is logged, and tried again while the server runs.

    Args:
        path: the file's path.
        pace: when checkpoints are advanced.
        named_here: whether this server chose the file's name.

    Returns:
        The checkpoints; None: this server can have none.
    """
    store = Store(path, named_here=named_here)
    try:
        maker()  # called before anything is folded: by the first checkpoint, the sources on disk may be those of a later release
    except (OSError, ImportError) as error:
        _log.warning("There are no checkpoints, so each start reads the logs from their beginning: %s", error)
        return None
    try:
        store.open()
    except (FileError, OSError) as error:
        _log.warning("There are no checkpoints until the file can be opened, which is tried again and again: %s", error)
    return Checkpoints(store, pace)

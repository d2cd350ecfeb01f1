"""How a namespace is loaded: attempts, bounded in number and in the time without progress, and the pauses between them.

An attempt without progress gives its slot to another namespace after a while, and goes on (``fair_limit``).

One task goes with the state (``life``): in Loading it makes an attempt, in Serving it waits until the log is lost, in Failed for the next
attempt. It is a ``RestartedTask``: if it fails unexpectedly, that counts as a failed attempt, and the task goes on from the current state.

A namespace has one open log at a time: before its log is opened anew, the former opening has been closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..core.errors import Kind
from ..core.reasons import LogState, Reason
from ..logs.change_log import LogError, NamespaceLog
from ..tasks import RestartedTask, TaskSet, asked_to_end
from .common import Common, unavailable
from .follower import Follower
from .life import Closed, Failed, Life, Loading, Serving
from .listeners import Owner
from .retrying import Pauses
from .starting_point import StartingPoint, StartingPoints

_LOG = logging.getLogger(__name__)
_LOSSES = 5
"""The number of losses in a row, while the log is read, at which waiting callers get the error; and of losses right after it began to serve
at which a pause comes before the next attempt."""
_BRIEF_SECONDS = 1.0
_LOOKS = 4
"""How often progress is checked within the time that an attempt may go without any."""
_LASTING = Reason.LOG_FILE_UNUSABLE
"""Reasons of a loss that reading the log anew at once does not cure: waiting callers get the error."""


class Loader:
    """Loads one namespace, and loads it anew when its log is lost."""

    def __init__(
        self,
        name: str,
        common: Common,
        life: Life,
        pauses: Pauses,
        *,
        watched: Callable[[], bool],
        dismiss: Callable[[], bool],
        predecessor: asyncio.Task[None] | None,
    ) -> None:
        """Does nothing before ``start``.

        Args:
            name: ``tenant/namespace``.
            common: what all namespaces have in common.
            life: the state machine that the attempts move on.
            pauses: the pauses between attempts.
            watched: whether the namespace has watchers.
            dismiss: called after a failed attempt; True: the namespace is closed, and not tried again.
            predecessor: the task that closes this namespace's former instance, whose log must be closed before it is opened again.
        """
        self._name = name
        self._common = common
        self._life = life
        self._pauses = pauses
        self._owner: Owner[Follower] | None = None
        self._watched = watched
        self._dismiss = dismiss
        self._predecessor = predecessor
        self._loop = asyncio.get_running_loop()
        self._lost = asyncio.Event()
        self._read = self._served = self._loop.create_future()
        self._patient_until = 0.0
        self._losses = 0
        """How many attempts in a row have failed; reset when the view answers."""
        self._served_at = 0.0
        self._brief = 0
        """How often in a row the log was lost as soon as it served."""
        self.opened_at = 0
        """When the last opening began, in milliseconds since 1970."""
        self._starting_points = StartingPoints(name, common)
        self._closings = TaskSet(name)
        self._task = RestartedTask(f"namespace {name}", self._live, failed=self._broken)

    @property
    def is_read(self) -> bool:
        """Whether the log has been read, and its view does not answer yet."""
        return self._life.reading is not None and self._read.done()

    def start(self, owner: Owner[Follower]) -> None:
        """Begins to load. ``owner``: receives what the log reports."""
        self._owner = owner
        self._task.start()

    async def stop(self) -> None:
        """Ends the attempt that is under way; returns when no log is open but the one that serves."""
        await self._task.stop()
        await self._closings.close(cancel=False)
        self._owner, self._dismiss = None, _never

    def may_serve(self, follower: Follower) -> bool:
        """Returns whether the view of a log that has been read may answer; if not yet, the follower reports ``settled`` later.

        It may if no event can be missing (``core/fold/joining``), or if writers that have seen more of the log had time to restate it.
        """
        if follower is not self._life.reading or follower.log is None:
            return False
        if not self._read.done():
            self._read.set_result(None)
            self._patient_until = self._loop.time() + self._common.limits.join_patience_seconds
        now = self._common.now()
        all_seen_at = follower.view.check_all_seen(now)
        patience = self._patient_until - self._loop.time()
        if all_seen_at is not None and patience > 0:
            self._loop.call_later(min(max(all_seen_at - now, 1) / 1000, patience), follower.settled)
            return False
        return True

    def served(self) -> None:
        """Notes that the view answers."""
        self._starting_points.served()
        self._served_at = self._loop.time()
        if not self._served.done():
            self._served.set_result(None)

    def refused(self, follower: Follower, error: LogError) -> None:
        """Fails the attempt: there is no room in memory for what it loads."""
        if follower is self._life.reading and not self._read.done():
            follower.retire()
            self._read.set_exception(error)
            self._read.exception()  # the attempt retrieves it, unless its time is over

    def lost(self, follower: Follower, error: LogError) -> bool:
        """Notes that a log can't be followed any more. Returns whether it was the one that serves or is read."""
        if follower not in (self._life.served if isinstance(self._life.state, Serving) else None, self._life.reading):
            return False
        if error.reason is not _LASTING:
            _LOG.warning("%s: the change log was lost: %s", self._name, error.message)
        if isinstance(self._life.state, Serving):
            self._brief = self._brief + 1 if self._loop.time() - self._served_at < _BRIEF_SECONDS else 0
        self._starting_points.lost(error)
        self._life.lost(error)
        self._give_up(follower)
        self._lost.set()
        return True

    async def _live(self) -> None:
        if self._predecessor is not None:
            await asyncio.wait({self._predecessor})
            self._predecessor = None
        while not isinstance(state := self._life.state, Closed):
            if isinstance(state, Serving):
                self._losses = 0
                self._pauses.start_over()
                self._common.load_failures.loaded(self._name)
                await self._lost.wait()
                continue
            if isinstance(state, Failed):
                await self._pauses.least()  # also before a dismissal: the next caller has the namespace loaded at once
                if self._dismiss():
                    return
                await self._pauses.rest()
                self._life.began(stays_failed=self._watched())
                continue
            if self._brief >= _LOSSES:
                await asyncio.sleep(min(_BRIEF_SECONDS * 2 ** (self._brief - _LOSSES), self._common.limits.load_retry_seconds))
            if (error := await self._try()) is not None:
                self._losses += 1
                if error.state is LogState.LOST and self._losses < _LOSSES:
                    continue  # compacted or moved while it was read: waiting callers need not know
                self._miss(error)

    async def _try(self) -> LogError | None:
        """Makes one attempt to load. Returns why it failed; None: it did not, or the namespace has left Loading meanwhile."""
        error: LogError | None = None
        try:
            await self._load()
        except LogError as problem:
            error = problem
        except Exception:  # noqa: BLE001 - the caller is told that it is our fault, the log why
            _LOG.exception("loading %s failed", self._name)
            error = _broken(self._name)
        return error if isinstance(self._life.state, Loading) else None  # its time may have run out just as the view began to serve

    def _broken(self, _: BaseException) -> None:
        """Ends the attempt, because the task has failed."""
        if isinstance(self._life.state, Loading):
            self._miss(_broken(self._name))

    def _miss(self, error: LogError) -> None:
        level = logging.WARNING if self._common.load_failures.is_new(self._name, error.message) else logging.DEBUG
        _LOG.log(level, "%s can't be loaded: %s", self._name, error.message)
        follower = self._life.reading
        self._life.missed(error)
        if follower is not None:
            self._give_up(follower)
        if self._owner is not None:
            self._owner.missed(error)

    async def _load(self) -> None:
        """Opens the log, reads it, and waits until its view answers.

        Raises:
            LogError: it can't be loaded now.
        """
        common, limits = self._common, self._common.limits
        self._lost.clear()
        self._read, self._served = self._loop.create_future(), self._loop.create_future()
        lost = self._loop.create_task(self._lost.wait())
        follower: Follower | None = None
        try:
            await self._closings.close(cancel=False)
            async with common.slots.place(
                self._name, progress=lambda: None if follower is None or follower.log is None else tuple(follower.positions)
            ):
                older = self._life.served
                if older is None and not common.capacity.has_room():
                    raise common.capacity.refusal(self._name)
                self.opened_at = common.now()
                joined_at = None if common.context.sole_writer else common.now()
                context = common.context._replace(joining=True, joined_at=joined_at)
                recorder = await common.record(self._name) if common.record is not None else None
                assert self._owner is not None, "started"
                starting_point = await self._starting_points.next(older, recorder)
                follower = Follower(self._owner, self._name, context, older, recorder, common.capacity, starting_point.restored)
                self._life.opened(follower)
                began = self._loop.time()
                try:
                    async with asyncio.timeout(limits.load_timeout_seconds):
                        await self._open(follower, starting_point)
                    await self._read_on(follower, lost, began)
                except TimeoutError:
                    limit = limits.load_timeout_seconds
                    problem = f"nothing of its change log arrived within {limit:g} s: try again, or raise load_timeout_seconds."
                    raise unavailable(self._name, LogState.LOAD_TIMEOUT, problem) from None
            if self._read.done():
                self._read.result()  # raises if there was no room (``refused``)
            await _first_of(lost, self._served)  # the view does not answer at once if events may be missing
        except BaseException as failure:
            self._starting_points.failed(failure, trusted=follower is None or follower.trusted)
            if follower is not None and follower is not self._life.served:
                self._give_up(follower)
            raise
        finally:
            lost.cancel()
        if not self._served.done():
            self._starting_points.failed(None, trusted=follower.trusted)
            self._give_up(follower)
            error = self._life.error
            if error is not None and error.reason is _LASTING:
                raise LogError(error.state or error.reason, error.message)
            why = error.message if error is not None else f"{self._name}: its change log was lost while it was read."
            raise LogError(LogState.LOST, f"{why} Try again.")

    async def _open(self, follower: Follower, starting_point: StartingPoint) -> None:
        log = await self._common.log.open(self._name, follower, *starting_point.place)
        self._starting_points.opened(log)
        follower.opened(log)

    async def _read_on(self, follower: Follower, lost: asyncio.Task[Any], began: float) -> None:
        """Waits until the log is read or lost, for as long as there is progress: starting over would take as long again.

        Raises:
            TimeoutError: nothing came for too long.
        """
        limit = self._common.limits.load_timeout_seconds
        positions, looks_at, until = tuple(follower.positions), began + limit, began + limit
        while not (lost.done() or self._read.done()):
            if (now := self._loop.time()) < looks_at:
                await asyncio.wait((lost, self._read), timeout=looks_at - now, return_when=asyncio.FIRST_COMPLETED)
                continue
            if (come := tuple(follower.positions)) != positions:
                positions, until = come, now + limit
            elif now >= until:
                raise TimeoutError
            looks_at = min(until, now + limit / _LOOKS)

    def _give_up(self, follower: Follower) -> None:
        """Detaches a follower from its owner, and closes its log in a task of its own."""
        follower.retire()
        if follower.log is not None:
            self._closings.begin(close_quietly(self._name, follower.log), "closing the change log")
        if follower not in (self._life.served, self._life.reading):  # the view of either may still be continued
            follower.let_go()


async def close_quietly(name: str, log: NamespaceLog | None) -> None:
    """Closes a log, if there is one; a failure is logged."""
    if log is None:
        return
    try:
        await log.close()
    except LogError as error:
        _LOG.warning("%s: closing the change log failed: %s", name, error.message)
    except (Exception, asyncio.CancelledError) as error:
        if asked_to_end(error):
            raise
        _LOG.exception("%s: closing the change log failed", name)  # whatever it is, the callers that wait have to be answered


def _broken(name: str) -> LogError:
    sentence = f"{name} can't be loaded; this server's log has the reason."
    return LogError(Reason.INTERNAL, sentence, kind=Kind.INTERNAL)


def _never() -> bool:
    return False


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)

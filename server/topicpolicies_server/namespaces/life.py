"""The life of a namespace: its log is loaded on first use, once however many callers ask; followed; and loaded anew whenever it is lost.

One coroutine is all of it (``Life._run``): open the log, read it, let its view answer, wait until the log is lost; after a failed attempt,
pause. Callers wait while it loads or pauses (``admit``), and get the error of an attempt that fails. An attempt that makes progress goes on
for as long as it takes; one without gives its slot to another namespace after a while, and is ended when nothing came for too long.

The next attempt after a failure begins after a pause, each twice as long as the one before; or as soon as a caller needs the namespace, but
at least ``ASKED_SECONDS`` after the failure. So a caller learns how things are now; and however many callers want what does not exist, and
however soon they leave again, the brokers are asked about it only a few times a second.

A namespace has one open log at a time: before its log is opened anew, the former opening has been closed. Each opening has a follower, and
only this coroutine lets one answer, or ends it: a superseded one can't.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from ..checkpoints import Restored
from ..core.errors import Kind, PolicyError
from ..core.reading.view import View
from ..core.reading.watch import WatchHub
from ..core.reasons import LogState, Reason
from ..history.recorder import Recorder
from ..logs.change_log import LogError, NamespaceLog, Start
from ..tasks import RestartedTask, TaskSet, asked_to_end
from .activity import Usage
from .common import Common, unavailable
from .follower import Follower, next_hub
from .repairs import Repairs
from .updates import Updates

_LOG = logging.getLogger(__name__)
ASKED_SECONDS = 0.25
"""The least time between the end of an attempt and the beginning of the next."""
_FIRST_PAUSE = 1 / 100
"""The first pause, as a fraction of the longest, if no caller shortens it."""
_LOSSES = 5
"""The number of losses in a row, while the log is read or right after it began to serve, at which callers get the error."""
_BRIEF_SECONDS = 1.0
"""A log that is lost so soon after it began to serve counts as one that could not be loaded."""
_LOOKS = 4
"""How often progress is checked within the time that an attempt may go without any."""
_LASTING = Reason.LOG_FILE_UNUSABLE
"""The reason of a loss that reading the log anew at once does not cure: waiting callers get the error."""

ReadyFuture: TypeAlias = "asyncio.Future[None]"
"""The future that callers await while the namespace can't answer: it ends when the view answers, or with the error that they get."""


class Phase(enum.Enum):
    """The phase of a namespace that clients and health checks see."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


class Life:
    """Loads one namespace, and loads it anew when its log is lost. All methods belong to the event loop that made it."""

    def __init__(
        self,
        name: str,
        common: Common,
        usage: Usage,
        updates: Updates,
        repairs: Repairs,
        chance: random.Random,
        *,
        dismiss: Callable[[], bool],
        predecessor: asyncio.Task[None] | None,
    ) -> None:
        """Begins to load the namespace.

        ``dismiss``: called after a failed attempt; True: the namespace is closed, and not tried again. ``predecessor``: the task that
        closes this namespace's former instance, whose log must be closed before it is opened again.
        """
        self._name = name
        self._common = common
        self._usage = usage
        self._updates = updates
        self._progress = updates.progress
        self._repairs = repairs
        self._chance = chance
        self._dismiss = dismiss
        self._predecessor = predecessor
        self._loop = asyncio.get_running_loop()
        self.phase = Phase.LOADING
        """The phase that clients and health checks see."""
        self.error: PolicyError | None = None
        """Why the last attempt failed, the log is read anew, or the namespace is closed; None: there is no such reason."""
        self.failed = False
        """Whether the last attempt has failed, and the next one has not begun."""
        self.reading: Follower | None = None
        """The follower of the opening that is read; None: none is open yet, or its view answers."""
        self.served: Follower | None = None
        """The follower whose view answers, or answered last; None: none has, or the namespace has ended."""
        self.view: View | None = None
        """The view that answers, or answered last, also after the namespace has ended."""
        self.hub: WatchHub | None = None
        """The watchers of that view."""
        self._ready: ReadyFuture | None = None
        """The future of the callers that wait; None: no caller waits."""
        self._asked = asyncio.Event()
        """Set when a caller waits."""
        self._longest_pause = common.limits.load_retry_seconds
        self._pause_seconds = self._longest_pause * _FIRST_PAUSE
        self._losses = 0
        """How many attempts in a row have failed, or had their log lost as soon as it served."""
        self._served_at = 0.0
        self._doubted = False
        """Whether the next opening begins at the log's beginning, because where the last one began may be why it failed."""
        self._closings = TaskSet(name)
        self._task: RestartedTask | None = RestartedTask(f"namespace {name}", self._run, failed=self._broken)
        self._task.start()

    @property
    def loading(self) -> bool:
        """Whether an attempt to load is under way, or about to begin."""
        return not self.failed and self.phase in (Phase.LOADING, Phase.FAILED)

    def admit(self) -> ReadyFuture | None:
        """Returns the future that a caller has to await before it asks again; None: the caller is answered at once.

        Raises:
            PolicyError: the namespace is closed.
        """
        if self.phase is Phase.READY and self.served is not None and self.served.lost_by is None:
            return None
        if self.phase is Phase.CLOSED:
            assert self.error is not None, "closed"
            raise self.error
        self.ask()
        if self._ready is None:
            self._ready = self._loop.create_future()
        return self._ready

    def ask(self) -> None:
        """Notes that a caller needs the namespace: ends the pause after a failed attempt."""
        self._asked.set()

    def cut_off(self, error: LogError) -> None:
        """Notes that the log is known to be out of reach: the callers that wait get the error, and an attempt goes on."""
        self._refuse(error)

    def end(self, error: PolicyError) -> None:
        """Closes the namespace: every caller gets the error from now on."""
        self.phase, self.error = Phase.CLOSED, error
        self._refuse(error)
        self._usage.wake()

    async def close(self) -> None:
        """Ends the attempt that is under way, and closes the log that serves, which finishes what it has accepted. ``end`` comes first."""
        if self._task is not None:
            await self._task.stop()
        await self._closings.close(cancel=False)
        served = self.served
        try:
            if served is not None:
                await close_quietly(self._name, served.log)
                if self._common.checkpoints is not None:
                    await self._common.checkpoints.finish(self._name, served)
        finally:
            if served is not None:
                served.let_go()
            self.served, self._task, self._dismiss = None, None, _never  # without reference cycles

    # --- the coroutine --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self._predecessor is not None:
            await asyncio.wait({self._predecessor})
            self._predecessor = None
        while True:
            if self.failed:
                if not await self._pause():
                    return
                self._begin()
            if self.phase is not Phase.READY:
                await self._attempt()
            if self.phase is Phase.READY:
                await self._until_lost()

    async def _attempt(self) -> None:
        """Tries to load the namespace. Afterwards its view answers, or the attempt has failed, or the log was lost while it was read."""
        try:
            await self._load()
        except LogError as error:
            self._losses += 1
            if error.state is not LogState.LOST or self._losses >= _LOSSES:
                self._miss(error)
            # else it was compacted or moved while it was read: waiting callers need not know
        except Exception:  # noqa: BLE001 - the caller gets INTERNAL, the log the reason
            _LOG.exception("loading %s failed", self._name)
            self._losses += 1
            self._miss(_broken(self._name))

    async def _load(self) -> None:
        """Opens the log, reads it, and lets its view answer.

        Raises:
            LogError: it can't be loaded now.
        """
        common, limits = self._common, self._common.limits
        start: Start | None = None
        follower: Follower | None = None
        try:
            await self._closings.close(cancel=False)
            async with common.slots.place(self._name, progress=lambda: (follower and tuple(follower.positions)) or None):
                if self.served is None and not common.capacity.has_room():
                    raise common.capacity.refusal(self._name)
                opened_at = common.now()
                recorder = common.history.recorder(self._name) if common.history is not None else None
                restored: Restored | None = None
                if not self._doubted:
                    start, restored = await self._starting_point(recorder)
                context = common.context._replace(joining=True, joined_at=None if common.context.sole_writer else opened_at)
                older, parts = self.served, (self._updates, self._repairs)
                follower = self.reading = Follower(self._name, common, context, *parts, older, recorder, restored)
                try:
                    async with asyncio.timeout(limits.load_timeout_seconds):
                        log = await common.log.open(self._name, follower, start)
                        if log.resumed and restored is not None:
                            _LOG.info("%s: its log is read on from the checkpoint", self._name)
                        elif start is not None and not log.resumed:
                            _LOG.info("%s: its log does not go on behind what is known of it: it is read from its beginning", self._name)
                        follower.opened(log)
                    await self._read(follower)
                except TimeoutError:
                    problem = f"nothing of its change log arrived within {limits.load_timeout_seconds:g} s"
                    sentence = f"{problem}: try again, or raise load_timeout_seconds."
                    raise unavailable(self._name, LogState.LOAD_TIMEOUT, sentence) from None
            self._check(follower)
            await self._until_all_seen(follower)
            self._check(follower)
            try:
                self._serve(follower, opened_at)
            except Exception as error:  # noqa: BLE001 (its log counts as lost)
                follower.fail(error)
                if follower is not self.served:
                    self._check(follower)
        except BaseException as failure:
            self._abandon(follower, start, failure)
            raise

    async def _starting_point(self, recorder: Recorder | None) -> tuple[Start | None, Restored | None]:
        """Returns where the next opening begins (None: at the log's beginning), and the restored checkpoint whose view it begins with.

        It begins behind a view that answered, which is then continued; or else behind the last checkpoint; but the recorder has to know
        everything up to there. The log decides in the end (``NamespaceLog.resumed``).
        """
        older, checkpoints = self.served, self._common.checkpoints
        if checkpoints is None:
            return None, None
        restored, place = None, None
        if older is not None:
            place = older.place if older.trusted else None
        else:
            limits = self._common.limits
            restored = await checkpoints.restored(self._name, self._common.context, seconds=limits.load_timeout_seconds)
            place = restored.place if restored is not None else None
        if place is None:
            return None, None
        if recorder is not None and not recorder.knows(place.start.identity, place.events):
            _LOG.info("%s: the history ends before the checkpoint, so the log is read from its beginning", self._name)
            return None, None
        return place.start, restored

    async def _read(self, follower: Follower) -> None:
        """Waits until the log is read or lost, for as long as there is progress: starting over would take as long again.

        Raises:
            TimeoutError: nothing came for too long.
        """
        positions, looks = tuple(follower.positions), 0
        while not (follower.is_read or follower.ended):
            if looks == _LOOKS:
                raise TimeoutError
            await _wait(follower.changed, self._common.limits.load_timeout_seconds / _LOOKS)
            come = tuple(follower.positions)
            positions, looks = come, looks + 1 if come == positions else 0

    async def _until_all_seen(self, follower: Follower) -> None:
        """Waits until no event can be missing (``core/fold/joining``), or writers that have seen more of the log had time to restate it."""
        until = self._loop.time() + self._common.limits.join_patience_seconds
        while not follower.ended:
            now = self._common.now()
            all_seen_at, patience = follower.view.check_all_seen(now), until - self._loop.time()
            if all_seen_at is None or patience <= 0:
                return
            await _wait(follower.changed, min(max(all_seen_at - now, 1) / 1000, patience))

    def _check(self, follower: Follower) -> None:
        """Raises the error of an opening that has ended: there is no room for what it loads, or its log was lost (LogError)."""
        if follower.no_room is not None:
            raise follower.no_room
        if (error := follower.lost_by) is None:
            return
        self._lose(error)
        if error.reason is _LASTING:
            raise LogError(error.state or error.reason, error.message)
        raise LogError(LogState.LOST, f"{error.message} Try again.")

    def _serve(self, follower: Follower, opened_at: int) -> None:
        """Lets the view of an opening answer, whose log was read to where it ended at ``opened_at``."""
        common, older, log = self._common, self.served, follower.log
        assert log is not None, "open"
        self.hub = next_hub(self.hub, older, follower, common.limits)
        follower.serve(self.hub)
        self.served, self.reading, self.view = follower, None, follower.view
        self.phase, self.error, self._doubted, self._served_at = Phase.READY, None, False, self._loop.time()
        if older is not None:
            older.let_go()
        self._usage.wake()
        if (ready := self._take_ready()) is not None:
            ready.set_result(None)
        self.hub.wake_all()
        self._progress.serve(log, follower.positions, opened_at)
        self._updates.serve(log, follower.view)
        self._repairs.serve(log, follower.view)
        common.capacity.relieve(self._name)
        if common.checkpoints is not None:
            common.checkpoints.keep(self._name, follower)
        if older is not None and not follower.continues:
            common.activity.let_go()
        common.activity.loaded(self._name)

    async def _until_lost(self) -> None:
        follower = self.served
        assert follower is not None, "it serves"
        while (error := follower.lost_by) is None:
            await _wait(follower.changed)
        self._close_log(follower)
        self._lose(error)
        if self._loop.time() - self._served_at >= _BRIEF_SECONDS:
            self._losses, self._pause_seconds = 0, self._longest_pause * _FIRST_PAUSE
            return
        self._losses += 1
        if self._losses >= _LOSSES:
            self._miss(error)

    async def _pause(self) -> bool:
        """Waits between two attempts. Returns False if the namespace is closed instead, because nothing uses it."""
        self._asked.clear()
        await asyncio.sleep(ASKED_SECONDS)  # also before a dismissal: the next caller has the namespace loaded at once
        if self._dismiss():
            return False
        left = self._pause_seconds * self._chance.uniform(0.5, 1.0) - ASKED_SECONDS
        self._pause_seconds = min(self._pause_seconds * 2, self._longest_pause)
        if left > 0 and not self._asked.is_set():
            await _wait(self._asked, left)
        return True

    # --- what changes -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begins an attempt after one that failed. Watchers see no change before it has ended."""
        self.failed = False
        if not self._usage.watching:
            self.phase = Phase.LOADING
        self._usage.wake()

    def _lose(self, error: LogError) -> None:
        """Stops what needs the log, which can't be followed any more and is opened anew."""
        if error.reason is not _LASTING:
            _LOG.warning("%s: the change log was lost: %s", self._name, error.message)
        self._doubted |= error.reason is Reason.LOG_FILE_UNUSABLE  # all of a damaged file has to be read
        self.phase, self.error = Phase.LOADING, error
        self._common.activity.losses[error.reason] += 1
        self._progress.stop()
        self._updates.pause()
        self._repairs.pause()
        self._wake()

    def _miss(self, error: LogError) -> None:
        """Answers the waiting requests with the error of an attempt to load that has failed."""
        self.failed, self.phase, self.error = True, Phase.FAILED, error
        self._refuse(error)
        self._common.activity.load_failed(self._name, error)
        if error.kind is Kind.NOT_FOUND:  # the log is gone: what was in flight, or due, is in no log any more
            self._updates.abandon(error)
            self._repairs.close()
        self._updates.turn_away(error)
        self._wake()

    def _broken(self, _: BaseException) -> None:
        """Ends the attempt, because the coroutine has failed."""
        if self.loading:
            self._miss(_broken(self._name))

    def _abandon(self, follower: Follower | None, start: Start | None, failure: BaseException) -> None:
        """Ends an opening that does not come to serve. Where it began is doubted if that may be why."""
        if start is not None:
            timed_out = isinstance(failure, LogError) and failure.state is LogState.LOAD_TIMEOUT
            resumed = follower is not None and follower.log is not None and follower.log.resumed
            unforeseen = isinstance(failure, Exception) and not isinstance(failure, LogError)
            self._doubted |= unforeseen or (resumed and follower is not None and (timed_out or not follower.trusted))
        self.reading = None
        if follower is None or follower is self.served:
            return
        follower.retire()
        self._close_log(follower)
        if follower.continues:  # its view is that of the opening before, and has come further
            if self.served is not None:
                self.served.let_go()
            self.served = follower
            if self._common.checkpoints is not None:
                self._common.checkpoints.keep(self._name, follower)
        else:
            follower.let_go()

    def _close_log(self, follower: Follower) -> None:
        if follower.log is not None:
            self._closings.begin(close_quietly(self._name, follower.log), "closing the change log")

    def _wake(self) -> None:
        self._usage.wake()
        if self.hub is not None:
            self.hub.wake_all()

    def _refuse(self, error: PolicyError) -> None:
        if (ready := self._take_ready()) is not None:
            ready.set_exception(error)
            ready.exception()  # marks the exception as retrieved: there may be no caller that awaits it

    def _take_ready(self) -> ReadyFuture | None:
        ready, self._ready = self._ready, None
        return ready if ready is not None and not ready.done() else None


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


async def _wait(event: asyncio.Event, seconds: float | None = None) -> None:
    """Waits until an event is set, or so many seconds; the event is not set any more afterwards."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


def _broken(name: str) -> LogError:
    sentence = f"{name} can't be loaded; this server's log has the reason."
    return LogError(Reason.INTERNAL, sentence, kind=Kind.INTERNAL)


def _never() -> bool:
    return False

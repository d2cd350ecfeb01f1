"""One namespace: its log is loaded on first use, once however many callers ask; followed; and loaded anew whenever it is lost.

One coroutine is all of its life (``Namespace._run``). Callers wait while it loads or pauses, and get the error of an attempt that fails. An
attempt that makes progress goes on for as long as it takes. The next attempt after a failure begins after a pause, each twice as long as
the one before; or as soon as a caller needs the namespace, but at least ``ASKED_SECONDS`` after the failure.

A namespace has one open log at a time. Each opening has a follower, and only this coroutine lets one answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence

from ..checkpoints import LAST_SECONDS, Restored
from ..core.chains.request import Request, Result, not_in_time
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, Scope
from ..core.policies.events import Position
from ..core.reading.cell import Head, key_of
from ..core.reading.tokens import Mode, Selection, Token
from ..core.reading.view import View
from ..core.reading.watch import Watcher, WatchHub
from ..core.reasons import LogState, Reason
from ..history.recorder import Recorder
from ..logs.change_log import LogError, NamespaceLog, Start
from ..tasks import RestartedTask, TaskSet, asked_to_end
from .activity import Figures
from .common import Common, unavailable
from .follower import Follower, next_hub
from .repairs import RepairQueue
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
_SLOT_SECONDS = 1.0
"""How long an attempt keeps its slot without any progress."""
_LOOKS = 4
"""How often progress is checked within the time that an attempt may go without any."""
_LASTING = Reason.LOG_FILE_UNUSABLE
"""The reason of a loss that reading the log anew at once does not cure: waiting callers get the error."""
_NAMES = 1_024
"""How many keys are looked at before other tasks have their turns."""


class Phase(enum.Enum):
    """The phase of a namespace that clients and health checks see."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


class Namespace:
    """The service of one namespace. All methods belong to the event loop that made it."""

    def __init__(
        self,
        name: str,
        common: Common,
        repairs: RepairQueue,
        chance: random.Random,
        *,
        dismiss: Callable[[Namespace], bool],
        predecessor: asyncio.Task[None] | None = None,
    ) -> None:
        """Begins to load the namespace.

        ``dismiss``: called when an attempt to load has failed; closes the namespace if nothing uses it, or returns False. ``predecessor``:
        the task that closes this namespace's former instance, whose log must be closed before it is opened again.
        """
        self.name = name
        self.phase = Phase.LOADING
        self.error: PolicyError | None = None
        """Why the last attempt to load failed, the log was lost, or the namespace is closed; None: there is no such reason."""
        self.reading: Follower | None = None
        """The follower of the opening that is read; None: none is open yet, or its view answers."""
        self.served: Follower | None = None
        """The follower whose view answers, or answered last; None: none has, or the namespace has ended."""
        self.view: View | None = None
        """The view that answers, or answered last, also after the namespace has ended; None: none has."""
        self.hub: WatchHub | None = None
        self._common = common
        self._chance = chance
        self._dismiss = dismiss
        self._predecessor = predecessor
        self._loop = asyncio.get_running_loop()
        self.updates = Updates(name, common, repairs, chance)
        """The requests that have no answer yet."""
        self._progress = self.updates.progress
        self._watching: dict[object, Callable[[], None]] = {}
        """Watchers and observers, with what notifies them that the phase may have changed."""
        self._holders: set[object] = set()
        """Parts of the server that keep the namespace loaded."""
        self._failed = False
        self._waiters: dict[asyncio.Future[PolicyError | None], None] = {}
        """What callers await while the namespace can't answer, in order: ends when the view answers, or with an error for them."""
        self._asked = asyncio.Event()
        self._longest_pause = common.limits.load_retry_seconds
        self._pause_seconds = self._longest_pause * _FIRST_PAUSE
        self._losses = 0
        """How many attempts have failed, or have lost their log, since one served for a while."""
        self._slot: asyncio.TimerHandle | None = None
        """Ends the attempt's hold of its slot; None: it has none."""
        self._doubted = False
        """Whether the next opening begins at the log's beginning, because where the last one began may be why it failed."""
        self._closings = TaskSet(name)
        self._task: RestartedTask | None = RestartedTask(f"namespace {name}", self._run)
        self._task.start()

    # --- requests, reads and watches --------------------------------------------------------------------------------

    async def update(self, request: Request) -> Result:
        """Applies an update or a delete and returns when its position in the log is known.

        Raises:
            PolicyError: as ``submit`` reports it; or the view does not reach the demanded version in time.
        """
        if request.version and not (self._common.context.sole_writer or self.updates.led_elsewhere or self._common.read_only):
            try:
                await self._come_up_to(request)
            except PolicyError as error:
                self._common.activity.updated(request, error)
                raise
        answer: asyncio.Future[Result | PolicyError] = self._loop.create_future()
        if self.updates.submit(request, lambda _, settled: None if answer.done() else answer.set_result(settled)):
            self._asked.set()
        try:
            settled = await answer
        except asyncio.CancelledError:
            self.updates.give_up(request)
            raise
        if isinstance(settled, PolicyError):
            raise settled
        return settled

    def submit(self, request: Request, on_answer: Callable[[Request, Result | PolicyError], None]) -> None:
        """Applies an update or a delete, after those of the same key before it, and reports the answer once (``Updates.submit``)."""
        if self.updates.submit(request, on_answer):
            self._asked.set()

    async def get(self, key: PolicyKey, at_least: Position = "") -> Head | None:
        """Returns the head of a key; None if the log knows no event of it.

        ``at_least``: a version of this key that the view must have reached before it answers; "" is any.

        Raises:
            PolicyError: the log can't be read, or the view does not reach the version in time (DEADLINE_EXCEEDED).
        """
        view, _ = await self._until_ready()
        if at_least:
            await self._progress.reached(view, key, at_least)
            view, _ = await self._until_ready()
        return view.head(key)

    async def page(
        self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None
    ) -> tuple[list[Head], bool, Token]:
        """Returns at most ``most`` documents after ``after`` in the order of their keys, whether there are more, and where the view stands.

        The page ends with the document that makes it ``most_bytes`` large.
        """
        view, hub = await self._until_ready()
        changes, more = view.page(scopes, after, most, most_bytes)
        return changes, more, hub.token

    async def topics(self) -> set[str]:
        """Returns the topics that have a document; fails as ``page`` does.

        Other tasks have their turns meanwhile, and what they change may be missing.
        """
        view, _ = await self._until_ready()
        topics: set[str] = set()
        name = ""
        while names := view.named(name, _NAMES):
            topics.update(key_of(each).topic for each in names)
            name = names[-1]
            await asyncio.sleep(0)
        return topics

    async def watch(self, selection: Selection, mode: Mode, token: Token | None, notify: Callable[[], None]) -> Watcher:
        """Adds a watcher, until ``unwatch``. ``notify``: called when there is something to take, and when the phase may have changed.

        Raises:
            PolicyError: the log can't be read.
            OutOfRange: the watcher can't resume from the token.
        """
        _, hub = await self._until_ready()
        watcher = hub.subscribe(selection, mode, token, notify)
        self.observe(watcher, notify)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Removes a watcher."""
        self.unobserve(watcher)
        if self.hub is not None:
            self.hub.unsubscribe(watcher)

    def observe(self, observer: object, notify: Callable[[], None]) -> None:
        """Keeps the namespace loaded and its freshness confirmed, until ``unobserve``. ``notify``: called when the phase may change."""
        self._watching[observer] = notify
        self._progress.watched()

    def unobserve(self, observer: object) -> None:
        """Ends an ``observe``."""
        self._watching.pop(observer, None)
        self.updates.last_used = self._loop.time()
        if not self._watching:
            self._progress.unwatched()

    def hold(self, holder: object) -> None:
        """Keeps the namespace loaded and repaired until ``release``; while it can't be loaded, attempts go on."""
        self._holders.add(holder)

    def release(self, holder: object) -> None:
        """Ends a ``hold``."""
        self._holders.discard(holder)
        self.updates.last_used = self._loop.time()

    async def ready(self) -> None:
        """Returns when the namespace can answer; fails as ``get`` does."""
        await self._until_ready()

    # --- what is reported of it -------------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Why the last attempt to load failed, the log was lost, or the namespace is closed; empty: there is no such reason."""
        return self.error.message if self.error is not None else ""

    @property
    def cause(self) -> Reason:
        """The reason that belongs to ``problem``; NAMESPACE_LOADING if there is none."""
        return self.error.reason if self.error is not None else Reason.NAMESPACE_LOADING

    @property
    def complete_as_of_ms(self) -> int:
        """The time as of which the view is known to have all that was written, in milliseconds since 1970; 0: it is not known."""
        return self._progress.complete_as_of_ms

    @property
    def documents(self) -> int:
        """How many policy keys the view has, absent documents included."""
        return self.view.head_count if self.view is not None else 0

    @property
    def repairs_due(self) -> int:
        """How many keys need a repair, because their raw document is not their head: now, or once the view answers."""
        due, reading = self.updates.repairs.due, self.reading
        return len(due) + (sum(key not in due for key, _ in reading.view.due()) if reading is not None and reading.is_read else 0)

    @property
    def busy(self) -> bool:
        """Whether it must stay: it is loading, has something in flight or to repair, or is held, watched or awaited."""
        updates, used = self.updates, self._watching or self._holders or self._waiters or self._progress.waits
        return bool(used or updates.open or updates.sequencer.chains or updates.repairs.due or self._loading)

    def idle_since(self) -> float:
        """Returns when the namespace was used last, in seconds of the loop's clock."""
        return self.updates.last_used

    def figures(self) -> Figures:
        """Returns the figures for operators. May be called from other threads: everything is only read."""
        sequencer, served = self.updates.sequencer, self.served
        serves = self.phase is Phase.READY
        order = served.order if serves and served is not None else None
        return Figures(
            serves,
            len(sequencer.chains),
            sequencer.depth,
            len(self.updates.arrivals) + sequencer.waiting,
            order.unread if order is not None else 0,
            order.waiting if order is not None else 0,
            self.complete_as_of_ms if self._watching else 0,
        )

    # --- its end ----------------------------------------------------------------------------------------------------

    def cut_off(self, error: LogError) -> None:
        """Notes that the log is out of reach: callers that wait for it get the error, and so do requests of which nothing was sent.

        An attempt to load goes on.
        """
        self._end_waits(error)
        self.updates.turn_away(error)

    def forget(self) -> None:
        """Stops counting what the namespace keeps in memory, because it is about to be closed."""
        if self.served is not None:
            self.served.forget()

    async def close(self, error: PolicyError | None = None) -> None:
        """Ends the namespace: callers are refused from now on, and so are requests of which nothing was sent.

        What the log has accepted is finished, within the time that the log takes for that; what is left is answered OUTCOME_UNKNOWN.
        ``error``: what refused callers get; None: LOG_UNAVAILABLE.
        """
        if self.phase is Phase.CLOSED:
            return
        error = error or unavailable(self.name, Reason.LOG_UNAVAILABLE, "The namespace is being closed: try again.")
        self.phase, self.error = Phase.CLOSED, error
        self._end_waits(error)
        self._notify()
        self.updates.end(error)
        try:
            if self._task is not None:
                await self._task.stop()
            await self._closings.close(cancel=False)
            if self.served is not None:
                await close_quietly(self.name, self.served.log)
                if self._common.checkpoints is not None:
                    await self._save_last(self._common.checkpoints.pace.last_events)
        finally:
            if self.served is not None:
                self.served.let_go()
            self.served = self._task = None  # without reference cycles
            self.updates.close(error)

    async def save(self, events: float, seconds: float) -> None:
        """Writes a checkpoint if so many events came since the last one (``Follower.save``)."""
        if self.served is not None and self.served.unsaved >= events:
            await self.served.save(seconds)

    async def _save_last(self, events: int) -> None:
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.save(events, 0.0)
        except TimeoutError:
            _LOG.warning("%s: its last checkpoint was not written within %g s", self.name, LAST_SECONDS)

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def _until_ready(self) -> tuple[View, WatchHub]:
        """Returns the view and the hub once the view answers; raises PolicyError if it can't be loaded, or is closed."""
        while self.phase is not Phase.READY or self.served is None or self.served.lost_by is not None:
            if self.phase is Phase.CLOSED:
                assert self.error is not None, "closed"
                raise self.error
            self._asked.set()
            if (error := self._common.readiness.refuses_waiting()) is not None:
                raise error
            waiter: asyncio.Future[PolicyError | None] = self._loop.create_future()
            self._waiters[waiter] = None
            try:
                if (failed := await waiter) is not None:
                    raise failed
            finally:
                del self._waiters[waiter]
        self.updates.last_used = self._loop.time()
        assert self.view is not None and self.hub is not None, "it serves"
        return self.view, self.hub

    async def _come_up_to(self, request: Request) -> None:
        """Waits, if this process leads, until the view has reached the version that a request demands: a former leader may have made it.

        On a log that others write too no request waits here, once the namespace is loaded: a conflict is confirmed, so a version that is in
        the log is met, and one that is not, because it is another log's, is a conflict at once. Requests of a batch don't wait: later ones
        would overtake them.

        Raises:
            PolicyError: the view does not get there in time, so whether there is a conflict is not known here.
        """
        try:
            async with asyncio.timeout(self._common.limits.update_timeout_seconds):
                view, _ = await self._until_ready()
                if not self.updates.shared():
                    await self._progress.reached(view, request.key, request.version)
        except TimeoutError:
            raise not_in_time(request) from None

    # --- the coroutine --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self._predecessor is not None:
            await asyncio.wait({self._predecessor})
            self._predecessor = None
        while True:
            if self._failed:
                if not await self._pause():
                    return
                self._begin()
            try:
                await self._load()
                failure = await self._until_lost()
            except LogError as error:
                failure = error
            except (Exception, asyncio.CancelledError) as error:
                if asked_to_end(error):
                    raise
                _LOG.exception("loading %s failed", self.name)
                sentence = f"{self.name} can't be loaded; this server's log has the reason."
                failure = LogError(Reason.INTERNAL, sentence, kind=Kind.INTERNAL)
            self._losses += 1
            if failure.state is not LogState.LOST or self._losses >= _LOSSES:
                self._attempt_failed(failure)
            # else it was compacted or moved: waiting callers need not know

    async def _load(self) -> None:
        """Opens the log, reads it, and lets its view answer."""
        common, limits = self._common, self._common.limits
        start: Start | None = None
        follower: Follower | None = None
        try:
            await self._closings.close(cancel=False)
            async with self._in_a_slot():
                if self.served is None and not common.has_room():
                    raise common.no_room(self.name)
                opened_at = common.now()
                recorder = common.history.recorder(self.name) if common.history is not None else None
                restored: Restored | None = None
                if not self._doubted:
                    start, restored = await self._starting_point(recorder)
                context = common.context._replace(joining=True, joined_at=None if common.context.sole_writer else opened_at)
                follower = self.reading = Follower(self.name, common, context, self.updates, self.served, recorder, restored)
                try:
                    async with asyncio.timeout(limits.load_timeout_seconds):
                        log = await common.log.open(self.name, follower, start)
                        if log.resumed and restored is not None:
                            _LOG.info("%s: its log is read on from the checkpoint", self.name)
                        elif start is not None and not log.resumed:
                            _LOG.info("%s: its log does not go on behind what is known of it: it is read from its beginning", self.name)
                        follower.opened(log)
                    await self._read(follower)
                except TimeoutError:
                    problem = f"nothing of its change log arrived within {limits.load_timeout_seconds:g} s"
                    sentence = f"{problem}: try again, or raise load_timeout_seconds."
                    raise unavailable(self.name, LogState.LOAD_TIMEOUT, sentence) from None
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
            self._end_opening(follower, start, failure)
            raise

    @contextlib.asynccontextmanager
    async def _in_a_slot(self) -> AsyncIterator[None]:
        """Occupies one of the slots, until nothing has come for ``_SLOT_SECONDS``."""
        await self._common.slots.acquire()
        self._slot = self._loop.call_later(_SLOT_SECONDS, self._look, ())
        try:
            yield
        finally:
            if self._slot is not None:
                self._slot.cancel()
                self._slot = None
                self._common.slots.release()

    def _look(self, seen: Sequence[Position]) -> None:
        """Leaves the slot to another namespace, if there is no progress since it was looked at last."""
        here = tuple(self.reading.positions) if self.reading is not None else ()
        self._slot = None if here == seen else self._loop.call_later(_SLOT_SECONDS, self._look, here)
        if self._slot is None:
            self._common.slots.release()

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
            restored = await checkpoints.restored(self.name, self._common.context, seconds=limits.load_timeout_seconds)
            place = restored.place if restored is not None else None
        if place is None:
            return None, None
        if recorder is not None and not recorder.knows(place.start.identity, place.events):
            _LOG.info("%s: the history ends before the checkpoint, so the log is read from its beginning", self.name)
            return None, None
        return place.start, restored

    async def _read(self, follower: Follower) -> None:
        """Waits until the log is read or lost, for as long as there is progress (else TimeoutError)."""
        positions, looks = tuple(follower.positions), 0
        while not (follower.is_read or follower.lost_by is not None):
            if looks == _LOOKS:
                raise TimeoutError
            await _wait(follower.changed, self._common.limits.load_timeout_seconds / _LOOKS)
            come = tuple(follower.positions)
            positions, looks = come, looks + 1 if come == positions else 0

    async def _until_all_seen(self, follower: Follower) -> None:
        """Waits until no event can be missing (``core/fold/joining``), or writers that have seen more of the log had time to restate it."""
        until = self._loop.time() + self._common.limits.join_patience_seconds
        while follower.lost_by is None:
            now = self._common.now()
            all_seen_at, patience = follower.view.check_all_seen(now), until - self._loop.time()
            if all_seen_at is None or patience <= 0:
                return
            await _wait(follower.changed, min(max(all_seen_at - now, 1) / 1000, patience))

    def _check(self, follower: Follower) -> None:
        """Raises the error of an opening that has ended: there is no room for what it loads, or its log was lost (LogError)."""
        if (error := follower.lost_by) is None:
            return
        if error.reason is Reason.LIMIT_REACHED:
            raise error
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
        self.phase, self.error, self._doubted = Phase.READY, None, False
        if older is not None:
            older.let_go()
        self._notify()
        self._end_waits()
        self._progress.serve(log, follower.positions, opened_at)
        if self._watching:
            self._progress.watched()
        self.updates.serve(log, follower.view)
        common.activity.loaded(self.name)

    async def _until_lost(self) -> LogError:
        """Waits until the log that serves is lost; returns the error of that."""
        follower = self.served
        assert follower is not None, "it serves"
        served_at = self._loop.time()
        while (error := follower.lost_by) is None:
            await _wait(follower.changed)
        self._close_log(follower)
        self._lose(error)
        if self._loop.time() - served_at >= _BRIEF_SECONDS:
            self._losses, self._pause_seconds = 0, self._longest_pause * _FIRST_PAUSE
        return LogError(LogState.LOST, error.message)

    async def _pause(self) -> bool:
        """Waits between two attempts. Returns False if the namespace is closed instead, because nothing uses it."""
        self._asked.clear()
        await asyncio.sleep(ASKED_SECONDS)  # also before a dismissal: the next caller has the namespace loaded at once
        if self._dismiss(self):
            return False
        left = self._pause_seconds * self._chance.uniform(0.5, 1.0) - ASKED_SECONDS
        self._pause_seconds = min(self._pause_seconds * 2, self._longest_pause)
        if left > 0 and not self._asked.is_set():
            await _wait(self._asked, left)
        return True

    @property
    def _loading(self) -> bool:
        """Whether an attempt to load is under way, or about to begin."""
        return not self._failed and self.phase in (Phase.LOADING, Phase.FAILED)

    # --- what changes -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begins an attempt after one that failed. Watchers see no change before it has ended."""
        self._failed = False
        if not self._watching:
            self.phase = Phase.LOADING
        self._notify()

    def _lose(self, error: LogError) -> None:
        """Stops what needs the log, which can't be followed any more and is opened anew."""
        if error.reason is not _LASTING:
            _LOG.warning("%s: the change log was lost: %s", self.name, error.message)
        self._doubted |= error.reason is _LASTING  # all of a damaged file has to be read
        self.phase, self.error = Phase.LOADING, error
        self._common.activity.losses[error.reason] += 1
        self.updates.pause()
        self._notify()

    def _attempt_failed(self, error: LogError) -> None:
        """Answers the waiting requests with the error of an attempt to load that has failed."""
        self._failed, self.phase, self.error = True, Phase.FAILED, error
        self._end_waits(error)
        self._common.activity.load_failed(self.name, error)
        if error.kind is Kind.NOT_FOUND:  # the log is gone: what was in flight, or due, is in no log any more
            self.updates.abandon(error)
        self.updates.turn_away(error)
        self._notify()

    def _end_opening(self, follower: Follower | None, start: Start | None, failure: BaseException) -> None:
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
        else:
            follower.let_go()

    def _close_log(self, follower: Follower) -> None:
        if follower.log is not None:
            self._closings.begin(close_quietly(self.name, follower.log), "closing the change log")

    def _notify(self) -> None:
        """Notifies watchers and observers: the phase may have changed."""
        for notify in self._watching.values():
            notify()

    def _end_waits(self, error: PolicyError | None = None) -> None:
        """Ends the wait of the callers that wait for the view to answer; with an error if there is one."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(error)


async def close_quietly(name: str, log: NamespaceLog | None) -> None:
    """Closes a log, if there is one; a failure is logged."""
    try:
        if log is not None:
            await log.close()
    except LogError as error:
        _LOG.warning("%s: closing the change log failed: %s", name, error.message)
    except (Exception, asyncio.CancelledError) as error:
        if asked_to_end(error):
            raise
        _LOG.exception("%s: closing the change log failed", name)  # whatever it is, the callers that wait have to be answered


async def _wait(event: asyncio.Event, seconds: float | None = None) -> None:
    """Waits until an event is set, or so many seconds; the event is not set any more afterwards."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()

"""One namespace: its life, and the service of it.

An update walks through here once, downwards (``update``: the sequencer computes events, the log takes them) and upwards (``taken``: the
follower has folded an event, the sequencer settles its request, the hub wakes the watchers). Everything between two awaits is
one step: nothing awaits or sends while it holds shared state.

Where a log has one writer at a time, updates wait until it is known who that is: this process takes them then, or names the one that does.
Reads and watches are served all the same. When somebody else becomes the writer, what was on its way is answered at once: its outcome is
not known here, and a repeat of the request, wherever the writer is, settles it.

Life: LOADING (the log is being read), READY, FAILED (it could not be read; tried again while anybody waits, and soon when somebody
asks), CLOSED. Nothing is answered from a view that has not finished loading. When the log is lost it is opened anew beside the old view;
watchers keep their place, and updates in flight are settled by what the log then tells.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import logging
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..config import Limits
from ..core.chains.sequencer import Append, Confirm, Effect, Request, Result, Sequencer, Settled, Told, outcome_not_known
from ..core.errors import Kind, PolicyError
from ..core.fold.fold import FoldContext, Folded, KeyState, repair_due
from ..core.names import PolicyKey, Scope
from ..core.policies.events import ABSENT, Event, Placed, Position, Remembered, StampKind
from ..core.reading.view import Before, Change
from ..core.reading.watch import Mode, Selection, Token, Watcher, WatchHub
from ..core.reasons import Reason
from ..logs.change_log import ChangeLog, Leadership, LogError, NamespaceLog, NotLeader
from .activity import Activity, Repair
from .deadlines import Deadlines
from .ends import Ends, not_confirmed
from .follower import Follower, Record, unavailable
from .freshness import Freshness
from .gate import Gate
from .repairs import Repairs, Turn
from .retrying import Pauses
from .waiting import Waiting

_LOG = logging.getLogger(__name__)
_NOT_KNOWN = Leadership(False)
_LOSSES = 5
"""As often may a log be lost while it is read before those who wait for it are told."""


class Phase(enum.Enum):
    """Where a namespace is in its life."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


class Namespace:
    """The service of one namespace. All methods belong to the event loop that made it."""

    def __init__(  # noqa: PLR0913 (all of them are the registry's)
        self,
        name: str,
        log: ChangeLog,
        limits: Limits,
        context: FoldContext,
        *,
        slots: asyncio.Semaphore,
        chance: random.Random,
        now: Callable[[], int],
        gate: Gate,
        activity: Activity,
        read_only: bool = False,
        dismiss: Callable[[Namespace], bool] = lambda _: False,
        predecessor: asyncio.Task[None] | None = None,
        record: Record | None = None,
    ) -> None:
        """Begins to load it.

        Args:
            name: ``tenant/namespace``.
            log: where its change log is opened.
            limits: every bound.
            context: what the fold needs to know of the log.
            slots: bounds how many namespaces load at once.
            chance: spreads repairs and retries.
            now: milliseconds since 1970, by a clock like the log's.
            gate: what every repair passes.
            activity: told of what happens.
            read_only: whether nothing may be written: updates are refused, repairs only told of.
            dismiss: told when the namespace could not be loaded and nobody waits for it; closes it, or returns False.
            predecessor: the closing of this namespace's former life: its log must be closed before it is opened again.
            record: gives whoever writes down what is folded; None: nobody does.
        """
        self.name = name
        self.phase = Phase.LOADING
        self.problem = ""
        """Why the last try to load it failed; empty if it did not."""
        self.cause = Reason.NAMESPACE_LOADING
        """The same for programs, or why it is being read."""
        self._log = log
        self._limits = limits
        self._context = context
        self._slots = slots
        self._chance = chance
        self._now = now
        self._activity = activity
        self._read_only = read_only
        self._dismiss = dismiss
        self._predecessor = predecessor
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._follower: Follower | None = None
        """The opening that serves: its view answers."""
        self._loading: Follower | None = None
        """The opening that is being read."""
        self._hub: WatchHub | None = None
        self._deadlines = Deadlines(self._loop, limits.update_timeout_seconds, self._expire)
        self._arrivals: dict[Request, None] = {}
        """Requests that came while the log was being read, or while it was not known who writes it, in order."""
        self._leads = False
        """Whether this process may append to the log that serves."""
        self._told: dict[str, Told] = {}
        prefix, counter = uuid.UUID(int=chance.getrandbits(128), version=4).hex[:20], itertools.count()
        self._new_id: Callable[[], str] = lambda: f"{prefix}{next(counter):012x}"
        depth, queue = limits.max_in_flight_per_key, limits.max_waiting_per_key
        self._sequencer = Sequencer(self._state, self._new_id, applied=self._applied, shared=self._shared, depth=depth, queue=queue)
        self._ends = Ends(name, limits.update_timeout_seconds / 2, self._confirmed, self._unconfirmed)
        self._freshness = Freshness(now, limits.bookmark_interval_seconds / 2, self._shared, lambda: bool(self._watching))
        self._opened_at = 0
        """When the opening that is read began, in milliseconds since 1970."""
        self._repairs = Repairs(self._loop, chance, gate, self._repair, self._repair_cancelled)
        self._waiting = Waiting()
        self._watching: set[object] = set()
        self._holders: set[object] = set()
        self._pending = 0
        self._lost: asyncio.Event = asyncio.Event()
        self._pauses = Pauses(limits.load_retry_seconds, chance)
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._read: asyncio.Future[None] = self._loop.create_future()
        self._patient_until = 0.0
        self._last_used = self._loop.time()
        self._life: asyncio.Task[None] = self._loop.create_task(self._live(), name=f"namespace {name}")

    # --- what is asked of it --------------------------------------------------------------------------------------

    async def update(self, request: Request) -> Result:
        """Applies an update or a delete and returns when its place in the log is known.

        Raises:
            PolicyError: as ``submit`` says.
        """
        if request.etag and not (self._context.sole_writer or self._led_elsewhere or self._read_only):
            self._pending += 1
            try:
                await self._come_up_to(request)
            except PolicyError as error:
                self._activity.updated(request, error)
                raise
            finally:
                self._pending -= 1
        answer: asyncio.Future[Result | PolicyError] = self._loop.create_future()
        self.submit(request, lambda settled: None if answer.done() else answer.set_result(settled))
        try:
            settled = await answer
        except asyncio.CancelledError:
            self.give_up(request)
            raise
        if isinstance(settled, PolicyError):
            raise settled
        return settled

    def submit(self, request: Request, tell: Callable[[Result | PolicyError], None]) -> None:
        """Applies an update or a delete; the answer is told, once, when its place in the log is known, or in time.

        The errors that are told: as the sequencer says; UNAVAILABLE when the log can't be reached; DEADLINE_EXCEEDED (reason
        OUTCOME_UNKNOWN, with the request id) when its place in the log is not known in time; UNAVAILABLE (reason NOT_CONFIRMED) when
        nothing is to be written, as far as is known here, and where the log ends is not known; UNAVAILABLE (reason NOT_LEADER, with the
        leader's address if it is known) when another process writes the log; FAILED_PRECONDITION (reason READ_ONLY) when nothing may be
        written here.

        Args:
            request: what to do.
            tell: told the answer, perhaps before this returns. It must return soon and must not raise.
        """

        def settle(answer: Result | PolicyError) -> None:
            if not request.answered:
                request.answered = True
                self._pending -= 1
                self._last_used = self._loop.time()
                self._activity.updated(request, answer)
                tell(answer)

        self._pending += 1
        request.settle = settle
        try:
            if self._read_only and not request.validate_only:
                raise _nothing_is_written(self.name)
            if self.phase is Phase.READY:
                self._admit(request)
            else:
                self._awaited()
                self._arrivals[request] = None
        except PolicyError as error:
            settle(error)
        if not request.answered:
            self._deadlines.add(request)

    def give_up(self, request: Request) -> None:
        """Nobody waits for the answer to a request any more."""
        if not request.answered:
            request.answered = True
            self._pending -= 1
            self._withdraw(request)

    async def get(self, key: PolicyKey, at_least: Position = "") -> Change | None:
        """The head of a key; None if the log knows no event of it.

        Args:
            key: the policy key.
            at_least: a version of this key that the answer must have reached; "" is any.

        Raises:
            PolicyError: the log can't be read, or does not get that far in time (DEADLINE_EXCEEDED).
        """
        follower = await self._ready()
        if at_least:
            await self._reached(follower, key, at_least)
            follower = await self._ready()
        return follower.view.head(key)

    async def page(
        self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None
    ) -> tuple[list[Change], bool, Token]:
        """Documents in the order of their keys.

        Returns:
            At most ``most`` heads after ``after``, whether there are more, and where the view stands. The page ends with the document that
            makes it ``most_bytes`` large.
        """
        follower = await self._ready()
        assert self._hub is not None, "ready"
        changes, more = follower.view.page(scopes, after, most, most_bytes)
        return changes, more, self._hub.token

    def is_beyond(self, token: Token) -> bool:
        """Whether a token says more of the present log than there is: its positions are of another copy of it. False for other logs."""
        return self._hub is not None and self._hub.is_beyond(token)

    async def watch(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """A watcher of this namespace. It is to be given back with ``unwatch``.

        Raises:
            PolicyError: the log can't be read.
            OutOfRange: the token can't be resumed from.
        """
        await self._ready()
        assert self._hub is not None, "ready"
        watcher = self._hub.subscribe(selection, mode, token, wake)
        self._watching.add(watcher)
        self._freshness.watched()
        return watcher

    def observe(self, observer: object) -> None:
        """Keeps it loaded, and asks how fresh it is, until ``unobserve``."""
        self._watching.add(observer)
        self._freshness.watched()

    def unobserve(self, observer: object) -> None:
        """Ends an ``observe``."""
        self._watching.discard(observer)
        self._last_used = self._loop.time()

    @property
    def log_identity(self) -> str:
        """Names the log that serves, or served last; "" if none did."""
        return self._hub.token.log if self._hub is not None else ""

    @property
    def confirmed_ms(self) -> int:
        """As of when its watchers are told everything, in milliseconds since 1970; 0: that is not known."""
        return self._freshness.confirmed_ms

    def unwatch(self, watcher: Watcher) -> None:
        """Gives a watcher back."""
        self._watching.discard(watcher)
        if self._hub is not None:
            self._hub.unsubscribe(watcher)
        self._last_used = self._loop.time()

    def hold(self, holder: object) -> None:
        """Keeps it loaded, and its repairs on, until ``release``; if it can't be loaded, it goes on trying."""
        self._holders.add(holder)

    def release(self, holder: object) -> None:
        """Ends a ``hold``."""
        self._holders.discard(holder)
        self._last_used = self._loop.time()

    async def ready(self) -> None:
        """Returns when the namespace can answer.

        Raises:
            LogError: it can't be loaded.
        """
        if self.phase is not Phase.READY:
            self._pending += 1
            try:
                await asyncio.shield(self._awaited())
            finally:
                self._pending -= 1
        self._last_used = self._loop.time()

    def version(self, key: PolicyKey) -> Position:
        """The version of a key in the view as it is now, which may be that of a log that was lost or closed."""
        return self._follower.view.version(key) if self._follower is not None else ABSENT

    @property
    def documents(self) -> int:
        """Keys that the view knows."""
        return len(self._follower.view) if self._follower is not None else 0

    @property
    def watchers(self) -> int:
        """Watchers that were not given back."""
        return len(self._watching)

    @property
    def repairs_due(self) -> int:
        """Keys whose raw document is not their head, and is to be repaired: now, or once the view answers."""
        if self._loading is None or not self._read.done():
            return self._repairs.due
        waiting = sum(repair_due(state) and key not in self._repairs for key, state in self._loading.view.states())
        return self._repairs.due + waiting

    @property
    def busy(self) -> bool:
        """Whether anything is read, in flight, or to be repaired, or anybody holds it, waits or watches."""
        waiting = bool(self._watching) or bool(self._holders) or self._pending > 0
        unsettled = self._loading is not None or self._repairs.due > 0
        return waiting or unsettled or self._sequencer.chains > 0

    def idle_since(self) -> float:
        """The loop's time of the last use, in seconds."""
        return self._last_used

    async def close(self, reason: str = "The namespace is being closed: try again.") -> None:
        """Ends its life. What the log has accepted is finished; requests that nothing is known of are told so."""
        if self.phase is Phase.CLOSED:
            return
        self.phase = Phase.CLOSED
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        self._leads = False  # what is still read makes no repair due
        self._repairs.close()
        self._deadlines.close()
        self._ends.stop()
        self._freshness.stop()
        for follower in (self._loading, self._follower):
            if follower is not None and follower.log is not None:
                await follower.log.close()
            if follower is not None:
                follower.retire()
        error = unavailable(self.name, Reason.NAMESPACE_CLOSED, reason)
        self._perform(self._sequencer.abandon(error))
        self._turn_away(error)
        if self._loaded.done():
            self._loaded = self._loop.create_future()  # for whoever comes later
        self._loaded.set_exception(error)
        self._loaded.exception()  # whoever waits has it; nobody may
        if self._hub is not None:
            self._hub.wake_all()

    # --- its life -------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        if self._predecessor is not None:
            await asyncio.wait({self._predecessor})
            self._predecessor = None
        losses = 0
        while True:
            error = await self._try()
            if error is None:
                losses = 0
                self._pauses.start_over()
                await self._lost.wait()
                self._begin(Phase.LOADING)
                continue
            losses += 1
            if error.reason == Reason.LOG_LOST and losses < _LOSSES:
                continue  # compacted or moved while it was read: whoever waits need not know
            self._failed(error)
            await self._pauses.least()  # also before it is forgotten: whoever asks for it then has it loaded at once
            if not self.busy and self._dismiss(self):
                return
            await self._pauses.rest()
            self._begin(Phase.FAILED if self._watching else Phase.LOADING)

    async def _try(self) -> LogError | None:
        """Loads it; why it can't be, if so. Whatever goes wrong, its life goes on."""
        try:
            await self._load()
        except LogError as error:
            return error
        except Exception:  # noqa: BLE001 - the caller is told that it is our fault, the log why
            _LOG.exception("loading %s failed", self.name)
            return LogError(
                Reason.LOAD_BROKEN,
                f"{self.name} can't be loaded, for a reason that this server's own log has: look there.",
                kind=Kind.INTERNAL,
            )
        return None

    async def _load(self) -> None:
        """Opens the log and reads it, bounded in number and time."""
        self._lost = asyncio.Event()
        self._read = self._loop.create_future()
        self._opened_at = self._now()
        lost = self._loop.create_task(self._lost.wait())
        try:
            async with self._slots:
                joined_at = None if self._context.sole_writer else self._now()
                context = self._context._replace(joining=True, joined_at=joined_at)
                recorder = await self._record(self.name) if self._record is not None else None
                follower = Follower(self, self.name, context, self._follower, recorder)
                self._loading = follower
                try:
                    async with asyncio.timeout(self._limits.load_timeout_seconds):
                        follower.opened(await self._log.open(self.name, follower))
                        await _first_of(lost, self._read)
                except TimeoutError:
                    await self._drop(follower)
                    raise unavailable(
                        self.name,
                        Reason.LOAD_TIMEOUT,
                        f"its change log was not read within {self._limits.load_timeout_seconds} s: try again.",
                    ) from None
                except BaseException:
                    await self._drop(follower)
                    raise
            try:
                await _first_of(lost, self._loaded)  # not at once if something may be missing
            except BaseException:
                await self._drop(follower)
                raise
        finally:
            lost.cancel()
        if self._lost.is_set() and not self._loaded.done():
            raise unavailable(self.name, Reason.LOG_LOST, f"{self.problem or 'its change log was lost while it was read'}: try again.")

    async def _drop(self, follower: Follower) -> None:
        follower.retire()
        self._end_loading(follower)
        if follower.log is not None:
            await follower.log.close()

    def _end_loading(self, follower: Follower) -> None:
        if self._loading is follower:
            self._loading = None
            if follower.continues:
                self._follower = follower  # its view has come further than the opening before

    def _awaited(self) -> asyncio.Future[None]:
        """What whoever needs it waits for: the try that is under way; if that has failed, the next, which then begins soon.

        Raises:
            LogError: it is closed.
        """
        if self.phase is Phase.FAILED and self._loaded.done():
            self._loaded = self._loop.create_future()
            self._pauses.ask()
        elif self._loaded.done():
            self._loaded.result()
        return self._loaded

    def _begin(self, phase: Phase) -> None:
        """A new try to load begins."""
        self.phase = phase
        if self._loaded.done():
            self._loaded = self._loop.create_future()

    def _failed(self, error: LogError) -> None:
        _LOG.log(logging.DEBUG if error.message == self.problem else logging.WARNING, "%s can't be loaded: %s", self.name, error.message)
        self._activity.loads["failed"] += 1
        self.phase, self.problem, self.cause = Phase.FAILED, error.message, error.reason
        if not self._loaded.done():
            self._loaded.set_exception(error)
            self._loaded.exception()  # whoever waits has it; nobody may
        if error.kind is Kind.NOT_FOUND:  # what was under way, or due, went with its log, and has no place in that of the next life
            self._perform(self._sequencer.abandon(error))
            self._repairs.close()
        self._turn_away(error)
        if self._hub is not None:
            self._hub.wake_all()

    def _turn_away(self, error: PolicyError) -> None:
        arrivals, self._arrivals = self._arrivals, {}
        for request in arrivals:
            request.settle(error)

    # --- what the follower tells ------------------------------------------------------------------------------------

    def taken(self, follower: Follower, placed: Placed, folded: Folded | None, change: Change | None, before: Change | None) -> None:
        """An event was folded."""
        if placed.problem:
            self._activity.unreadable += 1
        event = placed.event
        if event is None or folded is None:
            return
        if follower is not self._follower:
            if self._sequencer.expects(event) and event.stamp is not None:
                state = follower.view.state(event.key)
                met = before.document if before is not None else None
                self._told.setdefault(event.stamp.event_id, Told(folded, met, state.document if state is not None else None))
            if change is not None and follower.continues and self._hub is not None:
                self._hub.publish(change)
            return
        after = change if change is not None else before
        old, new = before.document if before is not None else None, after.document if after is not None else None
        self._activity.folded(self.name, placed, folded, old, new)
        if change is not None:
            assert self._hub is not None, "ready"
            change.before = Before(old) if change.previous else None
            self._hub.publish(change)
        effects = self._sequencer.folded(event, folded, old)
        if effects:
            self._perform(effects)
        state = follower.view.state(event.key)
        if state is not None and self._leads:
            self._repairs.consider(event.key, state, placed)

    def moved(self, follower: Follower) -> None:
        """The view has come further."""
        if self._hub is None or not (follower is self._follower or (follower is self._loading and follower.continues)):
            return
        assert follower.log is not None, "ready"
        self._hub.moved(Token(follower.log.identity, tuple(follower.positions)))
        self._waiting.wake(follower.positions)
        if follower is self._follower:
            self._ends.moved(follower.positions)
            self._freshness.moved(follower.positions)

    def loaded(self, follower: Follower) -> None:
        """The log is read. This view answers once nothing can be missing (``joining``), or who has seen more had time to say so."""
        if follower is not self._loading or follower.log is None:
            return
        if not self._read.done():
            self._read.set_result(None)
            self._patient_until = self._loop.time() + self._limits.join_patience_seconds
        now = self._now()
        settled_at = follower.view.settle(now)
        patience = self._patient_until - self._loop.time()
        if settled_at is not None and patience > 0:
            self._loop.call_later(min(max(settled_at - now, 1) / 1000, patience), self.loaded, follower)
            return
        older, self._follower, self._loading = self._follower, follower, None
        identity = follower.log.identity
        if follower.continues and self._hub is not None:
            self._hub.moved(Token(identity, tuple(follower.positions)))
        elif self._hub is None or older is None:
            token = Token(identity, tuple(follower.positions))
            horizon = tuple(map(_complete_after(follower.log), range(follower.log.partitions), follower.positions))
            self._hub = WatchHub(follower.view, token, ring=self._limits.max_every_backlog_changes, horizon=horizon)
        elif self._hub.token.log == identity:
            follower.passed(self._hub.token.widened(follower.log.partitions).positions)
            token = Token(identity, tuple(follower.positions))
            self._hub.succeed(follower.view, token, follower.view.succeed(older.view, token.positions))
        else:
            follower.view.supersede(older.view)
            self._hub.succeed(follower.view, Token(identity, tuple(follower.positions)), ())
        self.phase, self.problem = Phase.READY, ""
        self._leads = follower.log.leadership.leads
        self._activity.loads["loaded"] += 1
        if not self._loaded.done():
            self._loaded.set_result(None)
        self._hub.wake_all()
        told, self._told = self._told, {}
        self._ends.serve(follower.log, follower.positions)
        self._freshness.serve(follower.log, follower.positions, self._opened_at)
        self._perform(self._sequencer.reopened(told))
        self._admit_arrivals()
        self._repairs.resume()
        self._consider_repairs(follower)
        self._waiting.wake(follower.positions)

    def append_failed(self, follower: Follower, event: Event, error: LogError) -> None:
        """An event of ours was not acknowledged."""
        if follower is not self._follower:
            return
        self._perform(self._sequencer.failed(event, error, error.outcome_unknown))
        state = self._state(event.key)
        restates = event.stamp is not None and event.stamp.kind in (StampKind.REPAIR, StampKind.TOMBSTONE)
        if restates and not _passes(error):
            self._repair_refused(event.key, error)
        elif state is not None and self._leads:
            self._repairs.consider(event.key, state)  # it may have been a repair

    def led(self, follower: Follower) -> None:
        """Who may append may have changed."""
        if follower is not self._follower or follower.log is None or self.phase is not Phase.READY:
            return
        self._leads = follower.log.leadership.leads
        if self._leads:
            self._consider_repairs(follower)
        else:
            self._repairs.close()
        self._admit_arrivals()

    def lost(self, follower: Follower, error: LogError) -> None:
        """The log can't be followed any more: it is opened anew."""
        if follower not in (self._follower, self._loading):
            return
        _LOG.warning("%s: the change log was lost: %s", self.name, error.message)
        follower.retire()
        if follower.log is not None:
            self._loop.create_task(_close_quietly(follower.log))
        self._end_loading(follower)
        self._ends.stop()
        self._freshness.stop()
        self._repairs.pause()
        self.phase, self.problem, self.cause = Phase.LOADING, error.message, error.reason
        if self._loaded.done():
            self._loaded = self._loop.create_future()
        self._lost.set()
        if self._hub is not None:
            self._hub.wake_all()

    # --- who may append ---------------------------------------------------------------------------------------------

    def _admit(self, request: Request) -> None:
        """A request that changes something goes on where this process may append, waits while that is not known, and is refused else."""
        leadership = self._leadership
        if leadership.leads or request.validate_only:  # that is only read
            self._perform(self._sequencer.submit(request))
            return
        assert self._follower is not None, "ready"
        assert self._follower.log is not None, "ready"
        self._follower.log.contend()
        if leadership.leader:
            request.settle(NotLeader(self.name, leadership))
        else:
            self._arrivals[request] = None

    @property
    def _led_elsewhere(self) -> bool:
        leadership = self._leadership
        return not leadership.leads and leadership.leader != ""

    @property
    def _leadership(self) -> Leadership:
        """Who may append, as far as is known; of a log that is not open, nothing is."""
        log = self._follower.log if self.phase is Phase.READY and self._follower is not None else None
        return log.leadership if log is not None else _NOT_KNOWN

    def _admit_arrivals(self) -> None:
        arrivals, self._arrivals = self._arrivals, {}
        for request in arrivals:
            self._admit(request)

    def _consider_repairs(self, follower: Follower) -> None:
        if self._leads:
            for key, state in follower.view.states():
                if repair_due(state):
                    self._repairs.consider(key, state)

    # --- effects ------------------------------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[Effect]) -> None:
        queue = deque(effects)
        while queue:
            effect = queue.popleft()
            if isinstance(effect, Settled):
                effect.request.settle(effect.answer)
            elif isinstance(effect, Confirm):
                self._ends.ask(effect.request)
            else:
                queue.extend(self._append(effect))

    def _append(self, effect: Append) -> Sequence[Effect]:
        if self.phase is not Phase.READY or self._follower is None or self._follower.log is None:
            return ()  # the log is being opened anew: what is in flight is appended then
        try:
            self._follower.log.append(effect.event)
        except LogError as error:
            if error.kind is Kind.UNAVAILABLE and not isinstance(error, NotLeader):
                return ()  # it is lost, and will say so: as above
            return self._sequencer.failed(effect.event, error, error.outcome_unknown)
        return ()

    def _repair(self, key: PolicyKey, cause: Placed | None) -> Turn:
        """Publishes a due repair."""
        follower = self._follower
        if self.phase is not Phase.READY or follower is None or follower.log is None:
            return Turn.LATER
        if self._sequencer.busy(key):
            return Turn.BUSY
        state = follower.view.state(key)
        event = follower.view.restatement(key, self._new_id())
        if event is None or state is None:
            return Turn.PASSED
        if not self._read_only:
            try:
                follower.log.append(event)
            except LogError as error:
                if _passes(error):
                    return Turn.LATER
                self._repair_refused(key, error)
                return Turn.PASSED
        repair = Repair(self.name, key, state.version, state.live, state.document, cause)
        self._activity.repair(repair, published=not self._read_only)
        return Turn.PASSED if self._read_only else Turn.TAKEN

    def _repair_cancelled(self) -> None:
        self._activity.repairs["cancelled"] += 1

    def _repair_refused(self, key: PolicyKey, error: LogError) -> None:
        """The log can't take a repair, and will not take it later: until the key's next event it is left at that."""
        self._activity.repairs["refused"] += 1
        _LOG.warning("%s: %s (%s) can't be repaired: %s", self.name, key.topic, key.scope.name, error.message)

    def _confirmed(self, requests: Sequence[Request]) -> None:
        """The view has come to where the log ended after these requests had arrived."""
        self._perform(self._sequencer.confirmed(requests))

    def _unconfirmed(self, requests: Sequence[Request], error: PolicyError) -> None:
        """Nobody tells where the log ends."""
        self._perform(self._sequencer.unconfirmed(requests, error))

    def _shared(self) -> bool:
        """Whether others may have written what the view has not come to."""
        log = self._follower.log if self._follower is not None else None
        return not self._context.sole_writer and (log is None or log.shared)

    def _state(self, key: PolicyKey) -> KeyState | None:
        return self._follower.view.state(key) if self._follower is not None else None

    def _applied(self, key: PolicyKey, request_id: str) -> Remembered | None:
        return self._follower.view.recent.find(key, request_id) if self._follower is not None else None

    # --- waiting --------------------------------------------------------------------------------------------------------

    async def _ready(self) -> Follower:
        if self.phase is not Phase.READY:
            await self.ready()
        self._last_used = self._loop.time()
        assert self._follower is not None, "ready"
        return self._follower

    async def _come_up_to(self, request: Request) -> None:
        """Waits until the view has come to the version that a request demands: another sidecar may have given it.

        Requests of a stream don't wait: others would overtake them.

        Raises:
            PolicyError: it does not come that far in time; whether there is a conflict, nobody can tell here.
        """
        try:
            async with asyncio.timeout(self._limits.update_timeout_seconds):
                await self._reached(await self._ready(), request.key, request.etag)
        except TimeoutError:
            raise _not_in_time(request) from None

    async def _reached(self, follower: Follower, key: PolicyKey, position: Position) -> None:
        assert follower.log is not None, "ready"
        partition = follower.log.partition_of(key)
        if follower.positions[partition] >= position or follower.view.version(key) >= position:
            return
        self._pending += 1
        try:
            await self._waiting.until(partition, position, self._limits.update_timeout_seconds)
        except TimeoutError:
            raise PolicyError(
                Kind.DEADLINE_EXCEEDED,
                Reason.VERSION_NOT_REACHED,
                f"The log of {self.name} has not been read up to version {position}: try again, or ask without at_least.",
                metadata={"at_least_version": position},
            ) from None
        finally:
            self._pending -= 1

    def _expire(self, request: Request) -> None:
        """A request's time is over."""
        if not self._withdraw(request):
            request.settle(outcome_not_known(request))
        elif request.unsure:
            request.settle(not_confirmed(self.name, "the log was not read up to its end in time"))
        elif self.phase is Phase.READY and not self._leads:
            request.settle(NotLeader(self.name, self._leadership))
        else:
            request.settle(_not_in_time(request))

    def _withdraw(self, request: Request) -> bool:
        """Nobody waits for a request any more. Returns whether it is certain not to be applied."""
        if request in self._arrivals:
            del self._arrivals[request]
            return True
        return self._sequencer.withdraw(request)


def _passes(error: LogError) -> bool:
    """Whether the log may take later what it did not take now."""
    return error.kind in (Kind.UNAVAILABLE, Kind.RESOURCE_EXHAUSTED, Kind.DEADLINE_EXCEEDED)


def _nothing_is_written(namespace: str) -> PolicyError:
    return PolicyError(
        Kind.FAILED_PRECONDITION,
        Reason.READ_ONLY,
        f"This server writes nothing, so {namespace} can't be changed here: ask one that does.",
        metadata={"namespace": namespace},
    )


def _not_in_time(request: Request) -> PolicyError:
    return PolicyError(
        Kind.UNAVAILABLE,
        Reason.NOT_APPENDED,
        f"{request.key.topic} could not be changed in time, and certainly was not: try again.",
        metadata={"request_id": request.request_id},
    )


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _close_quietly(log: NamespaceLog) -> None:
    try:
        await log.close()
    except LogError as error:
        _LOG.warning("closing a lost change log: %s", error.message)


def _complete_after(log: NamespaceLog) -> Callable[[int, Position], Position]:
    """Behind which position the heads tell everything that happened: nothing was compacted away there."""

    def position(partition: int, end: Position) -> Position:
        complete = log.complete_after(partition)
        return end if complete is None else min(complete, end)

    return position

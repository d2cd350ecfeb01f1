"""One namespace: its life, and the service of it.

Its parts are wired here. ``life`` is the state machine, which decides whether a caller is answered, waits, or is refused; ``loading`` opens
and reads the log; ``updates`` has the requests, ``repairs`` the repairs, the hub the watchers; ``reports`` passes on to them what
the log reports. Everything between two awaits is one step: nothing awaits or sends while it holds shared state.

Nothing is answered from a view that has not finished loading. When the log is lost it is opened anew beside the old view; watchers keep
their place, and updates in flight are settled by what is then read from the log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from ..core.chains.refusals import not_in_time
from ..core.chains.sequencer import Request, Result
from ..core.errors import PolicyError
from ..core.names import PolicyKey, Scope
from ..core.policies.events import ABSENT, Position
from ..core.reading.view import Head, View
from ..core.reading.watch import Mode, Selection, Token, Watcher
from ..core.reasons import Reason
from ..logs.change_log import LogError
from .common import Common, topics_of, unavailable
from .figures import Figures, figures
from .life import Closed, Life, Loading, Phase, Serving
from .loading import Loader, close_quietly
from .repairs import Repairs
from .reports import Reports
from .retrying import Pauses
from .updates import Updates
from .usage import Usage

__all__ = ["Namespace", "Phase"]


class Namespace:
    """The service of one namespace. All methods belong to the event loop that made it."""

    def __init__(
        self,
        name: str,
        common: Common,
        chance: random.Random,
        *,
        dismiss: Callable[[Namespace], bool] = lambda _: False,
        predecessor: asyncio.Task[None] | None = None,
    ) -> None:
        """Begins to load the namespace.

        Args:
            name: ``tenant/namespace``.
            common: what all namespaces of the server have in common.
            chance: spreads repairs and retries.
            dismiss: called when an attempt to load has failed and nothing uses the namespace; closes it, or returns False.
            predecessor: the task that closes this namespace's former instance, whose log must be closed before it is opened again.
        """
        self.name = name
        self._common = common
        loop = asyncio.get_running_loop()
        limits = common.limits
        self._usage = Usage(loop)
        pauses = Pauses(limits.load_retry_seconds, chance)
        self._life = Life(pauses.ask, self._usage.wake)
        self._updates = Updates(name, common, self._life, self._usage, chance)
        self._progress = self._updates.progress
        self._repairs = Repairs(name, common, self._life, self._updates, chance)
        self._loader = Loader(
            name,
            common,
            self._life,
            pauses,
            watched=self._usage.is_watched,
            dismiss=lambda: not self.busy and dismiss(self),
            predecessor=predecessor,
        )
        self._loader.start(Reports(name, common, self._life, self._loader, self._updates, self._repairs))

    # --- requests, reads and watches --------------------------------------------------------------------------------

    async def update(self, request: Request) -> Result:
        """Applies an update or a delete and returns when its place in the log is known.

        Raises:
            PolicyError: as ``submit`` says.
        """
        if request.version and not (self._common.context.sole_writer or self._updates.led_elsewhere or self._common.read_only):
            try:
                await self._come_up_to(request)
            except PolicyError as error:
                self._common.activity.updated(request, error)
                raise
        answer: asyncio.Future[Result | PolicyError] = asyncio.get_running_loop().create_future()
        self.submit((request,), lambda _, settled: None if answer.done() else answer.set_result(settled))
        try:
            settled = await answer
        except asyncio.CancelledError:
            self.give_up(request)
            raise
        if isinstance(settled, PolicyError):
            raise settled
        return settled

    def submit(self, requests: Sequence[Request], tell: Callable[[Request, Result | PolicyError], None]) -> None:
        """Applies updates and deletes, in this order; reports each answer once, when the event's place in the log is known, or in time.

        The errors that are reported: as the sequencer says; UNAVAILABLE when the log can't be reached, or the namespace is closed and
        nothing was sent; DEADLINE_EXCEEDED (reason OUTCOME_UNKNOWN, with the request id) when its place in the log is not known in time, or
        not before the namespace is closed; UNAVAILABLE (reason NOT_APPENDED) when nothing is to be written, as far as is known here, and
        where the log ends is not known; UNAVAILABLE (reason NOT_LEADER, with the leader's address if it is known) when another process
        writes the log; FAILED_PRECONDITION (reason READ_ONLY) when nothing may be written here; RESOURCE_EXHAUSTED when it would make a key
        and there is no room for it.

        Args:
            requests: the updates and deletes.
            tell: called with each request and its answer, perhaps before this returns. It must return soon and must not raise.
        """
        self._updates.submit(requests, tell)

    def give_up(self, request: Request) -> None:
        """Forgets a request whose caller does not wait for its answer any more."""
        self._updates.give_up(request)

    def end(self, request: Request, error: PolicyError) -> None:
        """Answers a submitted request now, because its caller can't wait longer: with ``error`` if it certainly is not applied."""
        self._updates.end(request, error)

    async def get(self, key: PolicyKey, at_least: Position = "") -> Head | None:
        """Returns the head of a key; None if the log knows no event of it.

        Args:
            key: the policy key.
            at_least: a version of this key that the view must have reached before it answers; "" is any.

        Raises:
            PolicyError: the log can't be read, or the view does not reach the version in time (DEADLINE_EXCEEDED).
        """
        follower = (await self._ready()).follower
        if at_least:
            await self._progress.reached(follower, key, at_least)
            follower = (await self._ready()).follower
        return follower.view.head(key)

    async def page(
        self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None
    ) -> tuple[list[Head], bool, Token]:
        """Returns at most ``most`` documents after ``after`` in the order of their keys, whether there are more, and where the view stands.

        The page ends with the document that makes it ``most_bytes`` large.
        """
        serving = await self._ready()
        changes, more = serving.follower.view.page(scopes, after, most, most_bytes)
        return changes, more, serving.hub.token

    async def topics(self) -> set[str]:
        """Returns the topics that have a document; fails as ``page`` does."""
        return await topics_of((await self._ready()).follower.view)

    def is_beyond(self, token: Token) -> bool:
        """Returns whether a token of this log is ahead of it: its positions are then those of another copy of the log."""
        return self._life.hub is not None and self._life.hub.is_beyond(token)

    async def watch(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """Adds a watcher of this namespace, which has to be given back with ``unwatch``.

        Raises:
            PolicyError: the log can't be read.
            OutOfRange: the token can't be resumed from.
        """
        watcher = (await self._ready()).hub.subscribe(selection, mode, token, wake)
        self.observe(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Removes a watcher."""
        self.unobserve(watcher)
        if self._life.hub is not None:
            self._life.hub.unsubscribe(watcher)

    def observe(self, observer: object, wake: Callable[[], None] | None = None) -> None:
        """Keeps the namespace loaded and its freshness confirmed, until ``unobserve``. ``wake``: called when the phase may have changed."""
        self._usage.watching[observer] = wake
        self._progress.watched()

    def unobserve(self, observer: object) -> None:
        """Ends an ``observe``."""
        self._usage.watching.pop(observer, None)
        self._usage.used()
        if not self._usage.watching:
            self._progress.unwatched()

    def hold(self, holder: object) -> None:
        """Keeps the namespace loaded and repaired until ``release``; while it can't be loaded, attempts go on."""
        self._usage.holders.add(holder)

    def release(self, holder: object) -> None:
        """Ends a ``hold``."""
        self._usage.holders.discard(holder)
        self._usage.used()

    async def ready(self) -> None:
        """Returns when the namespace can answer.

        Raises:
            PolicyError: it can't be loaded, or it is closed.
        """
        await self._ready()

    # --- what is reported of it -------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """The phase that clients and health checks see."""
        return self._life.phase

    @property
    def problem(self) -> str:
        """Why the last attempt to load failed, the log was lost, or the namespace is closed; empty: there is no such reason."""
        return self._life.error.message if self._life.error is not None else ""

    @property
    def cause(self) -> Reason:
        """The reason that belongs to ``problem``; NAMESPACE_LOADING if there is none."""
        return self._life.cause

    @property
    def log_identity(self) -> str:
        """The identity of the log that serves, or served last; "" if none did."""
        return self._life.hub.token.log if self._life.hub is not None else ""

    @property
    def confirmed_ms(self) -> int:
        """The time as of which the view is known to have all that was written, in milliseconds since 1970; 0: it is not known."""
        return self._progress.confirmed_ms

    def version(self, key: PolicyKey) -> Position:
        """Returns the version of a key in the current view, which may be that of a log that was lost or closed."""
        return self.view.version(key) if self.view is not None else ABSENT

    @property
    def documents(self) -> int:
        """How many policy keys the view has, absent documents included."""
        return len(self.view) if self.view is not None else 0

    @property
    def watchers(self) -> int:
        """How many watchers and observers there are."""
        return len(self._usage.watching)

    @property
    def repairs_due(self) -> int:
        """How many keys need a repair, because their raw document is not their head: now, or once the view answers."""
        reading = self._life.reading if self._loader.is_read else None
        return self._repairs.due + (self._repairs.due_also(reading) if reading is not None else 0)

    @property
    def busy(self) -> bool:
        """Whether it must stay: it is loading, has something in flight or to repair, or is held, watched or awaited."""
        unsettled = isinstance(self._life.state, Loading) or self._repairs.due > 0
        return self._usage.any or unsettled or self._updates.under_way

    def idle_since(self) -> float:
        """Returns when the namespace was used last, in seconds of the loop's clock."""
        return self._usage.last_used

    @property
    def view(self) -> View | None:
        """The view that answers, or answered last; None: none has."""
        return self._life.view

    def figures(self) -> Figures:
        """Returns the figures for operators. May be called from other threads."""
        return figures(self._life, self._updates, self._usage, self.confirmed_ms)

    def cut_off(self, error: LogError) -> None:
        """Notes that the log is out of reach: callers that wait for it get the error, and so do requests of which nothing was sent."""
        self._life.cut_off(error)
        self._updates.turn_away(error)

    # --- its end ----------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Stops counting what the namespace keeps in memory, because it is about to be closed."""
        if self._life.served is not None:
            self._life.served.forget()

    async def close(self, error: PolicyError | None = None) -> None:
        """Ends the namespace: callers are refused from now on, and so are requests of which nothing was sent.

        What the log has accepted is finished, within the time that the log takes for that; what is left is answered OUTCOME_UNKNOWN.

        Args:
            error: what refused callers get; None: NAMESPACE_CLOSED.
        """
        if isinstance(self._life.state, Closed):
            return
        error = error or unavailable(self.name, Reason.LOG_UNAVAILABLE, "The namespace is being closed: try again.")
        self._life.end(error)
        self._updates.leads = False  # events that are still read make no repair due
        self._updates.turn_away(error)
        self._repairs.close()
        self._progress.stop()
        try:
            await self._loader.stop()
            if self._life.served is not None:
                await close_quietly(self.name, self._life.served.log)
                if self._common.checkpoints is not None:
                    await self._common.checkpoints.finish(self.name, self._life.served)
        finally:
            if self._life.served is not None:
                self._life.served.retire()
            self._updates.close(error)
            if self._life.hub is not None:
                self._life.hub.wake_all()
            self._life = self._life.detached()

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def _ready(self) -> Serving:
        while (ready := self._life.admit()) is not None:
            if (error := self._common.readiness.refuses_waiting()) is not None:
                raise error
            with self._usage.waiting():
                await asyncio.shield(ready)
        self._usage.used()
        assert isinstance(self._life.state, Serving), "admitted"
        return self._life.state

    async def _come_up_to(self, request: Request) -> None:
        """Waits, if this process leads, until the view has reached the version that a request demands: a former leader may have made it.

        On a log that others write too no request waits here: a conflict is confirmed, so a version that is in the log is met, and one that
        is not, because it is another log's, is a conflict at once. Requests of a batch don't wait: later ones would overtake them.

        Raises:
            PolicyError: the view does not get there in time, so whether there is a conflict is not known here.
        """
        try:
            async with asyncio.timeout(self._common.limits.update_timeout_seconds):
                serving = await self._ready()
                if not self._updates.shared():
                    await self._progress.reached(serving.follower, request.key, request.version)
        except TimeoutError:
            raise not_in_time(request) from None

"""One namespace, as callers use it: updates, reads, watches, and what is reported of it.

``life`` loads it and says whether a caller is answered, waits, or is refused; ``updates`` has the requests, ``repairs`` the repairs, the
hub the watchers. Everything between two awaits is one step: nothing awaits or sends while it holds shared state.

Nothing is answered from a view that has not finished loading. When the log is lost it is opened anew beside the old view; watchers keep
their tokens, and updates in flight are settled by what is then read from the log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from ..core.chains.answers import not_in_time
from ..core.chains.sequencer import Request, Result
from ..core.errors import PolicyError
from ..core.names import PolicyKey, Scope
from ..core.policies.events import ABSENT, Position
from ..core.reading.cell import key_of
from ..core.reading.view import Head, View
from ..core.reading.watch import Mode, Selection, Token, Watcher, WatchHub
from ..core.reasons import Reason
from ..logs.change_log import LogError
from .activity import Figures, Usage
from .common import Common, unavailable
from .life import Life, Phase
from .repairs import RepairQueue, Repairs
from .updates import Updates

__all__ = ["Namespace", "Phase"]

_NAMES = 1_024
"""How many keys are looked at before other tasks have their turns."""


class Namespace:
    """The service of one namespace. All methods belong to the event loop that made it."""

    def __init__(
        self,
        name: str,
        common: Common,
        repairs: RepairQueue,
        chance: random.Random,
        *,
        dismiss: Callable[[Namespace], bool] = lambda _: False,
        predecessor: asyncio.Task[None] | None = None,
    ) -> None:
        """Begins to load the namespace.

        ``dismiss``: called when an attempt to load has failed and nothing uses the namespace; closes it, or returns False. ``predecessor``:
        as in ``Life``.
        """
        self.name = name
        self._common = common
        self._usage = Usage(asyncio.get_running_loop())
        self._updates = Updates(name, common, self._usage, chance)
        self._progress = self._updates.progress
        self._repairs = Repairs(name, common, repairs, self._updates, chance)
        self._life = Life(
            name,
            common,
            self._usage,
            self._updates,
            self._repairs,
            chance,
            dismiss=lambda: not self.busy and dismiss(self),
            predecessor=predecessor,
        )

    # --- requests, reads and watches --------------------------------------------------------------------------------

    async def update(self, request: Request) -> Result:
        """Applies an update or a delete and returns when its position in the log is known.

        Raises:
            PolicyError: as ``submit`` reports it.
        """
        if request.version and not (self._common.context.sole_writer or self._updates.led_elsewhere or self._common.read_only):
            try:
                await self._come_up_to(request)
            except PolicyError as error:
                self._common.activity.updated(request, error)
                raise
        answer: asyncio.Future[Result | PolicyError] = asyncio.get_running_loop().create_future()
        if self._updates.submit((request,), lambda _, settled: None if answer.done() else answer.set_result(settled)):
            self._life.ask()
        try:
            settled = await answer
        except asyncio.CancelledError:
            self.give_up(request)
            raise
        if isinstance(settled, PolicyError):
            raise settled
        return settled

    def submit(self, requests: Sequence[Request], on_answer: Callable[[Request, Result | PolicyError], None]) -> None:
        """Applies updates and deletes, in this order, and reports the answer to each once to ``on_answer`` (``Updates.submit``)."""
        if self._updates.submit(requests, on_answer):
            self._life.ask()

    def give_up(self, request: Request) -> None:
        """Forgets a request whose caller does not wait for its answer any more."""
        self._updates.give_up(request)

    def end(self, request: Request, error: PolicyError) -> None:
        """Answers a submitted request now, because its caller can't wait longer: with ``error`` if it certainly is not applied."""
        self._updates.answer_now(request, error)

    async def get(self, key: PolicyKey, at_least: Position = "") -> Head | None:
        """Returns the head of a key; None if the log knows no event of it.

        ``at_least``: a version of this key that the view must have reached before it answers; "" is any.

        Raises:
            PolicyError: the log can't be read, or the view does not reach the version in time (DEADLINE_EXCEEDED).
        """
        view, _ = await self._ready()
        if at_least:
            await self._progress.reached(view, key, at_least)
            view, _ = await self._ready()
        return view.head(key)

    async def page(
        self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None
    ) -> tuple[list[Head], bool, Token]:
        """Returns at most ``most`` documents after ``after`` in the order of their keys, whether there are more, and where the view stands.

        The page ends with the document that makes it ``most_bytes`` large.
        """
        view, hub = await self._ready()
        changes, more = view.page(scopes, after, most, most_bytes)
        return changes, more, hub.token

    async def topics(self) -> set[str]:
        """Returns the topics that have a document; fails as ``page`` does.

        Other tasks have their turns meanwhile, and what they change may be missing.
        """
        view, _ = await self._ready()
        topics: set[str] = set()
        name = ""
        while names := view.named(name, _NAMES):
            topics.update(key_of(each).topic for each in names)
            name = names[-1]
            await asyncio.sleep(0)
        return topics

    def is_beyond(self, token: Token) -> bool:
        """Returns whether a token of this log is ahead of it: its positions are then those of another copy of the log."""
        return self._life.hub is not None and self._life.hub.is_beyond(token)

    async def watch(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """Adds a watcher of this namespace, which has to be given back with ``unwatch``.

        Raises:
            PolicyError: the log can't be read.
            OutOfRange: the token can't be resumed from.
        """
        _, hub = await self._ready()
        watcher = hub.subscribe(selection, mode, token, wake)
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
        return self._life.error.reason if self._life.error is not None else Reason.NAMESPACE_LOADING

    @property
    def log_identity(self) -> str:
        """The identity of the log that serves, or served last; "" if none did."""
        return self._life.hub.token.log if self._life.hub is not None else ""

    @property
    def complete_as_of_ms(self) -> int:
        """The time as of which the view is known to have all that was written, in milliseconds since 1970; 0: it is not known."""
        return self._progress.complete_as_of_ms

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
        reading = self._life.reading
        return self._repairs.due + (self._repairs.due_also(reading.view) if reading is not None and reading.is_read else 0)

    @property
    def busy(self) -> bool:
        """Whether it must stay: it is loading, has something in flight or to repair, or is held, watched or awaited."""
        return self._usage.any or self._life.loading or self._repairs.due > 0 or self._updates.under_way

    def idle_since(self) -> float:
        """Returns when the namespace was used last, in seconds of the loop's clock."""
        return self._usage.last_used

    @property
    def view(self) -> View | None:
        """The view that answers, or answered last; None: none has."""
        return self._life.view

    def figures(self) -> Figures:
        """Returns the figures for operators. May be called from other threads: everything is only read."""
        sequencer, served = self._updates.sequencer, self._life.served
        serves = self._life.phase is Phase.READY
        readback = served.readback if serves and served is not None else None
        return Figures(
            serves,
            sequencer.chains,
            sequencer.depth,
            self._updates.arrived + sequencer.waiting,
            readback.unread if readback is not None else 0,
            readback.waiting if readback is not None else 0,
            self.complete_as_of_ms if self._usage.watching else 0,
        )

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
        ``error``: what refused callers get; None: LOG_UNAVAILABLE.
        """
        if self._life.phase is Phase.CLOSED:
            return
        error = error or unavailable(self.name, Reason.LOG_UNAVAILABLE, "The namespace is being closed: try again.")
        self._life.end(error)
        self._updates.end(error)
        self._repairs.close()
        self._progress.stop()
        try:
            await self._life.close()
        finally:
            self._updates.close(error)
            if self._life.hub is not None:
                self._life.hub.wake_all()

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def _ready(self) -> tuple[View, WatchHub]:
        """Returns the view and the hub once the view answers.

        Raises:
            PolicyError: the namespace can't be loaded, or it is closed.
        """
        life = self._life
        while (ready := life.admit()) is not None:
            if (error := self._common.readiness.refuses_waiting()) is not None:
                raise error
            with self._usage.waiting():
                await asyncio.shield(ready)
        self._usage.used()
        assert life.view is not None and life.hub is not None, "admitted"
        return life.view, life.hub

    async def _come_up_to(self, request: Request) -> None:
        """Waits, if this process leads, until the view has reached the version that a request demands: a former leader may have made it.

        On a log that others write too no request waits here: a conflict is confirmed, so a version that is in the log is met, and one that
        is not, because it is another log's, is a conflict at once. Requests of a batch don't wait: later ones would overtake them.

        Raises:
            PolicyError: the view does not get there in time, so whether there is a conflict is not known here.
        """
        try:
            async with asyncio.timeout(self._common.limits.update_timeout_seconds):
                view, _ = await self._ready()
                if not self._updates.shared():
                    await self._progress.reached(view, request.key, request.version)
        except TimeoutError:
            raise not_in_time(request) from None

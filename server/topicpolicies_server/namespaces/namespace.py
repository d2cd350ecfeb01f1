"""One namespace: its life, and the service of it.

Its parts are wired here: ``life`` says what it is doing and so who is answered, who waits, and who is refused; ``loading`` opens and reads
the log; ``updates`` has the requests, ``restating`` the repairs, the hub the watchers; ``reports`` tells them what the log says. Everything
between two awaits is one step: nothing awaits or sends while it holds shared state.

Nothing is answered from a view that has not finished loading. When the log is lost it is opened anew beside the old view; watchers keep
their place, and updates in flight are settled by what the log then tells.
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
from .common import Common, unavailable
from .figures import Figures, figures
from .freshness import Freshness
from .life import Closed, Life, Loading, Phase, Serving
from .loading import Loader, close_quietly
from .reports import Reports
from .restating import Restating
from .retrying import Pauses
from .updates import Updates
from .usage import Usage
from .versions import Versions

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
        """Begins to load it.

        Args:
            name: ``tenant/namespace``.
            common: what all namespaces of the server have in common.
            chance: spreads repairs and retries.
            dismiss: told when the namespace could not be loaded and nobody waits for it; closes it, or returns False.
            predecessor: the closing of this namespace's former life: its log must be closed before it is opened again.
        """
        self.name = name
        self._common = common
        loop = asyncio.get_running_loop()
        limits = common.limits
        self._usage = Usage(loop)
        pauses = Pauses(limits.load_retry_seconds, chance)
        self._life = Life(pauses.ask)
        self._updates = Updates(name, common, self._life, self._usage, chance)
        self._restating = Restating(name, common, self._life, self._updates, chance)
        seconds = limits.bookmark_interval_seconds / 2
        self._freshness = Freshness(common.now, seconds, common.confirmations, self._updates.shared, self._usage.is_watched)
        self._versions = Versions(name, limits.update_timeout_seconds, self._usage)
        self._loader = Loader(
            name,
            common,
            self._life,
            pauses,
            watched=self._usage.is_watched,
            dismiss=lambda: not self.busy and dismiss(self),
            predecessor=predecessor,
        )
        parts = self._life, self._loader, self._updates, self._restating, self._freshness, self._versions.waiting
        self._loader.start(Reports(name, common, *parts))

    # --- what is asked of it --------------------------------------------------------------------------------------

    async def update(self, request: Request) -> Result:
        """Applies an update or a delete and returns when its place in the log is known.

        Raises:
            PolicyError: as ``submit`` says.
        """
        if request.etag and not (self._common.context.sole_writer or self._updates.led_elsewhere or self._common.read_only):
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
        """Applies updates and deletes, in this order; each answer is told, once, when its place in the log is known, or in time.

        The errors that are told: as the sequencer says; UNAVAILABLE when the log can't be reached, or the namespace is closed and nothing
        was sent; DEADLINE_EXCEEDED (reason OUTCOME_UNKNOWN, with the request id) when its place in the log is not known in time, or not
        before the namespace is closed; UNAVAILABLE (reason NOT_CONFIRMED) when nothing is to be written, as far as is known here, and where
        the log ends is not known; UNAVAILABLE (reason NOT_LEADER, with the leader's address if it is known) when another process writes the
        log; FAILED_PRECONDITION (reason READ_ONLY) when nothing may be written here; RESOURCE_EXHAUSTED when it would make a key and there
        is no room for it.

        Args:
            requests: what to do.
            tell: told each request's answer, perhaps before this returns. It must return soon and must not raise.
        """
        self._updates.submit(requests, tell)

    def give_up(self, request: Request) -> None:
        """Nobody waits for the answer to a request any more."""
        self._updates.give_up(request)

    def end(self, request: Request, error: PolicyError) -> None:
        """A submitted request can't be waited for any longer: it is answered now, with ``error`` if it certainly is not applied."""
        self._updates.end(request, error)

    async def get(self, key: PolicyKey, at_least: Position = "") -> Head | None:
        """The head of a key; None if the log knows no event of it.

        Args:
            key: the policy key.
            at_least: a version of this key that the answer must have reached; "" is any.

        Raises:
            PolicyError: the log can't be read, or does not get that far in time (DEADLINE_EXCEEDED).
        """
        follower = (await self._ready()).follower
        if at_least:
            await self._versions.reached(follower, key, at_least)
            follower = (await self._ready()).follower
        return follower.view.head(key)

    async def page(
        self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None
    ) -> tuple[list[Head], bool, Token]:
        """Documents in the order of their keys: at most ``most`` after ``after``, whether there are more, and where the view stands.

        The page ends with the document that makes it ``most_bytes`` large.
        """
        serving = await self._loader.unfolder.folded(self._ready)
        changes, more = serving.follower.view.page(scopes, after, most, most_bytes)
        return changes, more, serving.hub.token

    def is_beyond(self, token: Token) -> bool:
        """Whether a token says more of the present log than there is: its positions are of another copy of it. False for other logs."""
        return self._life.hub is not None and self._life.hub.is_beyond(token)

    async def watch(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """A watcher of this namespace. It is to be given back with ``unwatch``.

        Raises:
            PolicyError: the log can't be read.
            OutOfRange: the token can't be resumed from.
        """
        watcher = (await self._loader.unfolder.folded(self._ready)).hub.subscribe(selection, mode, token, wake)
        self.observe(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Gives a watcher back."""
        self.unobserve(watcher)
        if self._life.hub is not None:
            self._life.hub.unsubscribe(watcher)

    def observe(self, observer: object) -> None:
        """Keeps it loaded, and asks how fresh it is, until ``unobserve``."""
        self._usage.watching.add(observer)
        self._freshness.watched()

    def unobserve(self, observer: object) -> None:
        """Ends an ``observe``."""
        self._usage.watching.discard(observer)
        self._usage.used()

    def hold(self, holder: object) -> None:
        """Keeps it loaded, and its repairs on, until ``release``; if it can't be loaded, it goes on trying."""
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

    # --- what is told of it -----------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """Where it is in its life."""
        return self._life.phase

    @property
    def problem(self) -> str:
        """Why the last try to load it failed; empty if it did not."""
        return self._life.error.message if self._life.error is not None else ""

    @property
    def cause(self) -> Reason:
        """The same for programs, or why it is being read."""
        return self._life.cause

    @property
    def log_identity(self) -> str:
        """Names the log that serves, or served last; "" if none did."""
        return self._life.hub.token.log if self._life.hub is not None else ""

    @property
    def confirmed_ms(self) -> int:
        """As of when its watchers are told everything, in milliseconds since 1970; 0: that is not known."""
        return self._freshness.confirmed_ms

    def version(self, key: PolicyKey) -> Position:
        """The version of a key in the view as it is now, which may be that of a log that was lost or closed."""
        return self.view.version(key) if self.view is not None else ABSENT

    @property
    def documents(self) -> int:
        """Keys that the view knows."""
        return len(self.view) if self.view is not None else 0

    @property
    def watchers(self) -> int:
        """Watchers that were not given back."""
        return len(self._usage.watching)

    @property
    def repairs_due(self) -> int:
        """Keys whose raw document is not their head, and is to be repaired: now, or once the view answers."""
        reading = self._life.reading if self._loader.is_read else None
        return self._restating.due + (self._restating.due_also(reading) if reading is not None else 0)

    @property
    def busy(self) -> bool:
        """Whether it is loading, anything is in flight, or to be repaired, or anybody holds it, waits or watches."""
        unsettled = isinstance(self._life.state, Loading) or self._restating.due > 0 or self._loader.unfolder.busy
        return self._usage.any or unsettled or self._updates.under_way

    def idle_since(self) -> float:
        """The loop's time of the last use, in seconds."""
        return self._usage.last_used

    @property
    def view(self) -> View | None:
        """The view that answers, or answered last; None: none has."""
        return self._life.view

    def figures(self) -> Figures:
        """What is shown of it to operators; other threads may ask."""
        return figures(self._life, self._updates, self._usage, self.confirmed_ms)

    def cut_off(self, error: LogError) -> None:
        """The log is known to be out of reach: whoever waits for it, and of whose requests nothing was sent, is told so."""
        self._life.cut_off(error)
        self._updates.turn_away(error)

    # --- its end ----------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """What it keeps in memory does not count any more: it is about to be closed."""
        if self._life.served is not None:
            self._life.served.forget()

    async def close(self, error: PolicyError | None = None) -> None:
        """Ends its life: whoever asks from now on is refused, and so are those of whose requests nothing was sent.

        What the log has accepted is finished, as far as the log's own time for that goes; then an outcome that is not known is told.

        Args:
            error: why, for those who are refused; None: NAMESPACE_CLOSED.
        """
        if isinstance(self._life.state, Closed):
            return
        error = error or unavailable(self.name, Reason.NAMESPACE_CLOSED, "The namespace is being closed: try again.")
        self._life.end(error)
        self._updates.leads = False  # what is still read makes no repair due
        self._updates.turn_away(error)
        self._restating.close()
        self._freshness.stop()
        try:
            await self._loader.stop()
            if self._life.served is not None:
                await close_quietly(self.name, self._life.served.log)
                if self._common.checkpoints is not None:
                    await self._common.checkpoints.finish(self._life.served.keeper)
        finally:
            if self._life.served is not None:
                self._life.served.retire()
            self._updates.close(error)
            if self._life.hub is not None:
                self._life.hub.wake_all()
            self._life = self._life.last()

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def _ready(self) -> Serving:
        while (waiters := self._life.admit()) is not None:
            if (error := self._common.readiness.refuses_waiting()) is not None:
                raise error
            with self._usage.waiting():
                await asyncio.shield(waiters)
        self._usage.used()
        assert isinstance(self._life.state, Serving), "admitted"
        return self._life.state

    async def _come_up_to(self, request: Request) -> None:
        """A leader waits until its view has come to the version that a request demands: its successor may have given it.

        On a log that others write too nobody waits here: a conflict is confirmed, so a version that is in the log is met, and one that is
        not, because it is another log's, is a conflict at once. Requests of a stream don't wait: others would overtake them.

        Raises:
            PolicyError: it does not come that far in time; whether there is a conflict, nobody can tell here.
        """
        try:
            async with asyncio.timeout(self._common.limits.update_timeout_seconds):
                serving = await self._ready()
                if not self._updates.shared():
                    await self._versions.reached(serving.follower, request.key, request.etag)
        except TimeoutError:
            raise not_in_time(request) from None

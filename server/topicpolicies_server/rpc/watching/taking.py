"""Takes batches of changes from the hub's watcher, for a part in the stage FOLLOWING.

A watcher does not know which topics have their policies disabled. So a batch is held back until each of its topics has been looked up.
While a lookup fails, it is tried again and again, and ``problem`` says why, for the status that the client is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...cluster.disabled_topics import DisabledTopics
from ...core.errors import PolicyError
from ...core.reading.watch import Batch, Lagged, Replaced, Selection, Token, Watcher
from ...namespaces.namespace import Namespace, Phase
from ...tasks import RestartedTask
from .outbox import RETRY_SECONDS, failure_of
from .stages import Interruption

TURN = 256
"""Changes that are taken from one namespace before the stream looks at its other ones. A message with so many usual changes fits into
HTTP/2's initial window, so it is sent while the client still handles the message before; a busy client has to wait for longer ones."""


class Taking:
    """The source of a part in the stage FOLLOWING: a watcher, and what is known of the topics that it brings."""

    def __init__(
        self,
        namespace: Namespace,
        watcher: Watcher,
        disabled: DisabledTopics | None,
        selection: Selection,
        switches: int,
        mark: str,
        wake: Callable[[], None],
    ) -> None:
        """Takes nothing before ``take``.

        Args:
            namespace: the namespace of the watcher.
            watcher: what changes are taken from; it is given back by ``close``.
            disabled: the topics whose policies are disabled; None: no topic has them disabled.
            selection: the topics and scopes that are watched.
            switches: the length of the list ``switched`` when the part looked at it; later ones interrupt.
            mark: names the selected topics that are left out (``DisabledTopics.digest``).
            wake: called when there is something to take.
        """
        self.interrupted: asyncio.Future[Interruption] = asyncio.get_running_loop().create_future()
        """Done when nothing more can be taken: its result says why; an exception, if what was taken could not be serialized."""
        self.problem: PolicyError | None = None
        """Why it can't be found out at present whether the topics of the held batch are disabled; None: there is no such problem."""
        self._complete_as_of_ms = namespace.complete_as_of_ms
        self._namespace = namespace
        self._watcher = watcher
        self._disabled = disabled
        self._selection = selection
        self._switches = switches
        self._mark = mark
        self._wake = wake
        self._held: Batch | None = None
        """The batch that is held back until all of its topics have been looked up, or that could not be serialized."""
        self._unknown: frozenset[str] = frozenset()
        """The topics of the held batch that had not been looked up."""
        self._asked: asyncio.Event | None = None
        self._looking: RestartedTask | None = None
        """The task that looks up unknown topics; None: there was none so far."""

    def take(self) -> Batch | None:
        """Takes the next batch. None: a batch is held back, or nothing more can be taken and ``interrupted`` says why."""
        if self.interrupted.done():
            return None
        if self._namespace.phase is Phase.CLOSED:
            why = Interruption.CLOSED
        elif self._disabled is not None and self._disabled.concerns(self._switches, self._selection.topics):
            why = Interruption.SWITCHED
        else:
            try:
                return self._watcher.take(TURN) if self._disabled is None else self._looked_up(self._disabled)
            except Lagged:
                why = Interruption.BEHIND
            except Replaced:
                why = Interruption.REPLACED
        self.interrupted.set_result(why)
        return None

    def fail(self, batch: Batch, error: Exception) -> None:
        """Interrupts, because a batch could not be serialized."""
        self._held = batch
        self.interrupted.set_exception(error)

    @property
    def complete_as_of_ms(self) -> int:
        """As of when every change has been taken, in milliseconds since 1970; at first, the time of what the watcher begins with."""
        if self._held is None and self._watcher.has_all:
            self._complete_as_of_ms = self._namespace.complete_as_of_ms
        return self._complete_as_of_ms

    @property
    def token(self) -> Token | None:
        """The token of what was taken; None while there is none, as during a snapshot."""
        return self.marked(self._held.stood if self._held is not None else self._watcher.token)

    @property
    def place(self) -> Token | None:
        """From where the part goes on when this has ended; None: from the beginning."""
        return self.marked(self._held.place if self._held is not None else self._watcher.place)

    def close(self) -> None:
        """Gives the watcher back, and ends the task that looks at topics."""
        if self._looking is not None:
            self._looking.cancel()
        self._namespace.unwatch(self._watcher)

    def marked(self, token: Token | None) -> Token | None:
        """Returns the token with the topics that are left out. Of selected topics they can't change: that interrupts."""
        if token is None or self._disabled is None:
            return token
        return token._replace(left_out=self._mark if self._selection.topics is not None else self._disabled.digest(None))

    def _looked_up(self, disabled: DisabledTopics) -> Batch | None:
        """Takes the next batch; None: it is held back."""
        if self._unknown:
            return None
        batch, self._held = self._held, None
        # Changes that came while this batch was held have woken the stream already, in vain: ``more`` has it take again.
        batch = self._watcher.take(TURN) if batch is None else batch._replace(more=True)
        self._unknown = _unknown(batch, disabled)
        if not self._unknown:
            return batch
        self._held = batch
        if self._asked is None or self._looking is None:
            self._asked = asyncio.Event()
            self._looking = RestartedTask("checking for new topics of a watch", self._look, failed=self._failed)
        self._asked.set()
        self._looking.start()
        return None

    async def _look(self) -> None:
        """Looks up the unknown topics of each held batch, and retries until that succeeds."""
        assert self._disabled is not None and self._asked is not None, "there are new topics"
        pause, longest = RETRY_SECONDS
        while True:
            self._asked.clear()
            while self._unknown:
                try:
                    await self._disabled.look_up_all([topic for topic in self._unknown if not self._disabled.knows(topic)])
                except PolicyError as error:
                    self._failed(error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                    continue
                self._unknown, self.problem = frozenset(), None
                pause = RETRY_SECONDS[0]
                self._wake()
            await self._asked.wait()

    def _failed(self, error: BaseException) -> None:
        self.problem = failure_of(self._namespace.name, error)
        self._wake()


def _unknown(batch: Batch, disabled: DisabledTopics) -> frozenset[str]:
    """Returns the topics of a batch that were not looked up yet. If all were, that is noted for other watchers that take the same."""
    if disabled in batch.made:
        return frozenset()
    unknown = frozenset(change.key.topic for change in batch.changes if not disabled.knows(change.key.topic))
    if not unknown:
        batch.made[disabled] = True
    return unknown

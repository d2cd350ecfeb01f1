"""Takes from the hub's watcher for a part, and leaves out the topics whose policies are disabled.

A watcher knows nothing of such topics. What was taken waits until it is known of each of its topics whether it is one; that is looked at
again and again if it can't be told, and whoever watches is told why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...cluster.board import Board
from ...core.errors import PolicyError
from ...core.reading.watch import Batch, Lagged, Replaced, Selection, Token, Watcher
from ...namespaces.namespace import Namespace, Phase
from ...tasks import Kept
from .outbox import RETRY_SECONDS, failure_of
from .stages import Interruption

TURN = 256
"""Changes that one namespace may tell before the others have their turn. A message of so many common ones fits into HTTP/2's first
window, so it is on its way while its reader still deals with the one before; for longer ones a busy client waits."""


class Taking:
    """What FOLLOWING takes from."""

    def __init__(
        self, namespace: Namespace, watcher: Watcher, board: Board | None, selection: Selection, switches: int, wake: Callable[[], None]
    ) -> None:
        """Takes nothing yet.

        Args:
            namespace: whose watcher it is.
            watcher: taken from, until ``close``.
            board: tells which topics are disabled; None: none is.
            selection: what is watched.
            switches: those of the board that were there when it was looked at last.
            wake: called when there is something to take.
        """
        self.interrupted: asyncio.Future[Interruption] = asyncio.get_running_loop().create_future()
        """Why nothing more can be taken."""
        self.problem: PolicyError | None = None
        """Why it can't be told at present what of that which was taken is disabled."""
        self.confirmed_ms = namespace.confirmed_ms
        """As of when everything was taken, in milliseconds since 1970: at first, with what the watcher begins with."""
        self._namespace = namespace
        self._watcher = watcher
        self._board = board
        self._selection = selection
        self._switches = switches
        self._wake = wake
        self._held: Batch | None = None
        """What was taken, and waits until it is known which of its topics are disabled."""
        self._unknown: frozenset[str] = frozenset()
        """Topics of it that nobody has looked at yet."""
        self._asked: asyncio.Event | None = None
        self._looking: Kept | None = None
        """Looks at new topics; None: there was none so far."""

    def take(self) -> Batch | None:
        """What is to be told next; None while that is not known, and from when on ``interrupted`` tells why there is nothing more."""
        if self._namespace.phase is Phase.CLOSED:
            why = Interruption.CLOSED
        elif self._board is not None and self._board.concerns(self._switches, self._selection.topics):
            why = Interruption.SWITCHED
        else:
            try:
                return self._taken()
            except Lagged:
                why = Interruption.BEHIND
            except Replaced:
                why = Interruption.REPLACED
        if not self.interrupted.done():
            self.interrupted.set_result(why)
        return None

    @property
    def token(self) -> Token | None:
        """Where the reader stands; None while there is no such place."""
        token = self._watcher.token if self._held is None else None
        if token is None or self._board is None:
            return token
        return token._replace(left_out=self._board.mark(self._selection.topics))

    def close(self) -> None:
        """Gives the watcher back."""
        if self._looking is not None:
            self._looking.cancel()
        self._held = None
        self._namespace.unwatch(self._watcher)

    def _taken(self) -> Batch | None:
        if self._unknown:
            return None
        board, batch, self._held = self._board, self._held, None
        # What came while a batch was held has woken the stream already, in vain.
        batch = self._watcher.take(TURN) if batch is None else batch._replace(more=True)
        self._unknown = _unknown(batch, board)
        if not self._unknown:
            if not batch.more:
                self.confirmed_ms = self._namespace.confirmed_ms
            return batch
        self._held = batch
        if self._asked is None or self._looking is None:
            self._asked = asyncio.Event()
            self._looking = Kept("the look at new topics of a watch", self._look, failed=self._failed)
        self._asked.set()
        self._looking.start()
        return None

    async def _look(self) -> None:
        """Looks, whenever there are new topics, which of them are disabled, however long that takes."""
        assert self._board is not None and self._asked is not None, "there are new topics"
        pause, longest = RETRY_SECONDS
        while True:
            self._asked.clear()
            while self._unknown:
                try:
                    await self._board.look([topic for topic in self._unknown if not self._board.knows(topic)])
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


def _unknown(batch: Batch, board: Board | None) -> frozenset[str]:
    """The topics of a batch that nobody has looked at yet; once all of a run were, they stay so for all that take it."""
    run = batch.run
    if board is None or (run is not None and board in run.known_to):
        return frozenset()
    unknown = frozenset(change.key.topic for change in batch.changes if not board.knows(change.key.topic))
    if run is not None and not unknown:
        run.known_to.add(board)
    return unknown

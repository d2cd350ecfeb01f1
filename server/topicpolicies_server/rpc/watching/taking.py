"""Takes batches of changes from the hub's watcher, for a part in the stage FOLLOWING."""

from __future__ import annotations

import asyncio

from ...core.reading.watch import Batch, Lagged, Replaced, Token, Watcher
from ...namespaces.namespace import Namespace, Phase
from .stages import Interruption

TURN = 256
"""Changes that are taken from one namespace before the stream looks at its other ones. A message with so many usual changes fits into
HTTP/2's initial window, so it is sent while the client still handles the message before; a busy client has to wait for longer ones."""


class Taking:
    """The source of a part in the stage FOLLOWING."""

    def __init__(self, namespace: Namespace, watcher: Watcher, mark: str) -> None:
        """Takes nothing before ``take``.

        Args:
            namespace: the namespace of the watcher.
            watcher: what changes are taken from; it is given back by ``close``.
            mark: names the selected topics that are left out (``Disabled.digest``).
        """
        self.interrupted: asyncio.Future[Interruption] = asyncio.get_running_loop().create_future()
        """Done when nothing more can be taken: its result says why; an exception, if what was taken could not be serialized."""
        self._complete_as_of_ms = namespace.complete_as_of_ms
        self._namespace = namespace
        self._watcher = watcher
        self._mark = mark
        self._unsent: Batch | None = None
        """The batch that could not be serialized."""

    def take(self) -> Batch | None:
        """Takes the next batch. None: nothing more can be taken, and ``interrupted`` says why."""
        if self.interrupted.done():
            return None
        if self._namespace.phase is Phase.CLOSED:
            self.interrupt(Interruption.CLOSED)
            return None
        try:
            return self._watcher.take(TURN)
        except Lagged:
            self.interrupt(Interruption.BEHIND)
        except Replaced:
            self.interrupt(Interruption.REPLACED)
        return None

    def interrupt(self, why: Interruption) -> None:
        """Interrupts, unless that was done."""
        if not self.interrupted.done():
            self.interrupted.set_result(why)

    def fail(self, batch: Batch, error: Exception) -> None:
        """Interrupts, because a batch could not be serialized."""
        self._unsent = batch
        self.interrupted.set_exception(error)

    @property
    def complete_as_of_ms(self) -> int:
        """As of when every change has been taken, in milliseconds since 1970; at first, the time of what the watcher begins with."""
        if self._unsent is None and self._watcher.has_all:
            self._complete_as_of_ms = self._namespace.complete_as_of_ms
        return self._complete_as_of_ms

    @property
    def token(self) -> Token | None:
        """The token of what was taken; None while there is none, as during a snapshot."""
        return self.marked(self._unsent.stood if self._unsent is not None else self._watcher.token)

    @property
    def place(self) -> Token | None:
        """From where the part goes on when this has ended; None: from the beginning."""
        return self.marked(self._unsent.place if self._unsent is not None else self._watcher.place)

    def close(self) -> None:
        """Gives the watcher back."""
        self._namespace.unwatch(self._watcher)

    def marked(self, token: Token | None) -> Token | None:
        """Returns the token with the topics that are left out."""
        return token._replace(left_out=self._mark) if token is not None and self._mark else token

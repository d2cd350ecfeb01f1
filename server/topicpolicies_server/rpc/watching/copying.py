"""The mode ENTRIES of a watch: tells what the history has, and what comes into it, for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from topicpolicies.v1 import service_pb2

from ...core.errors import PolicyError
from ...core.reading.watch import Token
from ...core.reasons import Reason
from ...history.entries import Gap
from ...history.following import Behind, Elsewhere, Stretch
from ...namespaces.namespace import Namespace, Phase
from .. import answers, histories
from .desk import Desk
from .outbox import RETRY_SECONDS, Outbox
from .recalling import Recalling

_GATHER_SECONDS = 0.05
"""How long events of the history gather before they are read."""
_NOT_CONFIRMED = 0
"""The time of a bookmark that says nothing of how old what was told is."""


class Copying:
    """Copies one namespace's history."""

    def __init__(self, desk: Desk, outbox: Outbox, recalling: Recalling, wake: Callable[[], None]) -> None:
        """Copies nothing yet.

        Args:
            desk: whose history it is.
            outbox: of the part.
            recalling: tells pieces of it.
            wake: called when its state may be another one.
        """
        self.namespace: Namespace = desk.registry.get(outbox.name)
        """Which writes the history."""
        self.behind = True
        """Whether there is more in the history that is to be told: until that was told nothing is confirmed."""
        self.going = False
        """Whether the history could be read."""
        self._desk = desk
        self._outbox = outbox
        self._recalling = recalling
        self._wake = wake
        self._stirred = asyncio.Event()

    async def copy(self) -> None:
        """Copies until it fails.

        Raises:
            PolicyError: the history can't be read.
        """
        history, name = histories.of(self._desk.registry), self._outbox.name
        self.namespace.observe(self)
        history.listen(name, self._stir)
        try:
            await self._copy()
        finally:
            history.unlisten(name, self._stir)
            self.namespace.unobserve(self)

    async def _copy(self) -> None:
        outbox = self._outbox
        place = Behind(outbox.token.log, outbox.token.positions) if outbox.token is not None else Behind("", ())
        log = place.log
        """Of which the reader takes what it is told."""
        gaps: set[Gap] = set()
        """Those that were told last: one behind all events is found again until there is an event behind it."""
        while True:
            ready = self.namespace.phase is Phase.READY
            self._stirred.clear()
            if ready and self.namespace.is_beyond(Token(place.log, place.positions)):
                place, log = self._begin_anew("it is ahead of the log")
            try:
                stretch = await self._recalling.stretch(place)
            except Elsewhere as error:
                if not ready:  # nobody knows yet which log it is
                    await self.namespace.ready()
                    continue
                if place.log != self.namespace.log_identity:
                    place, log = self._begin_anew(str(error))
                    continue
                stretch = Stretch([], place, more=False, whole=True, log=place.log)  # nothing of it was recorded yet
            self._goes_on()
            if stretch.log != log:
                log = stretch.log
                # Positions that follow are of this log: the reader folds them into a token of it.
                outbox.tell(answers.bookmark(outbox.name, service_pb2.BOOKMARK_KIND_TIMER, Token(log, ()), _NOT_CONFIRMED))
            for piece in stretch.pieces:
                if piece not in gaps:
                    self._recalling.tell_entry(piece)
            gaps = {piece for piece in stretch.pieces if isinstance(piece, Gap)}
            place = stretch.place
            outbox.token = Token(place.log, place.positions)
            if not stretch.more and ready and not outbox.synced:
                outbox.sync(outbox.token, self.namespace.confirmed_ms)
            await outbox.emptied()
            if self.namespace.phase is Phase.CLOSED:
                self.namespace = self._desk.registry.get(outbox.name)
                self.namespace.observe(self)
            if not stretch.more:
                await self._something_new()

    def look(self) -> None:
        """Looks again, if it waits: its namespace may have been closed."""
        if not self.behind:
            self._stirred.set()

    def _begin_anew(self, why: str) -> tuple[Behind, str]:
        outbox = self._outbox
        outbox.reset(Reason.TOKEN_OUT_OF_RANGE, f"The watch of {outbox.name} can't go on from its token: {why}.")
        return Behind("", ()), ""

    async def _something_new(self) -> None:
        if self.namespace.phase is not Phase.READY:
            try:
                await self.namespace.ready()
            except PolicyError:
                await asyncio.sleep(RETRY_SECONDS[0])  # its status says why
            return
        self.behind = False
        await self._stirred.wait()
        self.behind = True
        await asyncio.sleep(_GATHER_SECONDS)

    def _goes_on(self) -> None:
        if not self.going:
            self.going = True
            self._wake()

    def _stir(self) -> None:
        self._stirred.set()
        self._wake()

"""The mode ENTRIES of a watch: sends every entry of a namespace's history, and then each new one as it is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from topicpolicies.v1 import service_pb2

from ...core.errors import PolicyError
from ...core.reading.watch import Token
from ...core.reasons import Reason
from ...history.entries import Gap
from ...history.following import LogPlace, Stretch, UnknownLog
from ...namespaces.namespace import Namespace, Phase
from .. import answers, histories
from .outbox import RETRY_SECONDS, Outbox
from .recalling import Recalling
from .resources import WatchResources

_GATHER_SECONDS = 0.05
"""Seconds for which new events gather in the history before they are read."""
_NOT_CONFIRMED = 0
"""The ``confirmed_time`` (1970) of a bookmark that says nothing of how old the client's copy is."""


class Copying:
    """Copies one namespace's history into the outbox of a part."""

    def __init__(self, resources: WatchResources, outbox: Outbox, recalling: Recalling, wake: Callable[[], None]) -> None:
        """Copies nothing before ``copy``.

        Args:
            resources: names the server's history, by way of its registry.
            outbox: the outbox of the part.
            recalling: reads the history, and puts its pieces into the outbox.
            wake: called when the part's status may have changed.
        """
        self.namespace: Namespace = resources.registry.get(outbox.name)
        """The namespace, which has to be loaded for its history to go on."""
        self.behind = True
        """Whether the history may have more that was not sent; bookmarks confirm nothing newer until it was."""
        self.going = False
        """Whether the history has been read at least once."""
        self._resources = resources
        self._outbox = outbox
        self._recalling = recalling
        self._wake = wake
        self._signalled = asyncio.Event()

    async def copy(self) -> None:
        """Copies without end.

        Raises:
            PolicyError: the history can't be read, or the namespace can't be loaded.
        """
        history, name = histories.of(self._resources.registry), self._outbox.name
        self.namespace.observe(self, self._wake)
        history.listen(name, self._signal)
        try:
            await self._copy()
        finally:
            history.unlisten(name, self._signal)
            self.namespace.unobserve(self)

    async def _copy(self) -> None:
        outbox = self._outbox
        place = LogPlace(outbox.token.log, outbox.token.positions) if outbox.token is not None else LogPlace("", ())
        log = place.log
        """The identity of the log to which the client attributes the positions that it is sent."""
        gaps: set[Gap] = set()
        """The gaps that were read last: a gap behind all events is read again each time until an event follows it, and sent once."""
        while True:
            ready = self.namespace.phase is Phase.READY
            self._signalled.clear()
            if ready and self.namespace.is_beyond(Token(place.log, place.positions)):
                place, log = self._begin_anew("it is ahead of the log")
            try:
                stretch = await self._recalling.stretch(place)
            except UnknownLog as error:
                if not ready:  # until the namespace is loaded, the identity of its log is not known
                    await self.namespace.ready()
                    continue
                if place.log != self.namespace.log_identity:
                    place, log = self._begin_anew(str(error))
                    continue
                stretch = Stretch([], place, more=False, whole=True, log=place.log)  # the history has recorded nothing of this log yet
            self._goes_on()
            if stretch.log != log:
                log = stretch.log
                # The positions of the entries that follow are of this log: the client folds them into a token with its identity.
                outbox.add(answers.bookmark(outbox.name, service_pb2.BOOKMARK_KIND_TIMER, Token(log, ()), _NOT_CONFIRMED))
            for piece in stretch.pieces:
                if piece not in gaps:
                    self._recalling.add_entry(piece)
            gaps = {piece for piece in stretch.pieces if isinstance(piece, Gap)}
            place = stretch.place
            outbox.token = Token(place.log, place.positions)
            if not stretch.more and ready and not outbox.synced:
                outbox.sync(outbox.token, self.namespace.confirmed_ms)
            await outbox.emptied()
            if self.namespace.phase is Phase.CLOSED:
                self.namespace = self._resources.registry.get(outbox.name)
                self.namespace.observe(self, self._wake)
            if not stretch.more:
                await self._new_entries()

    def look(self) -> None:
        """Wakes the copying if it waits for new events, because its namespace may have been closed."""
        if not self.behind:
            self._signalled.set()

    def _begin_anew(self, why: str) -> tuple[LogPlace, str]:
        outbox = self._outbox
        outbox.reset(Reason.TOKEN_OUT_OF_RANGE, f"The watch of {outbox.name} can't continue from its token: {why}.")
        return LogPlace("", ()), ""

    async def _new_entries(self) -> None:
        if self.namespace.phase is not Phase.READY:
            try:
                await self.namespace.ready()
            except PolicyError:
                await asyncio.sleep(RETRY_SECONDS[0])  # the status of the namespace says why
            return
        self.behind = False
        await self._signalled.wait()
        self.behind = True
        await asyncio.sleep(_GATHER_SECONDS)

    def _goes_on(self) -> None:
        if not self.going:
            self.going = True
            self._wake()

    def _signal(self) -> None:
        self._signalled.set()
        self._wake()

"""One namespace of a WatchHistory stream: sends what the history has behind a position, and then each new entry as it is recorded.

The namespace is kept loaded meanwhile, so that its history goes on. A failure, also one to load it, is sent as a status, and retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from topicpolicies.v1 import history_pb2

from ...access import Permission
from ...core.policies.documents import record
from ...core.reading import tokens
from ...core.reading.tokens import Token
from ...core.reasons import Reason
from ...history import History
from ...history.entries import Entry, Gap
from ...history.file import BEGINNING, Recorded, Stretch, UnknownLog
from ...namespaces.namespace import Namespace
from ...namespaces.registry import Registry
from .. import histories
from ..answers import Wire, tag_of
from ..calls import Call
from ..dependencies import Dependencies
from .requests import HistoryWatch, read_history_watch
from .stream import Part

_STRETCH = 256
_BOOKMARKS = 1_000
_GATHER_SECONDS = 0.05
"""Seconds for which new events gather in the history before they are read."""


def watch_history(dependencies: Dependencies, message: history_pb2.WatchHistoryRequest, call: Call) -> Awaitable[None]:
    """Serves WatchHistory."""
    limits = dependencies.limits
    watch = read_history_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
    histories.of(dependencies.registry)
    call.target = message.namespaces[0]
    part_of = partial(HistoryPart, dependencies.registry, watch)
    return dependencies.watches.run(call, (Permission.HISTORY,), watch.positions, part_of, watch.bookmark_seconds)


class HistoryPart(Part):
    """Copies one namespace's history into its stream."""

    def __init__(self, registry: Registry, watch: HistoryWatch, name: str, notify: Callable[[], None], wire: Wire) -> None:
        super().__init__(registry, name, "the watch of the history of", notify, wire)
        self._position = watch.positions[name] or tokens.write_position(0, BEGINNING)
        """Where the client stands once it has the records that wait."""
        self._every = watch.every
        self._confirmed_ms = 0
        """As of when every event was handed to the stream, in milliseconds since 1970; 0: that is not known."""
        self._idle = False
        """Whether everything was handed to the stream, and new events are awaited."""
        self._changed = asyncio.Event()

    # --- the task -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Copies until a step fails.

        Raises:
            PolicyError: the history can't be read, or the namespace can't be loaded.
        """
        history = histories.of(self._registry)
        self._namespace = namespace = self._registry.get(self.name)
        namespace.observe(self, self._phase_changed)
        history.listen(self.name, self._changed.set)
        try:
            await self._copy(history, namespace)
        finally:
            self._idle = False
            history.unlisten(self.name, self._changed.set)
            namespace.unobserve(self)

    def _phase_changed(self) -> None:
        """Notes that the phase of the namespace may have changed."""
        self._changed.set()
        self._notify()

    async def _copy(self, history: History, namespace: Namespace) -> None:
        place = tokens.read_position(self._position)
        gaps: set[Gap] = set()
        """The gaps that were read last: a gap behind all events is read again each time until an event follows it, and sent once."""
        while True:
            await namespace.ready()  # a gap may be extended until the log was read to its end
            self._changed.clear()
            confirmed, hub = namespace.complete_as_of_ms, namespace.hub
            assert hub is not None, "it is ready"
            if hub.is_beyond(place):
                place = self._begin_anew("it is ahead of the log")
            try:
                stretch = await (self._divide(history, place) if self._every else history.stretch(self.name, place, _STRETCH))
            except UnknownLog as error:
                if place.log != hub.token.log:
                    place = self._begin_anew(str(error))
                    continue
                stretch = Stretch([], place, more=False, whole=True)  # the history has recorded nothing of this log yet
            if self._failure is not None:
                self._failure = None
                self._notify()
            for piece in stretch.pieces:
                if isinstance(piece, Recorded):
                    self._add_entry(piece.entry, piece.token)
                elif piece not in gaps:
                    self._add(self._event(None, gap=histories.gap_message(piece)))
            gaps = {piece for piece in stretch.pieces if isinstance(piece, Gap)}
            place = stretch.token
            if not stretch.more:
                self._confirmed_ms = confirmed
                if not self._synced:
                    self._synced = True
                    self._add(self._bookmark(self._position, synced=True))
            await self._all_taken()
            if not stretch.more:
                self._idle = True
                await self._changed.wait()
                self._idle = False
                await asyncio.sleep(_GATHER_SECONDS)

    def _begin_anew(self, why: str) -> Token:
        self._position, self._synced = tokens.write_position(0, BEGINNING), False
        sentence = f"The watch of the history of {self.name} can't continue from its position: {why}. What the history has follows."
        self._add_reset(Reason.TOKEN_OUT_OF_RANGE, sentence)
        return BEGINNING

    # --- what is sent ---------------------------------------------------------------------------------------------

    async def _divide(self, history: History, place: Token) -> Stretch:
        """Adds bookmarks behind a place, and returns how far they go."""
        divisions = await history.divisions(self.name, place, self._every, _BOOKMARKS)
        for division in divisions:
            self._position = tokens.write_position(division.id, division.token)
            place = division.token
            if division.full:
                self._add(self._bookmark(self._position, synced=False))
        return Stretch([], place, more=len(divisions) == _BOOKMARKS, whole=True)

    def _add_entry(self, entry: Entry, token: Token) -> None:
        self._position = tokens.write_position(entry.id, token)
        head = record(_NAMESPACE, self.name.encode()) + record(_POSITION, self._position.encode())
        self._add(record(_EVENTS, head + record(_ENTRY, histories.entry_message(entry))))

    def _event(self, place: str | None, **content: Any) -> bytes:
        event = history_pb2.WatchHistoryEvent(namespace=self.name, position=place or "", **content)
        return record(_EVENTS, event.SerializeToString())

    def _place(self) -> str:
        return self._position

    def _complete_as_of_ms(self) -> int:
        if self._idle and not self._changed.is_set() and self._namespace is not None:
            self._confirmed_ms = self._namespace.complete_as_of_ms
        return self._confirmed_ms


_EVENTS: Final = tag_of(history_pb2.WatchHistoryResponse, "events")
_NAMESPACE: Final = tag_of(history_pb2.WatchHistoryEvent, "namespace")
_POSITION: Final = tag_of(history_pb2.WatchHistoryEvent, "position")
_ENTRY: Final = tag_of(history_pb2.WatchHistoryEvent, "entry")

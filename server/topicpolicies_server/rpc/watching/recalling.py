"""Reads the server's history for a part, and puts what the watch wants of it into the part's outbox."""

from __future__ import annotations

from topicpolicies.v1 import service_pb2

from ...cluster.disabled_topics import DisabledTopics
from ...core.names import PolicyKey, Scope
from ...core.reading.watch import Selection, Token
from ...core.reasons import Reason
from ...history.entries import Gap
from ...history.following import LogPlace, Recorded, Stretch, UnknownLog
from .. import answers, histories, recorded
from .outbox import Gone, Outbox
from .requests import Watch
from .resources import WatchResources

_STRETCH = 256
"""The most events that are read from the history at a time."""


class Recalling:
    """Reads the history of one namespace for a part."""

    def __init__(self, resources: WatchResources, watch: Watch, selection: Selection, outbox: Outbox) -> None:
        """Reads nothing before ``recall`` or ``stretch``.

        Args:
            resources: names the server's history, by way of its registry.
            watch: the request of the stream.
            selection: the topics and scopes that are watched in this namespace.
            outbox: the outbox of the part.
        """
        self.disabled: DisabledTopics | None = None
        """Says which topics have their policies disabled; None: no topic has."""
        self._resources = resources
        self._watch = watch
        self._selection = selection
        self._outbox = outbox

    async def stretch(self, place: LogPlace) -> Stretch:
        """Reads what the history has behind a place, at most ``_STRETCH`` events.

        Raises:
            UnknownLog: the history does not know the log of the place, or not with that number of partitions.
            PolicyError: the history can't be read.
        """
        return await histories.of(self._resources.registry).stretch(self._outbox.name, place, _STRETCH)

    async def recall(self, token: Token, *, strict: bool) -> Token:
        """Sends the changes that the history has behind a token. Returns the token behind the last of them.

        Args:
            token: where to begin.
            strict: whether no change may be missing; if not, gaps are sent as such.

        Raises:
            Gone: ``strict``, and changes are missing.
            PolicyError: the history can't be read.
        """
        place, outbox = LogPlace(token.log, token.positions), self._outbox
        while True:
            try:
                stretch = await self.stretch(place)
            except UnknownLog as error:
                if strict:
                    raise Gone(Reason.EVENTS_GONE, str(error)) from None
                return token  # the history has recorded nothing of this log yet
            if strict and not stretch.whole:
                raise Gone(Reason.EVENTS_GONE, "events between it and now are gone, and the history does not have them")
            if stretch.place.log != place.log:
                return token  # the namespace is about to follow another log
            await self._look_at({piece.entry.topic for piece in stretch.pieces if isinstance(piece, Recorded)} - {""})
            for piece in stretch.pieces:
                self.add_change(piece)
            place = stretch.place
            outbox.token = token = token._replace(positions=place.positions)
            await outbox.emptied()
            if not stretch.more:
                return token

    def add_change(self, piece: Recorded | Gap) -> None:
        """Sends a piece of the history: a gap as it is, an event as a change, if it changed a document that this watch wants."""
        name = self._outbox.name
        if isinstance(piece, Gap):
            self._outbox.add(answers.event_record(service_pb2.WatchEvent(namespace=name, gap=recorded.gap(piece))))
            return
        entry = piece.entry
        if not recorded.changed(entry) or not self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            return
        if self.disabled is None or not self.disabled.includes(entry.topic):
            change = recorded.change(entry, piece.partition, with_before=self._watch.include_previous)
            self._outbox.add(answers.watched(name, _CHANGE, change))

    def add_entry(self, piece: Recorded | Gap) -> None:
        """Sends a piece of the history: a gap as it is, an event as an entry, whether it changed anything or not."""
        if isinstance(piece, Gap):
            self.add_change(piece)
            return
        entry, topics = piece.entry, self._selection.topics
        if entry.topic and not self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            return
        if entry.topic or (topics is None and len(self._selection.scopes) == len(Scope)):  # the topic of an unreadable event is not known
            self._outbox.add(answers.watched(self._outbox.name, _ENTRY, recorded.entry(entry, piece.partition)))

    async def _look_at(self, topics: set[str]) -> None:
        if self.disabled is not None:
            await self.disabled.look_up_all([topic for topic in topics if not self.disabled.knows(topic)])


_CHANGE = answers.number(service_pb2.WatchEvent, "change")
_ENTRY = answers.number(service_pb2.WatchEvent, "entry")

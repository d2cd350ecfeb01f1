"""Reads the server's history for a part, and puts what the watch wants of it into the part's outbox."""

from __future__ import annotations

from ...core.names import PolicyKey, Scope
from ...core.reading.watch import Selection, Token
from ...core.reasons import Reason
from ...history.entries import Entry
from ...history.queries import Recorded, UnknownLog
from .. import histories, recorded
from . import events
from .outbox import Gone, Outbox
from .requests import Watch
from .resources import WatchResources

_STRETCH = 256
"""The most events that are read from the history at a time."""


class Recalling:
    """Reads the history of one namespace for a part."""

    def __init__(self, resources: WatchResources, watch: Watch, selection: Selection, outbox: Outbox) -> None:
        """Reads nothing before ``recall``.

        Args:
            resources: names the server's history, by way of its registry.
            watch: the request of the stream.
            selection: the topics and scopes that are watched in this namespace.
            outbox: the outbox of the part.
        """
        self._resources = resources
        self._watch = watch
        self._selection = selection
        self._outbox = outbox

    async def recall(self, token: Token, disabled: frozenset[str]) -> Token:
        """Sends the changes that the history has behind a token, but those of disabled topics. Returns the token behind the last of them.

        Raises:
            Gone: changes are missing.
            PolicyError: the history can't be read.
        """
        place, outbox = token, self._outbox
        while True:
            try:
                stretch = await histories.of(self._resources.registry).stretch(outbox.name, place, _STRETCH)
            except UnknownLog as error:
                raise Gone(Reason.EVENTS_GONE, str(error)) from None
            if not stretch.whole:
                raise Gone(Reason.EVENTS_GONE, "events between it and now are gone, and the history does not have them")
            if stretch.place.log != place.log:
                return token  # the namespace is about to follow another log
            found = [piece for piece in stretch.pieces if isinstance(piece, Recorded)]  # there are no gaps
            for piece in found:
                if piece.entry.topic not in disabled:
                    self._add(piece.entry, piece.token)
            place = outbox.token = token = stretch.place
            await outbox.emptied()
            if not stretch.more:
                return token

    def _add(self, entry: Entry, token: Token) -> None:
        """Sends an event as a change, if it changed a document that this watch wants."""
        if not recorded.changed(entry) or not self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            return
        change = recorded.change(entry, with_before=self._watch.include_previous)
        self._outbox.add(events.resumable(events.change_of(self._outbox.name, change), token))

"""Requests that were applied lately: many more than travel in events.

What the fold remembers of a key (``keystate.REMEMBERED_REQUESTS``) is part of what a log means, and small, because it travels in every
event of the key. A busy key goes past it in milliseconds, sooner than a client whose connection broke can connect again and repeat its
request. So each view also keeps for itself what it has seen applied, up to a bound, oldest first out: in the events that it was built from
when the log was opened, as far as they were not compacted away, and in all that came since. A restart forgets nothing that the log tells.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from ..names import PolicyKey
from ..policies.events import Remembered, Stamp
from .keystate import KeyState
from .operation import Folded, Status, conditional

RECENT = 32_768
"""How many requests of a namespace are kept, of all its keys together: at a thousand updates a second, half a minute's."""


class RecentRequests:
    """The requests of one namespace that were applied lately."""

    def __init__(self, most: int = RECENT) -> None:
        """``most``: how many are kept."""
        self.most = most
        """How many are kept."""
        self.noted = 0
        """How many there have been."""
        self._requests: OrderedDict[tuple[PolicyKey, str], Remembered] = OrderedDict()  # a dict is slow to find its first entry

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, key: PolicyKey, request: Remembered) -> None:
        """A request was applied. If it is known already, the first answer stays."""
        requests = self._requests
        before = len(requests)
        requests.setdefault((key, request.request_id), request)
        self.noted += len(requests) - before
        if before >= self.most and len(requests) > self.most:
            requests.popitem(last=False)

    def note(self, key: PolicyKey, stamp: Stamp, folded: Folded, state: KeyState) -> None:
        """An event of ours was folded into a key's state; its request is kept if it is certain to have been applied.

        Of a key of which something may be missing it is not, unless it had no conditions.
        """
        if folded.status is not Status.APPLIED or not stamp.request_id or not folded.previous:
            return
        if not state.joining or not conditional(stamp):
            newest = state.remembered[-1] if state.remembered else None
            if newest is None or newest != (stamp.request_id, stamp.digest, folded.version, folded.previous):
                newest = Remembered(stamp.request_id, stamp.digest, folded.version, folded.previous)
            self.add(key, newest)  # mostly the fold's own: it is kept once

    def find(self, key: PolicyKey, request_id: str) -> Remembered | None:
        """What became of a request; None if it was not applied, or not lately."""
        return self._requests.get((key, request_id))

    def newest(self, count: int) -> list[tuple[PolicyKey, Remembered]]:
        """The last ``count`` requests with their keys, the oldest first; fewer if no more are kept."""
        found = [(key, request) for (key, _), request in islice(reversed(self._requests.items()), count)]
        found.reverse()
        return found

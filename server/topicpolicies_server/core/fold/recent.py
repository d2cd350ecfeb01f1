"""The requests applied lately in a namespace, many more than its events carry, so that a repeated request gets its first answer.

The requests that the fold remembers of a key (``keystate.REMEMBERED_REQUESTS``) are few, because they travel in every event of the key: a
busy key applies more in milliseconds. So each view also keeps the requests that it has seen applied, up to a bound; the oldest are dropped
first. Each is kept as two strings, its name (which includes its key) and its answer: objects took half as much memory again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from ..names import PolicyKey, Scope
from ..policies.events import Remembered, Stamp
from .keystate import KeyState
from .operation import Folded, Status, conditional

RECENT = 32_768
"""How many requests of a namespace are kept, for all its keys together: at a thousand updates a second, half a minute's."""
Texts: TypeAlias = tuple[str, str]
"""A request as it is kept: its name, which includes its key, and its answer: digest, version and previous version, which have no blanks."""


class RecentRequests:
    """The requests of one namespace that were applied lately."""

    def __init__(self, most: int = RECENT) -> None:
        """``most``: how many requests are kept."""
        self.most = most
        """How many requests are kept at most."""
        self._requests: OrderedDict[str, str] = OrderedDict()  # finding the first entry of a dict is slow

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, key: PolicyKey, request: Remembered) -> None:
        """Adds a request that was applied. If it is known already, its first answer stays."""
        requests = self._requests
        requests.setdefault(_name(key, request.request_id), f"{request.digest} {request.version} {request.previous}")
        if len(requests) > self.most:
            requests.popitem(last=False)

    def note(self, key: PolicyKey, stamp: Stamp, folded: Folded, state: KeyState) -> None:
        """Adds the request of an event of ours that was just folded into a key's state, if it certainly was applied.

        While events of the key may be missing (``KeyState.joining``) that is certain only of an event without conditions.
        """
        if folded.status is not Status.APPLIED or not stamp.request_id or not folded.previous:
            return
        if not state.joining or not conditional(stamp):
            self.add(key, Remembered(stamp.request_id, stamp.digest, folded.version, folded.previous))

    def find(self, key: PolicyKey, request_id: str) -> Remembered | None:
        """Returns what became of a request; None if it was not applied, or not lately."""
        answer = self._requests.get(_name(key, request_id))
        return None if answer is None else Remembered(request_id, *answer.rsplit(" ", 2))

    def all(self) -> list[Texts]:
        """Returns all requests as they are kept, the oldest first."""
        return list(self._requests.items())

    def restore(self, kept: Sequence[Texts]) -> None:
        """Adds requests that another process kept, oldest first.

        Raises:
            ValueError, TypeError: these are not requests as they are kept.
        """
        self._requests.update(kept)
        while len(self._requests) > self.most:
            self._requests.popitem(last=False)


def _name(key: PolicyKey, request_id: str) -> str:
    """Returns the name of a request of a key; the length of the id comes first, so that no two requests have the same name."""
    return f"{chr(len(request_id))}{request_id}{'G' if key.scope is Scope.GLOBAL else 'L'}{key.topic}"

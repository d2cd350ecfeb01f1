"""Requests that were applied lately: many more than travel in events.

What the fold remembers of a key (``keystate.REMEMBERED_REQUESTS``) is part of what a log means, and small, because it travels in every
event of the key. A busy key goes past it in milliseconds, sooner than a client whose connection broke can connect again and repeat its
request. So each view also keeps for itself what it has seen applied, up to a bound, oldest first out: in the events that it was built from
when the log was opened, as far as they were not compacted away, and in all that came since. A restart forgets nothing that the log tells.

Each is two texts, its name and its answer: tens of thousands are kept for each namespace, and as objects they took half as much again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import TypeAlias

from ..names import PolicyKey, Scope
from ..policies.events import Remembered, Stamp
from .keystate import KeyState
from .operation import Folded, Status, conditional

RECENT = 32_768
"""How many requests of a namespace are kept, of all its keys together: at a thousand updates a second, half a minute's."""
Texts: TypeAlias = tuple[str, str]
"""A request as it is kept: its name, which tells its key too, and its answer."""


class RecentRequests:
    """The requests of one namespace that were applied lately."""

    def __init__(self, most: int = RECENT) -> None:
        """``most``: how many are kept."""
        self.most = most
        """How many are kept."""
        self.noted = 0
        """How many there have been."""
        self.number = 0
        """Of an entry that was kept and is folded now: it counts those (``core/reading/unfolded``). 0: of one that came now."""
        self._late: dict[str, str] = {}
        """Requests of entries that were kept: all are older than the others."""
        self._late_ones: list[tuple[int, str]] = []
        """A heap of the same, by the numbers of their entries."""
        self._requests: OrderedDict[str, str] = OrderedDict()  # a dict is slow to find its first entry

    def __len__(self) -> int:
        return len(self._requests) + len(self._late)

    def add(self, key: PolicyKey, request: Remembered) -> None:
        """A request was applied. If it is known already, the first answer stays."""
        requests, late = self._requests, self._late
        name = _name(key, request.request_id)
        before = len(requests)
        if self.number:
            if name not in late:
                late[name] = _answer(request)
                heappush(self._late_ones, (self.number, name))
        elif not late or name not in late:
            requests.setdefault(name, _answer(request))
        self.noted += len(requests) - before
        if len(requests) + len(late) > self.most:
            if late:
                del late[heappop(self._late_ones)[1]]
            else:
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
            self.add(key, newest)

    def find(self, key: PolicyKey, request_id: str) -> Remembered | None:
        """What became of a request; None if it was not applied, or not lately."""
        name = _name(key, request_id)
        answer = self._requests.get(name) or self._late.get(name)
        return None if answer is None else _remembered(request_id, answer)

    def all(self) -> list[Texts]:
        """All requests as they are kept, the oldest first."""
        late = [(name, self._late[name]) for _, name in sorted(self._late_ones)] if self._late else []
        return late + self.newest(len(self._requests))

    def newest(self, count: int) -> list[Texts]:
        """The last ``count`` requests as they are kept, the oldest first; fewer if no more are."""
        found = list(islice(reversed(self._requests.items()), count))
        found.reverse()
        return found

    def go_on(self, kept: Sequence[Texts]) -> None:
        """Takes over requests as they were kept, behind those that there are, the oldest first. Of one that is known the last answer stays.

        Raises:
            ValueError, TypeError: they are none.
        """
        requests, before = self._requests, len(self._requests)
        requests.update(kept)
        self.noted += len(requests) - before
        if len(requests) - before < len(kept):  # one was forgotten in between, and applied again
            for name, _ in kept:
                requests.move_to_end(name)
        while len(self) > self.most:
            requests.popitem(last=False)


def _name(key: PolicyKey, request_id: str) -> str:
    """A request of a key in one text; the length of its id comes first, so no two have the same."""
    return f"{chr(len(request_id))}{request_id}{'G' if key.scope is Scope.GLOBAL else 'L'}{key.topic}"


def _answer(request: Remembered) -> str:
    """What became of it in one text. No version has a blank in it."""
    return f"{request.digest} {request.version} {request.previous}"


def _remembered(request_id: str, answer: str) -> Remembered:
    return Remembered(request_id, *answer.rsplit(" ", 2))

"""Which namespace nobody has used for the longest time, without looking at all of them whenever one is to be closed.

There may be ten thousand, and callers who ask for ever other ones. So each has a time before which it need not be looked at, and only those
are whose time has come, the earliest first:

======================  ==============================================================================================================
what it is found to be  what is done
======================  ==============================================================================================================
closed                  it is forgotten
used since its time     its time is that of its last use
in use                  its time is now; of more than ``FEW`` namespaces ``LOOK_SECONDS`` later for each of them
idle since its time     it is the one: all others were used later, or are in use
======================  ==============================================================================================================

So where very many are in use a namespace that falls idle may be taken a moment later for one that is not.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from weakref import ReferenceType, ref

from .namespace import Namespace

FEW = 256
"""So many are looked at each time."""
LOOK_SECONDS = 50e-6
"""Ten times what a look at one takes: a tenth of the time, at most, is spent on looking at those that are in use."""


class Idlest:
    """Knows the namespaces that were loaded."""

    def __init__(self, loaded: Mapping[str, Namespace], time: Callable[[], float]) -> None:
        """``loaded``: the namespaces in memory, by name; ``time``: the loop's."""
        self._loaded = loaded
        self._time = time
        self._line: list[tuple[float, int, ReferenceType[Namespace]]] = []
        """A heap. Of those that were closed otherwise it keeps nothing in memory."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, namespace: Namespace) -> None:
        """A namespace has been loaded."""
        if len(self._line) > 2 * len(self._loaded) + FEW:  # most of them were closed
            self._line = [entry for entry in self._line if self._is_loaded(entry[2]())]
            heapq.heapify(self._line)
        self._push(namespace.idle_since(), namespace)

    def find(self, spared: str = "") -> Namespace | None:
        """The namespace that was used the longest time ago, but for one; None: all others are in use."""
        now, line, kept = self._time(), self._line, list[tuple[float, Namespace]]()
        again = now + (len(self._loaded) * LOOK_SECONDS if len(self._loaded) > FEW else 0.0)
        found = None
        while found is None and line and line[0][0] <= now:
            at, _, refers = heapq.heappop(line)
            namespace = refers()
            if namespace is None or self._loaded.get(namespace.name) is not namespace:
                continue
            if namespace.name == spared:
                kept.append((at, namespace))
            elif namespace.busy:
                kept.append((again, namespace))
            elif (since := namespace.idle_since()) > at:
                self._push(since, namespace)
            else:
                found = namespace
                kept.append((at, namespace))
        for at, namespace in kept:
            self._push(at, namespace)
        return found

    def _push(self, at: float, namespace: Namespace) -> None:
        heapq.heappush(self._line, (at, next(self._numbers), ref(namespace)))

    def _is_loaded(self, namespace: Namespace | None) -> bool:
        return namespace is not None and self._loaded.get(namespace.name) is namespace

"""Finds the namespace that has been idle for the longest time, without looking at all of them whenever one is to be closed.

There may be ten thousand, and each request for yet another one may close one. So each has a time before which it need not be checked, and
only those whose time has come are, the earliest first:

======================  ==============================================================================================================
what it is found to be  what is done
======================  ==============================================================================================================
closed                  it is forgotten
used since its time     its time is set to that of its last use
in use                  its time is set to now; where more than ``FEW`` are loaded, to ``LOOK_SECONDS`` later for each of them
idle since its time     it is the one: all others were used later, or are in use
======================  ==============================================================================================================

So where very many are in use, one that falls idle may be overlooked for a moment, and another one found.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from weakref import ReferenceType, ref

from .namespace import Namespace

FEW = 256
"""Up to this many loaded namespaces, those in use are checked again each time."""
LOOK_SECONDS = 50e-6
"""Ten times what a check of one takes, so that at most a tenth of the time is spent on checking those that are in use."""


class Idlest:
    """Finds the idlest of the loaded namespaces."""

    def __init__(self, loaded: Mapping[str, Namespace], time: Callable[[], float]) -> None:
        """``loaded``: the namespaces in memory, by name; ``time``: the loop's clock."""
        self._loaded = loaded
        self._time = time
        self._line: list[tuple[float, int, ReferenceType[Namespace]]] = []
        """A heap of the times at which namespaces are to be checked. The references are weak, so closed namespaces are not kept in
        memory."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, namespace: Namespace) -> None:
        """Adds a namespace that was loaded."""
        if len(self._line) > 2 * len(self._loaded) + FEW:  # most entries are of closed namespaces
            self._line = [entry for entry in self._line if self._is_loaded(entry[2]())]
            heapq.heapify(self._line)
        self._push(namespace.idle_since(), namespace)

    def find(self, spared: str = "") -> Namespace | None:
        """Returns the namespace that was used the longest time ago, except the spared one; None: all others are in use."""
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

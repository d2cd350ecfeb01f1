"""Tunes the interpreter's cyclic garbage collector for a server: collections are rare and short, and skip objects that stay.

Objects to which no references are left are freed at once; only reference cycles need the collector. While it runs, nothing else does, and
its time grows with the number of objects that it examines. It examines the youngest generation of objects when there are ``YOUNGEST`` more
of them; at every ``MIDDLE``th such collection the middle generation too; and at every ``OLDEST``th of those all objects that are not set
aside (a *full* collection). Objects are set aside with ``gc.freeze``: those of the start, and then only just after a full collection,
because garbage that is set aside is never collected. Objects that are set aside and in no cycle are still freed at once.

This changes the interpreter for the whole process, so only ``process`` uses it. A server that is embedded in another program leaves that
program's collector as it is.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

YOUNGEST = 5_000
"""The three thresholds of ``gc.set_threshold``: this one counts objects, the others collections."""
MIDDLE = 2
OLDEST = 200
LONG_SECONDS = 0.01
"""After a full collection that has taken so long, the objects that it left are set aside: they stay, and need not be examined again."""
_ALL = 2
"""The number of the oldest generation: its collection is a full one."""


class NamespaceHooks(Protocol):
    """A callback for namespaces that are let go of (``namespaces.activity.Activity``)."""

    on_let_go: Callable[[], None] | None


class _Aside:
    """Sets objects aside after long full collections."""

    _began = 0.0

    def __call__(self, phase: str, about: Mapping[str, Any]) -> None:
        """Called when a collection begins and when it has ended (``gc.callbacks``)."""
        if phase == "start":
            self._began = time.perf_counter()
        elif about["generation"] == _ALL and time.perf_counter() - self._began >= LONG_SECONDS:
            gc.freeze()


@contextlib.contextmanager
def collector_off_during_start() -> Iterator[None]:
    """Switches the collector off while a process that will run a service starts: from here until ``tuned_collector``."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def tuned_collector(activity: NamespaceHooks) -> Iterator[None]:
    """Tunes the collector as described above for as long as a service runs.

    Args:
        activity: calls back when documents are let go of. Cycles may keep them, so that nothing is set aside any more.
    """
    thresholds = gc.get_threshold()
    aside = _Aside()
    gc.callbacks.append(aside)
    gc.freeze()
    gc.set_threshold(YOUNGEST, MIDDLE, OLDEST)
    activity.on_let_go = gc.unfreeze
    gc.enable()
    try:
        yield
    finally:
        activity.on_let_go = None
        gc.callbacks.remove(aside)
        gc.set_threshold(*thresholds)
        gc.unfreeze()

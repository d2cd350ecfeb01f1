"""Tunes the interpreter's cyclic garbage collector for a server: collections are rare and short, and skip objects that stay.

Objects to which no references are left are freed at once; only reference cycles need the collector. While it runs, nothing else does, and
its time grows with the number of objects that it examines: half a second for 100,000 documents. It examines the youngest generation of
objects when there are ``YOUNGEST`` more of them; at every ``MIDDLE``th such collection the middle generation too; and at every ``OLDEST``th
of those all objects that are not set aside (a *full* collection). Objects are set aside with ``gc.freeze``.

==========  ============================  ==========  ============================================================================
state       event                         next        what is done
==========  ============================  ==========  ============================================================================
ASIDE       a namespace was loaded        ASIDE       all present objects are set aside
ASIDE       a full collection has taken   ASIDE       all present objects are set aside: those that it left stay, and need not be
            ``LONG_SECONDS``                          examined again
ASIDE       documents were let go of      SEARCHING   nothing is set aside any more, because cycles may keep these documents
SEARCHING   a full collection has ended   ASIDE       the objects that it left are set aside
==========  ============================  ==========  ============================================================================

Objects that are set aside and in no cycle are still freed at once. In SEARCHING all other events change nothing.

No collection runs while a process starts, or while a checkpoint is read: the objects that these make stay, and both are over soon.

This changes the interpreter for the whole process, so only ``process`` uses it. A server that is embedded in another program leaves that
program's collector as it is.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

YOUNGEST = 5_000
"""The three thresholds of ``gc.set_threshold``: this one counts objects, the others collections."""
MIDDLE = 2
OLDEST = 200
LONG_SECONDS = 0.01
_ALL = 2
"""The number of the oldest generation: its collection is a full one."""


class NamespaceHooks(Protocol):
    """Callbacks for namespaces that are loaded, let go of, or restored from a checkpoint (``namespaces.activity.Activity``)."""

    on_load: Callable[[], None] | None
    on_let_go: Callable[[], None] | None
    on_restore: Callable[[bool], None] | None


class State(enum.Enum):
    """Whether objects that stay are set aside, or the next full collection examines all objects."""

    ASIDE = enum.auto()
    SEARCHING = enum.auto()


class Garbage:
    """The state machine above: decides when objects are set aside from collections."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        """Sets aside all present objects. ``now``: a clock, in seconds."""
        self.state = State.ASIDE
        self._now = now
        self._began = 0.0
        self._restoring = 0
        """How many checkpoints are being read."""
        gc.freeze()

    def loaded(self) -> None:
        """Called when a namespace was loaded."""
        if self.state is State.ASIDE:
            gc.freeze()

    def let_go(self) -> None:
        """Called when documents were let go of: those of a namespace that was closed, or of a log that was opened anew."""
        if self.state is State.ASIDE:
            self.state = State.SEARCHING
            gc.unfreeze()

    def restores(self, begins: bool) -> None:
        """Called when reading a checkpoint begins (``begins``), and when it has ended. The collector is off meanwhile."""
        self._restoring += 1 if begins else -1
        if self._restoring:
            gc.disable()
        else:
            gc.enable()

    def searched(self, phase: str, about: Mapping[str, Any]) -> None:
        """Called when a collection begins and when it has ended (``gc.callbacks``)."""
        if phase == "start":
            self._began = self._now()
        elif about["generation"] == _ALL and (self.state is State.SEARCHING or self._now() - self._began >= LONG_SECONDS):
            self.state = State.ASIDE
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
    """Tunes the collector as described above for as long as a service runs; ``activity`` calls back for its namespaces."""
    thresholds = gc.get_threshold()
    garbage = Garbage()
    gc.set_threshold(YOUNGEST, MIDDLE, OLDEST)
    gc.callbacks.append(garbage.searched)
    activity.on_load, activity.on_let_go, activity.on_restore = garbage.loaded, garbage.let_go, garbage.restores
    gc.enable()
    try:
        yield
    finally:
        activity.on_load = activity.on_let_go = activity.on_restore = None
        gc.enable()
        gc.callbacks.remove(garbage.searched)
        gc.set_threshold(*thresholds)
        gc.unfreeze()

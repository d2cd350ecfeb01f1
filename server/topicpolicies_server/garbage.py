"""How a process of ours has the interpreter look for garbage: rarely, briefly, and not in what stays.

The interpreter frees what nobody refers to at once; only what refers to itself in a circle has to be looked for. Nothing else runs
meanwhile, and it takes as long as there are objects to look at: half a second for 100,000 documents. It looks at the youngest objects when
there are ``YOUNGEST`` more of them; every ``MIDDLE``th time at those too that such a search has left; and every ``OLDEST``th time of these
at all objects that are not set aside.

==========  ============================  ==========  ============================================================================
state       event                         next        what is done
==========  ============================  ==========  ============================================================================
ASIDE       a namespace was loaded        ASIDE       all that there is is set aside
ASIDE       a search of all has taken     ASIDE       the same: what it left stays, and is not looked at again
            ``LONG_SECONDS``
ASIDE       documents were let go of      SEARCHING   nothing is set aside any more, for circles may keep these documents
SEARCHING   a search of all has ended     ASIDE       what it left is set aside
==========  ============================  ==========  ============================================================================

What is set aside and in no circle is freed as ever. In SEARCHING everything else changes nothing.

Nothing is looked for while a process starts, and while a checkpoint is read: what either makes stays, and both are over soon.

This changes the interpreter for the whole process, so only ``process`` uses it: a server that somebody else's program runs leaves that
program's collections as they are.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

YOUNGEST = 5_000
"""Objects."""
MIDDLE = 2
OLDEST = 200
LONG_SECONDS = 0.01
_ALL = 2
"""The generation of which a search looks at all that is not set aside."""


class Tells(Protocol):
    """Who tells of namespaces (``namespaces.activity.Activity``)."""

    on_load: Callable[[], None] | None
    on_let_go: Callable[[], None] | None
    on_restore: Callable[[bool], None] | None


class State(enum.Enum):
    """Whether what stays is set aside."""

    ASIDE = enum.auto()
    SEARCHING = enum.auto()


class Garbage:
    """How this process has garbage looked for."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        """Sets aside what there is. ``now``: seconds."""
        self.state = State.ASIDE
        self._now = now
        self._began = 0.0
        self._restoring = 0
        """Checkpoints that are being read."""
        gc.freeze()

    def loaded(self) -> None:
        """A namespace was loaded."""
        if self.state is State.ASIDE:
            gc.freeze()

    def let_go(self) -> None:
        """Documents were let go of: those of a namespace that was closed, or of a log that was opened anew."""
        if self.state is State.ASIDE:
            self.state = State.SEARCHING
            gc.unfreeze()

    def restores(self, begins: bool) -> None:
        """A checkpoint is read from now on, or not any more."""
        self._restoring += 1 if begins else -1
        if self._restoring:
            gc.disable()
        else:
            gc.enable()

    def searched(self, phase: str, about: Mapping[str, Any]) -> None:
        """A search begins or has ended (``gc.callbacks``)."""
        if phase == "start":
            self._began = self._now()
        elif about["generation"] == _ALL and (self.state is State.SEARCHING or self._now() - self._began >= LONG_SECONDS):
            self.state = State.ASIDE
            gc.freeze()


@contextlib.contextmanager
def not_looked_for_yet() -> Iterator[None]:
    """Has no garbage looked for while this process, which is to run a service, starts: from here until ``rarely_looked_for``."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def rarely_looked_for(activity: Tells) -> Iterator[None]:
    """Has garbage looked for as this module says, for as long as a service runs; ``activity`` tells of its namespaces."""
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

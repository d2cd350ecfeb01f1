"""Tunes the interpreter's cyclic garbage collector for a server, so that collections are rare and short: they delay every answer.

Only reference cycles need the collector; all other objects are freed at once. While it runs, nothing else does, and its time grows with the
number of objects that it examines. So objects that stay are set aside (``gc.freeze``): those of the start, and what a long full collection
has left. Garbage that is set aside is never collected, so nothing is set aside any more when documents are let go of: cycles may keep them.

This changes the interpreter for the whole process, so only ``process`` uses it. A server that is embedded in another program leaves that
program's collector as it is.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .namespaces.activity import Activity

YOUNGEST = 5_000
"""The three thresholds of ``gc.set_threshold``: this one counts objects, the others collections."""
MIDDLE = 2
OLDEST = 200
LONG_SECONDS = 0.01
"""After a full collection that has taken so long, the objects that it left are set aside."""
_ALL = 2
"""The number of the oldest generation: its collection is a full one."""


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
def tuned_collector(activity: Activity) -> Iterator[None]:
    """Tunes the collector for as long as a service runs. ``activity``: calls back when documents are let go of."""
    began = 0.0

    def collecting(phase: str, about: Mapping[str, Any]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        elif about["generation"] == _ALL and time.perf_counter() - began >= LONG_SECONDS:
            gc.freeze()

    thresholds = gc.get_threshold()
    gc.callbacks.append(collecting)
    gc.freeze()
    gc.set_threshold(YOUNGEST, MIDDLE, OLDEST)
    activity.on_let_go = gc.unfreeze
    gc.enable()
    try:
        yield
    finally:
        activity.on_let_go = None
        gc.callbacks.remove(collecting)
        gc.set_threshold(*thresholds)
        gc.unfreeze()

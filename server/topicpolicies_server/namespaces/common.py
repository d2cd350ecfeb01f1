"""What all namespaces of a server have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.fold.fold import FoldContext
from ..core.reading.cell import key_of
from ..core.reading.view import View
from ..core.reasons import LogState, Reason
from ..fair_limit import FairLimiter
from ..health import Readiness
from ..logs.change_log import ChangeLog, LogError
from .activity import Activity
from .capacity import Capacity
from .listeners import Record
from .load_failures import LoadFailures
from .rate import Rate
from .repair_queue import RepairQueue

_NAMES = 1_024
"""How many keys are looked at before other tasks have their turns."""


@dataclass(slots=True)
class Common:
    """The settings and services that every namespace of a server is given."""

    log: ChangeLog
    """Opens change logs."""
    limits: Limits
    """The server's limits."""
    context: FoldContext
    """What the fold needs to know of the logs."""
    slots: FairLimiter
    """Bounds how many namespaces load at once."""
    now: Callable[[], int]
    """Milliseconds since 1970, by a clock like the logs'."""
    repairs: RepairQueue
    """The repairs of all namespaces, at a bounded rate."""
    activity: Activity
    """Counts and keeps what happens."""
    capacity: Capacity
    """Bounds what is kept in memory."""
    confirmations: Rate
    """Bounds how often the ends of watched logs are asked for (``progress``)."""
    read_only: bool = False
    """Whether nothing may be written: updates are refused, and repairs only reported."""
    load_failures: LoadFailures = field(default_factory=LoadFailures)
    """Failures to load that have been logged."""
    record: Record | None = None
    """Makes the recorder of one opening; None: nothing is recorded."""
    readiness: Readiness = field(default_factory=lambda: Readiness(0.0, known=True))
    """Whether the log can be reached; by default it can."""
    checkpoints: Checkpoints | None = None
    """Checkpoints of views, so that loading need not begin at the log's beginning; None: there are none."""


def unavailable(namespace: str, why: Reason | LogState, sentence: str) -> LogError:
    """Makes an UNAVAILABLE error about a namespace."""
    return LogError(why, f"{namespace}: {sentence}", kind=Kind.UNAVAILABLE)


async def topics_of(view: View) -> set[str]:
    """Returns the topics that have a document. Other tasks have their turns meanwhile, and what they change may be missing."""
    topics: set[str] = set()
    name = ""
    while names := view.named(name, _NAMES):
        topics.update(key_of(each).topic for each in names)
        name = names[-1]
        await asyncio.sleep(0)
    return topics

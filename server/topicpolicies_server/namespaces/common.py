"""What all namespaces of a server have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.fold.fold import FoldContext
from ..core.reasons import LogState, Reason
from ..fair_limit import FairLimiter
from ..health import Readiness
from ..history import History
from ..logs.change_log import ChangeLog, LogError
from .activity import Activity
from .capacity import Capacity
from .rate import Rate
from .repair_queue import RepairQueue


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
    history: History | None = None
    """Where everything that is folded is recorded; None: nowhere."""
    readiness: Readiness = field(default_factory=lambda: Readiness(0.0, known=True))
    """Whether the log can be reached; by default it can."""
    checkpoints: Checkpoints | None = None
    """Checkpoints of views, so that loading need not begin at the log's beginning; None: there are none."""


def unavailable(namespace: str, why: Reason | LogState, sentence: str) -> LogError:
    """Makes an UNAVAILABLE error about a namespace."""
    return LogError(why, f"{namespace}: {sentence}", kind=Kind.UNAVAILABLE)

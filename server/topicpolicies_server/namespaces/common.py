"""What all namespaces of a server have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.fold.fold import FoldContext
from ..core.reasons import Reason
from ..health import Readiness
from ..logs.change_log import ChangeLog, LogError
from .activity import Activity
from .capacity import Capacity
from .complaints import Complaints
from .gate import Gate
from .listeners import Record
from .rate import Rate


@dataclass(slots=True)
class Common:
    """What each namespace is given."""

    log: ChangeLog
    """Where change logs are opened."""
    limits: Limits
    """Every bound."""
    context: FoldContext
    """What the fold needs to know of the logs."""
    slots: asyncio.Semaphore
    """Bounds how many namespaces load at once."""
    now: Callable[[], int]
    """Milliseconds since 1970, by a clock like the logs'."""
    gate: Gate
    """What every repair passes."""
    activity: Activity
    """Told of what happens."""
    capacity: Capacity
    """What may be kept in memory."""
    confirmations: Rate
    """How often it is asked where logs end that are watched."""
    read_only: bool = False
    """Whether nothing may be written: updates are refused, repairs only told of."""
    complaints: Complaints = field(default_factory=Complaints)
    """What the server's log was told of loads that failed."""
    record: Record | None = None
    """Gives whoever writes down what is folded; None: nobody does."""
    readiness: Readiness = field(default_factory=lambda: Readiness(0.0, known=True))
    """Whether the log can be reached; unless told otherwise, it can be."""
    checkpoints: Checkpoints | None = None
    """Where views are kept, so that loading need not begin at the beginning; None: nowhere."""


def unavailable(namespace: str, reason: Reason, sentence: str) -> LogError:
    """An UNAVAILABLE about a namespace."""
    return LogError(reason, f"{namespace}: {sentence}", kind=Kind.UNAVAILABLE)

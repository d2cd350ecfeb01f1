"""What all namespaces of a server have in common: settings, services, and how much they keep in memory together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.fold.fold import FoldContext
from ..core.reading.view import CellsInUse
from ..core.reasons import LogState, Reason
from ..history import History
from ..logs.change_log import ChangeLogs, LogError, NamespaceLog, beyond
from ..readiness import Readiness
from .activity import Activity

KEY_BYTES = 800
"""Memory that a key takes besides its document: its name, its entries in the orders of its view, and what the fold keeps of it."""
DOCUMENT_BYTES = 3
"""Memory that each byte of a serialized document takes: a document has the names of its settings too, and brokers may show another one.

Measured with documents of 8 to 1,400 bytes the estimate is 0.9 to 1.2 times what keys take at rest; 0.6 times where a repair is due, so
that two documents are kept.
"""


@dataclass(slots=True)
class Common:
    """The settings and services that every namespace of a server is given, and the memory that all of them take.

    Where there is no room, idle namespaces are closed, first those that were asked for the longest time ago. If that is not enough, no
    namespace is loaded for the first time, and no update makes a key; loaded namespaces go on being served, and take what others write, so
    more may be kept than allowed.
    """

    log: ChangeLogs
    limits: Limits
    context: FoldContext
    slots: asyncio.Semaphore
    """Bounds how many namespaces load at once."""
    now: Callable[[], int]
    """Milliseconds since 1970, by a clock like the logs'."""
    evict: Callable[[str], bool]
    """Closes an idle namespace at once, but not the one that is named; returns False when there is none."""
    read_only: bool
    """Whether nothing may be written: updates are refused, and repairs only reported."""
    history: History | None
    """Where everything that is folded is recorded; None: nowhere."""
    readiness: Readiness
    checkpoints: Checkpoints | None
    """Checkpoints of views, so that loading need not begin at the log's beginning; None: there are none."""
    activity: Activity = field(default_factory=Activity)
    in_use: CellsInUse = field(default_factory=CellsInUse)
    """The policy keys that are in use, as objects; all others rest as bytes."""
    bytes: int = 0
    """Bytes of memory that keys and documents take, by estimate."""
    in_vain_upto: int = 0
    """Up to so many bytes no idle namespace is looked for; 0: one is looked for."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by who asks for the ends of watched logs, and for some time before (``progress``)."""

    def count(self, keys: int, size: int) -> None:
        """Counts so many more keys in memory, with so many bytes of documents; fewer, where a number is negative."""
        self.bytes += keys * KEY_BYTES + size * DOCUMENT_BYTES

    @property
    def over_capacity(self) -> bool:
        """Whether more is in memory than allowed."""
        return self.bytes > self.limits.max_loaded_document_bytes

    def has_room(self, spared: str = "") -> bool:
        """Returns whether another key may be kept. Idle namespaces are closed for it, except the spared one."""
        while self.bytes >= self.limits.max_loaded_document_bytes:
            if not self.evict(spared):
                return False
        return True

    def relieved(self, spared: str) -> bool:
        """Returns whether no more is kept than allowed. Idle namespaces are closed for it, except the spared one, which has grown.

        After an attempt in vain, the next one comes when a thousandth more is kept: it looks at many namespaces.
        """
        most = self.limits.max_loaded_document_bytes
        if self.bytes <= most:
            self.in_vain_upto = 0
            return True
        if self.bytes > self.in_vain_upto and not self.has_room(spared):
            self.in_vain_upto = self.bytes + most // 1_000
        return self.bytes <= most

    def no_room(self, what: str) -> LogError:
        """Makes the RESOURCE_EXHAUSTED error: there is no room for ``what``."""
        most = self.limits.max_loaded_document_bytes
        full = f"keys and documents take {self.bytes:,} bytes of memory of at most {most:,}"
        sentence = f"There is no room for {what}: {full}. Use another server, or raise max_loaded_document_bytes of this one."
        return beyond("max_loaded_document_bytes", most, sentence)


@dataclass(slots=True)
class Serving:
    """What serves a namespace now."""

    log: NamespaceLog | None = None
    """The log that serves; None: none does now."""

    @property
    def leads(self) -> bool:
        """Whether this process may append to a log that serves."""
        return self.log is not None and self.log.leadership.leads


def unavailable(namespace: str, why: Reason | LogState, sentence: str) -> LogError:
    """Makes an UNAVAILABLE error about a namespace."""
    return LogError(why, f"{namespace}: {sentence}", kind=Kind.UNAVAILABLE)

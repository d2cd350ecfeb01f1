"""How long a reader that is owed entries has received nothing, and what to do about that.

=====================================================================  =======================================================
the reader has received nothing                                        what to do
=====================================================================  =======================================================
for 1 s, and 1 s after each answer                                     ask the broker whether it has sent every entry
for 3 s, and then 6 s, 12 s, ... after the reader was last replaced    open a new reader after the entry that was read last
for as long as the configured patience                                 give up: the log is lost
=====================================================================  =======================================================

The first and the last row hold during the initial replay. Later, ``partition`` asks the broker at a pace of its own, and does not give up.

A broker that fails to read entries for a reader does not report it to the reader: it tries again after 15 s, then after up to 60 s
(``readEntriesFailed`` of ``PersistentDispatcherSingleActiveConsumer``, ``dispatcherReadFailureBackoffInitialTimeInMs``). The entries can
disappear at any time: when a compaction ends, the broker deletes the ledger that the previous compaction wrote, also while it is sending a
reader entries from it (``PulsarCompactorSubscription``). A new reader gets a dispatcher of its own, which reads at once.
"""

from __future__ import annotations

_BROKER_SECONDS = 1.0
_READER_SECONDS = 3.0


class Patience:
    """Measures the time in which nothing comes. All times are monotonic seconds."""

    def __init__(self, now: float, patience: float) -> None:
        """``patience``: after how many seconds without an entry the log is lost."""
        self._patience = patience
        self.ended(now)

    def ended(self, now: float) -> None:
        """Starts the count anew: an entry came that had not come before, or from now on one is expected."""
        self._since = self._asked = self._opened = now
        self._pause = _READER_SECONDS

    def broker_is_due(self, now: float) -> bool:
        """Whether it is time to ask the broker."""
        return now - self._asked >= _BROKER_SECONDS

    def broker_answered(self, now: float) -> None:
        """Notes that the broker was asked."""
        self._asked = now

    def reader_is_due(self, now: float) -> bool:
        """Whether it is time to replace the reader."""
        return now - self._opened >= self._pause

    def reader_opened(self, now: float) -> None:
        """Notes that the reader was replaced, or that this was attempted."""
        self._opened = now
        self._pause *= 2

    def too_long(self, now: float) -> bool:
        """Whether it is time to give up."""
        return now - self._since > self._patience

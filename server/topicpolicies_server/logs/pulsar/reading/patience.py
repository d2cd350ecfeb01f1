"""How long nothing has come to a reader that should be given something, and what is to be done about it.

=====================================================================  =======================================================
nothing has come                                                       what is done
=====================================================================  =======================================================
for 1 s, and 1 s after each answer                                     the broker is asked whether it has sent everything
for 3 s, and then 6 s, 12 s, ... after the reader was opened anew      the reader is opened anew, behind what it was given last
for as long as patience is                                             the log is lost
=====================================================================  =======================================================

A broker that fails to read for a reader does not tell it: it tries again after 15 s, then after up to 60 s (``readEntriesFailed`` of
``PersistentDispatcherSingleActiveConsumer``, ``dispatcherReadFailureBackoffInitialTimeInMs``). What it reads can go at any time: when a
compaction ends, the ledger with what the former one left over is deleted, also under whoever is just given some of it
(``PulsarCompactorSubscription``). A new reader has a dispatcher of its own there, which reads at once.
"""

from __future__ import annotations

_BROKER_SECONDS = 1.0
_READER_SECONDS = 3.0


class Patience:
    """Counts the time in which nothing comes. All times are monotonic seconds."""

    def __init__(self, now: float, patience: float) -> None:
        """``patience``: after how many seconds the log is lost."""
        self._patience = patience
        self.ended(now)

    def ended(self, now: float) -> None:
        """Something came that had not come before, or from now on something should come."""
        self._since = self._asked = self._opened = now
        self._pause = _READER_SECONDS

    def broker_is_due(self, now: float) -> bool:
        """Whether the broker is to be asked."""
        return now - self._asked >= _BROKER_SECONDS

    def broker_answered(self, now: float) -> None:
        """The broker was asked."""
        self._asked = now

    def reader_is_due(self, now: float) -> bool:
        """Whether the reader is to be opened anew."""
        return now - self._opened >= self._pause

    def reader_opened(self, now: float) -> None:
        """It was, or can't be."""
        self._opened = now
        self._pause *= 2

    def too_long(self, now: float) -> bool:
        """Whether it is time to give up."""
        return now - self._since > self._patience

"""What can go wrong between a process and the storage, decided for each append and each delivery."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from topicpolicies_server.core.policies.events import Event, Placed


class Outcome(enum.Enum):
    """What becomes of an append."""

    STORED = "stored"
    """The event is in the log and acknowledged."""
    REFUSED = "refused"
    """The append fails, and the event certainly is not in the log."""
    UNACKNOWLEDGED = "unacknowledged"
    """The event is in the log, but the append fails with an unknown outcome."""
    VANISHED = "vanished"
    """The event is not in the log, and the append fails with an unknown outcome."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of an append, and when."""

    outcome: Outcome = Outcome.STORED
    delay: float = 0.0
    """Seconds until the event reaches the log; later appends to the partition wait behind it."""
    answer_delay: float = 0.0
    """Seconds from then until the acknowledgement or the failure arrives; later ones of the partition wait behind it."""
    copies: int = 1
    """How often the event is stored, as when a client library repeats a publish; the acknowledgement names the first place."""


class Faults:
    """Decides what goes wrong. This class causes no faults; tests override its methods."""

    def fate(self, namespace: str, event: Event) -> Fate:
        """Returns what becomes of an append to ``namespace``."""
        del namespace, event
        return _STORED

    def read_delay(self, namespace: str, placed: Placed) -> float:
        """Returns the seconds until an entry of ``namespace`` is read; later ones of the partition wait behind it."""
        del namespace, placed
        return 0.0

    def handed_over(self, namespace: str, placed: Placed) -> bool:
        """Returns whether an entry of ``namespace``, in ledgers, is handed over when it is due; if not, it never is by itself."""
        del namespace, placed
        return True

    def question_delay(self, namespace: str) -> float | None:
        """Returns the seconds that a request about ``namespace`` takes to the storage, and its answer back; None: the request is lost."""
        del namespace
        return 0.0

    def session_seconds(self, namespace: str) -> float:
        """Returns the seconds until the storage notices that the only writer of ``namespace`` died, and lets another process write."""
        del namespace
        return 0.0


_STORED = Fate()
NO_FAULTS = Faults()

"""What can go wrong between a process and the storage, decided one append and one delivery at a time."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from topicpolicies_server.core.policies.events import Event, Placed


class Outcome(enum.Enum):
    """What becomes of an append."""

    STORED = "stored"
    """It is in the log and acknowledged."""
    REFUSED = "refused"
    """It fails, and certainly is not in the log."""
    UNACKNOWLEDGED = "unacknowledged"
    """It is in the log, but fails with an unknown outcome."""
    VANISHED = "vanished"
    """It is not in the log, and fails with an unknown outcome."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of an append, and when."""

    outcome: Outcome = Outcome.STORED
    delay: float = 0.0
    """Seconds until it reaches the log; what is appended to the partition afterwards waits behind it."""
    answer_delay: float = 0.0
    """Seconds from there until the acknowledgement or the failure; later ones of the partition wait behind it."""
    copies: int = 1
    """How often it is stored (a publish that was repeated below us); the acknowledgement names the first."""


class Faults:
    """Decides what goes wrong. This one lets nothing go wrong; tests override its methods."""

    def fate(self, namespace: str, event: Event) -> Fate:
        """What becomes of an append to ``namespace``."""
        del namespace, event
        return _STORED

    def read_delay(self, namespace: str, placed: Placed) -> float:
        """Seconds until an entry of ``namespace`` is read; later ones of the partition wait behind it."""
        del namespace, placed
        return 0.0

    def handed_over(self, namespace: str, placed: Placed) -> bool:
        """Whether an entry of ``namespace``, in ledgers, is handed over when it is due; if not, never on its own."""
        del namespace, placed
        return True

    def question_delay(self, namespace: str) -> float | None:
        """Seconds that a question about ``namespace`` takes to the storage, and the answer back; None: it does not get there."""
        del namespace
        return 0.0

    def session_seconds(self, namespace: str) -> float:
        """Seconds until the storage finds out that a process which wrote ``namespace`` alone has died, and lets another one write."""
        del namespace
        return 0.0


_STORED = Fate()
NO_FAULTS = Faults()

"""The instructions for an executor, and the clock that all executors share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from .scenarios import Scenario

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def _boot() -> str:
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since 1970 that never go back: one clock for all processes of a machine.

    Another machine uses its own wall clock; how far the clocks may be apart is an option of the proof.
    """

    boot: str = field(default_factory=_boot)
    offset: float = field(default_factory=lambda: time.time() - time.monotonic())

    def here(self) -> Clock:
        """Returns the clock that this process must use."""
        return self if self.boot == _boot() else Clock()

    def now(self) -> float:
        """Returns the time."""
        return time.monotonic() + self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One stage of a run: what all workers do together."""

    target: str
    """``sidecar``, ``rest`` or ``echo``."""
    address: str
    """``host:port`` of a sidecar or an echo; the URL of an admin API."""
    namespace: str
    prefix: str
    """How the topics' local names begin; each run has its own topics."""
    scenario: Scenario
    workers: int
    phase: str = ""
    """The name of the phase; empty: the phases of ordinary traffic."""
    audited: bool = True
    """Whether an auditor follows every change from the beginning on."""
    fill: bool = False
    """Whether each topic is updated exactly once, in batches."""
    seed: int = 1
    clock: Clock = field(default_factory=Clock)
    progress: tuple[str, int] | None = None
    """The address to which workers report their progress (UDP)."""

    def topic(self, number: int) -> str:
        """Returns a topic's full name."""
        return f"persistent://{self.namespace}/{self.prefix}-{number}"

    @property
    def mine(self) -> str:
        """How the full names of this run's topics begin."""
        return f"persistent://{self.namespace}/{self.prefix}-"

    def share(self, worker: int) -> int:
        """Returns how many of the operations a worker makes."""
        total = self.scenario.topics if self.fill else self.scenario.operations
        return total // self.workers + (worker < total % self.workers)

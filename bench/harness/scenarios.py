"""The kinds of load, by name, and the instructions with which all workers make one."""

from __future__ import annotations

from dataclasses import dataclass, field
from secrets import token_hex

WARM_UP = 0.1
"""The share of the operations that belong to the warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of load."""

    name: str
    about: str
    operations: int = 100_000
    """The number of operations of all workers together."""
    topics: int
    clients: int = 32
    """Calls in flight per worker."""
    reads: float = 0.0
    """The share of operations that are reads; half of them name the version that they must reach."""
    deletes: float = 0.0
    """The share of updates that delete the document."""
    impatient: float = 0.0
    """The share of updates whose caller uses a very short timeout, so that it does not learn the outcome."""
    watchers: int = 0
    """LATEST watchers of the namespace, all workers together, beside the auditor."""
    restless: float = 0.0
    """The probability, per message with changes, that a watcher cancels its stream and resumes."""
    bookmark_seconds: int = 1


_ALL = (
    Scenario(name="hot-key", about="everybody changes one document", topics=1, impatient=0.002, watchers=4),
    Scenario(
        name="mixed",
        about="updates, deletions, reads, and watchers that come and go",
        topics=64,
        reads=0.4,
        deletes=0.05,
        impatient=0.005,
        watchers=8,
        restless=0.002,
    ),
    Scenario(
        name="fan-out",
        about="a thousand watchers of one namespace",
        operations=1_000,
        topics=10,
        clients=1,
        watchers=1_000,
        bookmark_seconds=5,
    ),
)
SCENARIOS = {each.name: each for each in _ALL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all workers do together."""

    scenario: Scenario
    workers: int
    address: str
    """``host:port`` of the sidecar."""
    namespace: str = ""
    prefix: str = field(default_factory=lambda: f"load-{token_hex(3)}")
    """How the topics' local names begin; each run has its own topics."""
    seed: int = 1

    def topic(self, number: int) -> str:
        """Returns a topic's full name."""
        return f"{self.mine}{number}"

    @property
    def mine(self) -> str:
        """How the full names of this run's topics begin."""
        return f"persistent://{self.namespace}/{self.prefix}-"

    def phase(self, operation: int) -> str:
        """Returns the name of the phase to which an operation belongs, by its number."""
        return "warm-up" if operation < self.scenario.operations * WARM_UP else "steady"

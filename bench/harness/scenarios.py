"""The kinds of load, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of load."""

    name: str
    about: str
    operations: int
    """The number of operations of all workers together, unless the run sets another one."""
    topics: int
    clients: int
    """Requests in flight per worker."""
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
    batched: bool = False
    """Whether updates are sent in batches instead of single calls."""
    bookmark_seconds: int = 1
    cold: bool = False
    """Whether the topics are filled first and the service is restarted, so that the operations meet a namespace that is not loaded."""

    def scaled(self, operations: int | None, topics: int | None, watchers: int | None) -> Scenario:
        """Returns the scenario with other numbers, where they are given."""
        return replace(
            self,
            operations=self.operations if operations is None else operations,
            topics=self.topics if topics is None else topics,
            watchers=self.watchers if watchers is None else watchers,
        )


SCENARIOS = {
    each.name: each
    for each in (
        Scenario(
            name="hot-key",
            about="everybody changes one document",
            operations=100_000,
            topics=1,
            clients=32,
            impatient=0.002,
            watchers=4,
        ),
        Scenario(
            name="many-keys",
            about="updates of a thousand topics",
            operations=100_000,
            topics=1_000,
            clients=32,
            impatient=0.002,
            watchers=4,
        ),
        Scenario(
            name="mixed",
            about="updates, deletions, reads, and watchers that come and go",
            operations=100_000,
            topics=64,
            clients=32,
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
        Scenario(
            name="cold-start",
            about="a namespace of 100,000 topics that nobody has loaded",
            operations=10_000,
            topics=100_000,
            clients=32,
            reads=0.9,
            watchers=2,
            cold=True,
        ),
        Scenario(
            name="bulk",
            about="updates over BatchUpdatePolicies, several batches in flight",
            operations=100_000,
            topics=1_000,
            clients=4,
            watchers=2,
            batched=True,
        ),
    )
}

"""Two clusters that replicate GLOBAL policies to each other: a world each, on one clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.events import StampKind

from .clock import Clock
from .kinds import WorldKind
from .log import Entry
from .world import Broken, World

MANY = 4_000
"""More entries than a log gets unless repairs loop."""


class Clusters:
    """Cluster A, and cluster B, in which no changes are made unless ``both`` is set."""

    def __init__(self, kind: WorldKind, seed: int, *, both: bool = False, replicate_repairs: bool = False) -> None:
        self.clock = Clock()
        self.replicate_repairs = replicate_repairs
        self.a = World(kind, seed, clock=self.clock, scope=Scope.GLOBAL, salt="a")
        self.b = World(kind if both else replace(kind, changes=0), seed, clock=self.clock, scope=Scope.GLOBAL, salt="b")
        self.a.at_once = self.b.at_once = both
        self._until = {"a": 0, "b": 0}
        self.a.log.readers.append(lambda entry: self._replicate(entry, self.a, self.b))
        self.b.log.readers.append(lambda entry: self._replicate(entry, self.b, self.a))

    def run(self) -> Counter[str]:
        """Runs both worlds until nothing more happens. Returns what was counted."""
        self.a.start()
        self.b.start()
        self.clock.run()
        self.a.finish()
        self.b.finish()
        counts: Counter[str] = Counter()
        for name, world in (("a", self.a), ("b", self.b)):
            counts.update({f"{name}: {what}": count for what, count in world.counts.items()})
        for mine, theirs in zip(self.a.keys, self.b.keys, strict=True):
            counts["keys"] += 1
            counts["keys in which the clusters differ"] += self.a.heads[mine].document != self.b.heads[theirs].document
        return counts

    def _replicate(self, entry: Entry, origin: World, target: World) -> None:
        event = entry.event
        restates = event.stamp is not None and event.stamp.kind in (StampKind.REPAIR, StampKind.TOMBSTONE)
        if event.replicated or (restates and not self.replicate_repairs):
            return
        if len(origin.log.entries) > MANY:
            raise Broken(f"repairs do not loop: {origin.kind.name}, seed {origin.seed}")
        until = self._until[target.salt] = max(self._until[target.salt], self.clock.now + origin.chance.randint(5, 60))
        again = event._replace(replicated=True)
        placed = entry.placed
        self.clock.after(
            until - self.clock.now,
            lambda: void(target.log.append(again, placed.producer, entry.intent, entry.base, placed.published_at)),
        )


def void(_: object) -> None:
    """Drops a result, because actions return none."""

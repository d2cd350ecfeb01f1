"""The kinds of worlds: their participants and their load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .brokers import BrokerKind
from .intents import NEWER, PLAIN
from .sidecars import SidecarKind

OLD_SCHEMA = frozenset({*(name.partition("/")[0] for name in PLAIN), "dispatch_rate", "replication_clusters"} - {NEWER})


@dataclass(frozen=True)
class WorldKind:
    """The participants and the load of a world."""

    name: str
    sidecars: tuple[SidecarKind, ...] = (SidecarKind(), SidecarKind())
    brokers: tuple[BrokerKind, ...] = ()
    keys: int = 2
    changes: int = 80
    pause: tuple[int, int] = (0, 12)
    """Milliseconds between two changes."""
    long_pause: tuple[float, int] = (0.03, 600)
    """The probability of a longer pause, and its greatest length in milliseconds."""
    window_ms: int = 30_000
    requests: bool = True
    """Whether sidecars get requests; if not, they only guard."""
    joins: int = 0
    """How many sidecars start in the middle."""
    crashes: int = 0
    """How often a sidecar other than the first one crashes."""
    compactions: int = 0
    pauses: int = 0
    """How often the repairs of a sidecar, or of all, are paused, for up to 3 W."""
    survivor: bool = True
    """Whether the first sidecar runs from the beginning to the end."""


CHAINED = BrokerKind(chained=True)
CONCURRENT = BrokerKind(chained=False, lag=(5, 80))
OLDER = BrokerKind(chained=True, lag=(2, 60), known=OLD_SCHEMA)

LATE = WorldKind(
    "late repairs",
    brokers=(CHAINED, CONCURRENT),
    joins=6,
    crashes=4,
    compactions=12,
    pauses=6,
    changes=120,
    long_pause=(0.1, 5_000),
    window_ms=3_000,
)
"""Repairs are paused while the log is compacted and sidecars start and end."""

WORLDS: Mapping[str, WorldKind] = {
    kind.name: kind
    for kind in (
        WorldKind("sidecars", sidecars=(SidecarKind(),) * 3),
        WorldKind("mixed", brokers=(CHAINED, CONCURRENT)),
        WorldKind("schemas", brokers=(CHAINED, OLDER)),
        WorldKind("guard", sidecars=(SidecarKind(),), brokers=(CONCURRENT, CONCURRENT), requests=False),
        WorldKind("quiet guard", sidecars=(SidecarKind(),), brokers=(CHAINED,), requests=False),
        WorldKind("joining", brokers=(CHAINED, CONCURRENT), joins=3, crashes=2, compactions=4, keys=3),
        WorldKind(
            "joining late",
            brokers=(CHAINED, CONCURRENT),
            joins=4,
            crashes=2,
            compactions=6,
            changes=120,
            long_pause=(0.1, 5_000),
            window_ms=3_000,
        ),
        LATE,
        replace(LATE, name="late guards", brokers=(CONCURRENT, CONCURRENT), requests=False),
        replace(LATE, name="late repairs, recalled", sidecars=(SidecarKind(recalls=40), SidecarKind(recalls=10))),
        WorldKind("foreign", brokers=(CHAINED, BrokerKind(chained=True, writes_two=0.2))),
        WorldKind("orphaned", brokers=(CHAINED, CONCURRENT), joins=3, crashes=1, compactions=2, survivor=False),
    )
}

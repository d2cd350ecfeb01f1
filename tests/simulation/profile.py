"""Profiles: the participants of runs and the rates of faults. Each seed draws its own variation of a profile."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The parameters of a run. Rates are probabilities per append or per step; times are seconds."""

    name: str
    about: str
    sidecars: int = 1
    partitions: int = 1
    sole_writer: bool = True
    forgets_deletions: bool = True
    """Whether compaction erases deleted keys at once, as brokers do. The embedded log keeps them for a day, longer than any run."""
    checkpoints: bool = False
    """Whether sidecars start from their checkpoints."""
    ledgers: bool = False
    """Whether the log consists of ledgers, which are compacted and trimmed while they are read."""
    chained_brokers: int = 0
    """Brokers as of 4.2.4: they make the updates of a topic one after the other, each computed from the result of the one before."""
    racing_brokers: int = 0
    """Brokers as of 4.0.0: they compute every update from what is in their cache."""
    older_brokers: int = 0
    """Brokers like the chained ones, of an older schema: their documents lack a setting."""
    in_place: bool = False
    """Whether brokers change the documents in their caches in place, as those before 4.1 do."""
    exclusive: bool = False
    """Whether the log has one writer at a time, its leader."""
    guard: bool = False
    """Whether the sidecars keep the namespace loaded without requests for it."""
    newcomers: int = 0
    """The most sidecars at a time that start in the middle of a run and may end before the others."""
    delays: int = 0
    """How often repairs are delayed, each time by up to 3 W."""
    survivor: bool = True
    """With delayed repairs: whether the first sidecar runs all the time. If not, changes that only ended sidecars had seen can be lost."""
    topics: int = 3
    both_scopes: bool = True
    writers: int = 3
    updates: int = 8
    """The number of updates of each writer."""
    batchers: int = 1
    readers: int = 1
    watchers: int = 3
    steps: int = 5
    """The number of faults that the nemesis causes."""
    lost_acknowledgement: float = 0.05
    vanished: float = 0.02
    refused: float = 0.02
    copied: float = 0.02
    unanswered: float = 0.03
    """Rate of questions to the log that get no answer, as those for its end."""
    not_handed_over: float = 0.0
    """Rate of entries in ledgers that are not handed over when they are due."""
    restating: float = 0.0
    """Rate of a writer's turns in which it changes a setting and then sets it to what another sidecar shows."""
    late: float = 0.05
    """Rate of appends, answers and reads that take up to 0.6 s instead of a few milliseconds."""
    repairs_vanished: float = 0.0
    repairs_late: float = 0.0
    """Rate of repairs that take up to 2 W to the log."""
    slow_openings: float = 0.0
    """Rate of openings that take up to a second, and of openings after which nothing is read for up to a second."""
    lulls: float = 0.0
    """Rate of pauses that take up to 1.5 W."""
    deletes: float = 0.08
    crash: float = 1.0
    """The weights of the nemesis's faults, from here on."""
    restart: float = 0.7
    lose: float = 0.7
    compact: float = 1.5
    gap: float = 0.5
    unreadable: float = 0.3
    stall: float = 1.0
    fence: float = 0.0
    """The weights of faults of the leader of an exclusive log, from here on."""
    isolate: float = 0.0
    suspend: float = 0.0
    compact_takeover: float = 0.0
    compact_crash: float = 0.0
    """Weight of a crash right after a compaction, with answers in flight."""
    compact_deletion: float = 0.0
    """Weight of a compaction right after a deletion."""
    overtake: float = 0.0
    """Weight of a compaction that overtakes sidecars which read nothing for a while."""
    session_seconds: float = 0.0
    """The longest time until the log notices that a leader has died."""
    busy: float = 0.0
    """The longest time that one turn of the loop takes; 0: it takes no time."""
    seconds_per_pause: float = 0.05
    """Mean of a client's pauses."""

    @property
    def brokers(self) -> int:
        """How many brokers write the log."""
        return self.chained_brokers + self.racing_brokers + self.older_brokers

    @property
    def delayed(self) -> bool:
        """Whether repairs are delayed by more than the log and its faults do."""
        return self.delays > 0


def _exclusive(name: str, about: str, **others: Any) -> Profile:
    """Three sidecars that lead one after the other. No append is refused: that would make a repair due for those behind it."""
    return Profile(
        name=name,
        about=about,
        sidecars=3,
        sole_writer=False,
        exclusive=True,
        steps=7,
        lost_acknowledgement=0.01,
        vanished=0.01,
        refused=0.0,
        fence=1.5,
        isolate=0.7,
        suspend=0.7,
        compact_takeover=1.0,
        session_seconds=1.0,
        **others,
    )


def _delayed(name: str, about: str, **others: Any) -> Profile:
    """Repairs that are late by any time, and sidecars that start at every point. Brokers of both kinds make the repairs due."""
    made: dict[str, Any] = {
        "sole_writer": False,
        "chained_brokers": 1,
        "racing_brokers": 2,
        "newcomers": 3,
        "delays": 3,
        "updates": 8,
        "writers": 1,
        "batchers": 1,
        "readers": 1,
        "watchers": 1,
        "steps": 4,
        "repairs_vanished": 0.05,
        "repairs_late": 0.05,
        "slow_openings": 0.2,
        "lulls": 0.1,
    }
    return Profile(name=name, about=about, **(made | others))


_NO_CLIENTS: dict[str, Any] = {"guard": True, "writers": 0, "batchers": 0, "readers": 0, "watchers": 0}

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="embedded", about="one sidecar, the only writer of its log: the promises are absolute", forgets_deletions=False),
        Profile(name="shared", about="two sidecars on one log", sidecars=2, sole_writer=False, restating=0.1),
        Profile(
            name="partitioned",
            about="two sidecars on a log of three partitions",
            sidecars=2,
            sole_writer=False,
            partitions=3,
            topics=5,
            restating=0.1,
        ),
        Profile(
            name="lagging",
            about="two sidecars that are often behind the log, and writers that set what they were shown",
            sidecars=2,
            sole_writer=False,
            topics=1,
            writers=6,
            restating=0.6,
            late=0.2,
            stall=4.0,
            deletes=0.15,
        ),
        Profile(
            name="brokers",
            about="two sidecars and a broker of each kind",
            sidecars=2,
            sole_writer=False,
            chained_brokers=1,
            racing_brokers=1,
            writers=2,
        ),
        _exclusive("exclusive", "three sidecars, one of which writes the log at a time"),
        _exclusive("exclusive-partitioned", "the same on a log of three partitions", partitions=3, topics=5),
        Profile(
            name="guard",
            about="a guard, and later another one, for brokers that lose updates, and one of an older schema; no client calls it",
            sole_writer=False,
            guard=True,
            partitions=3,
            chained_brokers=1,
            racing_brokers=2,
            older_brokers=1,
            updates=20,
            writers=0,
            batchers=0,
            readers=0,
            watchers=0,
        ),
        _delayed("late", "repairs that are late, and sidecars that start at every point while one runs that has seen all events"),
        _delayed("late-partitioned", "the same on a log of three partitions", partitions=3, topics=5),
        _delayed("late-guards", "the same with guards, which no client calls", partitions=3, updates=12, **_NO_CLIENTS),
        _delayed("late-orphans", "guards that may all have ended when the log is compacted", survivor=False, updates=12, **_NO_CLIENTS),
        _delayed(
            "late-in-place",
            "guards of one broker that changes its documents in place",
            in_place=True,
            delays=5,
            updates=30,
            **_NO_CLIENTS | {"chained_brokers": 0, "racing_brokers": 1, "topics": 2, "deletes": 0.0, "copied": 0.0},
        ),
        Profile(
            name="hot",
            about="many writers and batches on one key, and few faults: deep pipelines",
            forgets_deletions=False,
            topics=1,
            both_scopes=False,
            writers=6,
            batchers=3,
            updates=6,
            steps=5,
            lost_acknowledgement=0.02,
            late=0.02,
        ),
        Profile(
            name="interrupted",
            about="many writers of one key, interrupted together again and again while the log is compacted",
            forgets_deletions=False,
            topics=1,
            both_scopes=False,
            writers=6,
            steps=5,
            compact=0.0,
            compact_crash=5.0,
        ),
        Profile(
            name="forgetful",
            about="writers of one key, interrupted together, on a log that erases deleted keys and their requests at once",
            sole_writer=False,
            topics=1,
            both_scopes=False,
            writers=4,
            steps=12,
            deletes=0.35,
            compact_deletion=5.0,
        ),
        Profile(
            name="compacted",
            about="two sidecars that fall behind a log of ledgers, which are compacted and trimmed while they read",
            ledgers=True,
            sidecars=2,
            sole_writer=False,
            writers=4,
            deletes=0.25,
            steps=8,
            overtake=5.0,
            crash=2.0,
            stall=3.0,
            gap=1.0,
            late=0.15,
            unanswered=0.15,
            not_handed_over=0.01,
        ),
        Profile(
            name="kept",
            about="one sidecar that starts from its checkpoints, killed and stopped again and again",
            checkpoints=True,
            forgets_deletions=False,
            topics=5,
            crash=4.0,
            restart=2.0,
            steps=8,
            deletes=0.15,
        ),
        Profile(
            name="kept-compacted",
            about="two sidecars that start from their checkpoints, on a log of ledgers, which are compacted and trimmed meanwhile",
            checkpoints=True,
            ledgers=True,
            sidecars=2,
            sole_writer=False,
            writers=4,
            deletes=0.25,
            steps=8,
            overtake=3.0,
            crash=4.0,
            restart=2.0,
            stall=2.0,
            gap=1.0,
            late=0.1,
            unanswered=0.1,
        ),
        Profile(
            name="idle",
            about="long pauses: namespaces are unloaded and loaded again",
            forgets_deletions=False,
            watchers=1,
            writers=2,
            seconds_per_pause=0.8,
            updates=6,
        ),
    )
}

_VARIED = (
    "lost_acknowledgement",
    "vanished",
    "refused",
    "copied",
    "late",
    "deletes",
    "crash",
    "restart",
    "lose",
    "compact",
    "gap",
    "unreadable",
    "stall",
)
_VARIED_OF_LEADERS = ("fence", "isolate", "suspend", "compact_takeover", "session_seconds")

_VARIED_OF_DELAYED = ("repairs_vanished", "repairs_late", "slow_openings", "lulls")


def varied(profile: Profile, chance: random.Random) -> Profile:
    """Returns a seed's own variation: some faults never happen in it and others often, so that they occur in many combinations."""
    changes: dict[str, Any] = {name: getattr(profile, name) * chance.choice((0, 0, 0.5, 1, 1, 2)) for name in _VARIED}
    if profile.exclusive:
        changes |= {name: getattr(profile, name) * chance.choice((0, 0.5, 1, 1, 2)) for name in _VARIED_OF_LEADERS}
    if profile.delayed:
        changes |= {name: getattr(profile, name) * chance.choice((0, 0.5, 1, 1, 2)) for name in _VARIED_OF_DELAYED}
        if not profile.in_place:
            changes["chained_brokers"], changes["racing_brokers"] = chance.choice(((1, 2), (1, 2), (2, 1), (2, 0), (0, 2)))
        changes["partitions"] = profile.partitions if profile.writers else chance.choice((1, 3))
    changes["busy"] = chance.choice((0.0, 0.0, 0.0001, 0.002))
    changes["watchers"] = chance.randint(0, profile.watchers)
    return replace(profile, **changes)


def differences(profile: Profile) -> str:
    """Returns the differences between a variation and its profile, in one line."""
    base = PROFILES[profile.name]
    return " ".join(
        f"{each.name}={getattr(profile, each.name):g}"
        for each in fields(profile)
        if each.name not in ("name", "about") and getattr(profile, each.name) != getattr(base, each.name)
    )

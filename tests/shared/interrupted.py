"""Runs during which servers are ended and started anew, and their log is compacted: what is common to those of sidecars and of guards."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field

from .run import Place
from .wrong_times import TimedLog, now_ms, wrong_after

_STORY = 20


@dataclass(frozen=True)
class Plan:
    """How a run goes."""

    seconds: float
    """Of load."""
    restart_every: float = 20.0
    compact_every: float = 10.0
    quiet: float = 90.0
    """The most seconds that it may take until all is at rest in the end."""
    topics: int = 20
    partitions: int = 0
    """Of the change log; 0 is a plain one."""


@dataclass
class Outcome:
    """What a run came to."""

    name: str
    seconds: float
    changes: dict[str, int] = field(default_factory=dict)
    """Acknowledged, by kind of writer."""
    errors: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    """By the signal that ended a life."""
    compactions: int = 0
    conflicts: int = 0
    """Events in the log that were computed from an old document."""
    repairs: int = 0
    """Repairs in the log: of guards, healings."""
    lost: dict[str, list[str]] = field(default_factory=dict)
    """By who shows or tells it: acknowledged changes that are not there in the end."""
    undone: list[str] = field(default_factory=list)
    """Healings that another one took back; or what went back along what a sidecar told."""
    unrepaired: int = 0
    """Documents that brokers show wrongly in the end."""
    longest_wrong_ms: int = 0
    """The longest time for which brokers showed a document wrongly."""
    wrong_after_ms: list[int] = field(default_factory=list)
    """The same, of what fell between each restart and the next, or the end."""
    quiet_seconds: float = 0.0
    """How long it took to come to rest in the end."""
    stories: list[str] = field(default_factory=list)
    """The last events of a topic of which something was lost."""

    @property
    def broken(self) -> bool:
        """Whether a promise was broken."""
        return any(self.lost.values()) or bool(self.undone) or self.unrepaired > 0

    def __str__(self) -> str:
        ordered = sorted(self.wrong_after_ms)
        middle, most = (ordered[len(ordered) // 2], ordered[-1]) if ordered else (0, 0)
        rows = {
            "changes": ", ".join(f"{count} by {who}" for who, count in self.changes.items()) + f"; not taken: {self.errors or 'none'}",
            "restarts": ", ".join(f"{count} {how}" for how, count in self.restarts.items()),
            "compactions": f"{self.compactions}",
            "conflicts, repairs": f"{self.conflicts}, {self.repairs}",
            **{f"lost, {who}": f"{len(lost)}" + "".join(f"; {each}" for each in lost[:3]) for who, lost in self.lost.items()},
            "undone": f"{len(self.undone)}" + "".join(f"; {each}" for each in self.undone[:3]),
            "wrong in the end": f"{self.unrepaired} documents, {self.quiet_seconds:.1f} s after the last change",
            "brokers wrong": f"for at most {self.longest_wrong_ms} ms; after a restart {middle} ms (median), {most} ms (most)",
            "after each restart": f"{self.wrong_after_ms} ms",
        }
        width = max(map(len, rows))
        return "\n".join(
            [f"{self.name}, {self.seconds:.0f} s", *(f"  {name:<{width}}  {told}" for name, told in rows.items()), *self.stories]
        )


class Run:
    """One run on a place, while it lasts.

    Attributes:
        ended: when lives ended, in milliseconds since 1970.
        attended: held by whoever must not be interrupted: a compaction, or a restart.
    """

    def __init__(self, place: Place, log: TimedLog, outcome: Outcome, progress: Callable[[str], None]) -> None:
        self.place = place
        self.log = log
        self.outcome = outcome
        self.until = time.monotonic() + outcome.seconds
        self.ended: list[int] = []
        self.attended = asyncio.Lock()
        self._restarts: Counter[str] = Counter()
        self._progress = progress

    @property
    def over(self) -> bool:
        """Whether nobody writes any more."""
        return time.monotonic() >= self.until

    async def every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        """Does something again and again until it is over, and leaves at least half of the time between two in peace."""
        due = time.monotonic() + seconds
        while due < self.until:
            await asyncio.sleep(due - time.monotonic())
            await act()
            due = max(due + seconds, time.monotonic() + seconds / 2)

    async def compact(self) -> None:
        """Compacts the log once."""
        async with self.attended:
            await self.compact_now()
        self.tell("compacted")

    async def compact_now(self) -> None:
        """Compacts the log once, for who attends to it."""
        await asyncio.to_thread(self.place.compact)
        self.outcome.compactions += 1

    def restarted(self, how: str, ended_at: int) -> None:
        """A life was ended, and the next has begun."""
        self.ended.append(ended_at)
        self._restarts[how] += 1
        self.tell(f"{how}, and back after {(now_ms() - ended_at) / 1000:.1f} s")

    def tell(self, what: str) -> None:
        """Says what happens."""
        left = max(self.until - time.monotonic(), 0)
        self._progress(f"{left:5.0f} s left: {what}; {dict(self.log.counts)}, {self.log.wrong} documents wrong")

    async def come_to_rest(self, seconds: float, repairs_due: Callable[[], Awaitable[float]]) -> None:
        """Returns when nothing is wrong, to be repaired or new, or after so many seconds."""
        began = time.monotonic()
        before: dict[str, int] | None = None
        rests = False
        while not rests and time.monotonic() - began < seconds:
            due = await repairs_due()
            rests = not self.log.wrong and not due and before == dict(self.log.counts)
            before = dict(self.log.counts)
            await asyncio.sleep(1.0)
        self.tell(f"{'' if rests else 'not '}at rest {time.monotonic() - self.until:.1f} s after the last change")
        self.outcome.quiet_seconds = self.outcome.quiet_seconds or time.monotonic() - self.until

    @contextlib.asynccontextmanager
    async def compacted_all_the_while(self, every: float) -> AsyncIterator[None]:
        """Compacts the log from time to time."""

        async def compact_again_and_again() -> None:
            while True:
                await asyncio.sleep(every)
                await self.compact()

        compacting = asyncio.create_task(compact_again_and_again())
        try:
            yield
        finally:
            async with self.attended:
                compacting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await compacting

    def tell_story(self, topics: Iterable[str]) -> None:
        """Notes the last events of the first of some topics."""
        self.outcome.stories = [f"{topic}:\n" + "\n".join(self.log.story(topic).splitlines()[-_STORY:]) for topic in list(topics)[:1]]

    def close(self) -> None:
        """Notes what the log was like."""
        outcome, log = self.outcome, self.log
        outcome.restarts = dict(self._restarts)
        outcome.conflicts, outcome.repairs = log.counts["stale"], log.counts["repairs"]
        outcome.unrepaired, outcome.longest_wrong_ms = log.wrong, log.longest_wrong_ms
        outcome.wrong_after_ms = wrong_after(log.wrong_times, self.ended, now_ms())


def timed_log(place: Place) -> TimedLog:
    """The log of a place."""
    return TimedLog(place.broker.service_url, place.broker.admin_url, place.namespace)


def to_standard_error(line: str) -> None:
    """Tells of progress."""
    print(line, file=sys.stderr, flush=True)


def parser(program: str, what: str) -> argparse.ArgumentParser:
    """The options that these runs share."""
    made = argparse.ArgumentParser(prog=program, description=what)
    made.add_argument("--seconds", type=float, default=300.0, help="of load")
    made.add_argument("--restart-every", type=float, default=Plan.restart_every, metavar="SECONDS")
    made.add_argument("--compact-every", type=float, default=Plan.compact_every, metavar="SECONDS")
    made.add_argument("--quiet", type=float, default=Plan.quiet, metavar="SECONDS", help="the most to wait until all is at rest in the end")
    made.add_argument("--topics", type=int, default=Plan.topics)
    made.add_argument("--partitions", type=int, default=Plan.partitions, help="of the change log; 0 is a plain one")
    made.add_argument("--output", choices=["table", "json"], default="table")
    return made


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan that options tell of."""
    return Plan(options.seconds, options.restart_every, options.compact_every, options.quiet, options.topics, options.partitions)


def show(outcome: Outcome, output: str) -> int:
    """Prints what it came to, and answers with the exit status."""
    print(json.dumps({**asdict(outcome), "broken": outcome.broken}, indent=2) if output == "json" else outcome)
    return 1 if outcome.broken else 0

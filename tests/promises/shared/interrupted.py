"""Runs in which servers are ended and restarted and their log is compacted: the part that runs of sidecars and of guards share."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

from .raw_log import RawLog, Wrong, now_ms
from .run import Place
from .term import Term

_STORY = 20


@dataclass(frozen=True)
class Plan:
    """The parameters of a run."""

    seconds: float
    """How long the load lasts."""
    restart_every: float = 20.0
    compact_every: float = 10.0
    quiet: float = 90.0
    """The most seconds that the cluster may take to come to rest in the end."""
    topics: int = 20
    partitions: int = 0
    """Partitions of the change log; 0: it is not partitioned."""
    changes: int = 0
    """How many changes each kind of writer makes at least; on a slow machine, the load lasts longer (``Term``)."""


@dataclass
class Outcome:
    """The results of a run."""

    name: str
    seconds: float
    changes: dict[str, int] = field(default_factory=dict)
    """Acknowledged changes, by kind of writer."""
    errors: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    """The number of restarts, by the signal that ended the process."""
    compactions: int = 0
    conflicts: int = 0
    """The number of documents in the log that lack a change, because they were computed from an old one."""
    repairs: int = 0
    """The number of repairs in the log."""
    lost: dict[str, list[str]] = field(default_factory=dict)
    """By the broker or server that shows them: acknowledged changes that are not there in the end."""
    undone: list[str] = field(default_factory=list)
    """Repairs of guards that another one undid, or numbers that decreased in the watch of a sidecar."""
    unrepaired: int = 0
    """The number of documents that brokers show wrongly in the end."""
    longest_wrong_ms: int = 0
    """The longest time for which brokers showed a document wrongly."""
    wrong_after_ms: list[int] = field(default_factory=list)
    """The same for the time between each restart and the next one, or the end."""
    quiet_seconds: float = 0.0
    """How long the cluster took to come to rest in the end."""
    stories: list[str] = field(default_factory=list)
    """The last events of a topic that lost a change."""

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
            [f"{self.name}, {self.seconds:.0f} s", *(f"  {name:<{width}}  {value}" for name, value in rows.items()), *self.stories]
        )


class Run:
    """The state of one run on a place.

    Attributes:
        ended: when processes were ended, in milliseconds since 1970.
        attended: held during a compaction or a restart, which must not be interrupted.
    """

    def __init__(self, place: Place, log: RawLog, outcome: Outcome, progress: Callable[[str], None], term: Term) -> None:
        """``term``: how long the load lasts."""
        self.place = place
        self.log = log
        self.outcome = outcome
        self.term = term
        self.ended: list[int] = []
        self.attended = asyncio.Lock()
        self._restarts: Counter[str] = Counter()
        self._progress = progress

    async def every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        """Calls ``act`` again and again until the load is over, with a pause of at least half of ``seconds`` after each call."""
        due = time.monotonic() + seconds
        while not self.term.over:
            if time.monotonic() >= due:
                await act()
                due = max(due + seconds, time.monotonic() + seconds / 2)
            await asyncio.sleep(0.1)

    async def compact(self) -> None:
        """Compacts the log once."""
        async with self.attended:
            await self.compact_now()
        self.tell("compacted")

    async def compact_now(self) -> None:
        """Compacts the log once, for a caller that holds ``attended``."""
        await asyncio.to_thread(self.place.compact)
        self.outcome.compactions += 1

    def restarted(self, how: str, ended_at: int) -> None:
        """Notes that a process was ended and started again."""
        self.ended.append(ended_at)
        self._restarts[how] += 1
        self.tell(f"{how}, and back after {(now_ms() - ended_at) / 1000:.1f} s")

    def tell(self, what: str) -> None:
        """Reports progress."""
        self._progress(f"{self.term.seconds:5.0f} s: {what}; {dict(self.log.counts)}, {self.log.wrong} documents wrong")

    async def come_to_rest(self, seconds: float, repairs_due: Callable[[], Awaitable[float]]) -> None:
        """Waits until no document is wrong, no repair is due and no event is new, but at most ``seconds``."""
        began = time.monotonic()
        before: dict[str, int] | None = None
        rests = False
        while not rests and time.monotonic() - began < seconds:
            due = await repairs_due()
            rests = not self.log.wrong and not due and before == dict(self.log.counts)
            before = dict(self.log.counts)
            await asyncio.sleep(1.0)
        took = time.monotonic() - began
        self.tell(f"{'' if rests else 'not '}at rest after {took:.1f} s")
        self.outcome.quiet_seconds = self.outcome.quiet_seconds or took

    @contextlib.asynccontextmanager
    async def compacted_all_the_while(self, every: float) -> AsyncIterator[None]:
        """Compacts the log at intervals while the context is open."""

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
        """Notes the last events of the first of these topics."""
        self.outcome.stories = [f"{topic}:\n" + "\n".join(self.log.story(topic).splitlines()[-_STORY:]) for topic in list(topics)[:1]]

    def close(self) -> None:
        """Notes the counters and times of the log."""
        outcome, log = self.outcome, self.log
        outcome.restarts = dict(self._restarts)
        outcome.conflicts, outcome.repairs = log.counts["stale"], log.counts["repairs"]
        outcome.unrepaired, outcome.longest_wrong_ms = log.wrong, log.longest_wrong_ms
        outcome.wrong_after_ms = wrong_after(log.wrong_times, self.ended, now_ms())


def wrong_after(wrongs: Sequence[Wrong], ended: Sequence[int], over: int) -> list[int]:
    """Returns the longest time for which a document was wrong between each of these moments and the next one.

    Args:
        wrongs: the times in which documents were wrong.
        ended: the moments at which processes were ended, in order.
        over: the end of the run.
    """
    longest = []
    for since, until in itertools.pairwise([*ended, over]):
        parts = (min(each.until, until) - max(each.since, since) for each in wrongs)
        longest.append(max([0, *parts]))
    return longest


def to_standard_error(line: str) -> None:
    """Prints a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def parser(program: str, what: str) -> argparse.ArgumentParser:
    """Returns a parser of the options that these runs share."""
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
    """Returns the plan that the options describe."""
    return Plan(options.seconds, options.restart_every, options.compact_every, options.quiet, options.topics, options.partitions)


def show(outcome: Outcome, output: str) -> int:
    """Prints the results, and returns the exit status."""
    print(json.dumps({**asdict(outcome), "broken": outcome.broken}, indent=2) if output == "json" else outcome)
    return 1 if outcome.broken else 0

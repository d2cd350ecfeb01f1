"""A guard that is ended and started again and again under a storm: ``python -m tests.promises.guard.restarts --seconds 300``.

It is ended by SIGTERM and by SIGKILL in turn, while administrators make overlapping changes at a real 4.0.0, and the log is compacted: from
time to time, and each time between the end of one guard and the start of the next. Changes that were undone then are known only from the
entries that compaction hides from readers, and that a guard recalls.

Exits with 1 if a change is lost, taken back, or not healed in the end.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.promises.shared.acknowledged import Acknowledged, Cell
from tests.promises.shared.interrupted import Outcome, Plan, Run, parser, plan_of, show, to_standard_error
from tests.promises.shared.raw_log import now_ms
from tests.promises.shared.rest import set_over_rest, wrongly_shown
from tests.promises.shared.run import Place
from tests.promises.shared.settings import Owned
from tests.promises.shared.term import Term

from .guarding import Guarding, launch
from .healings import healings, taken_back
from .storm import THREADS

VERSION = "4.0.0"
_PAUSE_SECONDS = 0.25
_LAST_SECONDS = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGKILL)


class Lives:
    """The guards, one after the other."""

    def __init__(self, place: Place, home: Path) -> None:
        self._place = place
        self._home = home
        self._outputs: list[Path] = []
        self.guard: Guarding | None = None

    async def begin(self) -> None:
        """Starts the next guard, and returns when it has read the log."""
        self._outputs.append(self._home / f"guard-{len(self._outputs)}.log")
        self.guard = launch(self._place.broker, self._outputs[-1], self._place.namespace)
        await self.guard.loaded(1)

    async def restart(self, run: Run) -> None:
        """Ends the guard, by the next signal in turn, and starts another."""
        number = _SIGNALS[(len(self._outputs) - 1) % len(_SIGNALS)]
        async with run.attended:
            ended_at = now_ms()
            await self.end(number)
            await run.compact_now()
            await self.begin()
        run.restarted(number.name, ended_at)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends the guard that runs."""
        guard, self.guard = self.guard, None
        if guard is not None:
            guard.process.send_signal(number)
            status = await asyncio.to_thread(guard.process.wait, 30)
            assert status == (0 if number is signal.SIGTERM else -number), (
                f"{number.name} ended a guard with {status}: {guard.lines()[-20:]}"
            )

    async def repairs_due(self) -> float:
        """Returns how many keys the running guard has to heal."""
        assert self.guard is not None, "a guard runs"
        return (await self.guard.metrics())["repairs_due"]

    def lines(self) -> list[str]:
        """Returns the lines of all guards, in their order."""
        return [line for output in self._outputs for line in output.read_text().splitlines()]


async def restarts(broker: Broker, plan: Plan, home: Path, progress: Callable[[str], None] = to_standard_error) -> Outcome:
    """Makes one run."""
    place = await asyncio.to_thread(Place, broker, topics=plan.topics, partitions=plan.partitions, prefix="restarts")
    outcome = Outcome(f"a guard beside {broker.version}, restarted every {plan.restart_every:g} s, {place.name}", plan.seconds)
    acknowledged = Acknowledged()
    async with place.log() as log:
        lives = Lives(place, home)
        try:
            await lives.begin()
            run = Run(place, log, outcome, progress, Term(acknowledged, plan.seconds, {}))
            async with run.compacted_all_the_while(plan.compact_every):
                with run.term:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(overlapping(run, acknowledged))
                        group.create_task(run.every(plan.restart_every, partial(lives.restart, run)))
                await run.come_to_rest(plan.quiet, lives.repairs_due)
            await lives.restart(run)  # one more guard, which finds everything healed
            await run.come_to_rest(_LAST_SECONDS, lives.repairs_due)
        finally:
            await lives.end()
        run.close()
        wrong = await asyncio.to_thread(wrongly_shown, broker.admin, acknowledged, 3.0)
        outcome.changes, outcome.errors = dict(acknowledged.changes), dict(acknowledged.errors)
        outcome.lost["the broker"] = [f"{cell}: {number}, not {acknowledged.newest[cell]}" for cell, number in wrong.items()]
        outcome.undone = [str(each) for each in taken_back(healings(lives.lines()))]
        run.tell_story(cell.topic for cell in wrong)
    return outcome


async def overlapping(run: Run, acknowledged: Acknowledged) -> None:
    """Has every administrator set its setting on each topic, all at the same time, round after round."""
    loop = asyncio.get_running_loop()

    def once(owned: Owned) -> None:
        with run.place.broker.admin() as admin:
            for topic in run.place.topics:
                set_over_rest(admin, Cell(topic, owned), acknowledged)

    with ThreadPoolExecutor(len(THREADS)) as threads:
        while not run.term.over:
            await asyncio.gather(*(loop.run_in_executor(threads, once, owned) for owned in THREADS))
            await asyncio.sleep(_PAUSE_SECONDS)


def main() -> int:
    """Runs with the options of the command line."""
    options = parser("python -m tests.promises.guard.restarts", (__doc__ or "").splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as home, OwnBroker(VERSION) as broker:
        return show(asyncio.run(restarts(broker, plan_of(options), Path(home))), options.output)


if __name__ == "__main__":
    sys.exit(main())

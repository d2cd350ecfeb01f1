"""Two sidecars that are restarted in turn under load: ``python -m tests.promises.shared.restarts --seconds 300``.

The restarts alternate between SIGTERM and SIGKILL, while administrators of a real 4.2.4 broker and clients of both sidecars write and the
log is compacted.

The exit status is 1 if a change is lost, undone in a sidecar's watch, or not repaired in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.ports import free_port
from tests.promises.api import Api, Refused
from tests.promises.server_process import ServerProcess

from .acknowledged import Acknowledged, Cell
from .clients import wrongly_answered
from .heads import Heads
from .interrupted import Outcome, Plan, Run, parser, plan_of, show, to_standard_error
from .raw_log import now_ms
from .rest import set_over_rest, wrongly_shown
from .run import Place, scrape, sidecar
from .settings import CLIENTS, REST, Owned
from .term import Term

_PAUSE_SECONDS = 0.02
_AWAY_SECONDS = 0.2
_LAST_SECONDS = 10.0
_REQUEST_SECONDS = 15


class Sidecar:
    """A sidecar that is started several times, with a watch each time."""

    def __init__(self, broker: Broker, namespace: str, output: Path) -> None:
        self.metrics_at = f"127.0.0.1:{free_port()}"
        options = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--writer", "shared"]
        self.server = ServerProcess([*options, "--metrics-listen", self.metrics_at], output)
        self.undone: list[str] = []
        """Numbers that decreased in a watch."""
        self.streamed = 0
        """The number of changes that the watches have received."""
        self._namespace = namespace
        self._output = output
        self._life: contextlib.AsyncExitStack | None = None

    async def begin(self) -> None:
        """Starts the process, and waits until it follows the log."""
        await self.server.start()
        self._life = contextlib.AsyncExitStack()
        heads = await self._life.enter_async_context(self._watched())
        try:
            await heads.synced()
        except TimeoutError as error:
            error.add_note(f"a sidecar does not follow the log; {heads.undone}; it printed last:\n{self._output.read_text()[-4000:]}")
            raise

    async def end(self, number: signal.Signals) -> None:
        """Ends the process with a signal."""
        life, self._life = self._life, None
        if life is not None:
            await life.aclose()
        if number is signal.SIGKILL:
            self.server.kill()
        else:
            status = await asyncio.to_thread(self.server.stop)
            assert status == 0, f"SIGTERM ended a sidecar with {status}"

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[Heads]:
        async with Api(self.server.address) as api:
            heads = Heads(api, self._namespace)
            watch = asyncio.create_task(heads.follow())
            try:
                yield heads
            finally:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
                self.undone += heads.undone
                self.streamed += heads.changes


async def restarts(broker: Broker, plan: Plan, home: Path, progress: Callable[[str], None] = to_standard_error) -> Outcome:
    """Makes one run."""
    place = await asyncio.to_thread(Place, broker, topics=plan.topics, partitions=plan.partitions, prefix="restarts")
    outcome = Outcome(f"two sidecars beside {broker.version}, one restarted every {plan.restart_every:g} s, {place.name}", plan.seconds)
    acknowledged = Acknowledged()
    sidecars = [Sidecar(broker, place.namespace, home / f"sidecar-{number}.log") for number in range(2)]
    async with place.log() as log, contextlib.AsyncExitStack() as stack:
        for each in sidecars:
            stack.push_async_callback(each.end, signal.SIGKILL)
            await each.begin()
        run = Run(place, log, outcome, progress, Term(acknowledged, plan.seconds, dict.fromkeys(("admin REST", "sidecars"), plan.changes)))

        async def restart() -> None:
            number = len(run.ended)
            one, how = sidecars[number % 2], (signal.SIGTERM, signal.SIGKILL)[number // 2 % 2]
            ended_at = now_ms()
            await one.end(how)
            await one.begin()
            run.restarted(f"{how.name} of sidecar {number % 2}", ended_at)

        async with run.compacted_all_the_while(plan.compact_every):
            with run.term:
                async with asyncio.TaskGroup() as group:
                    for owned in REST:
                        group.create_task(asyncio.to_thread(administrate, run, owned, acknowledged))
                    for number, owned in enumerate(CLIENTS):
                        group.create_task(change(run, sidecars[number % 2].server, owned, acknowledged))
                    group.create_task(run.every(plan.restart_every, restart))
            await run.come_to_rest(plan.quiet, lambda: _due(sidecars))
        for _ in sidecars:
            await restart()  # once more each, after all repairs
        await run.come_to_rest(_LAST_SECONDS, lambda: _due(sidecars))
        run.close()
        await judge(run, sidecars, acknowledged, home)
    outcome.undone = [line for each in sidecars for line in each.undone]
    assert min(each.streamed for each in sidecars) > 0, "the watches have received changes"
    return outcome


def administrate(run: Run, owned: Owned, acknowledged: Acknowledged) -> None:
    """Changes one setting, of one topic after the other, as an administrator."""
    chance = random.Random(owned.setting)
    with run.place.broker.admin() as admin:
        while not run.term.over:
            set_over_rest(admin, Cell(chance.choice(run.place.topics), owned), acknowledged)
            time.sleep(_PAUSE_SECONDS)


async def change(run: Run, server: ServerProcess, owned: Owned, acknowledged: Acknowledged) -> None:
    """Changes one setting, of one topic after the other, as a client of a sidecar; pauses after an error."""
    chance = random.Random(owned.setting)
    async with Api(server.address) as api:
        while not run.term.over:
            cell = Cell(chance.choice(run.place.topics), owned)
            number = acknowledged.next(cell)
            try:
                answer = await api.update(cell.topic, owned.policies(number), mask=[owned.path], timeout=_REQUEST_SECONDS)
            except Refused as error:
                acknowledged.errors[f"sidecar {error.code}"] += 1
                await asyncio.sleep(_AWAY_SECONDS)
                continue
            assert answer.outcome == "APPLIED", answer
            acknowledged.acknowledge(cell, number, "sidecars")
            await asyncio.sleep(_PAUSE_SECONDS)


async def judge(run: Run, sidecars: list[Sidecar], acknowledged: Acknowledged, home: Path) -> None:
    """Notes what the broker, both sidecars and one that starts now show wrongly in the end."""
    outcome, place = run.outcome, run.place
    outcome.changes, outcome.errors = dict(acknowledged.changes), dict(acknowledged.errors)
    wrong = {"the broker": await asyncio.to_thread(wrongly_shown, place.broker.admin, acknowledged, 3.0)}
    for number, each in enumerate(sidecars):
        async with Api(each.server.address) as api:
            wrong[f"sidecar {number}"] = await wrongly_answered(api, place.topics, acknowledged)
    async with sidecar(place.broker, home / "late.log") as (late, _), Api(late.address) as api:
        wrong["a sidecar started afterwards"] = await wrongly_answered(api, place.topics, acknowledged)
    outcome.lost = {
        who: [f"{cell}: {number}, not {acknowledged.newest.get(cell, 0)}" for cell, number in each.items()] for who, each in wrong.items()
    }
    run.tell_story(cell.topic for each in wrong.values() for cell in each)


async def _due(sidecars: list[Sidecar]) -> float:
    metrics = [await asyncio.to_thread(scrape, each.metrics_at) for each in sidecars]
    return sum(each["repairs_due"] for each in metrics)


def main() -> int:
    """Runs with the options of the command line."""
    options = parser("python -m tests.promises.shared.restarts", (__doc__ or "").splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as home, OwnBroker() as broker:
        return show(asyncio.run(restarts(broker, plan_of(options), Path(home))), options.output)


if __name__ == "__main__":
    sys.exit(main())

"""What authentication, authorization, metrics and traces cost a server, separately and together, in processor time per update.

python -m bench.telemetry [ROUNDS]

All servers run at the same time, and are called in turn, a little each, in another order each round, so that other work on the machine
affects all of them alike. The output has the lower quartile of the rounds, because other work only ever makes processor time longer, and
the difference in percent from the server with all of it off.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import grpc
import jwt

from tests.ops.collector import Collector
from tests.ports import free_port
from tests.promises.server_process import ServerProcess

from .permitting import AT_ONCE, SECRET, Caller, Metadata, written

BATCHED, SINGLE = 3_000, 600
SCRAPES = "--metrics-listen"


@dataclass(slots=True)
class Variant:
    """One configuration of a server, and what was measured of it."""

    name: str
    options: list[str]
    metadata: Metadata = ()
    batched: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    loop: list[float] = field(default_factory=list)
    """The time of the event loop's thread per single update."""


def variants(directory: Path, endpoint: str) -> list[Variant]:
    """All variants, the first with all of it off."""
    key, roles = written(directory)
    token = (("authorization", f"Bearer {jwt.encode({'sub': 'changer'}, SECRET, algorithm='HS256')}"),)
    authentication = ["--authentication-providers", "token", "--token-secret-key", str(key)]
    authorization = ["--authorization", str(roles)]
    telemetry = ["--otlp-endpoint", endpoint]
    sampled = (("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)
    return [
        Variant("all off", []),
        Variant("authentication", [*authentication, "--allow-authenticated"], token),
        Variant("and authorization", [*authentication, *authorization], token),
        Variant("metrics", _shown()),
        Variant("the caller's context goes along", [], sampled),
        Variant("traces to a collector, 1 in 100 traced", [*_shown(), *telemetry]),
        Variant("the same, every call traced", [*_shown(), *telemetry], sampled),
        Variant("all together, 1 in 100 traced", [*authentication, *authorization, *_shown(), *telemetry], token),
    ]


def _shown() -> list[str]:
    return [SCRAPES, f"127.0.0.1:{free_port()}"]


def scrape(variant: Variant) -> None:
    """As Prometheus does."""
    if SCRAPES in variant.options:
        with urllib.request.urlopen(f"http://{variant.options[variant.options.index(SCRAPES) + 1]}/metrics", timeout=20) as answer:
            answer.read()


class Server(NamedTuple):
    """A running server, and its caller."""

    variant: Variant
    process: ServerProcess
    caller: Caller

    async def batched(self, count: int) -> float:
        """Makes this many changes in batches. Returns the microseconds per change."""
        return (await self._taken(self.caller.batch, count))[0]

    async def single(self, count: int, at_once: int = AT_ONCE) -> tuple[float, float]:
        """Makes this many single updates. Returns the microseconds per update, and those of the event loop's thread."""
        return await self._taken(lambda number: self.caller.update(number, at_once), count)

    async def _taken(self, make: Callable[[int], Awaitable[None]], count: int) -> tuple[float, float]:
        before = processor_microseconds(self.process.pid)
        await make(count)
        after = processor_microseconds(self.process.pid)
        return (after.all - before.all) / count, (after.loop - before.loop) / count


@contextlib.asynccontextmanager
async def serving(directory: Path, asked: Sequence[Variant]) -> AsyncIterator[list[Server]]:
    """A server for each variant, all at the same time."""
    async with contextlib.AsyncExitStack() as open_parts:
        servers = []
        for number, variant in enumerate(asked):
            own = directory / str(number)
            own.mkdir()
            options = ["--data", str(own / "policies.db"), "--no-history", "--no-checkpoints", "--access-log", "off", *variant.options]
            process = ServerProcess(options, own / "output")
            await process.start()
            open_parts.callback(process.kill)
            channel = await open_parts.enter_async_context(grpc.aio.insecure_channel(process.address))
            servers.append(Server(variant, process, Caller(channel, variant.metadata)))
        yield servers


async def measure(servers: Sequence[Server], rounds: int) -> None:
    """Calls each server in turn."""
    order = list(servers)
    for number in range(-1, rounds):
        random.shuffle(order)
        for server in order:
            batched, (single, loop) = await server.batched(BATCHED), await server.single(SINGLE)
            if number >= 0:
                server.variant.batched.append(batched)
                server.variant.single.append(single)
                server.variant.loop.append(loop)
            await asyncio.to_thread(scrape, server.variant)


async def main(rounds: int) -> None:
    """Measures all configurations, and prints tables."""
    with tempfile.TemporaryDirectory() as place, Collector() as collector:
        directory = Path(place)
        async with serving(directory, variants(directory, collector.endpoint)) as servers:
            await measure(servers, rounds)
    first, *_ = measured = [server.variant for server in servers]
    print(f"{'microseconds for an update':52}{'batched':>10}{'':>8}{'single':>10}")
    for each in measured:
        print(f"{each.name:52}{shown(each.batched, first.batched)}{shown(each.single, first.single)}{shown(each.loop, first.loop)}")
    print(f"the collector was told of {len(collector.spans)} spans")


class Taken(NamedTuple):
    """Microseconds of processor time."""

    all: float
    """Of all live threads of a process."""
    loop: float
    """Of its first thread, which runs the event loop. gRPC's threads, and the one that writes the log, are others."""


def processor_microseconds(pid: int) -> Taken:
    """Returns the time that a process's threads have used so far, with a finer resolution than clock ticks."""
    used = {task.parent.name: int(task.read_text().split()[0]) / 1_000 for task in Path(f"/proc/{pid}/task").glob("*/schedstat")}
    return Taken(sum(used.values()), used[str(pid)])


def shown(values: list[float], off: list[float]) -> str:
    """Returns the lower quartile and the difference, as text."""
    value, other = (statistics.quantiles(each, n=4)[0] for each in (values, off))
    return f"{value:10.1f}{100 * (value / other - 1):+7.1f}%"


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))

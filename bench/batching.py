"""Updates over ``BatchUpdatePolicies`` on the embedded log, 16 to 256 a call, beside single updates and an echo of the same messages.

    python3 dev.py bench batching

In each round every size runs on the echo and on the service, one after the other, which take turns at being first. A figure is the median
over the rounds, and a ratio is the median of the ratios of the rounds. The load generator sends prepared bytes and does not parse the
results. The processor time is the server's alone: other work on the machine does not affect it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

import grpc
import uvloop
from rich.console import Console
from rich.table import Table

from bench.echo import METHOD
from bench.load import Calls, closed_loop, echo_calls, update_calls
from bench.targets import Program, running, sqlite
from bench.verdicts import print_verdict
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

SIZES = (1, 16, 64, 256)
"""Changes a call; 1: single updates, as many in flight as ``_SINGLES``."""
BATCH = "/topicpolicies.v1.TopicPoliciesService/BatchUpdatePolicies"
IN_FLIGHT = 4
"""Batches in flight."""
TOPICS = 64 * IN_FLIGHT
"""So many that batches of 64 in flight have no topic in common."""
_SINGLES = 64
_REACH = 2.0
_AT_MOST_PER_SECOND = 40_000
"""Changes that are prepared per second of the measurement."""


class Rate(NamedTuple):
    """The result of one load."""

    per_second: float
    server_us: float
    """The server's processor time per change, in microseconds."""


class Round(NamedTuple):
    """One size of messages, measured on the echo and on the service."""

    echo: Rate
    updates: Rate


def batches(namespace: str, topics: int, size: int) -> Iterator[bytes]:
    """Yields messages of ``size`` updates of one setting, each with a new value and a new request id, over topics in turn."""
    for first in itertools.count(0, size):
        message = service_pb2.BatchUpdatePoliciesRequest()
        for number in range(first, first + size):
            update = message.changes.add().update
            update.topic = f"persistent://{namespace}/bench-{number % topics}"
            update.policies.CopyFrom(TopicPolicies(max_producer_per_topic=number % 1_000_000))
            update.request_id = uuid.uuid4().hex
            update.update_mask.paths.append("max_producer_per_topic")
        yield message.SerializeToString()


async def send(channel: grpc.aio.Channel, method: str, ready: deque[bytes], size: int, seconds: float = float("inf")) -> tuple[int, float]:
    """Sends batches, several at once.

    Args:
        channel: to the service.
        method: a unary method that takes the batches.
        ready: the batches; those that are sent are removed.
        size: changes per batch.
        seconds: how long it sends, if there are enough batches.

    Returns:
        The number of changes, and the seconds that they took.
    """
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    begin, many = time.perf_counter(), len(ready)

    async def one() -> None:
        while ready and time.perf_counter() < begin + seconds:
            await call(ready.popleft())

    await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
    return (many - len(ready)) * size, time.perf_counter() - begin


async def measure(echo: Program, service: Program, rounds: int, seconds: float) -> dict[int, list[Round]]:
    """Measures all sizes on both, round by round."""
    sources = {size: batches("public/default", TOPICS, size) for size in SIZES[1:]}
    found: defaultdict[int, list[Round]] = defaultdict(list)
    async with grpc.aio.insecure_channel(echo.address) as there, grpc.aio.insecure_channel(service.address) as here:
        single = {echo: echo_calls(there), service: update_calls(here, "public/default", TOPICS)}

        async def rate(program: Program, size: int) -> Rate:
            if size == 1:
                calls: Calls = single[program]
                used = program.processor_seconds
                sample = await closed_loop(calls, _SINGLES, seconds)
                return Rate(sample.per_second, (program.processor_seconds - used) / sample.calls * 1e6)
            ready = deque(itertools.islice(sources[size], 1 + int(_AT_MOST_PER_SECOND * seconds) // size))
            used = program.processor_seconds
            changes, took = await send(here if program is service else there, BATCH if program is service else METHOD, ready, size, seconds)
            return Rate(changes / took, (program.processor_seconds - used) / changes * 1e6)

        await rate(service, 64)  # warms up the server
        for number in range(rounds):
            for size in SIZES:
                both = {program: await rate(program, size) for program in ((echo, service) if number % 2 else (service, echo))}
                found[size].append(Round(both[echo], both[service]))
    return found


def show(found: dict[int, list[Round]], console: Console) -> bool:
    """Prints a table. Returns whether the target was reached."""
    table = Table(title="Changes in batches, median over the rounds; processor time is the server's for a change")
    for column in (
        "a call",
        "echo /s",
        "updates /s",
        "of the echo",
        "of single updates",
        "echo us",
        "updates us",
        "single us / us",
    ):
        table.add_column(column, justify="right")
    gains: dict[int, float] = {}
    for size, rounds in found.items():
        pairs = list(zip(rounds, found[1], strict=True))
        gains[size] = statistics.median(each.updates.per_second / one.updates.per_second for each, one in pairs)
        table.add_row(
            str(size),
            f"{statistics.median(each.echo.per_second for each in rounds):,.0f}",
            f"{statistics.median(each.updates.per_second for each in rounds):,.0f}",
            f"{statistics.median(each.updates.per_second / each.echo.per_second for each in rounds):.2f}",
            f"{gains[size]:.2f}",
            f"{statistics.median(each.echo.server_us for each in rounds):.0f}",
            f"{statistics.median(each.updates.server_us for each in rounds):.0f}",
            f"{statistics.median(one.updates.server_us / each.updates.server_us for each, one in pairs):.2f}",
        )
    console.print(table)
    size, gain = max(gains.items(), key=lambda each: each[1])
    print_verdict(console, f"{size} updates a call, against single updates", gain, f">= {_REACH:.0f}", reached=gain >= _REACH)
    return gain >= _REACH


def main() -> int:
    """Measures and prints. Returns 1 if the target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load in a round (default: %(default)s)")
    options = parser.parse_args()
    with running("-m", "bench.echo", "PORT") as echo, sqlite() as target:
        assert isinstance(target.program, Program), "started for this run"
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(measure(echo, target.program, options.rounds, options.seconds))
    return 0 if show(found, Console()) else 1


if __name__ == "__main__":
    sys.exit(main())

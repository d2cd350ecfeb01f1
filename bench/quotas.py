"""What a caller at its limit costs others: the delays of one principal's changes beside a principal that requests as much as it can.

    python -m bench.quotas [--seconds 8] [--runs 3]

Each server runs in its own process, on the embedded log, and requires tokens; the other caller has its own process too. The *polite* caller
makes 50 changes a second, one after the other, at random times. These cases are measured in turn: there is no other caller; a *greedy*
caller without limits; a *modest* caller, which requests no more than the limit of 100 changes a second; a greedy caller at that limit that
waits as long as the service says (``RetryInfo``), one that does not wait, and one that sends its changes in batches. Each figure is the
median of all runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import jwt

from bench.targets import Program, sqlite
from topicpolicies.errors import from_rpc_error
from topicpolicies.v1 import service_pb2, service_pb2_grpc
from topicpolicies.v1.policies_pb2 import TopicPolicies

_RATE = 50
_AT_ONCE = 32
_BATCH = 100
_BATCHES = 4
_SECRET = "a secret of thirty-two characters"  # noqa: S105 (made for this)
_MAY = 100
LIMIT = ("--max-changes-per-second-per-principal", str(_MAY))
NOBODY, MODEST, WAITS = "nobody else", "no more than the limit", "greedy at its limit, waits"

KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    NOBODY: (LIMIT, ""),
    "greedy, without limits": ((), "rude"),
    "greedy in batches, without limits": ((), "batches"),
    MODEST: (LIMIT, "modest"),
    WAITS: (LIMIT, "waits"),
    "greedy at its limit, does not wait": (LIMIT, "rude"),
    "greedy in batches at its limit": (LIMIT, "batches"),
}
"""By name: the options of the server, and how the other caller behaves."""


class Measured(NamedTuple):
    """The figures of one run."""

    p50_ms: float
    p99_ms: float
    processor_seconds: float
    """The server's processor time."""
    others: float
    """Changes per second that the other caller made."""


def _update(topic: str, number: int) -> service_pb2.UpdatePolicyRequest:
    policies = TopicPolicies(max_producer_per_topic=number % 1_000)
    return service_pb2.UpdatePolicyRequest(topic=f"persistent://public/default/{topic}", policies=policies)


def _who(name: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {jwt.encode({'sub': name}, _SECRET, algorithm='HS256')}"),)


async def greedy(address: str, how: str, seconds: float) -> int:
    """Makes as many changes as it can, or with ``modest`` as it may. Returns their number."""
    over = time.monotonic() + seconds
    made = 0
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = service_pb2_grpc.TopicPoliciesServiceStub(channel)
        who = _who("greedy")

        async def call(which: int) -> None:
            nonlocal made
            while time.monotonic() < over:
                try:
                    await stub.UpdatePolicy(_update(f"greedy-{which}", made), metadata=who)
                    made += 1
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise
                    if how == "waits":
                        await asyncio.sleep(from_rpc_error(error).retry_seconds or 0.0)

        if how == "modest":
            return len(await _in_turn(stub, who, "modest", times(_MAY, seconds)))
        if how != "batches":
            await asyncio.gather(*map(call, range(_AT_ONCE)))
            return made

        async def batches(which: int) -> None:
            nonlocal made
            while time.monotonic() < over:
                changes = [service_pb2.PolicyChangeRequest(update=_update(f"greedy-{which}-{each}", made + each)) for each in range(_BATCH)]
                response = await stub.BatchUpdatePolicies(service_pb2.BatchUpdatePoliciesRequest(changes=changes), metadata=who)
                made += sum(result.HasField("success") for result in response.results)

        await asyncio.gather(*map(batches, range(_BATCHES)))
    return made


async def polite(address: str, seconds: float) -> list[float]:
    """Makes the polite caller's changes when they are due. Returns the delay of each from then on, in milliseconds.

    Each is due at a random time in its fiftieth of a second. At regular times each would have the same distance from a change of the other
    caller, whose times are regular too: a whole run would be measured at one distance, and the next run at another one.
    """
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = service_pb2_grpc.TopicPoliciesServiceStub(channel)
        who = _who("polite")
        await stub.UpdatePolicy(_update("polite", 0), metadata=who, wait_for_ready=True, timeout=60)
        return await _in_turn(stub, who, "polite", times(_RATE, seconds, random.random))


def times(rate: int, seconds: float, chance: Callable[[], float] = float) -> list[float]:
    """Returns the times of ``rate`` changes a second, each in its own interval: at its beginning, or later by a random part of it."""
    return [(number + chance()) / rate for number in range(max(1, int(seconds * rate)))]


async def _in_turn(stub: Any, who: tuple[tuple[str, str], ...], topic: str, times: Sequence[float]) -> list[float]:
    """Makes a change at each of these times from now, one after the other. Returns the delay of each from its time on, in milliseconds."""
    took: list[float] = []
    began = time.monotonic()
    for number, at in enumerate(times):
        due = began + at
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await stub.UpdatePolicy(_update(topic, number), metadata=who)
        took.append((time.monotonic() - due) * 1_000)
    return took


@contextlib.contextmanager
def server(options: tuple[str, ...]) -> Iterator[Program]:
    """Runs a server that requires tokens."""
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text(_SECRET)
        authentication = ("--authentication-providers", "token", "--token-secret-key", str(secret), "--allow-authenticated")
        with sqlite(options=("--no-history", "--no-checkpoints", *authentication, *options)) as target:
            assert isinstance(target.program, Program), "started for this run"
            asyncio.run(polite(target.program.address, 0.5))
            yield target.program


class Observation(NamedTuple):
    """What was seen of a time in which another one called."""

    took: list[float]
    """The delays of the polite caller's changes, in milliseconds."""
    processor_seconds: float
    others: float


def measured(seen: Sequence[Observation]) -> Measured:
    """Of several such times as if they were one."""
    took = sorted(each for part in seen for each in part.took)
    used, others = sum(each.processor_seconds for each in seen), statistics.mean(each.others for each in seen)
    return Measured(statistics.median(took), took[int(len(took) * 0.99)], used, others)


def observe(program: Program, how: str, seconds: float) -> Observation:
    """The polite one's times, once another one has called for a moment."""
    before_that = min(1.0, seconds)
    all_seconds = seconds + before_that
    command = [sys.executable, "-m", "bench.quotas", "--greedy", how, "--address", program.address, "--seconds", str(all_seconds)]
    with contextlib.ExitStack() as ending:
        other = None
        if how:
            other = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            assert other.stdout is not None, "a pipe"
            other.stdout.readline()  # the other caller has begun
            time.sleep(before_that)
        used = program.processor_seconds
        took = asyncio.run(polite(program.address, seconds))
        used = program.processor_seconds - used
        made = int(other.communicate()[0]) / all_seconds if other is not None else 0.0
    return Observation(took, used, made)


def measure(kind: str, seconds: float) -> Measured:
    """Measures one run, on a new server."""
    options, how = KINDS[kind]
    with server(options) as program:
        return measured([observe(program, how, seconds)])


def main() -> None:
    """Measures all cases, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--greedy", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.greedy:
        print("begins", flush=True)
        print(asyncio.run(greedy(given.address, given.greedy, given.seconds)))
        return
    runs: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
    for _ in range(given.runs):
        for kind in KINDS:
            runs[kind].append(measure(kind, given.seconds))
            print(json.dumps({"kind": kind, **runs[kind][-1]._asdict()}), file=sys.stderr)
    print("| beside the polite one | p50 | p99 | server's processor | changes of the other one in a second |\n|---|---|---|---|---|")
    for kind, each in runs.items():
        p50, p99, used, others = (statistics.median(column) for column in zip(*each, strict=True))
        print(f"| {kind} | {p50:.1f} ms | {p99:.1f} ms | {used / given.seconds:.0%} of a core | {others:,.0f} |")


if __name__ == "__main__":
    main()

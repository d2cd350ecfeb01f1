"""What a caller at its limit costs others: the times of one principal's changes beside another's that asks for all it can get.

    python -m bench.rations [--seconds 8] [--runs 3]

Each server is a process of its own, in memory, and asks for tokens; so is each greedy caller. The polite one makes 50 changes in a second,
one after the other as their times come. In turn: nobody else calls; a greedy one calls, without limits; a greedy one at a limit of 100
changes in a second, that waits as the service says, that does not, and that sends them over a stream. Of each the median of all runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import jwt

from tests.ports import free_port
from topicpolicies.v1 import service_pb2, service_pb2_grpc
from topicpolicies.v1.policies_pb2 import TopicPolicies

_RATE = 50
_AT_ONCE = 32
_BATCH = 100
_SECRET = "a secret of thirty-two characters"  # noqa: S105 (made for this)
_LIMIT = ("--max-changes-per-second-per-principal", "100")
_TICKS = os.sysconf("SC_CLK_TCK")

KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "nobody else": ((), ""),
    "greedy, without limits": ((), "rude"),
    "greedy stream, without limits": ((), "stream"),
    "greedy at its limit, waits": (_LIMIT, "waits"),
    "greedy at its limit, does not wait": (_LIMIT, "rude"),
    "greedy stream at its limit": (_LIMIT, "stream"),
}
"""By its name the options of the server, and how the greedy one calls."""


class Measured(NamedTuple):
    """One run."""

    p50_ms: float
    p99_ms: float
    processor_seconds: float
    """Of the server."""
    others: int
    """Changes of the greedy one that were made."""


def _update(topic: str, number: int) -> service_pb2.UpdatePolicyRequest:
    policies = TopicPolicies(max_producer_per_topic=number % 1_000)
    return service_pb2.UpdatePolicyRequest(topic=f"persistent://public/default/{topic}", policies=policies)


def _who(name: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {jwt.encode({'sub': name}, _SECRET, algorithm='HS256')}"),)


async def greedy(address: str, how: str, seconds: float) -> int:
    """Makes as many changes as it can; how many."""
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
                        await asyncio.sleep(0.3)  # 32 of them want 100 in a second

        if how != "stream":
            await asyncio.gather(*map(call, range(_AT_ONCE)))
            return made
        stream = stub.UpdatePolicies(metadata=who)

        async def send() -> None:
            number = 0
            while time.monotonic() < over:
                changes = [
                    service_pb2.PolicyChangeRequest(sequence=number + each, update=_update(f"greedy-{each}", number))
                    for each in range(_BATCH)
                ]
                await stream.write(service_pb2.UpdatePoliciesRequest(changes=changes))
                number += _BATCH

        sending = asyncio.ensure_future(send())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (answer := await stream.read()) is not grpc.aio.EOF:
                    made += len(answer.results)
        sending.cancel()
        stream.cancel()
    return made


async def polite(address: str, seconds: float) -> list[float]:
    """Makes its changes as their times come; how long each took from then on, in milliseconds."""
    took: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = service_pb2_grpc.TopicPoliciesServiceStub(channel)
        who = _who("polite")
        await stub.UpdatePolicy(_update("polite", 0), metadata=who, wait_for_ready=True)
        began = time.monotonic()
        for number in range(int(seconds * _RATE)):
            due = began + number / _RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await stub.UpdatePolicy(_update("polite", number), metadata=who)
            took.append((time.monotonic() - due) * 1_000)
    return took


@contextlib.contextmanager
def _server(options: tuple[str, ...], folder: Path) -> Iterator[tuple[str, int]]:
    address = f"127.0.0.1:{free_port()}"
    secret = folder / "secret"
    secret.write_text(_SECRET)
    command = [sys.executable, "-m", "topicpolicies_server", "serve", "--listen", address, "--token-secret-key", str(secret), *options]
    kept = [
        "--authentication-providers",
        "token",
        "--data",
        str(folder / "policies.db"),
        "--no-history",
        "--no-checkpoints",
        "--log-level",
        "warning",
    ]
    with subprocess.Popen([*command, *kept], stderr=subprocess.DEVNULL) as process:
        try:
            yield address, process.pid
        finally:
            process.terminate()


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(kind: str, seconds: float) -> Measured:
    """One run."""
    options, how = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder, _server(options, Path(folder)) as (address, pid):
        asyncio.run(polite(address, 1.0))
        command = [sys.executable, "-m", "bench.rations", "--greedy", how, "--address", address, "--seconds", str(seconds + 1)]
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if how else None
        time.sleep(1.0)
        before = _processor(pid)
        took = sorted(asyncio.run(polite(address, seconds)))
        used = _processor(pid) - before
        made = int(other.communicate()[0]) if other is not None else 0
    return Measured(statistics.median(took), took[int(len(took) * 0.99)], used, made)


def main() -> None:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--greedy", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.greedy:
        print(asyncio.run(greedy(given.address, given.greedy, given.seconds)))
        return
    runs: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
    for _ in range(given.runs):
        for kind in KINDS:
            runs[kind].append(measure(kind, given.seconds))
            print(json.dumps({"kind": kind, **runs[kind][-1]._asdict()}), file=sys.stderr)
    print("| beside the polite one | p50 | p99 | server's processor | changes of the greedy one in a second |\n|---|---|---|---|---|")
    for kind, each in runs.items():
        p50, p99, used, others = (statistics.median(column) for column in zip(*each, strict=True))
        print(f"| {kind} | {p50:.1f} ms | {p99:.1f} ms | {used / given.seconds:.0%} of a core | {others / (given.seconds + 1):,.0f} |")


if __name__ == "__main__":
    main()

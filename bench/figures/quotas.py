"""The delay of a caller's changes beside another caller that requests as much as it can, at its limit.

The limit of this figure is the delay beside a caller that requests no more than its limit of 100 changes a second: allowed changes cost
others what they cost, and requests beyond that are to cost others nothing. The *polite* caller makes 50 changes a second. Both others call
several times in a round, in turn, each in a process of its own, and the delays beside each are taken together.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import jwt

from bench.targets import embedded
from topicpolicies.errors import from_rpc_error
from topicpolicies.v1 import service_pb2, service_pb2_grpc
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .figure import Figure, Measured, Scale, in_turn

_BESIDE = "beside one that asks for no more"
FIGURES = (
    Figure("quotas-p50", "delay beside a caller at its limit, 32 at once, p50", _BESIDE, "ms", at_most=1.1),
    Figure("quotas-p99", "delay beside a caller at its limit, 32 at once, p99", _BESIDE, "ms", at_most=1.1),
)
_KINDS = ("greedy", "modest")
_RATE, _MOST = 50, 100
"""Changes a second of the polite caller, and those that a caller may make."""
_AT_ONCE = 32
_TURNS = 4
"""Turns of each of the other callers per round."""
_TIMES = 2
"""How many times as long as other loads a turn takes, so that a round has 800 changes of the polite caller beside each."""
_SECRET = "a secret of thirty-two characters"  # noqa: S105 (made for this)


def measure(scale: Scale) -> dict[str, Measured]:
    """Measures beside both others in turn, on one server."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text(_SECRET)
        authentication = ("--authentication-providers", "token", "--token-secret-key", str(secret), "--allow-authenticated")
        with embedded("--no-history", *authentication, "--max-changes-per-second-per-principal", str(_MOST)) as program:
            asyncio.run(_called(program.address, "polite", 0.5))
            for _ in range(scale.rounds):
                took: defaultdict[str, list[float]] = defaultdict(list)
                for kind in in_turn(_TURNS, _KINDS):
                    took[kind] += _beside(kind, program.address, _TIMES * scale.seconds)
                for kind, delays in took.items():
                    found[kind, "p50"].append(statistics.median(delays))
                    found[kind, "p99"].append(statistics.quantiles(delays, n=100)[98])
    return {f"quotas-{which}": Measured(found["greedy", which], found["modest", which]) for which in ("p50", "p99")}


def _beside(kind: str, address: str, seconds: float) -> list[float]:
    """Returns the polite caller's delays in milliseconds, once another one has called for a moment."""
    moment = min(1.0, seconds)
    command = [sys.executable, "-m", "bench.figures.quotas", kind, address, str(seconds + moment)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None, "a pipe"
        other.stdout.readline()  # the other caller has begun
        time.sleep(moment)
        delays = asyncio.run(_called(address, "polite", seconds))
        other.communicate()
    if other.returncode:
        raise RuntimeError(f"the {kind} caller ended with {other.returncode}")
    return delays


async def _called(address: str, kind: str, seconds: float) -> list[float]:
    """Makes a caller's changes. Returns their delays in milliseconds; of the greedy one none."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = service_pb2_grpc.TopicPoliciesServiceStub(channel)
        who = (("authorization", f"Bearer {jwt.encode({'sub': kind}, _SECRET, algorithm='HS256')}"),)

        async def change(topic: str, number: int) -> None:
            policies = TopicPolicies(max_producer_per_topic=number % 1_000)
            request = service_pb2.UpdatePolicyRequest(topic=f"persistent://public/default/{topic}", policies=policies)
            await stub.UpdatePolicy(request, metadata=who, wait_for_ready=True, timeout=60)

        if kind == "greedy":
            await asyncio.gather(*(_greedy(change, f"greedy-{number}", seconds) for number in range(_AT_ONCE)))
            return []
        # A polite change is due at a random time in its fiftieth of a second. At regular times each would have the same distance from a
        # change of the other caller, whose times are regular too.
        rate, chance = (_MOST, float) if kind == "modest" else (_RATE, random.random)
        took: list[float] = []
        began = time.monotonic()
        for number in range(max(1, int(seconds * rate))):
            due = began + (number + chance()) / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await change(kind, number)
            took.append((time.monotonic() - due) * 1_000)
        return took


async def _greedy(change: Callable[[str, int], Any], topic: str, seconds: float) -> None:
    """Makes as many changes as it can, one after the other, and waits as long as the service says (``RetryInfo``)."""
    over, made = time.monotonic() + seconds, 0
    while time.monotonic() < over:
        try:
            await change(topic, made)
            made += 1
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            await asyncio.sleep(from_rpc_error(error).retry_seconds or 0.0)


if __name__ == "__main__":
    print("begins", flush=True)
    asyncio.run(_called(sys.argv[2], sys.argv[1], float(sys.argv[3])))

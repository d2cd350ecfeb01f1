"""Single updates on the embedded log with 64 in flight, beside an empty echo on the same stack."""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict

import grpc
import uvloop

from bench.load import Sample, closed_loop, echo_calls, update_calls
from bench.targets import running, sqlite

from .figure import Figure, Measured, Want
from .scale import Say, Scale

IN_FLIGHT = 64
KEYS = {"hot": (1, "hot key"), "keys": (64, "64 keys")}
_RATE = Want(at_least=0.7)
_TAIL = Want(at_most=2.0)
FIGURES = tuple(
    figure
    for name, (_, what) in KEYS.items()
    for figure in (
        Figure(f"unary-{name}", f"UpdatePolicy, embedded log, 64 in flight, {what}", "empty echo", "/s", _RATE),
        Figure(f"unary-{name}-tail", f"p99 of UpdatePolicy, embedded log, 64 in flight, {what}", "its p50", "ms", _TAIL),
    )
)


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures every load after the echo, round by round."""
    with running("-m", "bench.echo", "PORT") as echo, sqlite() as target, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        samples = runner.run(_rounds(echo.address, target.address, scale, say))
    found = {}
    for name in KEYS:
        limits, ours = samples[f"echo {name}"], samples[name]
        rates = Measured([each.per_second for each in ours], [each.per_second for each in limits], _times(ours, limits))
        found[f"unary-{name}"] = rates
        found[f"unary-{name}-tail"] = Measured([each.p99_ms for each in ours], [each.p50_ms for each in ours])
    return found


async def _rounds(echo: str, service: str, scale: Scale, say: Say) -> dict[str, list[Sample]]:
    samples: defaultdict[str, list[Sample]] = defaultdict(list)
    async with grpc.aio.insecure_channel(echo) as there, grpc.aio.insecure_channel(service) as here:
        limit = echo_calls(there)
        ours = {name: update_calls(here, "public/default", keys) for name, (keys, _) in KEYS.items()}
        for calls in (limit, *ours.values()):
            await closed_loop(calls, 8, min(1.0, scale.seconds))
        for number in range(scale.rounds):
            for name, calls in ours.items():
                say(f"round {number + 1} of {scale.rounds}, {KEYS[name][1]}")
                pair = ((f"echo {name}", limit), (name, calls))
                for whom, load in pair if number % 2 else reversed(pair):
                    samples[whom].append(await closed_loop(load, IN_FLIGHT, scale.seconds))
    return samples


def _times(ours: list[Sample], limits: list[Sample]) -> str:
    p50, p99, echo50, echo99 = (
        statistics.median(each)
        for each in zip(*((a.p50_ms, a.p99_ms, b.p50_ms, b.p99_ms) for a, b in zip(ours, limits, strict=True)), strict=True)
    )
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms; the echo's {echo50:.1f} and {echo99:.1f} ms"

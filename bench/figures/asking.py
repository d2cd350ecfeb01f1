"""Updates on a server with authentication, authorization, metrics and traces, beside a server with all of it off.

Both run at the same time, and are called in turn, a little each. The comparison is of the processor time of their processes per update.
Single updates are made 64 at once, so that both servers write as many to the log together: with fewer that number differs by chance from
one run to the next, and its effect is larger than the cost that is measured.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

from bench.telemetry import Server, scrape, serving, variants
from tests.ops.collector import Collector

from .figure import Figure, Measured, Want
from .scale import Say, Scale

_AT_ONCE = 64
_WANT = Want(at_most=1.05)
FIGURES = (
    Figure("asking-batched", "BatchUpdatePolicies with authentication, roles, metrics and traces", "the same, all off", "us", _WANT),
    Figure("asking-single", "UpdatePolicy with authentication, roles, metrics and traces", "the same, all off", "us", _WANT),
)
_BATCHED, _SINGLE = 1_000, 320
"""Updates of one turn."""
_TURNS_PER_SECOND = 4


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both servers, in turn."""
    with tempfile.TemporaryDirectory() as place, Collector() as collector:
        return asyncio.run(_measure(Path(place), collector.endpoint, scale, say))


async def _measure(directory: Path, endpoint: str, scale: Scale, say: Say) -> dict[str, Measured]:
    off, *_, on = variants(directory, endpoint)
    found: dict[str, tuple[list[float], list[float]]] = {figure.name: ([], []) for figure in FIGURES}
    turns = max(1, round(scale.seconds * _TURNS_PER_SECOND))
    async with serving(directory, (on, off)) as servers:
        await _round(servers, 1)
        for number in range(scale.rounds):
            say(f"round {number + 1} of {scale.rounds}")
            for which, (batched, single) in enumerate(await _round(servers, turns)):
                found["asking-batched"][which].append(batched)
                found["asking-single"][which].append(single)
            await asyncio.to_thread(scrape, on)
    note = "processor time of the server for an update; single ones 64 at once"
    return {name: Measured(*both, note if name == FIGURES[0].name else "") for name, both in found.items()}


async def _round(servers: list[Server], turns: int) -> list[tuple[float, float]]:
    """Returns, for each server, the medians over its turns."""
    taken: list[list[tuple[float, float]]] = [[], []]
    for turn in range(turns):
        for which in (0, 1) if turn % 2 else (1, 0):
            batched = await servers[which].batched(_BATCHED)
            single, _ = await servers[which].single(_SINGLE, _AT_ONCE)
            taken[which].append((batched, single))
    return [(statistics.median(a for a, _ in each), statistics.median(b for _, b in each)) for each in taken]

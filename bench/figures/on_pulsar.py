"""Updates on a real broker.

Batches stand beside bare publishes of the same bytes; single updates beside the broker's own admin API, and beside a bare publish plus an
echo.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable

import grpc
import httpx
import uvloop

from bench.batching import BATCH, TOPICS, batches, send
from bench.brokers import topics_that_stay
from bench.load import Sample, closed_loop, echo_calls, rest_calls, update_calls
from bench.targets import Program, new_namespace, pulsar, running

from .figure import Figure, Measured, Want
from .library import client
from .processors import Processors, Used, note, of_one
from .publishing import Publisher, written
from .scale import Say, Scale

SIZE = 64
"""Updates per batch."""
BATCH_FIGURES = (Figure("pulsar-batches", "BatchUpdatePolicies, Pulsar", "bare publishes of the same bytes", "/s", Want(at_least=0.5)),)
CALL_FIGURES = (
    Figure(
        "pulsar-rest",
        "UpdatePolicy, Pulsar, hot key, 8 in flight",
        "admin REST, 8 clients",
        "/s",
        Want(at_least=15.0),
        or_else="pulsar-bare",
    ),
    Figure(
        "pulsar-bare",
        "UpdatePolicy, Pulsar, hot key, 8 in flight, time a call",
        "bare publish plus echo",
        "ms",
        Want(at_most=1.3),
        or_else="pulsar-rest",
    ),
    Figure("pulsar-one", "UpdatePolicy, Pulsar, hot key, 1 in flight, p50", "bare publish plus echo", "ms", Want(at_most=1.15)),
)
_PIPELINED = 1_000
_SAMPLE = 500
"""Messages of the sidecar that are published again."""
_AT_MOST_PER_SECOND = 20_000


def measure_batches(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures batches of updates and bare publishes, round by round."""
    with pulsar(scale.service_url, scale.admin_url, options=()) as target, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert isinstance(target.program, Program), "started for this run"
        topics_that_stay(scale.admin_url, target.namespace, TOPICS)
        return {"pulsar-batches": runner.run(_batch_rounds(target.program, target.namespace, scale, say))}


async def _batch_rounds(server: Program, namespace: str, scale: Scale, say: Say) -> Measured:
    source = batches(namespace, TOPICS, SIZE)
    ours, limits = [], []
    taken: list[Used] = []
    processors = Processors(server.pid, scale.broker)
    async with grpc.aio.insecure_channel(server.address) as channel:

        async def update() -> float:
            ready = deque(itertools.islice(source, 1 + int(_AT_MOST_PER_SECOND * scale.seconds) // SIZE))
            processors.used()
            changes, took = await send(channel, BATCH, ready, SIZE, scale.seconds)
            taken.append(of_one(processors.used(), changes))
            return changes / took

        say("warming up")
        await update()
        messages = await asyncio.to_thread(written, scale.service_url, namespace, _SAMPLE)
        with client(scale.service_url) as library:
            bare = Publisher(library, namespace, messages)
            await asyncio.to_thread(bare.publish, _PIPELINED, min(1.0, scale.seconds))
            for number in range(scale.rounds):
                say(f"round {number + 1} of {scale.rounds}")
                for mine in (True, False) if number % 2 else (False, True):
                    if mine:
                        ours.append(await update())
                    else:
                        limits.append((await asyncio.to_thread(bare.publish, _PIPELINED, scale.seconds)).per_second)
    size = statistics.mean(len(each.payload) + sum(map(len, itertools.chain(*each.properties.items()))) for each in messages)
    document = statistics.mean(len(each.payload) for each in messages)
    sizes = f"{size:,.0f} bytes a message, of which {document:,.0f} are the document"
    return Measured(ours, limits, f"{sizes}; {note('an update', taken[1:])}")


def measure_calls(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures all loads of single updates, round by round."""
    with (
        running("-m", "bench.echo", "PORT") as echo,
        pulsar(scale.service_url, scale.admin_url, options=()) as target,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        topics_that_stay(scale.admin_url, target.namespace, 1)
        beside = new_namespace(scale.admin_url)
        topics_that_stay(scale.admin_url, beside, 1)
        samples = runner.run(_call_rounds(echo.address, target.address, target.namespace, beside, scale, say))
    ours, one = samples["ours", 8], samples["ours", 1]
    limits = [_apart(a) + _apart(b) for a, b in zip(samples["publish", 8], samples["echo", 8], strict=True)]
    one_limits = [a.p50_ms + b.p50_ms for a, b in zip(samples["publish", 1], samples["echo", 1], strict=True)]
    parts = {many: _parts(samples["publish", many], samples["echo", many]) for many in (1, 8)}
    return {
        "pulsar-rest": Measured([each.per_second for each in ours], [each.per_second for each in samples["rest", 8]]),
        "pulsar-bare": Measured([_apart(each) for each in ours], limits, parts[8]),
        "pulsar-one": Measured([each.p50_ms for each in one], one_limits, parts[1]),
    }


def _apart(sample: Sample) -> float:
    """Returns the milliseconds per call with 8 in flight."""
    return 8_000 / sample.per_second


def _parts(publishes: list[Sample], echoes: list[Sample]) -> str:
    publish, echo = (statistics.median(each.p50_ms for each in samples) for samples in (publishes, echoes))
    return f"p50 of a bare publish {publish:.2f} ms, of an echo {echo:.2f} ms"


async def _call_rounds(echo: str, service: str, namespace: str, beside: str, scale: Scale, say: Say) -> dict[tuple[str, int], list[Sample]]:
    samples: defaultdict[tuple[str, int], list[Sample]] = defaultdict(list)
    async with (
        grpc.aio.insecure_channel(echo) as there,
        grpc.aio.insecure_channel(service) as here,
        httpx.AsyncClient(base_url=scale.admin_url, timeout=30, trust_env=False) as rest,
    ):
        ours, empty, admin = update_calls(here, namespace, 1), echo_calls(there), rest_calls(rest, beside)
        for calls in (ours, empty, admin):
            say("warming up")
            await closed_loop(calls, 8, min(1.0, scale.seconds))
        messages = await asyncio.to_thread(written, scale.service_url, namespace, _SAMPLE)
        with client(scale.service_url) as library:
            bare = Publisher(library, namespace, messages)
            loads: dict[str, Callable[[int], Awaitable[Sample]]] = {
                "ours": lambda many: closed_loop(ours, many, scale.seconds),
                "publish": lambda many: asyncio.to_thread(bare.publish, many, scale.seconds),
                "echo": lambda many: closed_loop(empty, many, scale.seconds),
                "rest": lambda many: closed_loop(admin, many, scale.seconds),
            }
            await loads["publish"](8)
            order = [(whom, many) for many in (8, 1) for whom in loads if (whom, many) != ("rest", 1)]
            for number in range(scale.rounds):
                for whom, many in order if number % 2 else reversed(order):
                    say(f"round {number + 1} of {scale.rounds}, {whom}, {many} in flight")
                    samples[whom, many].append(await loads[whom](many))
    return samples

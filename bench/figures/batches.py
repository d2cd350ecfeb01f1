"""Batches of 64 updates.

On the embedded log they stand beside 64 clients that put as much into etcd on the same disk; on Pulsar beside bare publishes.
"""

from __future__ import annotations

import asyncio
import statistics

import grpc

from bench.load import BATCH, IN_FLIGHT, TOPICS, batch_calls, closed_loop, fill
from bench.load import batches as messages_of
from bench.targets import Program, embedded, pulsar
from topicpolicies.v1 import service_pb2

from . import etcd
from .figure import Figure, Measured, Scale, in_turn
from .publishing import Publisher, client, written
from .updates import topics_that_stay

FIGURES = (Figure("batches", "BatchUpdatePolicies, embedded log, 64 updates a call", "etcd, put by 64 clients", "/s", at_least=1.0),)
PULSAR_FIGURES = (Figure("batches-pulsar", "BatchUpdatePolicies, Pulsar", "bare publishes of the same bytes", "/s", at_least=0.5),)
_NAMESPACE = "public/default"
_PIPELINED = 1_000
_SAMPLE = 500


def measure(scale: Scale) -> dict[str, Measured]:
    """Measures the service and etcd, round by round."""
    if not etcd.version():
        return {"batches": Measured(missing="etcd is not installed (apt-get install etcd-server)")}
    with embedded() as service, etcd.etcd() as beside:
        ours, limits, (us, etcd_us) = asyncio.run(_rounds(service, beside, scale))
    note = f"the server's processor time for one: {us:.0f} us, etcd's {etcd_us:.0f} us; etcd {etcd.version()}"
    return {"batches": Measured(ours, limits, note)}


async def _rounds(service: Program, beside: Program, scale: Scale) -> tuple[list[float], list[float], list[float]]:
    """Returns the updates and the puts a second of each round, and the median processor time of each in microseconds."""
    await fill(service.address, _NAMESPACE, TOPICS)
    rates: dict[Program, list[float]] = {service: [], beside: []}
    used: dict[Program, list[float]] = {service: [], beside: []}
    async with grpc.aio.insecure_channel(service.address) as here, grpc.aio.insecure_channel(beside.address) as there:
        updates, puts = batch_calls(here, _NAMESPACE), etcd.put_calls(there, *_like_the_changes())
        loads = {service: (updates, IN_FLIGHT, BATCH), beside: (puts, BATCH, 1)}
        await closed_loop(puts, BATCH, min(1.0, scale.seconds))
        for program in in_turn(scale.rounds, list(loads)):
            calls, in_flight, size = loads[program]
            before = program.processor_seconds
            sample = await closed_loop(calls, in_flight, scale.seconds)
            used[program].append((program.processor_seconds - before) / sample.calls / size * 1e6)
            rates[program].append(sample.per_second * size)
    return rates[service], rates[beside], [statistics.median(each) for each in used.values()]


def _like_the_changes() -> tuple[list[bytes], int]:
    """Returns what makes a put carry as much as a change: the topics as keys, and the size in bytes of the rest of a change."""
    changes = service_pb2.BatchUpdatePoliciesRequest.FromString(next(messages_of(_NAMESPACE, TOPICS))).changes
    keys = [change.update.topic.encode() for change in changes]
    return keys, int(statistics.mean(change.ByteSize() - len(key) for change, key in zip(changes, keys, strict=True)))


def measure_pulsar(scale: Scale) -> dict[str, Measured]:
    """Measures batches on a broker, and publishes of the messages that the sidecar wrote, round by round."""
    with pulsar(scale.service_url, scale.admin_url, ()) as target:
        topics_that_stay(scale.admin_url, target.namespace, TOPICS)
        return {"batches-pulsar": asyncio.run(_pulsar(target.address, target.namespace, scale))}


async def _pulsar(address: str, namespace: str, scale: Scale) -> Measured:
    await fill(address, namespace, TOPICS)
    ours, limits = list[float](), list[float]()
    with client(scale.service_url) as library:
        messages = await asyncio.to_thread(written, library, namespace, _SAMPLE)
        async with grpc.aio.insecure_channel(address) as channel:
            updates, bare = batch_calls(channel, namespace), Publisher(library, namespace, messages)
            await asyncio.to_thread(bare.publish, _PIPELINED, min(1.0, scale.seconds))
            for mine in in_turn(scale.rounds, (True, False)):
                if mine:
                    ours.append((await closed_loop(updates, IN_FLIGHT, scale.seconds)).per_second * BATCH)
                else:
                    limits.append((await asyncio.to_thread(bare.publish, _PIPELINED, scale.seconds)).per_second)
        document = statistics.mean(len(each.data()) for each in messages)
        size = document + statistics.mean(sum(len(name) + len(value) for name, value in each.properties().items()) for each in messages)
    return Measured(ours, limits, f"{size:,.0f} bytes a message, of which {document:,.0f} are the document")

"""How fast a server follows a Pulsar log with other writers: other sidecars, or brokers, whose events do not say what they change.

The server has loaded the namespace. Its process is stopped (SIGSTOP) while the events are written, and continues when all of them are
there; the time is measured from then until the server answers with the last event. Beside it stands a reader that takes the same messages
and does nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from typing import Any

import grpc
import pulsar

from bench.load import fill
from bench.targets import SERVE, running
from bench.targets import pulsar as on_pulsar
from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.routing import message_key
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import Codec

from .figure import Figure, Scale, in_turn
from .publishing import client, drain, open_reader, take

_TOPICS = 1_000
_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0
_PENDING = 900
_FIRST = 10_000_000
"""The last value of the first round, far above all values that the load generator uses."""


def measure(scale: Scale) -> list[Figure]:
    """Measures both kinds of events, round by round."""
    ours: defaultdict[str, list[float]] = defaultdict(list)
    limits: defaultdict[str, list[float]] = defaultdict(list)
    used: defaultdict[str, list[float]] = defaultdict(list)
    with on_pulsar(scale.service_url, scale.admin_url) as target, client(scale.service_url) as library:
        program, namespace, values = target.program, target.namespace, itertools.count(_FIRST, _FIRST)
        assert program is not None, "started for this run"
        asyncio.run(fill(program.address, namespace, _TOPICS))
        reader = open_reader(library, f"persistent://{namespace}/{CHANGE_EVENTS}", pulsar.MessageId.latest, compacted=False)
        with grpc.insecure_channel(program.address) as channel:
            stub = TopicPoliciesServiceStub(channel)
            for kind in in_turn(scale.rounds, ("sidecars", "brokers")):
                drain(reader)
                os.kill(program.pid, signal.SIGSTOP)
                try:
                    value = next(values)
                    events = (_by_sidecar if kind == "sidecars" else _by_broker)(scale, namespace, value)
                finally:
                    os.kill(program.pid, signal.SIGCONT)
                before, begin = program.processor_seconds, time.perf_counter()
                _await(stub, f"persistent://{namespace}/bench-0", value)
                ours[kind].append(events / (time.perf_counter() - begin))
                used[kind].append((program.processor_seconds - before) / events * 1e6)
                begin = time.perf_counter()
                take(reader, events)
                limits[kind].append(events / (time.perf_counter() - begin))
    note = "the server's processor time for one: {:.0f} us"
    return [
        Figure(
            f"following a log, {kind}' events", "raw reading", "/s", ours[kind], limits[kind], at_least=least, of_limit=False,
            note=note.format(statistics.median(used[kind])),
        )
        for kind, least in (("sidecars", 20_000), ("brokers", 8_000))
    ]  # fmt: skip


def _await(stub: Any, topic: str, value: int) -> None:
    """Returns when a topic has a value.

    Raises:
        TimeoutError: it did not come in time.
    """
    request = service_pb2.GetPolicyRequest(topic=topic)
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        answer = stub.GetPolicy(request, wait_for_ready=True, timeout=_PATIENCE_SECONDS)
        if answer.policies.max_producer_per_topic == value:
            return
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{topic} was not told within {_PATIENCE_SECONDS:g} s")


def _by_sidecar(scale: Scale, namespace: str, value: int) -> int:
    """Makes changes of all topics in turn at another sidecar, at last the value of the first topic. Returns the number of events."""
    command = (*SERVE, "--pulsar", scale.service_url, "--admin-url", scale.admin_url, "--allow-missing-topics")
    topic = f"persistent://{namespace}/bench-0"
    with running(*command) as other, grpc.insecure_channel(other.address) as channel:
        stub = TopicPoliciesServiceStub(channel)
        # It reads the log of all rounds before, which may take longer than the server lets a change wait.
        stub.GetPolicy(service_pb2.GetPolicyRequest(topic=topic), wait_for_ready=True, timeout=_PATIENCE_SECONDS)
        events = asyncio.run(fill(other.address, namespace, _TOPICS, scale.followed))
        stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value)))
    return events + 1


def _by_broker(scale: Scale, namespace: str, value: int) -> int:
    """Writes events of all topics in turn as brokers do, at last the value of the first topic. Returns the number of events."""
    codec, room = Codec(), threading.Semaphore(_PENDING)
    with Admin(scale.admin_url) as admin:
        writer = ForeignWriter(scale.service_url, admin)
        keys = [PolicyKey(f"persistent://{namespace}/bench-{number}", Scope.LOCAL) for number in range(_TOPICS)]
        producer = writer.producer(namespace, message_key(keys[0]))
        for left in reversed(range(scale.followed)):
            event = Event(keys[left % _TOPICS], Action.UPDATE, split(TopicPolicies(max_producer_per_topic=value - left)), None)
            encoded = codec.encode(event)
            room.acquire()
            producer.send_async(encoded.payload, lambda *_: room.release(), properties=dict(encoded.properties), partition_key=encoded.key)
        producer.flush()
        writer.close()
    return scale.followed

"""How fast a server follows a Pulsar log with other writers: other sidecars, or brokers, whose events do not say what they change.

The server has loaded the namespace. Its process is stopped (SIGSTOP) while the events are written, and continues when all of them are
there; the time is measured from then until the server answers with the last event. Beside it stands a reader that takes the same messages
and does nothing else.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import pulsar

from bench.sidecar_events import Events
from bench.targets import Program
from bench.targets import pulsar as on_pulsar
from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.routing import message_key
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of

from .draining import drain, open_reader, take
from .figure import Figure, Measured, Want
from .library import client
from .processors import Processors, Used, note, of_one
from .scale import Say, Scale

FIGURES = (
    Figure("following-sidecars", "following a log, sidecars' events", "raw reading", "/s", Want(at_least=20_000, of_limit=False)),
    Figure("following-brokers", "following a log, brokers' events", "raw reading", "/s", Want(at_least=8_000, of_limit=False)),
)
_TOPICS = 1_000
_PENDING = 900
"""Fewer than the topics, so that a topic's event is acknowledged before its next one is made."""
_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both kinds of events, round by round."""
    ours: dict[str, list[float]] = {"sidecars": [], "brokers": []}
    limits: dict[str, list[float]] = {"sidecars": [], "brokers": []}
    taken: dict[str, list[Used]] = {"sidecars": [], "brokers": []}
    with on_pulsar(scale.service_url, scale.admin_url) as target, Admin(scale.admin_url) as admin, client(scale.service_url) as library:
        assert isinstance(target.program, Program), "started for this run"
        processors = Processors(target.program.pid, scale.broker)
        writer = _Writer(scale, admin, target.namespace)
        reader = open_reader(library, f"persistent://{target.namespace}/{CHANGE_EVENTS}", pulsar.MessageId.latest, compacted=False)
        with grpc.insecure_channel(target.address) as channel:
            stub = TopicPoliciesServiceStub(channel)
            last = writer.write(min(scale.followed, _TOPICS), stamped=True)
            _await(stub, last)
            for number in range(scale.few_rounds):
                for kind in ours if number % 2 else reversed(ours):
                    say(f"round {number + 1} of {scale.few_rounds}, {kind}' events")
                    write = partial(_behind, reader, writer, scale.followed, stamped=kind == "sidecars")
                    took, used = _follow(target.program, stub, write, processors)
                    ours[kind].append(scale.followed / took)
                    taken[kind].append(of_one(used, scale.followed))
                    begin = time.perf_counter()
                    take(reader, scale.followed)
                    limits[kind].append(scale.followed / (time.perf_counter() - begin))
        writer.close()
    return {f"following-{kind}": Measured(ours[kind], limits[kind], note("an event", taken[kind])) for kind in ours}


def _behind(reader: Any, writer: _Writer, count: int, *, stamped: bool) -> tuple[str, int]:
    """Drains the reader, so that it has only the events that this writes, while the server is stopped."""
    drain(reader)
    return writer.write(count, stamped=stamped)


def _follow(program: Program, stub: Any, write: Callable[[], tuple[str, int]], processors: Processors) -> tuple[float, Used]:
    """Returns the seconds that the server takes for the events written while it was stopped, and the processor time that this uses."""
    os.kill(program.pid, signal.SIGSTOP)
    try:
        last = write()
    finally:
        os.kill(program.pid, signal.SIGCONT)
    processors.used()
    begin = time.perf_counter()
    _await(stub, last)
    return time.perf_counter() - begin, processors.used()


def _await(stub: Any, last: tuple[str, int]) -> None:
    """Returns when a topic has a value.

    Raises:
        TimeoutError: it did not come in time.
    """
    topic, value = last
    request = service_pb2.GetPolicyRequest(topic=topic)
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        answer = stub.GetPolicy(request, wait_for_ready=True, timeout=_PATIENCE_SECONDS)
        if answer.policies.max_producer_per_topic == value:
            return
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{topic} was not told within {_PATIENCE_SECONDS:g} s")


class _Writer:
    """Stands for the other writers of the log: writes events of all topics in turn, each with a new value."""

    def __init__(self, scale: Scale, admin: Admin, namespace: str) -> None:
        self._foreign = ForeignWriter(scale.service_url, admin)
        self._namespace = namespace
        self._codec = Codec()
        self._events = Events()
        self._value = 0
        self._producer = self._foreign.producer(namespace, message_key(self._key(0)))

    def write(self, count: int, *, stamped: bool) -> tuple[str, int]:
        """Writes this many events, each acknowledged. Returns the topic and the value of the last one."""
        bound = threading.Semaphore(_PENDING)
        for _ in range(count):
            self._value += 1
            event = (self._events.of_sidecar if stamped else self._events.of_broker)(self._key(self._value % _TOPICS), self._value)
            encoded = self._codec.encode(event)
            bound.acquire()

            def acknowledged(_: Any, place: Any, event: Event = event) -> None:
                self._events.acknowledged(event, position_of(MessageId(place.ledger_id(), place.entry_id())))
                bound.release()

            self._producer.send_async(encoded.payload, acknowledged, properties=dict(encoded.properties), partition_key=encoded.key)
        self._producer.flush()
        return self._key(self._value % _TOPICS).topic, self._value

    def close(self) -> None:
        """Closes its connections."""
        self._foreign.close()

    def _key(self, number: int) -> PolicyKey:
        return PolicyKey(f"persistent://{self._namespace}/topic-{number}", Scope.LOCAL)

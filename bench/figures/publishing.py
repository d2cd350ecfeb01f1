"""Bare publishes: pulsar-client alone sends messages of a sidecar again, as the sidecar sends them, to a topic without readers."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pulsar

from bench.load import Sample
from tests.broker.admin import CHANGE_EVENTS

from .library import client

_QUEUE = 10_000
_READ_MS = 10_000


class Message(NamedTuple):
    """A message to publish."""

    payload: bytes
    key: str
    properties: Mapping[str, str]


def written(service_url: str, namespace: str, most: int) -> list[Message]:
    """Returns the first messages of a namespace's change log.

    Raises:
        RuntimeError: there are none.
    """
    found: list[Message] = []
    with client(service_url) as made:
        reader = made.create_reader(f"persistent://{namespace}/{CHANGE_EVENTS}", pulsar.MessageId.earliest)
        while len(found) < most and reader.has_message_available():
            message = reader.read_next(_READ_MS)
            found.append(Message(message.data(), message.partition_key(), message.properties()))
    if not found:
        raise RuntimeError(f"nothing was written to the change log of {namespace}")
    return found


class Publisher:
    """Publishes messages again and again, without batching, as a sidecar does."""

    def __init__(self, library: Any, namespace: str, messages: Sequence[Message]) -> None:
        """``library``: a client. The topic is a new one of the namespace."""
        self._messages = itertools.cycle(messages)
        topic = f"persistent://{namespace}/bare-{uuid.uuid4().hex[:8]}"
        self._producer = library.create_producer(topic, batching_enabled=False, max_pending_messages=_QUEUE, block_if_queue_full=True)

    def publish(self, in_flight: int, seconds: float) -> Sample:
        """Publishes with this many unacknowledged at a time, and measures the time of each.

        Raises:
            RuntimeError: one failed.
        """
        room = threading.Semaphore(in_flight)
        times: list[float] = []
        failed: list[Any] = []

        def acknowledged(began: float, result: Any) -> None:
            times.append(time.perf_counter() - began)
            if result != pulsar.Result.Ok:
                failed.append(result)
            room.release()

        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            room.acquire()
            payload, key, properties = next(self._messages)
            began = time.perf_counter()
            self._producer.send_async(
                payload, lambda result, _, began=began: acknowledged(began, result), properties=properties, partition_key=key
            )
        for _ in range(in_flight):
            room.acquire()
        took = time.perf_counter() - begin
        if failed:
            raise RuntimeError(f"{len(failed)} publishes failed: {failed[0]}")
        cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
        return Sample(len(times) / took, cuts[49] * 1000, cuts[98] * 1000, len(times))

"""Backends of the conformance suite for the Pulsar log, on a real broker."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker
from tests.logs.backend import Backend
from tests.logs.pulsar.foreign import ForeignWriter
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.client import Result, begin_closing
from topicpolicies_server.logs.pulsar.writer import PartitionWriter


class PulsarBackend(Backend):
    def __init__(self, broker: Broker, partitions: int) -> None:
        self.name = f"pulsar-{partitions}"
        self.broker = broker
        self.partitions = partitions
        self.admin = Admin(broker.admin_url)
        self.foreign = ForeignWriter(broker.service_url, self.admin)
        self._namespaces: dict[str, str] = {}

    def namespace(self, name: str = "orders") -> str:
        if name not in self._namespaces:
            made = self._namespaces[name] = self.admin.create_namespace(name)
            self.admin.compact_only_on_request(made)
            if self.partitions:
                rule = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": self.partitions}
                self.admin.call("POST", f"namespaces/{made}/autoTopicCreation", rule)
        return self._namespaces[name]

    async def start(self, *, in_flight_limit: int | None = None) -> PulsarLog:
        limits = PulsarLimits(recalled=0)  # test_reader.py is about entries that compaction erased
        if in_flight_limit is not None:
            limits = dataclasses.replace(limits, in_flight=in_flight_limit)
        return PulsarLog(self.broker.service_url, self.broker.admin_url, limits=limits)

    async def stored(self, namespace: str) -> bool:
        topics = await asyncio.to_thread(self.admin.call, "GET", f"persistent/{namespace}", includeSystemTopic="true")
        partitioned = await asyncio.to_thread(self.admin.call, "GET", f"persistent/{namespace}/partitioned", includeSystemTopic="true")
        return any(CHANGE_EVENTS in topic for topic in [*topics, *partitioned])

    async def write(self, namespace: str, event: Event) -> None:
        await asyncio.to_thread(self.foreign.write, namespace, event)

    async def write_unreadable(self, namespace: str) -> None:
        await asyncio.to_thread(self.foreign.write_raw, namespace, f"persistent://{namespace}/topic-0", b"\x02no event")

    async def compact(self, namespace: str) -> None:
        await asyncio.to_thread(self.admin.compact_change_events, namespace)

    @contextmanager
    def holding(self, log: NamespaceLog) -> Iterator[None]:
        """Holds back acknowledgements from the writers."""
        held = [writer._acknowledgements for writer in writers_of(log)]
        settle = [inbox._wake for inbox in held]
        for inbox in held:
            inbox._wake = _not_now
        yield
        for inbox, wake in zip(held, settle, strict=True):
            inbox._wake = wake
            asyncio.get_running_loop().call_soon(wake)

    @contextmanager
    def failing(self, log: NamespaceLog, *, outcome_unknown: bool) -> Iterator[None]:
        """Drops acknowledgements, or makes the library refuse to send."""
        for writer in writers_of(log):
            if outcome_unknown:
                _lose_acknowledgements(writer)
            elif writer._producer is not None:
                writer._producer = writer._producer._replace(handle=_Refusing(writer._producer.handle))
        yield
        for writer in writers_of(log):
            writer.__dict__.pop("_acknowledge", None)
            if writer._producer is not None and isinstance(writer._producer.handle, _Refusing):
                writer._producer = writer._producer._replace(handle=writer._producer.handle.handle)

    async def lose(self, log: NamespaceLog) -> None:
        """Closes a reader without the log's knowledge."""
        assert isinstance(log, PulsarNamespaceLog)
        begin_closing(log._readers[-1].handle)

    def close(self) -> None:
        self.foreign.close()
        self.admin.close()


class _Refusing:
    """A producer whose queue is full."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def send_async(self, message: Any, callback: Any) -> None:
        del message
        callback(Result.ProducerQueueIsFull, None)

    def close_async(self, callback: Any) -> None:
        self.handle.close_async(callback)


def writers_of(log: NamespaceLog) -> list[PartitionWriter]:
    assert isinstance(log, PulsarNamespaceLog)
    return log._writers


def _not_now() -> None:
    pass


def _lose_acknowledgements(writer: PartitionWriter) -> None:
    acknowledge = writer._acknowledge

    def lose(number: int, result: Any, message_id: Any) -> None:
        del result
        acknowledge(number, Result.Timeout, message_id)

    writer._acknowledge = lose  # type: ignore[method-assign]


@asynccontextmanager
async def partitioned(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Backend]:
    """Namespaces whose topics have three partitions."""
    del directory
    backend = PulsarBackend(request.getfixturevalue("broker"), 3)
    yield backend
    await asyncio.to_thread(backend.close)

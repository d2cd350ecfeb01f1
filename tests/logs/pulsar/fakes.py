"""Fakes of pulsar-client's handles and of the admin API."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import _pulsar

from topicpolicies_server.core.policies.events import Event, Position
from topicpolicies_server.logs.avro import Codec, Dialect
from topicpolicies_server.logs.change_log import LogError, LogSink
from topicpolicies_server.logs.pulsar import PulsarLimits
from topicpolicies_server.logs.pulsar.brokers import Brokers
from topicpolicies_server.logs.pulsar.client import OK, Result
from topicpolicies_server.logs.pulsar.facts import PulsarFacts
from topicpolicies_server.logs.pulsar.ids import MessageId, border_of
from topicpolicies_server.logs.pulsar.namespace_log import PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.reader import PartitionReader
from topicpolicies_server.logs.pulsar.topics import Layout, Topics


class FakeMessageId(NamedTuple):
    ledger: int
    entry: int
    batch: int = -1

    def ledger_id(self) -> int:
        return self.ledger

    def entry_id(self) -> int:
        return self.entry

    def batch_index(self) -> int:
        return self.batch


class FakeMessage:
    """A message as the library hands it over."""

    def __init__(
        self, ident: FakeMessageId, key: str, payload: bytes | None, properties: Mapping[str, str], version: int, producer: str
    ) -> None:
        self._ident = ident
        self._key = key
        self._payload = payload
        self._properties = dict(properties)
        self._version = version
        self._producer = producer

    def message_id(self) -> FakeMessageId:
        return self._ident

    def partition_key(self) -> str:
        return self._key

    def data(self) -> bytes:
        return self._payload or b""

    def has_null_value(self) -> bool:
        return self._payload is None

    def properties(self) -> dict[str, str]:
        return self._properties

    def int_schema_version(self) -> int:
        return self._version

    def producer_name(self) -> str:
        return self._producer

    def publish_timestamp(self) -> int:
        return 1_700_000_000_000 + self._ident.entry


_CODEC = Codec()


def a_message(
    entry: int, event: Event, *, ledger: int = 7, version: int = 0, producer: str = "standalone-0-1", codec: Codec = _CODEC
) -> FakeMessage:
    encoded = codec.encode(event)
    return FakeMessage(FakeMessageId(ledger, entry), encoded.key, encoded.payload, encoded.properties, version, producer)


class FakeReader:
    """A reader that a test feeds. As in the library, queued messages are handed over within the call, later ones on another thread."""

    def __init__(self, *messages: FakeMessage) -> None:
        self.queue: deque[FakeMessage] = deque(messages)
        self.misses = 0
        """How many of the next messages go into the queue although a read is pending, as may happen just after the read began."""
        self.closed = False
        self._pending: Callable[[Any, Any], None] | None = None

    def read_next_async(self, callback: Callable[[Any, Any], None]) -> None:
        assert self._pending is None
        if self.queue:
            callback(OK, self.queue.popleft())
        else:
            self._pending = callback

    def read_next(self, timeout_ms: int) -> FakeMessage:
        assert timeout_ms == 0, "the caller must not wait"
        if not self.queue:
            raise _pulsar.Timeout
        return self.queue.popleft()

    def is_connected(self) -> bool:
        return True

    def close_async(self, callback: Callable[[Any], None]) -> None:
        self.closed = True
        self.fail(Result.AlreadyClosed)
        callback(OK)

    def feed(self, message: FakeMessage) -> None:
        """Adds a message: it completes the pending read, or goes into the queue."""
        if self._pending is None or self.misses > 0:
            self.misses -= self._pending is not None
            self.queue.append(message)
            return
        pending, self._pending = self._pending, None
        _elsewhere(lambda: pending(OK, message))

    def fail(self, result: Any) -> None:
        """Fails the pending read."""
        pending, self._pending = self._pending, None
        if pending is not None:
            _elsewhere(lambda: pending(result, None))


class FakePartitionReader:
    """What a log has of the reader of one partition, which has read up to ledger 7."""

    ledger = 7
    entries = SimpleNamespace(last=MessageId(7, 0))
    handle = SimpleNamespace(close_async=lambda done: done(OK))

    def __init__(self, *, connected: bool = True) -> None:
        self.connected = connected
        self.kept_up = 0

    async def keep_up(self) -> None:
        self.kept_up += 1

    def end(self, last: MessageId) -> Position:
        return border_of(last)


def a_log(topics: object, *readers: FakePartitionReader, limits: PulsarLimits | None = None) -> tuple[PulsarNamespaceLog, list[LogError]]:
    """Returns a log that these readers follow, one for each partition, and the losses that it reports."""
    losses: list[LogError] = []
    nobody, facts, sink = cast("Any", None), PulsarFacts("east", Dialect.PREFIXED, 0), cast("LogSink", SimpleNamespace(lost=losses.append))
    brokers = Brokers(nobody, nobody, cast("Topics", topics), facts, limits or PulsarLimits())
    log = PulsarNamespaceLog(brokers, Layout("public/default", len(readers) if len(readers) > 1 else 0), sink, lambda _: None)
    log._readers = cast("list[PartitionReader]", list(readers))
    return log, losses


class FakeProducer:
    """A producer whose acknowledgements the test sends."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.refusing: Any = None
        self.connected = True
        self.closed = False
        self._callbacks: deque[Callable[[Any, Any], None]] = deque()
        self._entry = 0

    def send_async(self, message: Any, callback: Callable[[Any, Any], None]) -> None:
        assert not self.closed
        if self.refusing is not None:
            callback(self.refusing, None)
            return
        self.sent.append(message)
        self._callbacks.append(callback)

    def close_async(self, callback: Callable[[Any], None]) -> None:
        self.closed = True
        while self._callbacks:
            self._callbacks.popleft()(Result.AlreadyClosed, None)
        callback(OK)

    def is_connected(self) -> bool:
        return self.connected

    def acknowledge(self, count: int = 1, result: Any = OK) -> None:
        """Sends the outcome of the oldest pending events."""
        answers = [(self._callbacks.popleft(), FakeMessageId(7, self._entry + n)) for n in range(count)]
        self._entry += count
        _elsewhere(lambda: [callback(result, ident) for callback, ident in answers])

    @property
    def keys(self) -> list[str]:
        """The message keys of the events that were sent."""
        return [message.partition_key() for message in self.sent]


class FakeAdmin:
    """An admin API with fixed answers by path: a LogError is raised, and a path without an answer is not found."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers: dict[str, Any] = dict(answers or {})
        self.asked: list[str] = []

    async def get(self, *path: str, seconds: float = 0) -> Any:
        del seconds
        self.asked.append("/".join(path))
        answer = self.answers.get(self.asked[-1])
        if isinstance(answer, LogError):
            raise answer
        return answer

    async def headers(self, *path: str, seconds: float = 0) -> Any:
        """Answers like ``get``; the fixed answers are headers."""
        return await self.get(*path, seconds=seconds)


def _elsewhere(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

"""The cost of following a log in one thread, from the library's messages to a namespace that answers, beside only taking the messages.

    python -m bench.following [--events 20000] [--keys 1000] [--runs 5]

There is no broker: prepared messages stand for pulsar-client's. So only the sidecar's own part is measured, in processor time: the median
of some runs, and the events per second for which it would suffice. First a log is read in which every key has one event, as after a start;
then a served namespace receives events of the keys in turn. History and watchers are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import _pulsar
from rich.console import Console
from rich.table import Table

from bench.sidecar_events import Events
from topicpolicies_server import process
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.fold.keystate import REMEMBERED_REQUESTS
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.change_log import ANYBODY, Leadership, LogSink, Start
from topicpolicies_server.logs.pulsar import PulsarLimits
from topicpolicies_server.logs.pulsar.access import Access
from topicpolicies_server.logs.pulsar.client import OK
from topicpolicies_server.logs.pulsar.entries import Entries
from topicpolicies_server.logs.pulsar.ids import MessageId, directly_follows, position_of
from topicpolicies_server.logs.pulsar.partition import PartitionReader
from topicpolicies_server.logs.pulsar.topics import Compaction, State
from topicpolicies_server.namespaces.registry import Registry

NAMESPACE = "bench/following"
LEDGER = 7
KINDS = ("broker", "sidecar", "sidecar, 16 requests")
COLLECTING = process.YOUNGEST, process.MIDDLE, process.OLDEST
"""The thresholds of the garbage collector, as in a server: examining what is kept of events is part of the cost of following."""


class Message:
    """A message as the library hands it over, except that reading its parts costs next to nothing."""

    __slots__ = ("_key", "_payload", "_place", "_properties", "_published")

    def __init__(self, entry: int, key: str, payload: bytes | None, properties: dict[str, str], published: int) -> None:
        self._place = MessageId(LEDGER, entry)
        self._key = key
        self._payload = payload
        self._properties = properties
        self._published = published

    def message_id(self) -> Message:
        """The message itself, which has the numbers of the id."""
        return self

    def ledger_id(self) -> int:
        """The ledger of its position."""
        return self._place.ledger

    def entry_id(self) -> int:
        """The entry of its position."""
        return self._place.entry

    def batch_index(self) -> int:
        """-1: the message is in no batch."""
        return -1

    def partition_key(self) -> str:
        """The message's key."""
        return self._key

    def data(self) -> bytes:
        """The payload; empty if the message has none."""
        return self._payload or b""

    def length(self) -> int:
        """The length of the payload in bytes."""
        return len(self._payload or b"")

    def has_null_value(self) -> bool:
        """Whether the message has no payload."""
        return self._payload is None

    def properties(self) -> dict[str, str]:
        """A copy of the properties, as the library makes one."""
        return dict(self._properties)

    def int_schema_version(self) -> int:
        """The version of the only schema."""
        return 0

    def producer_name(self) -> str:
        """The producer's name, the same for all messages."""
        return "standalone-0-1"

    def publish_timestamp(self) -> int:
        """The publish time, in milliseconds since 1970."""
        return self._published


class Handle:
    """Stands for the library's reader: hands over a message that is there from within the call."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._queue = deque(messages)
        self._waiting: Callable[[Any, Any], None] | None = None

    def read_next_async(self, callback: Callable[[Any, Any], None]) -> None:
        """Hands over the next message now, or as soon as one is fed."""
        if self._queue:
            callback(OK, self._queue.popleft())
        else:
            self._waiting = callback

    def read_next(self, timeout_ms: int) -> Message:
        """Raises a timeout: while a callback waits, the queue is empty."""
        del timeout_ms
        raise _pulsar.Timeout

    def is_connected(self) -> bool:
        """Always true."""
        return True

    def feed(self, messages: Sequence[Message]) -> None:
        """Adds messages, and hands the first one to a waiting callback."""
        self._queue.extend(messages)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and self._queue:
            waiting(OK, self._queue.popleft())


class _Schemas:
    """The registered schemas: one, which is known."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def known(self, version: int) -> Codec:
        """Returns the codec of the only schema."""
        del version
        return self._codec


class _MessageLog:
    """A change log of one namespace: the reading part of a Pulsar log, on prepared messages."""

    identity = "bench"
    partitions = 1
    shared = True
    in_place = False
    resumed = False
    leadership: Leadership = ANYBODY

    def __init__(self, messages: Sequence[Message]) -> None:
        self.handle = Handle(messages)
        self.sink: LogSink | None = None
        self.delivered = 0
        self.awaited = 0
        self.came = asyncio.Event()
        self._last = MessageId(LEDGER, len(messages) - 1) if messages else None
        self._task: asyncio.Task[None] | None = None

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> _MessageLog:  # noqa: ARG002
        """Starts reading."""
        del namespace
        self.sink = sink
        access = SimpleNamespace(client=self, topics=self, limits=PulsarLimits())
        entries = Entries(0, cast("Any", _Schemas(Codec())), "standalone")
        reader = PartitionReader(cast("Access", access), (NAMESPACE, "log", "log"), entries, self.replaced)
        await reader.connect()
        self._task = asyncio.create_task(reader.run(self.read, sink.caught_up))
        return self

    async def create_reader(self, *_names: str, **_options: object) -> Handle:
        """Returns the only reader."""
        return self.handle

    async def state(self, *_: object) -> State:
        """Returns the state of a topic that was never compacted."""
        return State(Compaction(-1, MessageId(LEDGER, -1)), self._last or MessageId(LEDGER, -1), MessageId(LEDGER, 0))

    async def replaced(self) -> None:
        """Returns None: the log is always the same."""

    def read(self, events: Sequence[Placed]) -> None:
        """Passes events on to the sink, and counts them."""
        assert self.sink is not None
        self.sink.read(events)
        self.delivered += len(events)
        if self.delivered >= self.awaited:
            self.came.set()

    def partition_of(self, key: PolicyKey) -> int:
        """Returns the only partition."""
        del key
        return 0

    def follows(self, earlier: Position, later: Position) -> bool:
        """As in a Pulsar log."""
        return directly_follows(earlier, later)

    def complete_after(self, partition: int) -> Position | None:
        """Returns the position up to which the log was compacted: the last one at the opening."""
        del partition
        return position_of(self._last) if self._last is not None else ""

    async def end(self, partition: int) -> Position:
        """Not called here."""
        del partition
        return ""

    def contend(self) -> None:
        """Does nothing: any process may append."""

    def append(self, event: Event) -> None:
        """Not called here."""

    async def close(self) -> None:
        """Stops reading."""
        if self._task is not None:
            self._task.cancel()


class _Counting:
    """A sink that ignores events; its caller counts them."""

    def read(self, events: Sequence[Placed]) -> None:
        """Does nothing."""

    def caught_up(self) -> None:
        """Does nothing."""


def messages(kind: str, count: int, keys: int, first: int = 0, namespace: str = NAMESPACE) -> list[Message]:
    """Returns messages with events of ``keys`` keys in turn, from the entry ``first`` on. Each event has its own, new document."""
    codec, events = Codec(), Events(REMEMBERED_REQUESTS if "16" in kind else 0)
    made: list[Message] = []
    published = 1_700_000_000_000
    for at in range(first + count):
        key = PolicyKey(f"persistent://{namespace}/topic-{at % keys:06d}", Scope.LOCAL)
        event = (events.of_broker if kind == "broker" else events.of_sidecar)(key, at + 1)
        events.acknowledged(event, position_of(MessageId(LEDGER, at)))
        if at >= first:
            encoded = codec.encode(event)
            made.append(Message(at, encoded.key, encoded.payload, encoded.properties, published + at))
    return made


def decoded(kind: str, options: argparse.Namespace) -> float:
    """Measures decoding alone, each key once."""
    sent = messages(kind, options.events, options.events)
    codec = Codec()
    began = time.process_time()
    for message in sent:
        codec.read(message.partition_key(), message.data(), message.properties())
    return time.process_time() - began


def taken(kind: str, options: argparse.Namespace) -> float:
    """Measures taking the messages from the library, and nothing more."""
    handle = Handle(messages(kind, options.events, options.events))
    got: list[tuple[MessageId, Any]] = []

    def take(_: Any, message: Any) -> None:
        ident = message.message_id()
        got.append((MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index()), message))

    began = time.process_time()
    for _ in range(options.events):
        handle.read_next_async(take)
    return time.process_time() - began


def read(kind: str, options: argparse.Namespace) -> float:
    """Measures the log alone: each event is read once, in order, and decoded."""
    return asyncio.run(_read(messages(kind, options.events, options.events)))


async def _read(sent: list[Message]) -> float:
    log = _MessageLog(sent)
    log.awaited = len(sent)
    began = time.process_time()
    await log.open(NAMESPACE, cast("Any", _Counting()))
    await log.came.wait()
    took = time.process_time() - began
    await log.close()
    return took


def loaded(kind: str, options: argparse.Namespace) -> float:
    """Measures loading a namespace with one event per key until it answers."""
    return asyncio.run(_followed(messages(kind, options.events, options.events), ()))


def followed(kind: str, options: argparse.Namespace) -> float:
    """Measures a served namespace that receives events."""
    keys = options.keys
    return asyncio.run(_followed(messages(kind, keys, keys), messages(kind, options.events, keys, keys)))


async def _followed(before: Sequence[Message], after: Sequence[Message]) -> float:
    log = _MessageLog(before)
    registry = Registry(cast("Any", log), Limits(join_patience_seconds=0), FoldContext(), read_only=True)
    log.awaited = len(before)
    began = time.process_time()
    namespace = registry.get(NAMESPACE)
    await namespace.ready()
    if after:
        await asyncio.sleep(0.05)
        log.awaited += len(after)
        log.came.clear()
        began = time.process_time()
        log.handle.feed(after)
        await log.came.wait()
    took = time.process_time() - began
    await registry.close()
    return took


STAGES: dict[str, Callable[[str, argparse.Namespace], float]] = {
    "taken from the library": taken,
    "decoded": decoded,
    "read": read,
    "loaded, to the first answer": loaded,
    "followed": followed,
}


def main() -> int:
    """Measures each stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=list(STAGES))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    gc.set_threshold(*COLLECTING)
    table = Table(title=f"microseconds of processor time an event (events a second), {options.events:,} events, median of {options.runs}")
    table.add_column("what")
    for kind in options.kinds:
        table.add_column(kind, justify="right")
    for name in options.stages:
        row = [name]
        for kind in options.kinds:
            took = []
            for _ in range(options.runs):
                gc.unfreeze()
                gc.collect()
                gc.freeze()
                took.append(STAGES[name](kind, options) / options.events)
            each = statistics.median(took)
            row.append(f"{each * 1e6:.1f} ({1 / each:,.0f})")
        table.add_row(*row)
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One open change log on Pulsar: its readers, its writers, and whether its topic exists at all.

**A log that does not exist** is an empty one. It is created with the first event that is appended, here or by another writer; the latter is
checked for from time to time (``log``). Until then it has the identity of a log that does not exist, and the number of partitions
that brokers would give it.

**A log that has one writer at a time** (``access.advertised``) takes events only while this process leads (``logs/leadership``). The
process stands for leadership when it is told to, and by itself if the log shows that there was a leader before. So a lost leader's log is
taken over by any process that has it open, and reading alone locks no writer out of a log.

**A log that was deleted** is lost (``reader``). Its identity says when its topics were created: the next log has another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from ...core.names import PolicyKey, Scope
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import LogState, Reason
from ...tasks import TaskSet
from ..avro import Dialect, Encoded
from ..avro.codec import GLOBAL_PREFIX, java_hash
from ..change_log import ANYBODY, Leadership, LogError, LogSink, NotLeader, Start, busy, closed
from ..leadership import Candidate
from ..stamps import ANNOUNCEMENT
from .access import Access
from .client import EXCLUSIVE, SHARED, WAIT_FOR_EXCLUSIVE, begin_closing, message_of, send
from .ids import MessageId, position_of
from .reader import LogReader
from .topics import NOT_REGISTERED, Layout, Schemas
from .writer import OpenProducer, PartitionWriter

_log = logging.getLogger(__name__)

_PRODUCER_FAILED = frozenset({LogState.FENCED, LogState.REFUSED, LogState.UNREACHABLE})
"""Reasons of a failed append after which the producer takes nothing more."""


class PulsarNamespaceLog:
    """One namespace's log, as this process has it open (``change_log.NamespaceLog``).

    Attributes:
        namespace: ``tenant/namespace``.
        facts: the facts about the cluster for which the log was opened.
        cluster: the cluster's name.
        in_place: whether the brokers' version is one that changes the documents in caches in place.
        reader: reads the log, once it exists.
        partitions: how many the topic has, or would have if brokers created it; one for a topic that is not partitioned.
        resumed: whether all partitions are read from the opening's ``start`` on.
    """

    def __init__(self, access: Access, layout: Layout, sink: LogSink, forget: Callable[[PulsarNamespaceLog], None]) -> None:
        """Use ``PulsarLog.open``. ``layout``: the log's topic, as it is or as brokers would create it; ``forget`` is called at the end."""
        self._access = access
        self._sink = sink
        self._forget = forget
        self._schemas = Schemas(access.admin, layout.namespace, cluster=access.facts.name, dialect=access.facts.dialect)
        self.namespace = layout.namespace
        self.facts = access.facts
        self.cluster = access.facts.name
        self.in_place = access.facts.in_place
        self.reader = LogReader(access, self._schemas, layout, self)
        self.partitions = self.reader.partitions
        self.resumed = False
        self._ended: LogError | None = None
        self._told_caught_up = False
        self._settled = asyncio.Event()
        self._ending = TaskSet(f"the change log of {layout.namespace}")
        self._candidate: Candidate[OpenProducer] | None = None
        if access.advertised is not None:
            self._candidate = Candidate(self, self.namespace, self.partitions, access.facts.name, access.advertised())
        self._writers = [
            PartitionWriter(partition, self._open_producer, self._rehearse, self, patience_seconds=access.limits.send_seconds)
            for partition in range(self.partitions)
        ]

    # The change log's own interface (``change_log.NamespaceLog``)

    @property
    def identity(self) -> str:
        """The cluster, the topic, its partitions and its time of creation; that time is missing as long as the topic does not exist."""
        return self.reader.identity

    def partition_of(self, key: PolicyKey) -> int:
        """The partition where brokers look for the key: Java's hash of the message key, which depends on the brokers' dialect."""
        if self.partitions == 1:
            return 0
        prefixed = key.scope is Scope.GLOBAL and self.facts.dialect is not Dialect.SHARED_KEY
        return java_hash(GLOBAL_PREFIX + key.topic if prefixed else key.topic) % self.partitions

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring entries of a ledger, and for the first entry of a partition that is known to have been empty."""
        return self.reader.follows(earlier, later)

    def complete_after(self, partition: int) -> Position | None:
        """Where the last compaction before the opening ended, or one that the initial replay noticed (``partition``)."""
        return self.reader.complete_after(partition)

    @property
    def shared(self) -> bool:
        """Whether brokers and other sidecars may write: True unless this process leads."""
        return self._candidate is None or not self._candidate.leadership.leads

    async def end(self, partition: int) -> Position:
        """Asks the broker (see ``change_log.NamespaceLog.end``); if the log did not exist, asks first whether it does now."""
        self._make_sure_it_is_open()
        return await self.reader.end(partition)

    @property
    def leadership(self) -> Leadership:
        """The leader, if the log has one writer at a time; otherwise ``ANYBODY``."""
        return ANYBODY if self._candidate is None else self._candidate.leadership

    def contend(self) -> None:
        """Stands for leadership, if the log has one writer at a time. That creates a log that does not exist."""
        if self._candidate is not None and self._ended is None:
            self._candidate.contend()

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        self._make_sure_it_is_open()
        leadership = self.leadership
        if not leadership.leads:
            raise NotLeader(self.namespace, leadership)
        if (outstanding := self._outstanding) >= self._access.limits.in_flight:
            raise busy(outstanding)
        self._writers[self.partition_of(event.key)].append(event)

    def cut_off(self, error: LogError) -> None:
        """Fails the events that wait for a producer: the brokers are out of reach."""
        for writer in self._writers:
            writer.fail_waiting(error)

    async def close(self) -> None:
        """Waits for outcomes, as long as the limits allow; the events left then fail, with an unknown outcome if they were sent."""
        if self._ended is None:
            self._ended = closed(self.namespace)
            self._ending.begin(self._finish(), "waiting for outcomes")
        await self._ending.close(cancel=False)

    # Periodic checks (``log``)

    @property
    def out_of_reach(self) -> bool:
        """Whether the log is open, or was lost because it could not be reached; False if it was closed, or is gone."""
        return self._ended is None or self._ended.state in (LogState.UNREACHABLE, LogState.ACCESS_DENIED)

    def check_connection(self) -> None:
        """Looks whether readers, and a leader's producers, have their connections."""
        self.reader.check_connection()
        if self._candidate is not None:
            self._candidate.check_connection()

    def close_idle(self) -> None:
        """Closes idle producers."""
        if self._candidate is None:
            for writer in self._writers:
                writer.close_if_idle(self._access.limits.idle_producer_seconds)

    async def check(self) -> None:
        """Checks whether the log was created meanwhile, or is still the one that was opened."""
        try:
            error = await self.reader.trouble()
        except LogError as failure:
            _log.info("Checking what the change log of %s needs: %s", self.namespace, failure.message)
            return
        if error is not None:
            self.lost(error)

    # What readers and writers report (``change_log.LogSink``)

    def read(self, events: Sequence[Placed]) -> None:
        """Passes on events of one partition that were read."""
        self._sink.read(events)
        candidate = self._candidate
        if candidate is None:
            for writer in self._writers:
                writer.outdate(self._schemas.newest.version)
            return
        partition = events[-1].partition
        if partition == 0:
            for placed in events:
                candidate.note_producer(placed.producer)
        candidate.read_up_to(partition, events[-1].position)

    def caught_up(self) -> None:
        """Reports the end of the initial replay, once. If the log names an earlier leader, stands for leadership."""
        if not self._told_caught_up:
            self._told_caught_up = True
            self._sink.caught_up()
            if self._candidate is not None and self._candidate.ever_led:
                self._candidate.contend()

    def appended(self, events: Sequence[Placed]) -> None:
        """Reports acknowledged events, all of one partition."""
        self.reader.keep(events)
        self._sink.appended(events)
        self._settled.set()

    def append_failed(self, event: Event, error: LogError) -> None:
        """Reports an event that failed. A leader whose producer has failed, or whose event has an unknown outcome, gives up leadership."""
        if self._candidate is not None and (error.outcome_unknown or error.state in _PRODUCER_FAILED):
            self._candidate.step_down(error)
        self._sink.append_failed(event, error)
        self._settled.set()

    def lost(self, error: LogError) -> None:
        """Ends the log, and reports that it is lost."""
        if self._ended is None:
            self._ended = error
            self._end(error)
            self._sink.lost(error)

    # What a candidate for leadership calls (``logs/leadership.LeadableLog``)

    async def open_exclusively(self, partition: int, name: str, *, wait: bool) -> OpenProducer:
        """Opens a producer that is the only one of its partition."""
        return await self._open_producer(partition, WAIT_FOR_EXCLUSIVE if wait else EXCLUSIVE, name)

    async def announce(self, partition: int, producer: OpenProducer) -> Position:
        """Writes an event of no kind, which brokers ignore. Its key is the log's own name, so compaction keeps the newest announcement."""
        del partition
        announcement = Encoded(
            self.reader.layout.name, producer.codec.nothing(), {ANNOUNCEMENT: producer.handle.producer_name()}, (self.cluster,)
        )
        ident = await send(producer.handle, message_of(announcement), "Announcing its leader")
        return position_of(MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index()))

    def elected(self, producers: Sequence[OpenProducer]) -> None:
        """Gives the producers to the writers: this process may append from now on."""
        for writer, producer in zip(self._writers, producers, strict=True):
            writer.use(producer)
        self._sink.led()

    def deposed(self, error: LogError) -> None:
        """Closes the producers and fails the events without an outcome: this process may no longer append."""
        for writer in self._writers:
            self._fail(writer.give_up(), error)
        self._settled.set()
        self._sink.led()

    def led(self) -> None:
        """Reports that another process leads."""
        self._sink.led()

    # Start and end

    async def start(self, start: Start | None = None, *, exists: bool) -> None:
        """Begins to follow the log, if it exists, from ``start`` on if possible; a log that has one writer at a time is read whole."""
        if exists:
            of_use = start is not None and start.in_place == self.in_place and self._candidate is None
            self.resumed = await self.reader.start(start if of_use else None)
        else:
            asyncio.get_running_loop().call_soon(lambda: self.caught_up() if self._ended is None else None)

    def _make_sure_it_is_open(self) -> None:
        if self._ended is not None:
            raise LogError(self._ended.state or self._ended.reason, self._ended.message, kind=self._ended.kind)

    @property
    def _outstanding(self) -> int:
        return sum(writer.outstanding for writer in self._writers)

    def _rehearse(self, event: Event) -> None:
        self._schemas.newest.codec.encode(event)

    async def _open_producer(self, partition: int, access: Any = SHARED, name: str = "") -> OpenProducer:
        await self.reader.ensure_followed(create=True)
        registered = await self._schemas.refresh()
        handle = await self._access.client.create_producer(
            self.reader.layout.full_names[partition],
            registered.codec.definition,
            send_seconds=self._access.limits.send_seconds,
            queue_size=self._access.limits.in_flight,
            access=access,
            name=name,
        )
        version = registered.version
        if version == NOT_REGISTERED:  # creating the producer has registered it
            try:
                version = (await self._schemas.refresh()).version
            except BaseException:
                begin_closing(handle)
                raise
        return OpenProducer(handle, registered.codec, version)

    async def _finish(self) -> None:
        deadline = time.monotonic() + self._access.limits.close_seconds
        try:
            while self._outstanding and (left := deadline - time.monotonic()) > 0:
                self._settled.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), left)
        finally:
            self._end(LogError(Reason.LOG_UNAVAILABLE, "The change log was closed before it answered."))

    def _end(self, error: LogError) -> None:
        """Stops readers and writers, fails the events without an outcome, and closes the connections in a task."""
        if self._candidate is not None:
            self._candidate.stop()
        self.reader.stop()
        for writer in self._writers:
            self._fail(writer.stop(), error)
        self._forget(self)
        self._ending.begin(self._close_connections(), "closing its connections")

    def _fail(self, left: Iterable[tuple[Event, bool]], error: LogError) -> None:
        for event, sent in left:
            failed = LogError(error.state or error.reason, error.message, kind=error.kind, outcome_unknown=sent)
            try:
                self._sink.append_failed(event, failed)
            except Exception:  # noqa: BLE001 (the log ends all the same, and the others are told)
                _log.exception("the outcome of an event of %s could not be reported", event.key.topic)

    async def _close_connections(self) -> None:
        """Closes the connections, in bounded time: brokers close what belongs to a connection that ends."""
        closing = [*(writer.close() for writer in self._writers), self.reader.close()]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._access.limits.close_seconds):
                for error in await asyncio.gather(*closing, return_exceptions=True):
                    if error is not None:
                        _log.error("a connection of the change log of %s could not be closed", self.namespace, exc_info=error)

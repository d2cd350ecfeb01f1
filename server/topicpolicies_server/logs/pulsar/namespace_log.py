"""One open change log on Pulsar: its readers, its writers, and whether its topic exists at all.

**A log that does not exist** is an empty one. It is created with the first event that is appended, here or by another writer; the latter is
checked for from time to time (``health_checks``). Until then it has the identity of a log that does not exist, and the number of partitions
that brokers would give it.

**A log that has one writer at a time** (``access.advertised``) takes events only while this process leads (``writing/leading``). The
process stands for leadership when it is told to, and by itself if the log shows that there was a leader before. So a lost leader's log is
taken over by any process that has it open, and reading alone locks no writer out of a log.

**A log that was deleted** is lost (``reading/reader``). Its identity says when its topics were created: the next log has another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...core.names import PolicyKey, Scope
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import LogState, Reason
from ...tasks import TaskSet
from ..avro import Dialect
from ..change_log import ANYBODY, Leadership, LogError, LogSink, NotLeader, Start, busy, closed
from ..routing import GLOBAL_PREFIX, java_hash
from .access import Access
from .admin.facts import PulsarFacts
from .admin.schemas import NOT_REGISTERED, Schemas
from .admin.topics import Layout
from .client import SHARED, close_quietly
from .closing import close_all, fail
from .reading.reader import LogReader
from .writing.leading import Leading
from .writing.partition import OpenProducer, PartitionWriter

_log = logging.getLogger(__name__)


class PulsarNamespaceLog:
    """One namespace's log, as this process has it open (``change_log.NamespaceLog``)."""

    def __init__(self, access: Access, layout: Layout, sink: LogSink, forget: Callable[[PulsarNamespaceLog], None]) -> None:
        """Use ``PulsarLog.open``.

        Args:
            access: the clients for the brokers.
            layout: the log's topic, as it is or as brokers would create it.
            sink: receives what the log reports.
            forget: called when the log is closed or lost.
        """
        self._access = access
        self._sink = sink
        self._forget = forget
        self._schemas = Schemas(access.admin, layout.namespace, layout.local, cluster=access.facts.name, dialect=access.facts.dialect)
        self._reader = LogReader(access, self._schemas, layout, self)
        self.resumed = False
        """Whether all partitions are read from the opening's ``start`` on."""
        self._ended: LogError | None = None
        self._over = False
        self._told_caught_up = False
        self._settled = asyncio.Event()
        self._ending = TaskSet(f"the change log of {layout.namespace}")
        self._leading: Leading | None = None
        """Set if the log has one writer at a time."""
        if access.advertised is not None:
            self._leading = Leading(
                self,
                self._open_producer,
                namespace=self.namespace,
                local=layout.local,
                partitions=self.partitions,
                cluster=access.facts.name,
                address=access.advertised(),
            )
        ways, patience, told = (self._open_producer, self._rehearse, self), access.limits.send_seconds, access.connections
        span = range(self.partitions)
        self._writers = [PartitionWriter(partition, *ways, patience_seconds=patience, connections=told) for partition in span]

    # The change log's own interface (``change_log.NamespaceLog``)

    @property
    def identity(self) -> str:
        """The cluster, the topic, its partitions and its time of creation; that time is missing as long as the topic does not exist."""
        return self._reader.identity

    @property
    def partitions(self) -> int:
        """How many partitions the topic has, or would have if brokers created it; one for a topic that is not partitioned."""
        return self._reader.partitions

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._access.facts.name

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return self._reader.layout.namespace

    @property
    def facts(self) -> PulsarFacts:
        """The facts about the cluster for which the log was opened."""
        return self._access.facts

    @property
    def problems(self) -> int:
        """How many entries could not be read, or not completely."""
        return self._reader.problems

    def partition_of(self, key: PolicyKey) -> int:
        """The partition where brokers look for the key: Java's hash of the message key, which depends on the brokers' dialect."""
        if self.partitions == 1:
            return 0
        prefixed = key.scope is Scope.GLOBAL and self._access.facts.dialect is not Dialect.SHARED_KEY
        return java_hash(GLOBAL_PREFIX + key.topic if prefixed else key.topic) % self.partitions

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring entries of a ledger, and for the first entry of a partition that is known to have been empty."""
        return self._reader.follows(earlier, later)

    def complete_after(self, partition: int) -> Position | None:
        """Where the last compaction before the opening ended, or one that the initial replay noticed (``reading/partition``)."""
        return self._reader.complete_after(partition)

    @property
    def shared(self) -> bool:
        """Whether brokers and other sidecars may write: True unless this process leads."""
        return self._leading is None or not self._leading.leadership.leads

    async def end(self, partition: int) -> Position:
        """Asks the broker (see ``change_log.NamespaceLog.end``); if the log did not exist, asks first whether it does now."""
        if self._ended is not None:
            raise LogError(self._ended.state or self._ended.reason, self._ended.message, kind=self._ended.kind)
        return await self._reader.end(partition)

    @property
    def in_place(self) -> bool:
        """Whether the brokers' version is one that changes the documents in caches in place."""
        return self._access.facts.in_place

    @property
    def leadership(self) -> Leadership:
        """The leader, if the log has one writer at a time; otherwise ``ANYBODY``."""
        return ANYBODY if self._leading is None else self._leading.leadership

    def contend(self) -> None:
        """Stands for leadership, if the log has one writer at a time. That creates a log that does not exist."""
        if self._leading is not None and self._ended is None:
            self._leading.contend()

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        if self._ended is not None:
            raise LogError(self._ended.state or self._ended.reason, self._ended.message, kind=self._ended.kind)
        leadership = self.leadership
        if not leadership.leads:
            raise NotLeader(self.namespace, leadership)
        if (outstanding := self._outstanding) >= self._access.limits.in_flight:
            raise busy(outstanding)
        try:
            self._writers[self.partition_of(event.key)].append(event)
        except LogError as error:
            self._access.note_refusal(error)
            raise

    async def close(self) -> None:
        """Waits for outcomes, as long as the limits allow; the events left then fail, with an unknown outcome if they were sent."""
        if self._ended is None:
            self._ended = closed(self.namespace)
            self._ending.begin(self._finish(), "waiting for outcomes")
        await self._ending.close(cancel=False)

    # Periodic checks (``health_checks.Checked``)

    def check_connection(self) -> None:
        """Looks whether readers, and a leader's producers, have their connections."""
        self._reader.check_connection()
        if self._leading is not None:
            self._leading.check_connection()

    def close_idle(self) -> None:
        """Closes idle producers, and loses the log if its connection was gone for too long."""
        if self._leading is None:
            for writer in self._writers:
                writer.close_if_idle(self._access.limits.idle_producer_seconds)
        if (error := self._reader.given_up(time.monotonic())) is not None:
            self.lost(error)

    def due(self, now: float) -> bool:
        """Whether it is time for a check."""
        return self._ended is None and self._reader.due(now)

    @property
    def due_only_by_time(self) -> bool:
        """Whether the check is due only because time has passed."""
        return self._reader.due_only_by_time

    @property
    def exists(self) -> bool:
        """Whether the log exists, as far as is known."""
        return self._reader.exists

    @property
    def out_of_reach(self) -> bool:
        """Whether the log is open, or was lost because it could not be reached; False if it was closed, or is gone."""
        return self._ended is None or self._ended.state in (LogState.UNREACHABLE, LogState.ACCESS_DENIED)

    async def check(self) -> None:
        """Checks whether the log was created meanwhile, or is still the one that was opened."""
        try:
            error = await self._reader.trouble()
        except LogError as failure:
            _log.info("Checking what the change log of %s needs: %s", self.namespace, failure.message)
            return
        if error is not None:
            self.lost(error)

    # What readers and writers report (``reading.reader.Listener``, ``writing.partition.Outcomes``)

    def read(self, events: Sequence[Placed]) -> None:
        """Passes on events that were read."""
        self._sink.read(events)
        if self._leading is not None:
            self._leading.read(events)
        else:
            for writer in self._writers:
                writer.outdate(self._reader.newest_schema)

    def caught_up(self) -> None:
        """Reports the end of the initial replay, once."""
        if not self._told_caught_up:
            self._told_caught_up = True
            self._sink.caught_up()
            if self._leading is not None:
                self._leading.caught_up()

    def appended(self, placed: list[Placed]) -> None:
        """Reports acknowledged events, all of one partition."""
        self._reader.acknowledged[placed[0].partition].note(placed)
        self._sink.appended(placed)
        self._settled.set()

    def append_failed(self, event: Event, error: LogError) -> None:
        """Reports an event that failed. A leader whose producer has failed gives up leadership."""
        if self._leading is not None:
            self._leading.append_failed(error)
        self._access.note_refusal(error)
        self._sink.append_failed(event, error)
        self._settled.set()

    def lost(self, error: LogError) -> None:
        """Ends the log, and reports that it is lost."""
        if self._ended is None:
            self._ended = error
            self._end(error)
            self._sink.lost(error)

    # Changes of leadership, if the log has one writer at a time (``writing/leading.LeadershipListener``)

    def elected(self, producers: Sequence[OpenProducer]) -> None:
        """Gives the producers to the writers: this process may append from now on."""
        for writer, producer in zip(self._writers, producers, strict=True):
            writer.use(producer)
        self._sink.led()

    def deposed(self, error: LogError) -> None:
        """Closes the producers and fails the events without an outcome: this process may no longer append."""
        for writer in self._writers:
            fail(self._sink, writer.give_up(), error)
        self._settled.set()
        self._sink.led()

    def led(self) -> None:
        """Reports that another process leads."""
        self._sink.led()

    # Start and end

    async def start(self, start: Start | None = None, *, exists: bool) -> None:
        """Begins to follow the log, if it exists, from ``start`` on if possible; a log that has one writer at a time is read whole.

        Raises:
            LogError: the log can't be followed.
        """
        if exists:
            of_use = start is not None and start.in_place == self.in_place and self._leading is None
            self.resumed = await self._reader.start(start if of_use else None)
        else:
            asyncio.get_running_loop().call_soon(lambda: None if self._over else self.caught_up())

    @property
    def _outstanding(self) -> int:
        return sum(writer.outstanding for writer in self._writers)

    def _rehearse(self, event: Event) -> None:
        self._schemas.newest.codec.encode(event)

    async def _open_producer(self, partition: int, access: Any = SHARED, name: str = "") -> OpenProducer:
        await self._reader.ensure_followed(create=True)
        registered = await self._schemas.refresh()
        handle = await self._access.client.create_producer(
            self._reader.layout.full_names[partition],
            registered.definition,
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
                close_quietly(handle)
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
        self._over = True
        if self._leading is not None:
            self._leading.stop()
        self._reader.stop()
        for writer in self._writers:
            fail(self._sink, writer.stop(), error)
        self._forget(self)
        self._ending.begin(self._close_connections(), "closing its connections")

    async def _close_connections(self) -> None:
        closing = [*(writer.close() for writer in self._writers), self._reader.close()]
        await close_all(self.namespace, closing, self._access.limits.close_seconds)

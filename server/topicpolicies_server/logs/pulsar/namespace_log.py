"""One namespace's change log on Pulsar, opened: its readers, its writers, and whether it is there at all.

**A log that does not exist** is an empty one. It comes into being with the first event that is appended here, or somewhere else; the
latter is looked for from time to time (``health_checks``). Until then it has the identity of a log that does not exist, and the number of
partitions that brokers would give it.

**A log that has one writer at a time** (``access.advertised``) takes events only while this process leads (``writing/leading``). It
stands for that when it is asked to, and by itself where the log tells that somebody has led before: so a lost leader's log is taken over
by whoever has it open, and reading alone locks nobody out of a log that others write.

**A log that was deleted** is lost (``reading/existence``). Its identity tells when its topics were created: the next one is another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...core.names import PolicyKey, Scope
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import Reason
from ...tasks import Owned
from ..avro import Dialect
from ..change_log import ANYBODY, Leadership, LogError, LogSink, NotLeader, Start, UnopenedSink, busy, closed
from ..routing import GLOBAL_PREFIX, java_hash
from .access import Access
from .admin.facts import PulsarFacts
from .admin.schemas import NOT_REGISTERED, Schemas
from .admin.topics import Layout
from .client import SHARED, close_quietly
from .closing import close_all, fail
from .reading.following import Following
from .reading.whole_log import Reading
from .writing.leading import Leading
from .writing.partition import OpenProducer, PartitionWriter

_log = logging.getLogger(__name__)


class PulsarNamespaceLog:
    """One namespace's log, as one process has it open (``change_log.NamespaceLog``)."""

    def __init__(self, access: Access, layout: Layout, sink: LogSink, forget: Callable[[PulsarNamespaceLog], None]) -> None:
        """Use ``PulsarLog.open``.

        Args:
            access: the ways to the brokers.
            layout: the log's topic, as it is or as it would be.
            sink: whom to report to.
            forget: called when the log is closed or lost.
        """
        self._access = access
        self._sink = sink
        self.read: Callable[[Sequence[Placed]], None] = partial(self._hand_on, sink.read)
        self.unopened = partial(self._hand_on, sink.read_unopened) if isinstance(sink, UnopenedSink) else None
        self._forget = forget
        self._schemas = Schemas(access.admin, layout.namespace, layout.local, cluster=access.facts.name, dialect=access.facts.dialect)
        self._reading = Reading(access, self._schemas, layout, self)
        self.resumed = False
        """Whether all partitions are read from where their reader had come to before."""
        self._ended: LogError | None = None
        self._over = False
        self._told_caught_up = False
        self._settled = asyncio.Event()
        self._ending = Owned(f"the change log of {layout.namespace}")
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
        ways, patience, told = (self._open_producer, self._rehearse, self), access.limits.send_seconds, access.contacts
        span = range(self.partitions)
        self._writers = [PartitionWriter(partition, *ways, patience_seconds=patience, contacts=told) for partition in span]

    # What a change log is asked (``change_log.NamespaceLog``)

    @property
    def identity(self) -> str:
        """The cluster, the topic, its partitions and when it was created; without the last as long as it does not exist."""
        return self._reading.identity

    @property
    def partitions(self) -> int:
        """Of the topic as it is, or as brokers would create it; one for a topic that is not partitioned."""
        return self._reading.partitions

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return self._reading.layout.namespace

    @property
    def facts(self) -> PulsarFacts:
        """What it was opened for."""
        return self._access.facts

    @property
    def problems(self) -> int:
        """How many entries could not be read, or not entirely."""
        return 0 if self._following is None else self._following.problems

    def partition_of(self, key: PolicyKey) -> int:
        """Where brokers would look for the key: by Java's hash of the message key, which the brokers' dialect says."""
        if self.partitions == 1:
            return 0
        prefixed = key.scope is Scope.GLOBAL and self._access.facts.dialect is not Dialect.SHARED_KEY
        return java_hash(GLOBAL_PREFIX + key.topic if prefixed else key.topic) % self.partitions

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring entries of a ledger, and for the first of a partition of which it is known that it was empty."""
        return self._reading.follows(earlier, later)

    def complete_after(self, partition: int) -> Position | None:
        """Where the last compaction before the opening ended, or one that went on while the beginning was read (``reading/continuity``)."""
        return self._reading.complete_after(partition)

    @property
    def shared(self) -> bool:
        """Brokers and other sidecars write, unless this process leads."""
        return self._leading is None or not self._leading.leadership.leads

    async def end(self, partition: int) -> Position:
        """Asks the broker (see ``change_log.NamespaceLog.end``); of a log that did not exist, first whether it does now."""
        if self._ended is not None:
            raise LogError(self._ended.reason, self._ended.message, kind=self._ended.kind)
        return await self._reading.end(partition)

    @property
    def in_place(self) -> bool:
        """As the brokers' version says."""
        return self._access.facts.in_place

    @property
    def leadership(self) -> Leadership:
        """Anybody may append, or, if the log has one writer at a time, its leader."""
        return ANYBODY if self._leading is None else self._leading.leadership

    def contend(self) -> None:
        """Stands for leadership, if there is one. That creates a log that does not exist."""
        if self._leading is not None and self._ended is None:
            self._leading.contend()

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        if self._ended is not None:
            raise LogError(self._ended.reason, self._ended.message, kind=self._ended.kind)
        leadership = self.leadership
        if not leadership.leads:
            raise NotLeader(self.namespace, leadership)
        if (outstanding := self._outstanding) >= self._access.limits.in_flight:
            raise busy(outstanding)
        try:
            self._writers[self.partition_of(event.key)].append(event)
        except LogError as error:
            self._access.heed(error)
            raise

    async def close(self) -> None:
        """Waits for outstanding outcomes, at most as long as the limits say; what is left fails, with an unknown outcome if it was sent."""
        if self._ended is None:
            self._ended = closed(self.namespace)
            self._ending.begin(self._finish(), "waiting for outcomes")
        await self._ending.close(cancel=False)

    # What is to be done from time to time (``health_checks.Checked``)

    def check_connection(self) -> None:
        """Looks whether the connection is there."""
        self._reading.check_connection()
        if self._leading is not None:
            self._leading.check_connection()

    def close_idle(self) -> None:
        """Closes what was not used for a while, and gives up a connection that does not come back."""
        if self._leading is None:
            for writer in self._writers:
                writer.close_if_idle(self._access.limits.idle_producer_seconds)
        if (error := self._reading.given_up(time.monotonic())) is not None:
            self.lost(error)

    def due(self, now: float) -> bool:
        """Whether it is time to look after the log."""
        return self._ended is None and self._reading.due(now)

    @property
    def by_clock(self) -> bool:
        """Whether nothing but time made it so."""
        return self._reading.by_clock

    @property
    def is_there(self) -> bool:
        """Whether it exists, as far as is known."""
        return self._reading.is_there

    @property
    def out_of_reach(self) -> bool:
        """Whether it is open, or was lost because it could not be reached; if not, it is not there any more, or was closed."""
        return self._ended is None or self._ended.reason in (Reason.LOG_UNREACHABLE, Reason.LOG_ACCESS_DENIED)

    async def check(self) -> None:
        """Finds out whether the log came into being, or whether it is still the one that was opened."""
        try:
            error = await self._reading.trouble()
        except LogError as failure:
            _log.info("Looking after the change log of %s: %s", self.namespace, failure.message)
            return
        if error is not None:
            self.lost(error)

    # What readers and writers report (``following.Listener``, ``writer.Outcomes``)

    def _hand_on(self, take: Callable[[Sequence[Any]], None], events: Sequence[Any]) -> None:
        take(events)
        if self._leading is not None:
            self._leading.read(events)
        elif (following := self._following) is not None:
            for writer in self._writers:
                writer.outdate(following.newest_schema)

    def caught_up(self) -> None:
        """Says so, once."""
        if not self._told_caught_up:
            self._told_caught_up = True
            self._sink.caught_up()
            if self._leading is not None:
                self._leading.caught_up()

    def appended(self, placed: list[Placed]) -> None:
        """Hands on what was acknowledged: events of one partition."""
        self._reading.acknowledged[placed[0].partition].note(placed)
        self._sink.appended(placed)
        self._settled.set()

    def append_failed(self, event: Event, error: LogError) -> None:
        """Hands on what failed. A leader whose producer has failed leads no longer."""
        if self._leading is not None:
            self._leading.append_failed(error)
        self._access.heed(error)
        self._sink.append_failed(event, error)
        self._settled.set()

    def lost(self, error: LogError) -> None:
        """Ends the log, and says so."""
        if self._ended is None:
            self._ended = error
            self._end(error)
            self._sink.lost(error)

    # Who leads, if the log has one writer at a time (``writing/leading.Led``)

    def elected(self, producers: Sequence[OpenProducer]) -> None:
        """This process may append."""
        for writer, producer in zip(self._writers, producers, strict=True):
            writer.use(producer)
        self._sink.led()

    def deposed(self, error: LogError) -> None:
        """It may no longer: what has no outcome gets one."""
        for writer in self._writers:
            fail(self._sink, writer.give_up(), error)
        self._settled.set()
        self._sink.led()

    def led(self) -> None:
        """Hands on that another process leads."""
        self._sink.led()

    # Its life

    async def start(self, start: Start | None = None, *, exists: bool) -> None:
        """Begins to follow the log, if it exists, from ``start`` on if it can be; where one writes at a time all of it is read.

        Raises:
            LogError: it can't be followed.
        """
        if exists:
            of_use = start is not None and start.in_place == self.in_place and self._leading is None
            self.resumed = await self._reading.start(start if of_use else None)
        else:
            asyncio.get_running_loop().call_soon(lambda: None if self._over else self.caught_up())

    @property
    def _following(self) -> Following | None:
        """The readers; None: the log does not exist, as far as is known."""
        return self._reading.following

    @property
    def _outstanding(self) -> int:
        return sum(writer.outstanding for writer in self._writers)

    def _rehearse(self, event: Event) -> None:
        self._schemas.newest.codec.encode(event)

    async def _open_producer(self, partition: int, access: Any = SHARED, name: str = "") -> OpenProducer:
        await self._reading.ensure_followed(create=True)
        registered = await self._schemas.refresh()
        handle = await self._access.client.create_producer(
            self._reading.layout.full_names[partition],
            registered.definition,
            send_seconds=self._access.limits.send_seconds,
            queue_size=self._access.limits.in_flight,
            access=access,
            name=name,
        )
        version = registered.version
        if version == NOT_REGISTERED:  # then it is now
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
            self._end(LogError(Reason.LOG_CLOSED, "The change log was closed before it answered."))

    def _end(self, error: LogError) -> None:
        """Stops everything; what has no outcome gets one."""
        self._over = True
        if self._leading is not None:
            self._leading.stop()
        self._reading.stop()
        for writer in self._writers:
            fail(self._sink, writer.stop(), error)
        self._forget(self)
        self._ending.begin(self._close_connections(), "closing its connections")

    async def _close_connections(self) -> None:
        closing = [*(writer.close() for writer in self._writers), self._reading.close()]
        await close_all(self.namespace, closing, self._access.limits.close_seconds)

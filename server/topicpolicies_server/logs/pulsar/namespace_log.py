"""One open change log on Pulsar: looked for until it exists, then read in all its partitions, and written, for as long as it is this log.

**A log that does not exist** is an empty one. It is created with the first event that is appended, here or by another writer; the latter is
checked for from time to time (``log``). Until then it has the identity of a log that does not exist, and the number of partitions that
brokers would give it.

**A log that has one writer at a time** (``brokers.advertised``) takes events only while this process leads (``logs/leadership``). The
process stands for leadership when it is told to, and by itself if the log shows that there was a leader before. So a lost leader's log is
taken over by any process that has it open, and reading alone locks no writer out of a log.

**A log that was deleted** is lost. pulsar-client does not report a deletion: it connects again for ever, and a tenth of a second after a
topic was deleted, that creates it anew. So the broker is asked from time to time, and after each interruption of the connection. Ledger
numbers are never used twice, and a topic that is deleted and created again begins with a new ledger: so entries of a new ledger
(``reader``), and an end in one of which nothing was read, are used only after the broker has said that the log is still the same.

**The same log** has the time of creation that it had at the opening, which its identity contains, and still has what was read of it. A
topic that is truncated, or of which a cursor is moved by hand, keeps its creation and loses entries: ledgers are deleted once the
compaction's cursor has passed them, whoever moved it, and the compacted ledger is forgotten. Compaction itself deletes ledgers too, but
what it left over stands in its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from ...core.names import PERSISTENT, PolicyKey, Scope
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import LogState, Reason
from ...tasks import TaskSet, asked_to_end
from ..avro import Dialect, Encoded
from ..avro.codec import GLOBAL_PREFIX, java_hash
from ..change_log import ANYBODY, Leadership, LogError, LogSink, NotLeader, Start, busy, closed
from ..leadership import Candidate
from ..stamps import ANNOUNCEMENT
from .brokers import Brokers
from .client import EXCLUSIVE, SHARED, WAIT_FOR_EXCLUSIVE, begin_closing, message_of, send
from .entries import Entries, ResumePoint
from .ids import MessageId, directly_follows, place_of, position_of
from .reader import PartitionReader
from .topics import NOT_REGISTERED, Layout, Schemas, State, Topics, creation_of
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
        layout: the log's topic, as it is or as brokers would create it.
        partitions: how many that are; one for a topic that is not partitioned.
        resumed: whether all partitions are read from the opening's ``start`` on.
        checked: when a check was begun, or the log found; monotonic seconds.
    """

    def __init__(self, brokers: Brokers, layout: Layout, sink: LogSink, forget: Callable[[PulsarNamespaceLog], None]) -> None:
        """Use ``PulsarLog.open``. ``layout``: the log's topic, as it is or as brokers would create it; ``forget`` is called at the end."""
        self._brokers = brokers
        self._sink = sink
        self._forget = forget
        self._schemas = Schemas(brokers.admin, layout.namespace, cluster=brokers.facts.name, dialect=brokers.facts.dialect)
        self.namespace = layout.namespace
        self.facts = brokers.facts
        self.cluster = brokers.facts.name
        self.in_place = brokers.facts.in_place
        self.layout = layout
        self.partitions = max(1, layout.partitions)
        self.resumed = False
        self._readers: Sequence[PartitionReader] = ()
        """One for each partition; empty: the log does not exist, as far as is known."""
        self._creations: Sequence[str] = ()
        """By partition: what distinguishes this creation of its topic from later ones; empty: the log does not exist."""
        self._existed = False
        self._creating = asyncio.Lock()
        self._reading: list[asyncio.Task[None]] = []
        self._checking: asyncio.Task[None] | None = None
        self._told_caught_up = False
        self.checked = self._connected = time.monotonic()
        """``_connected``: when the log was last seen connected."""
        self._answered = True
        self._interrupted = False
        self._ended: LogError | None = None
        self._over = False
        """Whether reading and writing have stopped for good; a log that is being closed still waits for outcomes."""
        self._settled = asyncio.Event()
        self._tasks = TaskSet(f"the change log of {layout.namespace}")
        self._candidate: Candidate[OpenProducer] | None = None
        if brokers.advertised is not None:
            self._candidate = Candidate(self, self.namespace, self.partitions, brokers.facts.name, brokers.advertised())
        self._writers = [
            PartitionWriter(partition, self._open_producer, self._rehearse, self, patience_seconds=brokers.limits.send_seconds)
            for partition in range(self.partitions)
        ]

    # The change log's own interface (``change_log.NamespaceLog``)

    @property
    def identity(self) -> str:
        """The cluster, the topic, its partitions and its time of creation; that time is missing as long as the topic does not exist."""
        return self._identity(self._creations)

    def partition_of(self, key: PolicyKey) -> int:
        """The partition where brokers look for the key: Java's hash of the message key, which depends on the brokers' dialect."""
        if self.partitions == 1:
            return 0
        prefixed = key.scope is Scope.GLOBAL and self.facts.dialect is not Dialect.SHARED_KEY
        return java_hash(GLOBAL_PREFIX + key.topic if prefixed else key.topic) % self.partitions

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring entries of a ledger."""
        return directly_follows(earlier, later)

    def complete_after(self, partition: int) -> Position | None:
        """Where the last compaction before the opening ended, or one that ended during the initial replay (``reader``)."""
        return self._readers[partition].complete_after if self._existed and self._readers else ""

    @property
    def shared(self) -> bool:
        """Whether brokers and other sidecars may write: True unless this process leads."""
        return self._candidate is None or not self._candidate.leadership.leads

    async def end(self, partition: int) -> Position:
        """Asks the broker where a partition ends (``change_log.NamespaceLog.end``); of a log that did not exist, whether it does now."""
        self._make_sure_it_is_open()
        if not self._readers:
            await self._ensure_followed(create=False)
            if not self._readers:
                return ""
        reader = self._readers[partition]
        try:
            last = await self._brokers.topics.last(self.layout.topics[partition])
        except LogError as error:
            if error.state is LogState.NOT_SERVED:
                await self._make_sure()
            raise
        if last.ledger > reader.ledger:
            await self._make_sure()
            reader.ledger = max(reader.ledger, last.ledger)
        return reader.end(last)

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
        if (outstanding := self._outstanding) >= self._brokers.limits.in_flight:
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
            self._tasks.begin(self._finish(), "waiting for outcomes")
        await self._tasks.close(cancel=False)

    # Periodic checks (``log``)

    @property
    def connected(self) -> tuple[bool, ...]:
        """By partition: whether its reader has its connection now; empty: the log does not exist. May be called in any thread."""
        return tuple(reader.connected for reader in self._readers)

    def look(self) -> bool:
        """Looks at the connections; called often, to see nearly every interruption. Returns whether a check is due."""
        limits, now, connected = self._brokers.limits, time.monotonic(), all(self.connected)
        if self._candidate is not None:
            self._candidate.check_connection()
        else:
            for writer in self._writers:
                writer.close_if_idle(limits.idle_producer_seconds)
        self._interrupted = self._interrupted or not connected
        if connected:
            self._connected = now
        if self._checking is not None and not self._checking.done():
            return False
        if connected and self._interrupted:
            return True
        gone = now - self._connected > limits.creation_seconds / 2
        seldom = self._readers and self._answered and not gone
        return now > self.checked + (limits.check_seconds if seldom else limits.creation_seconds)

    def begin_check(self) -> None:
        """Begins a check, in a task of its own."""
        self.checked = time.monotonic()
        self._checking = self._tasks.begin(self.check(), "a check")

    async def check(self) -> None:
        """Follows the log if it was created meanwhile. Loses it if it is not the one that was opened, or is not connected for too long."""
        try:
            if not self._readers:
                await self._ensure_followed(create=False)
                return
            self._interrupted, self._answered = not all(self.connected), False
            error = await self._difference()
            self._answered = True
            gone = time.monotonic() - self._connected
            if error is None and all(self.connected):
                for reader in self._readers:
                    await reader.keep_up()
            elif error is None and gone > self._brokers.limits.reconnect_seconds:
                # The library's pauses grow, so opening the log again is quicker.
                error = LogError(LogState.UNREACHABLE, f"{self._name} exists, but was not reconnected within {gone:.0f} s.")
        except LogError as failure:
            _log.info("Checking what the change log of %s needs: %s", self.namespace, failure.message)
            error = failure if failure.reason == Reason.NAMESPACE_NOT_FOUND else None
            if failure.state is LogState.ADMIN_REFUSED and not all(self.connected):
                error = LogError(LogState.ACCESS_DENIED, failure.message)
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
        """Reports that all partitions are caught up, once. If the log names an earlier leader, stands for leadership."""
        if not self._told_caught_up and all(reader.caught_up for reader in self._readers):
            self._told_caught_up = True
            self._sink.caught_up()
            if self._candidate is not None and self._candidate.ever_led:
                self._candidate.contend()

    def acknowledged(self, events: Sequence[Placed]) -> None:
        """Reports acknowledged events, all of one partition."""
        self._sink.acknowledged(events)
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
        announcement = Encoded(self.layout.name, producer.codec.nothing(), {ANNOUNCEMENT: producer.handle.producer_name()}, (self.cluster,))
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
            self._fail(writer.stop(), error)
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
            of_use = start is not None and start.in_place == self.in_place and self._candidate is None
            async with self._creating:
                self._existed = True
                self.resumed = await self._follow(self.layout, start if of_use else None)
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

    async def _ensure_followed(self, *, create: bool) -> None:
        """Follows the log if it exists; if not, ``create`` says whether it is created.

        Raises:
            LogError: the log can't be followed, or the broker gave no answer.
        """
        async with self._creating:
            if self._readers:
                return
            layout = await self._brokers.topics.find(self.namespace)
            self.checked = time.monotonic()
            made = layout is None and create
            if made:
                layout = self.layout._replace(partitions=await self._brokers.client.let_broker_lay_out(self.layout.name))
            if layout is None:
                return
            if max(1, layout.partitions) != self.partitions:
                what = f"was created with {layout.partitions} partitions instead of {self.partitions}; it must be opened again."
                raise self._losing(LogError(Reason.LOG_UNAVAILABLE, f"{self._name} {what}"))
            await self._follow(layout, made=made)

    async def _open_producer(self, partition: int, access: Any = SHARED, name: str = "") -> OpenProducer:
        await self._ensure_followed(create=True)
        registered = await self._schemas.refresh()
        handle = await self._brokers.client.create_producer(
            self.layout.topics[partition],
            registered.codec.definition,
            send_seconds=self._brokers.limits.send_seconds,
            queue_size=self._brokers.limits.in_flight,
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

    # How the log is followed

    @property
    def _name(self) -> str:
        return f"The change log of {self.namespace}"

    def _identity(self, creations: Sequence[str]) -> str:
        name = self.layout.name.removeprefix(PERSISTENT)
        return f"pulsar:{self.cluster}:{name}:{self.partitions}:{creation_of(creations) if creations else ''}"

    def _losing(self, error: LogError) -> LogError:
        """Notifies the sink that this opening can't follow the log; returns the error."""
        asyncio.get_running_loop().call_soon(self.lost, error)
        return error

    async def _make_sure(self) -> None:
        """Loses the log if it was deleted or replaced.

        Raises:
            LogError: it was, or there is no answer.
        """
        if (error := await self._replaced()) is not None:
            self._losing(error)
            await asyncio.sleep(0)  # lets ``lost`` run first: callers that see the error turn to the next opening, not to this one
            raise error

    async def _difference(self) -> LogError | None:
        layout = await self._brokers.topics.find(self.namespace)
        if layout is None:
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} was deleted.")
        if layout.partitions != self.layout.partitions:
            what = f"{layout.partitions} partitions and no longer {self.layout.partitions}; it must be opened again."
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} has {what}")
        return await self._replaced()

    async def _replaced(self) -> LogError | None:
        topics, layout = self._brokers.topics, self.layout
        read = [reader.entries.last.ledger for reader in self._readers]
        found = await topics.stored(layout)
        now = creation_of([each.creation for each in found])
        if not now:
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} was deleted.")
        if now != creation_of(self._creations):
            return LogError(Reason.LOG_REPLACED, f"{self._name} was deleted and created again; it must be opened again.")
        emptied = False
        for topic, each, ledger in zip(layout.topics, found, read, strict=True):
            if 0 <= ledger < each.first_ledger and (await topics.state(topic)).compaction.ledger == -1:
                topics.emptied.add((topic, each.creation))
                emptied = True
        if emptied:
            return LogError(LogState.LOST, f"{self._name} was emptied: its topic was truncated, or the like. What is left is read anew.")
        return None

    async def _log_slow_rates(self) -> None:
        if told := await self._brokers.topics.throttled(self.namespace, self.facts.dialect):
            _log.warning("%s Until then changes are seen late, and may time out.", told)

    async def _follow(self, layout: Layout, start: Start | None = None, *, made: bool = False) -> bool:
        """Connects the readers and begins to read; returns whether the log is read from ``start`` on.

        ``made``: whether connecting creates the topics, so that brokers are not asked about them first (they may answer 500 then).
        """
        creations: Sequence[str] = [""] * len(layout.topics)
        if made:
            await self._schemas.refresh()
        else:
            _, creations = await asyncio.gather(self._schemas.refresh(), self._created(layout))
        resumed = None
        if start is not None and creation_of(creations) and self._identity(creations) == start.identity:
            resumed = await _resumable(self._brokers.topics, layout, start)
        nothing = [None] * len(layout.topics)
        points, states = (nothing, nothing) if resumed is None else resumed
        readers = [self._reader(layout, number, point) for number, point in enumerate(points)]
        emptied = [each in self._brokers.topics.emptied for each in zip(layout.topics, creations, strict=True)]
        connecting = [
            asyncio.ensure_future(reader.connect(resumed=state, emptied=gone))
            for reader, state, gone in zip(readers, states, emptied, strict=True)
        ]
        try:
            await asyncio.gather(*connecting)
            connected_to = await self._created(layout)
            if any(not now or then not in ("", now) for then, now in zip(creations, connected_to, strict=True)):
                # the ends that the broker reported may be those of the next creation
                raise LogError(LogState.LOST, f"{self._name} was deleted while it was opened. Try again.")
            if self._over:
                raise closed(layout.namespace)
            if not self._existed and any(reader.complete_after for reader in readers):
                what = f"{self._name} was created and compacted before it was found; it must be opened again."
                raise self._losing(LogError(Reason.LOG_UNAVAILABLE, what))
        except BaseException:
            for task, reader in zip(connecting, readers, strict=True):
                task.cancel()
                begin_closing(reader.handle)
            raise
        self.layout, self._readers, self._creations = layout, readers, connected_to
        self.checked = self._connected = time.monotonic()
        self._reading = [self._tasks.begin(self._run(reader), "reading it") for reader in readers]
        self._reading.append(self._tasks.begin(self._log_slow_rates(), "asking for rates"))
        return resumed is not None

    async def _created(self, layout: Layout) -> list[str]:
        return [each.creation for each in await self._brokers.topics.stored(layout)]

    def _reader(self, layout: Layout, partition: int, resume_point: ResumePoint | None) -> PartitionReader:
        entries = Entries(partition, self._schemas, self.cluster, resume_point)
        return PartitionReader(self._brokers, layout.topics[partition], entries, self._replaced)

    async def _run(self, reader: PartitionReader) -> None:
        try:
            await reader.run(self.read, self.caught_up)
        except LogError as error:
            self.lost(error)
        except (Exception, asyncio.CancelledError) as error:  # the log must not look alive when it is not
            if asked_to_end(error):
                raise
            _log.exception("Reading the change log of %s failed", self.namespace)
            self.lost(LogError(Reason.LOG_UNAVAILABLE, f"Reading {self._name} failed: {type(error).__name__}."))

    # Its end

    async def _finish(self) -> None:
        deadline = time.monotonic() + self._brokers.limits.close_seconds
        try:
            while self._outstanding and (left := deadline - time.monotonic()) > 0:
                self._settled.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), left)
        finally:
            self._end(LogError(Reason.LOG_UNAVAILABLE, "The change log was closed before it answered."))

    def _end(self, error: LogError) -> None:
        """Closes readers and producers, and fails the events without an outcome."""
        if self._candidate is not None:
            self._candidate.stop()
        self._over = True
        for task in (*self._reading, self._checking):
            if task is not None:
                task.cancel()
        for writer in self._writers:
            self._fail(writer.stop(), error)
        for reader in self._readers:
            begin_closing(reader.handle)
        self._forget(self)

    def _fail(self, left: Iterable[tuple[Event, bool]], error: LogError) -> None:
        for event, sent in left:
            failed = LogError(error.state or error.reason, error.message, kind=error.kind, outcome_unknown=sent)
            try:
                self._sink.append_failed(event, failed)
            except Exception:  # noqa: BLE001 (the log ends all the same, and the others are told)
                _log.exception("the outcome of an event of %s could not be reported", event.key.topic)


async def _resumable(topics: Topics, layout: Layout, start: Start) -> tuple[Sequence[ResumePoint], Sequence[State]] | None:
    """Returns where each partition is read on from, and the partitions' states; None: the whole log has to be read.

    That is so if a partition is compacted further than the start, because deletions in between left no trace, or ends before it, because
    then the log is not the one that it was.
    """
    try:
        places = [place_of(position) for position in start.positions]
    except ValueError:
        return None
    if not len(places) == len(start.anchors) == len(layout.topics):
        return None
    states = await asyncio.gather(*(topics.state(topic) for topic in layout.topics))
    if not all(map(_stands, places, states)):
        return None
    return list(map(ResumePoint, places, start.anchors)), states


def _stands(place: MessageId, state: State) -> bool:
    horizon, last = state.compaction.horizon, state.last
    if horizon is None or horizon > place:
        return False
    return place <= last if last.entry >= 0 or state.compaction.ledger != -1 else place.entry < 0

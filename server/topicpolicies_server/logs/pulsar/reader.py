"""One log as it is read: looked for until it exists, then followed in all its partitions for as long as it is the log that was opened.

**Existence.** pulsar-client does not report a deletion: it connects again for ever, and a tenth of a second after a topic was deleted, that
creates it anew. So the broker is asked from time to time, and after each interruption of the connection. Ledger numbers are never used
twice, and a topic that is deleted and created again begins with a new ledger: so entries of a new ledger (``partition``), and an end in one
of which nothing was read, are used only after the broker has said that the log is still the same.

**The same log** has the time of creation that it had at the opening, and still has what was read of it. A topic that is truncated, or of
which a cursor is moved by hand, keeps its creation and loses entries: ledgers are deleted once the compaction's cursor has passed them,
whoever moved it, and the compacted ledger is forgotten. Compaction itself deletes ledgers too, but what it left over stands in its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from ...core.names import PERSISTENT
from ...core.policies.events import Placed, Position
from ...core.reasons import LogState, Reason
from ...tasks import TaskSet, asked_to_end
from ..change_log import LogError, LogSink, Start, closed
from .access import Access
from .client import begin_closing, close_handle
from .entries import Entries, ResumePoint
from .ids import MessageId, directly_follows, message_id_of, place_of
from .partition import PartitionReader
from .topics import Layout, Schemas, State, Topics, creation_of

_log = logging.getLogger(__name__)


class LogReader:
    """Reads one log as soon as it exists.

    Attributes:
        layout: the log's topic, as it is or as brokers would create it.
        partitions: how many that are; one for a topic that is not partitioned.
        checked: when the broker was last asked whether the log exists, or is still the same; monotonic seconds.
    """

    def __init__(self, access: Access, schemas: Schemas, layout: Layout, sink: LogSink) -> None:
        """Reads nothing yet. ``sink`` takes what is read, and is notified if the log is lost."""
        self.layout = layout
        self.partitions = max(1, layout.partitions)
        self._access = access
        self._schemas = schemas
        self._sink = sink
        self._readers: Sequence[PartitionReader] = ()
        """One for each partition; empty: the log does not exist, as far as is known."""
        self._creations: Sequence[str] = ()
        """By partition: what distinguishes this creation of its topic from later ones; empty: the log does not exist."""
        self._existed = False
        self._over = False
        self._creating = asyncio.Lock()
        self._owned = TaskSet(f"the change log of {layout.namespace}")
        self._tasks: list[asyncio.Task[None]] = []
        self._behind = 0
        self.checked = self._connected = time.monotonic()
        """``_connected``: when the log was last seen connected."""
        self._answered = True
        self._interrupted = False

    @property
    def identity(self) -> str:
        """The cluster, the topic, its partitions and its time of creation; that time is missing as long as the topic does not exist."""
        return self._identity(self._creations)

    @property
    def connected(self) -> tuple[bool, ...]:
        """By partition: whether its reader has its connection now; empty: the log does not exist. May be called in any thread."""
        return tuple(reader.connected for reader in self._readers)

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring entries of a ledger, and for the first entry of a partition that is known to have been empty."""
        if earlier:
            return directly_follows(earlier, later)
        try:
            first = message_id_of(later)
        except ValueError:
            return False
        fresh = any(reader.fresh_ledger == first.ledger for reader in self._readers)
        return fresh and first.entry == 0 and first.batch_index <= 0

    def complete_after(self, partition: int) -> Position | None:
        """Where the last compaction before the opening ended, or one that ended during the initial replay (``partition``)."""
        return self._readers[partition].complete_after if self._existed and self._readers else ""

    async def start(self, start: Start | None = None) -> bool:
        """Begins to follow the log, which exists; returns whether it is read from ``start`` on.

        Raises:
            LogError: the log can't be followed.
        """
        async with self._creating:
            self._existed = True
            return await self._follow(self.layout, start)

    async def ensure_followed(self, *, create: bool) -> None:
        """Follows the log if it exists; if not, ``create`` says whether it is created.

        Raises:
            LogError: the log can't be followed, or the broker gave no answer.
        """
        async with self._creating:
            if self._readers:
                return
            namespace = self.layout.namespace
            layout = await self._access.topics.find(namespace)
            self.checked = time.monotonic()
            made = layout is None and create
            if made:
                layout = self.layout._replace(partitions=await self._access.client.let_broker_lay_out(self.layout.name))
            if layout is None:
                return
            if max(1, layout.partitions) != self.partitions:
                what = f"was created with {layout.partitions} partitions instead of {self.partitions}; it must be opened again."
                raise self._losing(LogError(Reason.LOG_UNAVAILABLE, f"The change log of {namespace} {what}"))
            await self._follow(layout, made=made)

    async def end(self, partition: int) -> Position:
        """Asks the broker where a partition ends (``change_log.NamespaceLog.end``); of a log that did not exist, whether it does now."""
        if not self._readers:
            await self.ensure_followed(create=False)
            if not self._readers:
                return ""
        reader = self._readers[partition]
        try:
            last = await self._access.topics.last(self.layout.namespace, self.layout.topics[partition])
        except LogError as error:
            if error.state is LogState.NOT_SERVED:
                await self._make_sure()
            raise
        if last.ledger > reader.ledger:
            await self._make_sure()
            reader.ledger = max(reader.ledger, last.ledger)
        return reader.end(last)

    def keep(self, acknowledged: Sequence[Placed]) -> None:
        """Takes acknowledged events, all of one partition, which need not be decoded when they are read."""
        self._readers[acknowledged[0].partition].entries.keep(acknowledged)

    # Periodic checks

    def check_connection(self) -> None:
        """Looks at the connection; called often enough to see nearly every interruption, unless very many logs are open."""
        self._interrupted = self._interrupted or not all(self.connected)

    def due_at(self) -> float:
        """When the next check is due, in monotonic seconds; called about once a second."""
        limits, now = self._access.limits, time.monotonic()
        if all(self.connected):
            self._connected = now
            if self._interrupted:
                return 0.0
        gone = now - self._connected > limits.creation_seconds / 2
        return self.checked + (limits.check_seconds if self._readers and self._answered and not gone else limits.creation_seconds)

    async def trouble(self, *, surely: bool = False) -> LogError | None:
        """Checks whether the log was created meanwhile, or is still the one that was opened; returns what is wrong, if anything is.

        ``surely``: whether None must mean that a log that is followed is known to be well.

        Raises:
            LogError: there is no answer and ``surely`` is set or the log does not exist, or the answer is not understood.
        """
        self.checked = time.monotonic()
        if self._readers:
            self._interrupted = not all(self.connected)
            self._answered = False
        try:
            if not self._readers:
                await self.ensure_followed(create=False)
                return None
            trouble = await self._difference() or self._not_reconnected()
            self._answered = True
            if trouble is None and all(self.connected):
                for reader in self._readers:
                    await reader.keep_up()
            return trouble
        except LogError as error:
            if error.reason == Reason.NAMESPACE_NOT_FOUND:
                return LogError(error.state or error.reason, f"The namespace {self.layout.namespace} was deleted.", kind=error.kind)
            if not self._readers:
                raise
            if error.state is LogState.ADMIN_REFUSED and not all(self.connected):
                return LogError(LogState.ACCESS_DENIED, error.message)
            if surely or error.state not in (LogState.ADMIN_REFUSED, LogState.ADMIN_UNREACHABLE):
                raise
            return None

    def stop(self) -> None:
        """Stops reading, for good; the sink is not called any more."""
        self._over = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stops reading, and closes the connections."""
        self.stop()
        await asyncio.gather(*(close_handle(reader.handle) for reader in self._readers))

    @property
    def _name(self) -> str:
        return f"The change log of {self.layout.namespace}"

    def _identity(self, creations: Sequence[str]) -> str:
        name = self.layout.name.removeprefix(PERSISTENT)
        return f"pulsar:{self._access.facts.name}:{name}:{self.partitions}:{creation_of(creations) if creations else ''}"

    def _losing(self, error: LogError) -> LogError:
        """Notifies the sink that this opening can't follow the log; returns the error."""
        asyncio.get_running_loop().call_soon(self._sink.lost, error)
        return error

    async def _make_sure(self) -> None:
        trouble = await self.trouble(surely=True)
        if trouble is not None:
            self._losing(trouble)
            await asyncio.sleep(0)  # lets ``lost`` run first: callers that see the error turn to the next opening, not to this one
            raise trouble

    async def _difference(self) -> LogError | None:
        layout = await self._access.topics.find(self.layout.namespace)
        if layout is None:
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} was deleted.")
        if layout.partitions != self.layout.partitions:
            what = f"{layout.partitions} partitions and no longer {self.layout.partitions}; it must be opened again."
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} has {what}")
        return await self._replaced()

    async def _replaced(self) -> LogError | None:
        topics, layout = self._access.topics, self.layout
        read = [reader.entries.last.ledger for reader in self._readers]
        found = await topics.stored(layout)
        now = creation_of([each.creation for each in found])
        if not now:
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} was deleted.")
        if now != creation_of(self._creations):
            return LogError(Reason.LOG_REPLACED, f"{self._name} was deleted and created again; it must be opened again.")
        emptied = False
        for topic, full_name, each, ledger in zip(layout.topics, layout.full_names, found, read, strict=True):
            if 0 <= ledger < each.first_ledger and (await topics.state(layout.namespace, topic)).compaction.ledger == -1:
                topics.emptied.add((full_name, each.creation))
                emptied = True
        if emptied:
            return LogError(LogState.LOST, f"{self._name} was emptied: its topic was truncated, or the like. What is left is read anew.")
        return None

    def _not_reconnected(self) -> LogError | None:
        """Returns an error if the log was not reconnected in time: the library's pauses grow, so opening the log again is quicker."""
        gone = time.monotonic() - self._connected
        if not all(self.connected) and gone > self._access.limits.reconnect_seconds:
            return LogError(LogState.UNREACHABLE, f"{self._name} exists, but was not reconnected within {gone:.0f} s.")
        return None

    async def _name_slow_rates(self) -> None:
        if told := await self._access.topics.throttled(self.layout.namespace, self._access.facts.dialect):
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
            resumed = await _resumable(self._access.topics, layout, start)
        nothing = [None] * len(layout.topics)
        points, states = (nothing, nothing) if resumed is None else resumed
        readers = [self._reader(layout, number, point) for number, point in enumerate(points)]
        emptied = [each in self._access.topics.emptied for each in zip(layout.full_names, creations, strict=True)]
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
        self._behind = len(readers)
        self.checked = self._connected = time.monotonic()
        self._tasks = [self._owned.begin(self._run(reader), "reading it") for reader in readers]
        self._tasks.append(self._owned.begin(self._name_slow_rates(), "asking for rates"))
        return resumed is not None

    async def _created(self, layout: Layout) -> list[str]:
        return [each.creation for each in await self._access.topics.stored(layout)]

    def _reader(self, layout: Layout, partition: int, resume_point: ResumePoint | None) -> PartitionReader:
        entries = Entries(partition, self._schemas, self._access.facts.name, resume_point)
        topic = layout.namespace, layout.topics[partition], layout.full_names[partition]
        return PartitionReader(self._access, topic, entries, self._replaced)

    async def _run(self, reader: PartitionReader) -> None:
        def caught_up() -> None:
            self._behind -= 1
            if self._behind == 0:
                self._sink.caught_up()

        try:
            await reader.run(self._sink.read, caught_up)
        except LogError as error:
            self._sink.lost(error)
        except (Exception, asyncio.CancelledError) as error:  # the log must not look alive when it is not
            if asked_to_end(error):
                raise
            _log.exception("Reading the change log of %s failed", self.layout.namespace)
            self._sink.lost(LogError(Reason.LOG_UNAVAILABLE, f"Reading {self._name} failed: {type(error).__name__}."))


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
    states = await asyncio.gather(*(topics.state(layout.namespace, topic) for topic in layout.topics))
    if not all(map(_stands, places, states)):
        return None
    return list(map(ResumePoint, places, start.anchors)), states


def _stands(place: MessageId, state: State) -> bool:
    horizon, last = state.compaction.horizon, state.last
    if horizon is None or horizon > place:
        return False
    return place <= last if last.entry >= 0 or state.compaction.ledger != -1 else place.entry < 0

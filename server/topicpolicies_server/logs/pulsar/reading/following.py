"""The readers of a change log that exists, one per partition."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ....core.policies.events import Placed, Position
from ....core.reasons import LogState, Reason
from ....tasks import TaskSet, asked_to_end
from ...change_log import LogError, Start
from ..access import Access
from ..admin.schemas import Schemas
from ..admin.topics import End, Layout, creation_of
from ..client import PulsarClientError, close_handle, close_quietly
from ..client.refusals import refusal
from ..ids import NOWHERE, MessageId
from .acknowledged import Acknowledged
from .beginning import Beginning, beginnings
from .continuity import Continuity
from .continuity_requests import ContinuityRequests
from .entries import Entries
from .identity import replaced
from .partition import Goal, PartitionReader
from .receiving import Received
from .source import Source
from .uncompacted import Uncompacted

_log = logging.getLogger(__name__)


class Listener(Protocol):
    """Receives the events of a log that is followed."""

    def read(self, events: Sequence[Placed]) -> None:
        """Takes events of one partition, in order."""

    def caught_up(self) -> None:
        """Called when the initial replay has ended in all partitions."""

    def lost(self, error: LogError) -> None:
        """Called when reading can't go on."""


class Following:
    """The connected readers of one log.

    Attributes:
        layout: the log's topics.
        creation: distinguishes this creation of the topic from later ones.
        resumed: whether the readers go on from where an earlier opening had come to.
        fresh_ledgers: the ledgers of partitions that had never been written when they were opened.
    """

    def __init__(
        self,
        layout: Layout,
        creation: str,
        ends: Sequence[End],
        readers: Sequence[PartitionReader],
        last: Callable[[int], Awaitable[MessageId]],
        *,
        throttled: Callable[[], Awaitable[str]] | None = None,
        resumed: bool = False,
    ) -> None:
        """Use ``connect``. ``last`` asks the broker for a partition's last message, ``throttled`` for a rate that slows the log down."""
        self.layout = layout
        self.resumed = resumed
        self.creation = creation
        self.fresh_ledgers = frozenset(end.fresh_ledger for end in ends if end.fresh_ledger is not None)
        self._readers = readers
        self._last = last
        self._ask_throttled = throttled
        self._throttled = ""
        """Which rate of the namespace slows the log down, a sentence; "": none does, as far as is known."""
        self._behind = len(readers)
        self._owned = TaskSet(f"the change log of {layout.namespace}")
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def connect(
        cls,
        access: Access,
        schemas: Schemas,
        layout: Layout,
        creations: Sequence[str],
        acknowledged: Sequence[Acknowledged],
        start: Start | None = None,
    ) -> Following:
        """Connects a reader to each of a log's topics, which creates those that don't exist.

        Args:
            access: the clients for the brokers.
            schemas: the log's schemas.
            layout: the log's topics.
            creations: which creation of each topic this is, as the broker has just said; "" for a topic that does not exist.
            acknowledged: by partition, the events that were appended here and not read yet.
            start: a place of this very log up to which everything is known; None: nothing is known.

        Raises:
            LogError: a reader could not be connected, or the topics were deleted meanwhile. No reader is left open.
        """
        begun = await beginnings(access, layout, start) if start is not None else None

        async def another(partition: int) -> LogError | None:
            reader, _ = parts[partition]
            return await replaced(access.topics, layout.part(partition), connected_to[partition], (reader.entries.last.ledger,))

        connecting = [
            asyncio.ensure_future(
                _connect(
                    access,
                    schemas,
                    layout,
                    partition,
                    ours,
                    functools.partial(another, partition),
                    begun[partition] if begun is not None else None,
                    emptied=(layout.full_names[partition], creations[partition]) in access.topics.emptied,
                )
            )
            for partition, ours in enumerate(acknowledged)
        ]
        try:
            parts = await asyncio.gather(*connecting)
            connected_to = await access.topics.creations(layout)
            if any(not now or then not in ("", now) for then, now in zip(creations, connected_to, strict=True)):
                # the ends that the broker reported may be those of the next creation
                raise LogError(LogState.LOST, f"The change log of {layout.namespace} was deleted while it was opened. Try again.")
        except BaseException as error:
            for task in connecting:
                if not task.cancel() and not task.cancelled() and task.exception() is None:
                    close_quietly(task.result()[0].handle)
            if isinstance(error, PulsarClientError):
                raise refusal(f"Reading the change log of {layout.namespace}", error.result, error.message) from error
            raise

        async def last(partition: int) -> MessageId:
            return await access.topics.last(layout.namespace, layout.topics[partition])

        throttled = functools.partial(access.topics.throttled, layout.namespace, access.facts.dialect)
        ends, readers = [end for _, end in parts], [reader for reader, _ in parts]
        return cls(layout, creation_of(connected_to), ends, readers, last, throttled=throttled, resumed=begun is not None)

    @property
    def connected(self) -> bool:
        """Whether all readers have their connections now."""
        return all(reader.connected for reader in self._readers)

    @property
    def partly_connected(self) -> bool:
        """Whether any reader has its connection now."""
        return any(reader.connected for reader in self._readers)

    @property
    def complete_after(self) -> tuple[Position | None, ...]:
        """By partition: the position after which nothing was compacted away. It may move during the initial replay (``continuity``)."""
        return tuple(reader.continuity.complete_after for reader in self._readers)

    @property
    def complete(self) -> bool:
        """Whether the initial replay has ended in all partitions."""
        return self._behind == 0

    @property
    def newest_schema(self) -> int:
        """The highest schema version that an entry was written with; -1 if no entry names one."""
        return max(reader.entries.newest_schema for reader in self._readers)

    @property
    def ledgers(self) -> tuple[int, ...]:
        """By partition: the ledger of the last entry."""
        return tuple(reader.entries.last.ledger for reader in self._readers)

    @property
    def problems(self) -> int:
        """How many entries could not be read, or not completely."""
        return sum(reader.entries.problems for reader in self._readers)

    async def last(self, partition: int) -> MessageId:
        """Asks the broker for the place of a partition's last message.

        Raises:
            LogError: the broker gave no answer.
        """
        return await self._last(partition)

    def end(self, partition: int, last: MessageId) -> Position:
        """Returns how far a caller must read in a partition, given its last message, which the broker has just reported."""
        return self._readers[partition].end(last)

    async def keep_up(self) -> None:
        """Asks whether the partitions were compacted meanwhile, and what slows them down; called from time to time.

        Raises:
            LogError: the broker gave no answer.
        """
        await self._look_for_rates()
        for reader in self._readers:
            await reader.keep_up()

    def start(self, listener: Listener) -> None:
        """Begins to read; the listener is not called before this returns."""
        self._tasks = [self._owned.begin(self._run(reader, listener), "reading it") for reader in self._readers]
        self._tasks.append(self._owned.begin(self._look_for_rates(), "asking for rates"))

    def stop(self) -> None:
        """Stops reading; the listener is not called any more."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stops reading, and closes the connections."""
        self.stop()
        await asyncio.gather(*(close_handle(reader.handle) for reader in self._readers))

    async def _look_for_rates(self) -> None:
        """Logs which rate slows the log down, once."""
        known = self._throttled
        self._throttled = await self._ask_throttled() if self._ask_throttled is not None else ""
        if self._throttled not in ("", known):
            _log.warning("%s Until then changes are seen late, and may time out.", self._throttled)

    async def _run(self, reader: PartitionReader, listener: Listener) -> None:
        def caught_up() -> None:
            self._behind -= 1
            if self._behind == 0:
                listener.caught_up()

        try:
            await reader.run(listener.read, caught_up)
        except LogError as error:
            stuck = error.state is LogState.STUCK and self._throttled
            listener.lost(LogError(error.state or error.reason, f"{error.message} {self._throttled}") if stuck else error)
        except (Exception, asyncio.CancelledError) as error:  # the log must not look alive when it is not
            if asked_to_end(error):
                raise
            _log.exception("Reading the change log of %s failed", self.layout.namespace)
            listener.lost(
                LogError(Reason.LOG_UNAVAILABLE, f"Reading the change log of {self.layout.namespace} failed: {type(error).__name__}.")
            )


async def _connect(
    access: Access,
    schemas: Schemas,
    layout: Layout,
    partition: int,
    acknowledged: Acknowledged,
    another: Callable[[], Awaitable[LogError | None]],
    begun: Beginning | None,
    *,
    emptied: bool,
) -> tuple[PartitionReader, End]:
    topic = layout.topics[partition]
    ask = functools.partial(access.topics.compaction, layout.namespace, topic)
    compaction = await ask() if begun is None else begun.compaction  # before connecting, because from then on the reader receives
    names = (layout.namespace, topic, layout.full_names[partition])
    source = Source(access, *names)
    handle = await source.open(NOWHERE if begun is None else begun.resume_point.place)
    recall = Uncompacted(access, *names)
    recalled: Sequence[Received] = ()
    try:
        end = await access.topics.end(layout.namespace, topic)
        if compaction.ledger != -1 and compaction.horizon is not None and begun is None:
            recalled = await recall.upto(compaction.horizon)
    except BaseException:
        close_quietly(handle)
        raise

    goal = Goal(end.last, source.has_sent, access.limits.stuck_seconds, end.fresh_ledger)
    remembered = access.not_handed_over
    not_handed_over = None if remembered is None else remembered.of(layout.full_names[partition])
    requests = ContinuityRequests(
        ask, functools.partial(access.topics.first_message_between, layout.namespace, topic), recall.between, another
    )
    entries = Entries(partition, schemas, access.facts.name, None if begun is None else begun.resume_point, acknowledged)
    continuity = Continuity(compaction, not_handed_over, entries.last, emptied=emptied)
    return PartitionReader(handle, entries, goal, continuity, requests, recalled, source.reopen), end

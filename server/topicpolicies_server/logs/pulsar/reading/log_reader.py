"""One log as it is read: followed if it exists; if not, looked for until it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ....core.policies.events import Position
from ....core.reasons import Reason
from ...change_log import LogError, Start, closed
from ..access import Access
from ..admin.schemas import Schemas
from ..admin.topics import Layout, creation_of
from ..ids import directly_follows, message_id_of
from .acknowledged import Acknowledged
from .existence import Existence, LogEnd
from .following import Following, Listener


class LogReader:
    """Reads one log as soon as it exists.

    Attributes:
        layout: the log's topic, as it is or as brokers would create it.
        following: the log's readers; None: the log does not exist, as far as is known.
        acknowledged: by partition, the events that were appended here and not read yet.
    """

    def __init__(self, access: Access, schemas: Schemas, layout: Layout, listener: Listener) -> None:
        """Reads nothing yet.

        Args:
            access: the clients for the brokers.
            schemas: the log's schemas.
            layout: the log's topic, as it is or as brokers would create it.
            listener: takes what is read, and is notified if the log is lost.
        """
        self.layout = layout
        self.following: Following | None = None
        self.acknowledged = [Acknowledged() for _ in range(self.partitions)]
        self._access = access
        self._schemas = schemas
        self._listener = listener
        self._existence: Existence | None = None
        self._end: LogEnd | None = None
        self._creating = asyncio.Lock()
        self._existed = False
        """Whether the log existed at the opening."""
        self._over = False
        self._looked = time.monotonic()

    @property
    def partitions(self) -> int:
        """How many partitions the topic has, or would have if brokers created it; one for a topic that is not partitioned."""
        return max(1, self.layout.partitions)

    @property
    def identity(self) -> str:
        """The cluster, the topic, its partitions and its time of creation; that time is missing as long as the topic does not exist."""
        return self._identity(self.layout, "" if self.following is None else self.following.creation)

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring entries of a ledger, and for the first entry of a partition that is known to have been empty."""
        if earlier:
            return directly_follows(earlier, later)
        if self.following is None:
            return False
        try:
            first = message_id_of(later)
        except ValueError:
            return False
        return first.ledger in self.following.fresh_ledgers and first.entry == 0 and first.batch_index <= 0

    def complete_after(self, partition: int) -> Position | None:
        """Where the last compaction before the opening ended, or one that was noticed during the initial replay (``continuity``)."""
        return self.following.complete_after[partition] if self._existed and self.following is not None else ""

    async def start(self, start: Start | None = None) -> bool:
        """Begins to follow the log, which exists; returns whether it is read from ``start`` on.

        Raises:
            LogError: the log can't be followed.
        """
        async with self._creating:
            self._existed = True
            await self._follow(self.layout, start)
            return self.following is not None and self.following.resumed

    async def ensure_followed(self, *, create: bool) -> None:
        """Follows the log if it exists; if not, ``create`` says whether it is created.

        Raises:
            LogError: the log can't be followed, or the broker gave no answer.
        """
        async with self._creating:
            if self.following is not None:
                return
            namespace = self.layout.namespace
            layout = await self._access.topics.find(namespace)
            self._looked = time.monotonic()
            made = layout is None and create
            if made:
                base = f"persistent://{namespace}/{self.layout.local}"
                layout = self.layout._replace(partitions=await self._access.client.let_broker_lay_out(base))
            if layout is None:
                return
            if max(1, layout.partitions) != self.partitions:
                error = LogError(
                    Reason.LOG_UNAVAILABLE,
                    f"The change log of {namespace} was created with {layout.partitions} partitions instead of {self.partitions};"
                    " it must be opened again.",
                )
                raise self._losing(error)
            await self._follow(layout, made=made)

    async def end(self, partition: int) -> Position:
        """Asks the broker where a partition ends; if the log did not exist, asks first whether it does now.

        Raises:
            LogError: the broker gave no answer, or the log is gone.
        """
        if self.following is None:
            await self.ensure_followed(create=False)
        return "" if self._end is None else await self._end.end(partition)

    def check_connection(self) -> None:
        """Looks whether the readers have their connections."""
        if self._existence is not None:
            self._existence.check_connection()

    def given_up(self, now: float) -> LogError | None:
        """Returns an error if the connection was gone for too long; ``now`` is monotonic seconds."""
        return None if self._existence is None else self._existence.given_up(now)

    @property
    def due_only_by_time(self) -> bool:
        """Whether the check is due only because time has passed; always so for a log that does not exist."""
        return self._existence is None or self._existence.due_only_by_time

    @property
    def exists(self) -> bool:
        """Whether the log exists, as far as is known."""
        return self.following is not None

    def due(self, now: float) -> bool:
        """Whether it is time for a check; ``now`` is monotonic seconds."""
        if self._existence is not None:
            return self._existence.due(now)
        return now - self._looked >= self._access.limits.creation_seconds

    async def trouble(self) -> LogError | None:
        """Checks whether the log was created meanwhile, or whether the open one is still there; returns what is wrong, if anything is.

        Raises:
            LogError: the broker gave no answer.
        """
        if self._existence is not None:
            return await self._existence.trouble()
        try:
            await self.ensure_followed(create=False)
        except LogError as error:
            if error.reason != Reason.NAMESPACE_NOT_FOUND:
                raise
            return LogError(error.state or error.reason, f"The namespace {self.layout.namespace} was deleted.", kind=error.kind)
        finally:
            self._looked = time.monotonic()
        return None

    def stop(self) -> None:
        """Stops reading, for good."""
        self._over = True
        if self.following is not None:
            self.following.stop()

    async def close(self) -> None:
        """Closes the connections."""
        if self.following is not None:
            await self.following.close()

    def _losing(self, error: LogError) -> LogError:
        """Notifies the listener that this opening can't follow the log; returns the error."""
        asyncio.get_running_loop().call_soon(self._listener.lost, error)
        return error

    def _identity(self, layout: Layout, creation: str) -> str:
        return f"pulsar:{self._access.facts.name}:{layout.namespace}/{layout.local}:{self.partitions}:{creation}"

    async def _follow(self, layout: Layout, start: Start | None = None, *, made: bool = False) -> None:
        """Connects the readers. ``made``: they create the topic, so brokers are not asked about it first (they may answer 500 then)."""
        creations: Sequence[str] = [""] * len(layout.topics)
        if made:
            await self._schemas.refresh()
        else:  # asked before anything is read, so that ``connect`` notices if the topic is deleted and created again meanwhile
            _, creations = await asyncio.gather(self._schemas.refresh(), self._access.topics.creations(layout))
        creation = creation_of(creations)
        known = start if start is not None and creation and self._identity(layout, creation) == start.identity else None
        following = await Following.connect(self._access, self._schemas, layout, creations, self.acknowledged, known)
        if self._over:
            await following.close()
            raise closed(layout.namespace)
        if not self._existed and any(following.complete_after):
            what = f"The change log of {layout.namespace} was created and compacted before it was found; it must be opened again."
            error = self._losing(LogError(Reason.LOG_UNAVAILABLE, what))
            await following.close()
            raise error
        self.layout = layout
        self.following = following
        self._existence = Existence(self._access, following)
        self._end = LogEnd(following, self._existence, self._listener.lost)
        following.start(self._listener)

"""Turns the messages of one partition into entries of the change log: decodes each once, and counts the unreadable ones."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from ....core.names import Scope
from ....core.policies.events import LATEST_MS, Event, Placed, Position
from ....core.reasons import Reason
from ...avro import Codec
from ...change_log import LogError, anchor_of
from ...leadership import origin_of
from ...stamps import ANNOUNCEMENT, event_id_of
from ..admin.schemas import NOT_REGISTERED, Schemas
from ..ids import NOWHERE, MessageId, position_of

_log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


MOST = 1_024
"""How many events of one partition are kept, which is how far the reader may lag. Events beyond that are decoded when they are read."""


class Acknowledged:
    """Events of one partition that this process appended, kept from their acknowledgement until they are read: they need no decoding.

    The acknowledgement says where an event stands. An event that is acknowledged after it was read is not kept.
    """

    __slots__ = ("_kept", "_last", "_most")

    def __init__(self, most: int = MOST) -> None:
        """Keeps nothing yet. ``most``: how many events may be kept."""
        self._most = most
        self._kept: deque[tuple[Position, Event]] = deque()
        self._last: Position = ""
        """The last place that was read, or for which an event was kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, events: Iterable[Placed]) -> None:
        """Takes events that were acknowledged, in the order of the log."""
        for placed in events:
            if placed.event is not None and placed.position > self._last and len(self._kept) < self._most:
                self._kept.append((placed.position, placed.event))
                self._last = placed.position

    def read(self, position: Position) -> Event | None:
        """Returns the event that was acknowledged at a place, which is now read; None: none is kept. Places are read in log order."""
        kept = self._kept
        while kept and kept[0][0] <= position:
            at, event = kept.popleft()
            if at == position:
                return event
        self._last = max(self._last, position)
        return None


class ResumePoint(NamedTuple):
    """How far an earlier reader of the partition had come."""

    place: MessageId
    anchor: str
    """Identifies the entry at that place (``change_log.anchor_of``); "" if that is not known."""


class Entries:
    """Decodes messages in the order of the log.

    Attributes:
        last: the place of the last entry; (-1, -1) before the first.
        problems: how many entries could not be read, or not completely.
        newest_schema: the highest schema version that an entry was written with.
    """

    def __init__(
        self,
        partition: int,
        schemas: Schemas,
        cluster: str,
        resume_point: ResumePoint | None = None,
        acknowledged: Acknowledged | None = None,
    ) -> None:
        """Decodes nothing yet.

        Args:
            partition: its number.
            schemas: the log's schemas.
            cluster: the name of the local cluster.
            resume_point: how far the partition was read before this opening; None: it was not.
            acknowledged: the events that were appended here and not read yet; None: there are none.
        """
        self.last = NOWHERE if resume_point is None else resume_point.place
        self._resume_point = resume_point
        self.problems = 0
        self.newest_schema = NOT_REGISTERED
        self._partition = partition
        self._schemas = schemas
        self._cluster = cluster
        self._acknowledged = Acknowledged() if acknowledged is None else acknowledged
        self._at_hand: tuple[Codec | None, int] = None, NOT_REGISTERED
        """The codec and the schema version of the last message; the codec is None if that schema is not one of policy events."""
        self._published = 0
        """When the last message was published, in milliseconds since 1970."""

    def entry(self, place: MessageId, message: Any) -> Placed | None:
        """Returns the entry of a message; None if it was returned before, as may happen when a connection is restored.

        Args:
            place: where the message stands.
            message: the library's message, whose codec is at hand (``ready``); None: the library does not hand it over.

        Raises:
            LogError: another entry stands where an earlier reader had stopped (``LOG_REPLACED``).
        """
        if place <= self.last:
            if self._resume_point is not None and self._resume_point.place == place and message is not None:
                self._compare(self._resume_point, message)
            return None
        if message is None:
            self.last = place
            self.problems += 1
            return Placed(self._partition, position_of(place), None, self._published, "", "the client library does not deliver it")
        return self._decoded(place, message, *self._at_hand)

    def ready(self, message: Any) -> bool:
        """Whether the codec for a message is at hand; if not, ``prepare`` has to be awaited first."""
        version = message.int_schema_version() if message is not None else self._at_hand[1]
        if version != self._at_hand[1] or version == NOT_REGISTERED:
            codec = self._schemas.known(version)
            if codec is None:
                return False
            self._at_hand = codec, version
        return True

    async def prepare(self, message: Any) -> None:
        """Gets the codec of the schema that a message was written with."""
        version = message.int_schema_version()
        self._at_hand = await self._codec(version), version

    def _compare(self, resume_point: ResumePoint, message: Any) -> None:
        """Makes sure that the entry is the one that stood there before: a log may have been restored from a backup, and written since."""
        last, problems = self.last, self.problems
        found = self._decoded(resume_point.place, message, *self._at_hand)
        self.last, self.problems = last, problems
        if resume_point.anchor not in ("", anchor_of(found)):
            place = f"{resume_point.place.ledger}:{resume_point.place.entry}"
            raise LogError(Reason.LOG_REPLACED, f"At {place} the change log has another entry than when it was last followed.")

    async def _codec(self, version: int) -> Codec | None:
        """Returns the codec of a schema that is not at hand; repeats the request until it is answered, for reading can't go on without."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._schemas.written_with(version)
            except LogError as error:
                _log.warning("Reading a change log waits for its schema %d: %s", version, error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _decoded(self, place: MessageId, message: Any, codec: Codec | None, version: int) -> Placed:
        self.last = place
        self._published = min(message.publish_timestamp(), LATEST_MS)  # by the clock of whoever wrote it: it may be any number
        if codec is None:
            self.problems += 1
            problem = f"its schema, version {version}, is not one of policy events"
            return Placed(self._partition, position_of(place), None, self._published, message.producer_name(), problem)
        self.newest_schema = max(self.newest_schema, version)
        position = position_of(place)
        ours = self._acknowledged.read(position)
        as_read = codec.known is None  # with another schema, what is read may differ from what was appended
        if as_read and ours is not None and ours.stamp is not None and event_id_of(message.properties()) == ours.stamp.event_id:
            return Placed(self._partition, position, ours, self._published, message.producer_name())
        return self._read(position, self._published, message, codec)

    def _read(self, position: Position, published: int, message: Any, codec: Codec) -> Placed:
        """Decodes a message."""
        producer = message.producer_name()
        event: Event | None = None
        problem = ""
        if ANNOUNCEMENT not in (properties := message.properties()):
            payload = None if message.has_null_value() else message.data()
            event, problem = codec.read(message.partition_key(), payload, properties)
        if event is not None and event.key.scope is Scope.GLOBAL and origin_of(producer) not in ("", self._cluster):
            event = event._replace(replicated=True)
        if problem:
            self.problems += 1
        return Placed(self._partition, position, event, published, producer, problem)

"""The messages of one partition as entries of the change log: decoded, each once, the unreadable counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ....core.names import Scope
from ....core.policies.events import Event, Placed, Position
from ....core.reading.unfolded import Sealed
from ....core.reasons import Reason
from ...avro import Codec
from ...change_log import LogError, anchor_of
from ...producer_names import origin_of
from ...stamps import ANNOUNCEMENT, event_id_of
from ..admin.schemas import NOT_REGISTERED, Schemas
from ..ids import NOWHERE, MessageId, position_of
from .acknowledged import Acknowledged

_log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


class Stood(NamedTuple):
    """Where a reader had come to before."""

    place: MessageId
    anchor: str
    """What stood there (``change_log.anchor_of``); "" if that is not known."""


class Entries:
    """Decodes messages in the order of the log.

    Attributes:
        last: the last entry; (-1, -1) before the first.
        problems: how many could not be read, or not entirely.
        newest_schema: the highest version of a schema that one was written with.
    """

    def __init__(
        self, partition: int, schemas: Schemas, cluster: str, stood: Stood | None = None, acknowledged: Acknowledged | None = None
    ) -> None:
        """Tells nothing yet.

        Args:
            partition: its number.
            schemas: of the log.
            cluster: the name of the local one.
            stood: up to where everything was told before; None: nothing was.
            acknowledged: events of ours, as they were written; None: nothing is.
        """
        self.last = NOWHERE if stood is None else stood.place
        self._stood = stood
        self.problems = 0
        self.newest_schema = NOT_REGISTERED
        self._partition = partition
        self._schemas = schemas
        self._cluster = cluster
        self._acknowledged = Acknowledged() if acknowledged is None else acknowledged
        self._at_hand: tuple[Codec | None, int] = None, NOT_REGISTERED
        """The schema of the last message, and its version; None: it is none of policy events."""
        self._published = 0
        """When the last message was published, in milliseconds since 1970."""

    def entry(self, place: MessageId, message: Any) -> Placed | None:
        """The entry of a message; None if it was told before, as may happen when a connection is restored.

        Args:
            place: where the message stands.
            message: the library's message, whose schema is at hand (``ready``); None: the library does not hand it over.

        Raises:
            LogError: what stands where everything was told up to is not what stood there (``LOG_REPLACED``).
        """
        if place <= self.last:
            if self._stood is not None and self._stood.place == place and message is not None:
                self._compare(self._stood, message)
            return None
        if message is None:
            self.last = place
            self.problems += 1
            return Placed(self._partition, position_of(place), None, self._published, "", "the client library does not hand it over")
        return self._decoded(place, message, *self._at_hand)

    def sealed(self, place: MessageId, message: Any) -> Placed | Sealed | None:
        """The same, not decoded if that can wait: the topic is all that is known of it."""
        codec, version = self._at_hand
        topic = None if message is None or codec is None else codec.topic(message.partition_key())
        if topic is None or codec is None or place <= self.last:
            return self.entry(place, message)
        self.last = place
        self.newest_schema = max(self.newest_schema, version)
        self._published = message.publish_timestamp()
        return SealedMessage(self._partition, position_of(place), topic, self._published, message, self._read, codec)

    def ready(self, message: Any) -> bool:
        """Whether the schema is at hand that a message was written with; if not, it is to be waited for (``prepare``)."""
        version = message.int_schema_version() if message is not None else self._at_hand[1]
        if version != self._at_hand[1] or version == NOT_REGISTERED:
            codec = self._schemas.known(version)
            if codec is None:
                return False
            self._at_hand = codec, version
        return True

    async def prepare(self, message: Any) -> None:
        """Waits for the schema that a message was written with."""
        version = message.int_schema_version()
        self._at_hand = await self._codec(version), version

    def _compare(self, stood: Stood, message: Any) -> None:
        """Makes sure that what stands there is what stood there: a log may have been put back to what it had been, and gone on."""
        last, problems = self.last, self.problems
        found = self._decoded(stood.place, message, *self._at_hand)
        self.last, self.problems = last, problems
        if stood.anchor not in ("", anchor_of(found)):
            place = f"{stood.place.ledger}:{stood.place.entry}"
            raise LogError(Reason.LOG_REPLACED, f"At {place} something else stands than when the change log was followed last.")

    async def _codec(self, version: int) -> Codec | None:
        """The codec of a schema that is not at hand. Without it the log can't be read on, so it is asked for until there is an answer."""
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
        self._published = message.publish_timestamp()
        if codec is None:
            self.problems += 1
            problem = f"its schema, version {version}, is none of policy events"
            return Placed(self._partition, position_of(place), None, self._published, message.producer_name(), problem)
        self.newest_schema = max(self.newest_schema, version)
        position = position_of(place)
        ours = self._acknowledged.read(position)
        as_read = codec.known is None  # otherwise its schema has a say in what is read
        if as_read and ours is not None and ours.stamp is not None and event_id_of(message.properties()) == ours.stamp.event_id:
            return Placed(self._partition, position, ours, self._published, message.producer_name())
        return self._read(position, self._published, message, codec)

    def _read(self, position: Position, published: int, message: Any, codec: Codec) -> Placed:
        """A message decoded."""
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


class SealedMessage(Sealed):
    """A message of the library's that is an entry of the log, as it came."""

    __slots__ = ("_codec", "_message", "_read")

    def __init__(
        self,
        partition: int,
        position: Position,
        topic: str,
        published_at: int,
        message: Any,
        read: Callable[[Position, int, Any, Codec], Placed],
        codec: Codec,
    ) -> None:
        """``read`` decodes the message by ``codec``."""
        super().__init__(partition, position, topic, published_at)
        self._message = message
        self._read = read
        self._codec = codec

    @property
    def producer(self) -> str:
        """Who wrote it."""
        return str(self._message.producer_name())

    @property
    def size(self) -> int:
        """Bytes of its event."""
        return int(self._message.length())

    def opened(self) -> Placed:
        """The entry decoded."""
        return self._read(self.position, self.published_at, self._message, self._codec)

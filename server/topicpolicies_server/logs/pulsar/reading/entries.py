"""The messages of one partition as entries of the change log: decoded, each once, the unreadable counted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NamedTuple

from ....core.names import Scope
from ....core.policies.events import Event, Placed
from ....core.reasons import Reason
from ...avro import Codec
from ...change_log import LogError, anchor_of
from ...producer_names import origin_of
from ...stamps import ANNOUNCEMENT
from ..admin.schemas import NOT_REGISTERED, Schemas
from ..ids import NOWHERE, MessageId, position_of

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

    def __init__(self, partition: int, schemas: Schemas, cluster: str, stood: Stood | None = None) -> None:
        """Tells nothing yet.

        Args:
            partition: its number.
            schemas: of the log.
            cluster: the name of the local one.
            stood: up to where everything was told before; None: nothing was.
        """
        self.last = NOWHERE if stood is None else stood.place
        self._stood = stood
        self.problems = 0
        self.newest_schema = NOT_REGISTERED
        self._partition = partition
        self._schemas = schemas
        self._cluster = cluster
        self._published = 0
        """When the last message was published, in milliseconds since 1970."""

    async def entry(self, place: MessageId, message: Any) -> Placed | None:
        """The entry of a message; None if it was told before, as may happen when a connection is restored.

        It waits for the message's schema, if that is not at hand.

        Args:
            place: where the message stands.
            message: the library's message; None: the library does not hand it over.
        """
        stood, self._stood = self._stood, None
        if stood is not None and stood.anchor and stood.place == place and message is not None:
            await self._compare(stood, message)
        if place <= self.last:
            return None
        if message is None:
            self.last = place
            self.problems += 1
            return Placed(self._partition, position_of(place), None, self._published, "", "the client library does not hand it over")
        version = message.int_schema_version()
        codec = self._schemas.known(version)
        if codec is None:
            codec = await self._codec(version)
        return self._decoded(place, message, codec, version)

    async def _compare(self, stood: Stood, message: Any) -> None:
        """Makes sure that what stands there is what stood there.

        Raises:
            LogError: it is something else: the log was put back to what it had been, and went on.
        """
        version = message.int_schema_version()
        codec = self._schemas.known(version) or await self._codec(version)
        last, problems = self.last, self.problems
        found = self._decoded(stood.place, message, codec, version)
        self.last, self.problems = last, problems
        if anchor_of(found) != stood.anchor:
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
        producer = message.producer_name()
        event: Event | None = None
        if codec is None:
            problem = f"its schema, version {version}, is none of policy events"
        elif ANNOUNCEMENT in (properties := message.properties()):
            problem = ""
        else:
            payload = None if message.has_null_value() else message.data()
            event, problem = codec.read(message.partition_key(), payload, properties)
            self.newest_schema = max(self.newest_schema, version)
        self._published = message.publish_timestamp()
        if event is not None and event.key.scope is Scope.GLOBAL and origin_of(producer) not in ("", self._cluster):
            event = event._replace(replicated=True)
        if problem:
            self.problems += 1
        return Placed(self._partition, position_of(place), event, self._published, producer, problem)

"""Turns the messages of one partition into entries of the change log, and decodes each once."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.names import Scope
from ...core.policies.events import LATEST_MS, Event, Placed
from ...core.reasons import Reason
from ..change_log import LogError, anchor_of
from ..leadership import origin_of
from ..stamps import ANNOUNCEMENT
from .ids import NOWHERE, MessageId, position_of
from .topics import Schemas


class ResumePoint(NamedTuple):
    """How far an earlier reader of the partition had come."""

    place: MessageId
    anchor: str
    """Identifies the entry at that place (``change_log.anchor_of``); "" if that is not known."""


class Entries:
    """Decodes messages in the order of the log.

    Attributes:
        last: the place of the last entry; (-1, -1) before the first.
    """

    def __init__(self, partition: int, schemas: Schemas, cluster: str, resume_point: ResumePoint | None = None) -> None:
        """``cluster``: the local one; ``resume_point``: how far the partition was read before this opening; None: it was not."""
        self.last = NOWHERE if resume_point is None else resume_point.place
        self._resume_point = resume_point
        self._partition = partition
        self._schemas = schemas
        self._cluster = cluster
        self._published = 0

    def entry(self, place: MessageId, message: Any) -> Placed | None:
        """Returns the entry of a message; None if it was returned before, as may happen when a connection is restored.

        ``message``: the library's, whose schema is known (``ready``); None: the library does not hand it over.

        Raises:
            LogError: another entry stands where an earlier reader had stopped (``LOG_REPLACED``).
        """
        if place <= self.last:
            if self._resume_point is not None and self._resume_point.place == place and message is not None:
                self._compare(self._resume_point, message)
            return None
        self.last = place
        if message is None:
            return Placed(self._partition, position_of(place), None, self._published, "", "the client library does not deliver it")
        return self._decoded(place, message)

    def ready(self, message: Any) -> bool:
        """Whether the schema that a message was written with is known; if not, ``prepare`` has to be awaited first."""
        return self._schemas.has(message.int_schema_version())

    async def prepare(self, message: Any) -> None:
        """Requests the schema that a message was written with."""
        await self._schemas.written_with(message.int_schema_version())

    def _compare(self, resume_point: ResumePoint, message: Any) -> None:
        """Makes sure that the entry is the one that stood there before: a log may have been restored from a backup, and written since."""
        if resume_point.anchor not in ("", anchor_of(self._decoded(resume_point.place, message))):
            place = f"{resume_point.place.ledger}:{resume_point.place.entry}"
            raise LogError(Reason.LOG_REPLACED, f"At {place} the change log has another entry than when it was last followed.")

    def _decoded(self, place: MessageId, message: Any) -> Placed:
        version = message.int_schema_version()
        codec = self._schemas.known(version)
        position, producer, properties = position_of(place), message.producer_name(), message.properties()
        published = self._published = min(message.publish_timestamp(), LATEST_MS)  # by its writer's clock: it may be any number
        if codec is None:
            return Placed(
                self._partition, position, None, published, producer, f"its schema, version {version}, is not one of policy events"
            )
        event: Event | None = None
        problem = ""
        if ANNOUNCEMENT not in properties:
            payload = None if message.has_null_value() else message.data()
            event, problem = codec.read(message.partition_key(), payload, properties)
        if event is not None and event.key.scope is Scope.GLOBAL and origin_of(producer) not in ("", self._cluster):
            event = event._replace(replicated=True)
        return Placed(self._partition, position, event, published, producer, problem)

"""Where a change came from, as far as the log tells."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

from .enums import OpenEnum
from .showing import fields
from .v1 import service_pb2
from .v1.events_pb2 import PulsarEvent


class ActorStanding(OpenEnum):
    """What is known of an actor. The numbers are those of ``topicpolicies.v1.ActorStanding``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    UNKNOWN = 1
    """Nobody said who it was."""
    UNAUTHENTICATED = 2
    """The caller gave this name, and nobody checked it."""
    AUTHENTICATED = 3
    """The service has verified whose credentials the caller had."""


@dataclass(frozen=True, slots=True, repr=False)
class Origin:
    """Who changed a document, and why, as far as the log tells."""

    actor: str
    """Who asked for it, as far as it is known (``actor_standing``); empty if nobody said."""
    actor_standing: ActorStanding
    reason: str
    """Why; empty if nobody said."""
    request_id: str
    """32 hexadecimal digits; empty for a broker's event and for repairs."""
    update_mask: tuple[str, ...] | None
    """The mask of the request; of a broker's event, in the history, what it was taken to change. None: not known."""
    producer_name: str
    """The name of the producer that wrote the event; empty on the embedded log."""
    publish_time: datetime | None
    """By its writer's word, in UTC; None if it is not known."""
    event: PulsarEvent | None
    """The event itself; None if it is not at hand."""
    principal: str = ""
    """Whose credentials the service had verified: the actor's own, or those of a proxy that called for the actor; empty: nobody's."""
    claimed_actor: str = ""
    """The name that the caller gave, where the actor was authenticated and has another one: nobody checked it."""
    trace_parent: str = ""
    """The trace in which it was asked for, as W3C's ``traceparent``; empty: in none that is known."""

    def __repr__(self) -> str:
        return fields(self, tuple(field.name for field in dataclasses.fields(self)))

    @classmethod
    def of(cls, message: service_pb2.ChangeOrigin) -> Origin:
        """From its message."""
        return cls(
            message.actor,
            ActorStanding(message.actor_standing),
            message.reason,
            message.request_id,
            tuple(message.update_mask.paths) if message.HasField("update_mask") else None,
            message.producer_name,
            message.publish_time.ToDatetime(UTC) if message.HasField("publish_time") else None,
            message.event if message.HasField("event") else None,
            message.principal,
            message.claimed_actor,
            message.trace_parent,
        )

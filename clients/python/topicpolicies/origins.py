"""Who made a change, and why, as far as the log shows it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

from .enums import OpenEnum
from .reprs import repr_with_fields
from .v1 import service_pb2
from .v1.events_pb2 import PulsarEvent


class ActorStanding(OpenEnum):
    """How much is known about an actor. The numbers are those of ``topicpolicies.v1.ActorStanding``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    UNKNOWN = 1
    """No actor was named."""
    UNAUTHENTICATED = 2
    """The caller gave this name, and it was not verified."""
    AUTHENTICATED = 3
    """The service verified the actor by its credentials, or the actor was verified by a proxy that made the call."""


@dataclass(frozen=True, slots=True, repr=False)
class Origin:
    """Who changed a document, and why, as far as the log shows it."""

    actor: str
    """Who made the change; ``actor_standing`` says how certain that is. Empty: not named."""
    actor_standing: ActorStanding
    reason: str
    """Why the change was made, as its caller said; empty: not said."""
    request_id: str
    """The id of the request, 32 hexadecimal digits; empty for a broker's event and for repairs."""
    update_mask: tuple[str, ...] | None
    """The mask of the request; of a broker's event, in the history, the settings that it was taken to change. None: not known."""
    producer_name: str
    """The name of the producer that wrote the event; empty on the embedded log."""
    publish_time: datetime | None
    """When the event was published, by its writer's clock, in UTC; None: not known."""
    event: PulsarEvent | None
    """The event itself; None: not available, as always in a history."""
    principal: str = ""
    """Whose credentials the service verified: the actor's own, or those of a proxy that called for the actor; empty: none were."""
    claimed_actor: str = ""
    """The name that the caller gave, if the actor was authenticated under another one; it was not verified."""
    trace_parent: str = ""
    """The trace context of the request, as W3C's ``traceparent``; empty: none is known."""

    def __repr__(self) -> str:
        return repr_with_fields(self, tuple(field.name for field in dataclasses.fields(self)))

    @classmethod
    def of(cls, message: service_pb2.ChangeOrigin) -> Origin:
        """Makes an origin from its message."""
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

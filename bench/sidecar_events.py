"""Events of one setting as sidecars and brokers append them that have seen all of the log, so that none of them needs a repair.

A sidecar's event says what it was computed on and carries the last requests of its key (``core/policies/events``). An event without these
would be followed by a repair, and a log of such events would measure the cost of repairs, not that of following.
"""

from __future__ import annotations

import uuid

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.fold.keystate import REMEMBERED_REQUESTS
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.documents import Settings, split
from topicpolicies_server.core.policies.events import Action, Event, Position, Remembered, Seen, Stamp, StampKind
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of

SETTING = "max_producer_per_topic"
_DIGEST = "0" * 16


def a_document(value: int) -> Settings:
    """Returns a document of the one setting."""
    return split(TopicPolicies(max_producer_per_topic=value))


class Events:
    """Makes the next event of each key. The next event of a key is made when the one before has been acknowledged."""

    def __init__(self, before: int = 0) -> None:
        """Begins with a log in which each key has ``before`` requests, whose events were compacted away."""
        self._before = before
        self._last: dict[PolicyKey, Position] = {}
        self._requests: dict[PolicyKey, tuple[Remembered, ...]] = {}

    def of_broker(self, key: PolicyKey, value: int) -> Event:
        """Returns a broker's event, which does not say what it changes."""
        return Event(key, Action.UPDATE, a_document(value), None)

    def of_sidecar(self, key: PolicyKey, value: int) -> Event:
        """Returns a sidecar's event."""
        if self._before and key not in self._last:
            self._begin(key)
        base = self._last.get(key, "")
        stamp = Stamp(
            str(uuid.uuid4()),
            StampKind.UPDATE,
            request_id=str(uuid.uuid4()),
            digest=_DIGEST,
            mask=(SETTING,),
            base=base,
            remembered=self._requests.get(key, ()),
            history=Seen("", base) if base else None,
        )
        return Event(key, Action.UPDATE, a_document(value), stamp)

    def _begin(self, key: PolicyKey) -> None:
        places = [position_of(MessageId(1, number)) for number in range(self._before)]
        self._last[key] = places[-1]
        pairs = zip(places, ["", *places], strict=False)
        self._requests[key] = tuple(Remembered(str(uuid.uuid4()), _DIGEST, place, before) for place, before in pairs)

    def acknowledged(self, event: Event, position: Position) -> None:
        """Notes the position at which an event stands in the log."""
        before, self._last[event.key] = self._last.get(event.key, ""), position
        if event.stamp is not None:
            request = Remembered(event.stamp.request_id, event.stamp.digest, position, before)
            self._requests[event.key] = (*self._requests.get(event.key, ()), request)[-REMEMBERED_REQUESTS:]

"""Serializes the events of a watch, each as a record of ``WatchPoliciesResponse``.

The record of a change is made once, and shared by all watchers that want it in the same form. A resume token is added behind the last
record of a namespace in a message, which Protobuf allows. Watchers of a whole namespace often take the same changes (``Taken.made``): the
records before the last are joined once and kept with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from topicpolicies.v1 import errors_pb2, events_pb2, service_pb2

from ...core.names import PolicyKey
from ...core.policies import documents
from ...core.policies.documents import record
from ...core.policies.events import ABSENT, Placed
from ...core.policies.secrets import SETTING
from ...core.reading.cell import Head
from ...core.reading.tokens import Token
from ...core.reading.watch import Taken
from ...core.reasons import Reason
from .. import resume_tokens
from ..answers import Wire, document, origin, present, tag_of

PIECE_BYTES = 60 * 1024
"""Records are joined to pieces of at most so many bytes; only a single record may exceed it."""


def resumable(event: bytes, token: Token) -> bytes:
    """Returns the record of an event with a resume token, which the event must not have yet."""
    if not (text := resume_tokens.write(token)):
        return event
    begin = 1  # behind the tag, which is one byte, and the length
    while event[begin] & 0x80:
        begin += 1
    return record(_EVENTS, event[begin + 1 :] + record(_TOKEN, text.encode()))


def reason_number(reason: Reason | None) -> errors_pb2.ErrorReason.ValueType:
    """Returns the enum value of a reason; UNSPECIFIED for None."""
    return errors_pb2.ErrorReason.Value(f"ERROR_REASON_{'UNSPECIFIED' if reason is None else reason.value}")


def change_record(namespace: str, change: Head, wire: Wire, *, with_before: bool) -> bytes:
    """Returns a change, without a token. The bytes are cached in the head and shared by all watchers, unless they have secrets.

    ``change`` is the head after it; ``with_before``: whether the record has the document before it, too.
    """
    if wire is documents.wire and _has_secrets(change):
        return _change_record(namespace, change, wire, with_before=with_before)
    if not with_before or change.before is None:
        if change.encoded is None:
            change.encoded = _change_record(namespace, change, wire, with_before=False)
        return change.encoded
    if change.with_before is None:
        change.with_before = _change_record(namespace, change, wire, with_before=True)
    return change.with_before


def _has_secrets(change: Head) -> bool:
    """Returns whether any document in a change record may contain secrets."""
    before = change.before.document if change.before is not None else None
    return any(each is not None and SETTING in each for each in (change.document, before))


def disabled_record(namespace: str, key: PolicyKey) -> bytes:
    """Returns the absence of a named topic's document because its policies are disabled."""
    return change_of(namespace, record(_DOCUMENT, document(key, ABSENT, None, disabled=True)))


def change_of(namespace: str, change: bytes) -> bytes:
    """Returns a serialized ``PolicyChange`` as the record of an event."""
    return record(_EVENTS, record(_NAMESPACE, namespace.encode()) + record(_CHANGE, change))


def _change_record(namespace: str, change: Head, wire: Wire, *, with_before: bool) -> bytes:
    described = _origin(change.placed) if change.placed is not None else None
    rest = service_pb2.PolicyChange(previous_version=change.previous, origin=described)
    body = record(_DOCUMENT, present(change.key, change, wire))
    if with_before and change.before is not None:
        before = change.before.document
        body += record(_PREVIOUS, document(change.key, change.previous, None if before is None else wire(before)))
    return change_of(namespace, body + rest.SerializeToString())


def _origin(placed: Placed) -> events_pb2.ChangeOrigin:
    stamp = placed.event.stamp if placed.event is not None else None
    return origin(placed.producer, placed.published_at, stamp, stamp.mask if stamp is not None else ())


def event_record(event: service_pb2.WatchEvent) -> bytes:
    """Returns an event as a record."""
    return record(_EVENTS, event.SerializeToString())


class Piece(NamedTuple):
    """Records of consecutive changes. The last one is apart, because a token is added to it."""

    before: bytes
    """All records but the last, joined."""
    last: bytes
    upto: int
    """How many of the changes that were taken come before the end of this piece."""

    def bytes(self, token: Token | None) -> bytes:
        """Returns all records. ``token``: where the watch stands behind them; None: it can't be resumed there."""
        return self.before + (self.last if token is None else resumable(self.last, token))


def change_pieces(name: str, taken: Taken, wire: Wire, disabled: frozenset[str], *, with_before: bool) -> Sequence[Piece]:
    """Returns the change records of what was taken, in pieces, without those of the disabled topics."""
    way = (wire, with_before, disabled)
    known: Sequence[Piece] | None = taken.made.get(way)
    if known is not None:
        return known
    pieces: list[Piece] = []
    records: list[bytes] = []
    size = last = 0
    for count, change in enumerate(taken.heads, 1):
        if change.key.topic in disabled:
            continue
        record = change_record(name, change, wire, with_before=with_before)
        if records and size + len(record) > PIECE_BYTES:
            pieces.append(Piece(b"".join(records[:-1]), records[-1], last))
            records, size = [], 0
        records.append(record)
        size, last = size + len(record), count
    if records:
        pieces.append(Piece(b"".join(records[:-1]), records[-1], last))
    taken.made[way] = pieces
    return pieces


_EVENTS: Final = tag_of(service_pb2.WatchPoliciesResponse, "events")
_NAMESPACE: Final = tag_of(service_pb2.WatchEvent, "namespace")
_TOKEN: Final = tag_of(service_pb2.WatchEvent, "resume_token")
_CHANGE: Final = tag_of(service_pb2.WatchEvent, "change")
_DOCUMENT: Final = tag_of(service_pb2.PolicyChange, "document")
_PREVIOUS: Final = tag_of(service_pb2.PolicyChange, "previous")

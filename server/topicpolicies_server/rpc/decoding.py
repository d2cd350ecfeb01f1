"""Decodes requests. Bytes that are too many, or are no message, are refused as the caller's fault, with a reason.

gRPC reports an exception of a deserializer as a failure of the server, and ends a whole stream with it. So gRPC is given no deserializer:
it hands over the bytes as they are, and they are decoded here. Of a damaged batch of changes, what can be decoded is served.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import DecodeError

from topicpolicies.v1 import service_pb2

from ..core.errors import Kind, PolicyError
from ..core.policies.documents import read_varint
from ..core.reasons import Reason

RECEIVED_TIMES = 4
"""A message of up to so many times the limit is received, to be refused with a reason; gRPC itself refuses larger ones, without one."""
MOST_CHANGES = 1_000
"""The most changes in one batch. In a damaged batch one more is looked for, so that it is refused as one with too many."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
"""Protobuf's wire types, without groups."""
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_CHANGES = 1 << 3 | _LENGTH
"""The tag of ``UpdatePoliciesRequest.changes``."""
_SEQUENCE = 1 << 3 | _VARINT
"""The tag of ``PolicyChangeRequest.sequence``."""
_MOST_PASSED = 100
"""How many other fields are passed over in a damaged batch, and in a damaged change."""
_T = TypeVar("_T")

Parse: TypeAlias = Callable[[bytes], _T]
"""``FromString`` of a message class."""


class Undecodable(NamedTuple):
    """A change of a batch that can't be decoded."""

    sequence: int
    """The change's sequence; 0 where that can't be decoded either."""
    error: PolicyError


class Salvage(NamedTuple):
    """A damaged batch: its changes, each decoded or ``Undecodable``."""

    changes: Sequence[service_pb2.PolicyChangeRequest | Undecodable]


Batch: TypeAlias = service_pb2.UpdatePoliciesRequest | Salvage


def decode(parse: Parse[_T], raw: bytes, most: int) -> _T:
    """Decodes a message.

    Args:
        parse: ``FromString`` of its class.
        raw: the bytes.
        most: bytes that a message may have.

    Raises:
        PolicyError: RESOURCE_EXHAUSTED, there are too many bytes; INVALID_ARGUMENT, they are no such message.
    """
    if len(raw) > most:
        raise PolicyError(
            Kind.RESOURCE_EXHAUSTED,
            Reason.MESSAGE_TOO_LARGE,
            f"The request has {len(raw):,} bytes; at most {most:,} are allowed: send less at once, or raise max_message_bytes.",
            metadata={"most_bytes": str(most)},
        )
    try:
        return parse(raw)
    except DecodeError:
        raise _malformed("The request") from None


async def decoded(parse: Parse[_T], stream: AsyncIterable[bytes], most: int) -> AsyncIterator[_T]:
    """Yields the messages of a stream.

    Raises:
        PolicyError: as ``decode``, for the first message that can't be decoded.
    """
    async for raw in stream:
        yield decode(parse, raw, most)


async def batches(stream: AsyncIterable[bytes], most: int) -> AsyncIterator[Batch]:
    """Yields the batches of an update stream; a damaged one as a ``Salvage``.

    Raises:
        PolicyError: RESOURCE_EXHAUSTED, a batch has too many bytes.
    """
    async for raw in stream:
        try:
            yield decode(service_pb2.UpdatePoliciesRequest.FromString, raw, most)
        except PolicyError as error:
            if error.reason is not Reason.MALFORMED_MESSAGE:
                raise
            yield Salvage(list(islice(_salvaged(raw), MOST_CHANGES + 1)))


def _salvaged(raw: bytes) -> Iterator[service_pb2.PolicyChangeRequest | Undecodable]:
    """Yields the changes of a damaged batch. Where the end of a field can't be found, the rest is one ``Undecodable``.

    Fields of the batch that a newer definition may have are passed over, as Protobuf does; after ``_MOST_PASSED`` of them the rest is one
    ``Undecodable``, too.
    """
    at = passed = 0
    found = False
    while at < len(raw):
        try:
            tag, start, at = _field(raw, at)
            passed += tag != _CHANGES
            if passed > _MOST_PASSED:
                raise IndexError("the batch has too many other fields")
        except IndexError:
            yield Undecodable(0, _malformed("The rest of the batch"))
            return
        if tag != _CHANGES:
            continue
        change = raw[start:at]
        try:
            yield service_pb2.PolicyChangeRequest.FromString(change)
        except DecodeError:
            found = True
            yield Undecodable(_sequence_of(change), _malformed("The change"))
    if not found:
        yield Undecodable(0, _malformed("The batch"))


def _sequence_of(change: bytes) -> int:
    """Returns the sequence of a change that can't be decoded; 0 if it is not among its first fields, which may be in any order."""
    at = 0
    with contextlib.suppress(IndexError):
        for _ in range(_MOST_PASSED):
            tag, start, at = _field(change, at)
            if tag == _SEQUENCE:
                return read_varint(change, start)[0]
    return 0


def _field(raw: bytes, at: int) -> tuple[int, int, int]:
    """Returns the tag of the field that begins at ``at``, where its value begins, and where it ends.

    Raises:
        IndexError: there is no whole field.
    """
    tag, start = read_varint(raw, at)
    kind = tag & 7
    if kind == _VARINT:
        _, end = read_varint(raw, start)
    elif kind == _LENGTH:
        length, start = read_varint(raw, start)
        end = start + length
    else:
        end = start + _SIZES.get(kind, len(raw))
    if end > len(raw) or not tag >> 3:
        raise IndexError("the field has no end")
    return tag, start, end


def _malformed(what: str) -> PolicyError:
    problem = f"{what} can't be decoded: it is not a message of this type, or a text in it is not UTF-8."
    return PolicyError(Kind.INVALID_ARGUMENT, Reason.MALFORMED_MESSAGE, problem)

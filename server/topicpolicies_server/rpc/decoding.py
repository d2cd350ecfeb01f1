"""Decodes requests. Bytes that are too many, or are no message, are refused as the caller's fault, with a reason.

gRPC reports an exception of a deserializer as a failure of the server. So gRPC is given no deserializer: it hands over the bytes as they
are, and they are decoded here. A batch of changes is decoded change by change, so that a malformed one fails alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError

from topicpolicies.v1 import service_pb2

from ..core.errors import Kind, PolicyError, Violation, invalid
from ..core.policies.documents import read_varint
from ..core.reasons import Reason, ViolationReason

RECEIVED_TIMES = 4
"""A message of up to so many times the limit is received, to be refused with a reason; gRPC itself refuses larger ones, without one."""
MOST_CHANGES = 1_000
"""The most changes in one batch."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
"""Protobuf's wire types, without groups."""
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_CHANGES = 1 << 3 | _LENGTH
"""The tag of ``BatchUpdatePoliciesRequest.changes``."""
_MOST_PASSED = 100
"""How many fields of a newer definition are passed over in a batch."""
_T = TypeVar("_T")

Parse: TypeAlias = Callable[[bytes], _T]
"""``FromString`` of a message class."""
Change: TypeAlias = service_pb2.PolicyChangeRequest | PolicyError
"""A change of a batch; a ``PolicyError`` if it can't be decoded."""


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
        raise _malformed("The request", "") from None


async def decoded(parse: Parse[_T], stream: AsyncIterable[bytes], most: int) -> AsyncIterator[_T]:
    """Yields the messages of a stream.

    Raises:
        PolicyError: as ``decode``, for the first message that can't be decoded.
    """
    async for raw in stream:
        yield decode(parse, raw, most)


def changes_of(raw: bytes) -> list[Change]:
    """Returns the changes of a serialized ``BatchUpdatePoliciesRequest``.

    Raises:
        PolicyError: INVALID_ARGUMENT, there are too many changes, or the bytes are no such message.
    """
    changes: list[bytes] = []
    at = passed = 0
    while at < len(raw):
        try:
            tag, start, at = _field(raw, at)
        except IndexError:
            raise _malformed("The request", "") from None
        if tag == _CHANGES:
            if len(changes) == MOST_CHANGES:
                problem = f"changes has more than {MOST_CHANGES:,} elements: send several batches."
                raise invalid(Violation("changes", ViolationReason.TOO_MANY_ELEMENTS, problem))
            changes.append(raw[start:at])
        elif (passed := passed + 1) > _MOST_PASSED:
            raise _malformed("The request", "")
    return [_change(change, index) for index, change in enumerate(changes)]


def _change(raw: bytes, index: int) -> Change:
    try:
        return service_pb2.PolicyChangeRequest.FromString(raw)
    except DecodeError:
        return _malformed("The change", f"changes[{index}]")


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


def _malformed(what: str, field: str) -> PolicyError:
    problem = f"{what} can't be decoded: it is not a message of this type, or a text in it is not UTF-8."
    return invalid(Violation(field, ViolationReason.MALFORMED_MESSAGE, problem))

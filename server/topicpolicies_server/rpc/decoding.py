"""Decodes requests. Bytes that are too many, or are no message, are refused as the caller's fault, with a reason.

gRPC reports an exception of a deserializer as a failure of the server, and ends a whole stream with it. So gRPC is given no deserializer:
it hands over the bytes as they are, and they are decoded here. Of a damaged batch of changes, what can be decoded is served.
"""

from __future__ import annotations

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
_CHANGES = b"\x0a"
"""The tag of ``UpdatePoliciesRequest.changes``."""
_SEQUENCE = b"\x08"
"""The tag of ``PolicyChangeRequest.sequence``, which Protobuf's own libraries write first."""
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
    """Yields the changes of a damaged batch. Where the end of a change can't be found, the rest is one ``Undecodable``."""
    at = 0
    while at < len(raw):
        length, start = _varint(raw, at + 1) if raw[at : at + 1] == _CHANGES else (None, at)
        if length is None or start + length > len(raw):
            yield Undecodable(0, _malformed("The rest of the batch"))
            return
        at = start + length
        change = raw[start:at]
        try:
            yield service_pb2.PolicyChangeRequest.FromString(change)
        except DecodeError:
            sequence = _varint(change, 1)[0] if change[:1] == _SEQUENCE else 0
            yield Undecodable(sequence or 0, _malformed("The change"))


def _varint(raw: bytes, at: int) -> tuple[int | None, int]:
    """Reads a varint. Returns its value, or None if there is none, and where it ends."""
    try:
        return read_varint(raw, at)
    except IndexError:
        return None, at


def _malformed(what: str) -> PolicyError:
    problem = f"{what} can't be decoded: it is not a message of this type, or a text in it is not UTF-8."
    return PolicyError(Kind.INVALID_ARGUMENT, Reason.MALFORMED_MESSAGE, problem)

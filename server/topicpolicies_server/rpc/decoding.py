"""From the bytes of a request to its message. What is too large, or no message, is the caller's fault, and is told so.

gRPC takes what a deserializer raises for a failure of the server, and ends a whole stream with it. So it is given the bytes as they are,
and they are decoded here.
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
"""Up to so many times the limit a message is received all the same, to be refused with its reason; gRPC refuses larger ones, with none."""
MOST_CHANGES = 1_000
"""Of one batch. Of a damaged one no more are looked for."""
_CHANGES = b"\x0a"
"""The tag of ``UpdatePoliciesRequest.changes``."""
_SEQUENCE = b"\x08"
"""The tag of ``PolicyChangeRequest.sequence``, which stands first in what Protobuf's own libraries write."""
_T = TypeVar("_T")

Parse: TypeAlias = Callable[[bytes], _T]
"""``FromString`` of a kind of messages."""


class Undecodable(NamedTuple):
    """A change of a batch that is no message."""

    sequence: int
    """0 where that can't be told either."""
    error: PolicyError


class Salvage(NamedTuple):
    """What could be decoded of a batch."""

    changes: Sequence[service_pb2.PolicyChangeRequest | Undecodable]


Batch: TypeAlias = service_pb2.UpdatePoliciesRequest | Salvage


def decode(parse: Parse[_T], raw: bytes, most: int) -> _T:
    """The message that some bytes are.

    Args:
        parse: the kind of message.
        raw: the bytes.
        most: bytes that a message may have.

    Raises:
        PolicyError: RESOURCE_EXHAUSTED, there are too many; INVALID_ARGUMENT, they are no such message.
    """
    if len(raw) > most:
        raise PolicyError(
            Kind.RESOURCE_EXHAUSTED,
            Reason.MESSAGE_TOO_LARGE,
            f"The request has {len(raw):,} bytes; {most:,} is the most: send less at once, or raise max_message_bytes.",
            metadata={"most_bytes": str(most)},
        )
    try:
        return parse(raw)
    except DecodeError:
        raise _malformed("The request") from None


async def decoded(parse: Parse[_T], stream: AsyncIterable[bytes], most: int) -> AsyncIterator[_T]:
    """The messages of a stream, up to the first that is none.

    Raises:
        PolicyError: as ``decode`` says.
    """
    async for raw in stream:
        yield decode(parse, raw, most)


async def batches(stream: AsyncIterable[bytes], most: int) -> AsyncIterator[Batch]:
    """The batches of a stream of changes; of one that is damaged, what could be decoded.

    Raises:
        PolicyError: RESOURCE_EXHAUSTED, one has too many bytes.
    """
    async for raw in stream:
        try:
            yield decode(service_pb2.UpdatePoliciesRequest.FromString, raw, most)
        except PolicyError as error:
            if error.reason is not Reason.MALFORMED_MESSAGE:
                raise
            yield Salvage(list(islice(_salvaged(raw), MOST_CHANGES + 1)))


def _salvaged(raw: bytes) -> Iterator[service_pb2.PolicyChangeRequest | Undecodable]:
    """The changes of a batch that is no message as a whole; behind the first that can't be told from the next one there is nothing."""
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
    """A number of Protobuf's, and where it ends; None: there is none."""
    try:
        return read_varint(raw, at)
    except IndexError:
        return None, at


def _malformed(what: str) -> PolicyError:
    problem = f"{what} can't be decoded: it is no message of this kind, or a text in it is not UTF-8."
    return PolicyError(Kind.INVALID_ARGUMENT, Reason.MALFORMED_MESSAGE, problem)

"""The requests that a key's state remembers, as bytes: most ids are UUIDs, and most versions follow one another.

==========  ================================================================================================================
part        what it has
==========  ================================================================================================================
numbers     how many there are, and flags
ids         16 bytes for each, if all are UUIDs
digests     8 bytes for each, if all are of the usual length
texts       ids and digests if not; the versions; and of the versions before the first, where each of the others is that of the
            request before, or else all (``policies/texts``)
==========  ================================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from ..policies import texts
from ..policies.events import Remembered
from ..policies.packed import Damaged
from ..policies.texts import Form

_ID, _DIGEST = 16, 8
_DIGESTS, _CHAIN, _QUOTED = 4, 8, 16


def pack_remembered(requests: tuple[Remembered, ...]) -> bytes:
    """Requests as bytes; of none there are none.

    Raises:
        ValueError: they are more than 255.
    """
    if not requests:
        return b""
    ids, digests, versions, previous = zip(*requests, strict=True)
    flags: int = texts.form_of(ids, 2 * _ID)
    blobs = b""
    words: list[str] = []
    if flags:
        blobs = texts.packed(ids)
    else:
        words += ids
    if texts.form_of(digests, 2 * _DIGEST) is Form.HEXADECIMAL:
        flags |= _DIGESTS
        blobs += texts.packed(digests)
    else:
        words += digests
    words += versions
    if previous[1:] == versions[:-1]:
        flags |= _CHAIN
        words.append(previous[0])
    else:
        words += previous
    if texts.RESERVED.search("".join(words)):
        flags |= _QUOTED
        words = texts.quoted(words)
    return bytes((len(requests), flags)) + blobs + texts.joined(words)


def unpack_remembered(data: bytes) -> tuple[Remembered, ...]:
    """What ``pack_remembered`` wrote.

    Raises:
        Damaged, IndexError, ValueError: it was something else.
    """
    return tuple(map(Remembered, *_columns(data, 0))) if data else ()


def last_remembered(data: bytes) -> tuple[str, str]:
    """The id and the digest of the newest request that was packed.

    Raises:
        Damaged, IndexError, ValueError: it was something else, or none.
    """
    ids, digests, _, _ = _columns(data, data[0] - 1)
    return ids[0], digests[0]


def _columns(data: bytes, since: int) -> tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]:
    """Ids, digests, versions, and versions before, of the requests from a number on."""
    count, flags = data[0], data[1]
    form = flags & 3
    in_order = flags & _CHAIN
    digests_at = 2 + (_ID * count if form else 0)
    texts_at = digests_at + (_DIGEST * count if flags & _DIGESTS else 0)
    words = texts.split(data[texts_at:])
    expected = count * (1 + (not form) + (not flags & _DIGESTS)) + (1 if in_order else count)
    if len(words) != expected or not 0 <= since < count:
        raise Damaged("it remembers other requests than it says")
    if flags & _QUOTED:
        words = texts.unquoted(words)
    first = words.pop() if in_order else ""
    at = since
    if form:
        ids = texts.unpacked(data[2 + _ID * since : digests_at], 2 * _ID, form)
    else:
        ids = words[at : at - since + count]
        at += count
    if flags & _DIGESTS:
        digests = texts.unpacked(data[digests_at + _DIGEST * since : texts_at], 2 * _DIGEST, Form.HEXADECIMAL)
    else:
        digests = words[at : at - since + count]
        at += count
    versions = words[at : at - since + count]
    if not in_order:
        return ids, digests, versions, words[at + count :]
    return ids, digests, versions, [words[at - 1] if since else first, *versions[:-1]]

"""The requests that a key's state remembers, as bytes. Compact, because most ids are UUIDs and most requests follow one another.

"Chained" requests are those of which each was applied to the version that the request before made, as is usual.

==========  ================================================================================================================
part        content
==========  ================================================================================================================
numbers     the number of requests, and flags
ids         16 bytes for each, if all are UUIDs
digests     8 bytes for each, if all are of the usual length
versions    two hexadecimal digits a byte, and the length of each: if the requests are chained, and versions have no other
            characters. The last one is the previous version of the first request. The newest request may have no previous
            version: if a compaction left only that request's event, the log does not tell it
texts       ids, digests, versions and previous versions that are not as above (``policies/texts``)
==========  ================================================================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ..policies import texts
from ..policies.events import Remembered
from ..policies.packed import Damaged
from ..policies.texts import Form

_ID, _DIGEST = 16, 8
_MAKE: Callable[[tuple[str, str, str, str]], Remembered] = functools.partial(tuple.__new__, Remembered)
"""Makes a ``Remembered`` of a tuple, quickly: sixteen are made for each event of a key."""
_DIGESTS, _CHAIN, _QUOTED, _PACKED, _UNTOLD = 4, 8, 16, 32, 64
_LONGEST = 15


def pack_remembered(requests: tuple[Remembered, ...]) -> bytes:
    """Returns requests as bytes; no bytes for no requests.

    Raises:
        ValueError: there are more than 255 requests.
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
    untold = len(requests) > 1 and not previous[-1]
    if previous[1:-1] == versions[:-2] and (untold or previous[1:] == versions[:-1]):
        flags |= _CHAIN | untold * _UNTOLD
        places = (*versions, previous[0])
        if texts.is_hexadecimal(together := "".join(places), len(together)) and max(map(len, places)) <= _LONGEST:
            flags |= _PACKED
            lengths = bytes(map(len, places))
            blobs += lengths + bytes.fromhex(together if len(together) % 2 == 0 else together + "0")
        else:
            words += places
    else:
        words += versions + previous
    if texts.RESERVED.search("".join(words)):
        flags |= _QUOTED
        words = texts.quoted(words)
    return bytes((len(requests), flags)) + blobs + texts.joined(words)


def unpack_remembered(data: bytes) -> tuple[Remembered, ...]:
    """Returns the requests that ``pack_remembered`` wrote.

    Raises:
        Damaged, IndexError, ValueError: the bytes are something else.
    """
    return tuple(map(_MAKE, zip(*_columns(data, 0), strict=True))) if data else ()


def last_remembered(data: bytes) -> tuple[str, str]:
    """Returns the id and the digest of the newest request that was packed.

    Raises:
        Damaged, IndexError, ValueError: the bytes are something else, or empty.
    """
    ids, digests, _, _ = _columns(data, data[0] - 1)
    return ids[0], digests[0]


def _columns(data: bytes, since: int) -> tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]:
    """Returns the ids, digests, versions and previous versions of the requests from index ``since`` on."""
    count, flags = data[0], data[1]
    form = flags & 3
    in_order = flags & _CHAIN
    digests_at = 2 + (_ID * count if form else 0)
    texts_at = digests_at + (_DIGEST * count if flags & _DIGESTS else 0)
    places: list[str] = []
    if flags & _PACKED:
        places, texts_at = _unpacked(data, texts_at, count + 1)
    words = texts.split(data[texts_at:])
    others = 0 if flags & _PACKED else count + 1 if in_order else 2 * count
    expected = count * ((not form) + (not flags & _DIGESTS)) + others
    if len(words) != max(expected, 1) or not 0 <= since < count:
        raise Damaged("it remembers other requests than it says")
    if flags & _QUOTED:
        words = texts.unquoted(words)
    at = 0
    if form:
        ids = texts.unpacked(data[2 + _ID * since : digests_at], 2 * _ID, form)
    else:
        ids = words[since:count]
        at = count
    if flags & _DIGESTS:
        digests = texts.unpacked(data[digests_at + _DIGEST * since : digests_at + _DIGEST * count], 2 * _DIGEST, Form.HEXADECIMAL)
    else:
        digests = words[at + since : at + count]
        at += count
    places = places or words[at:]
    versions = places[since:count]
    if not in_order:
        return ids, digests, versions, places[count + since :]
    previous = [places[since - 1] if since else places[count], *versions[:-1]]
    if flags & _UNTOLD:
        previous[-1] = ""
    return ids, digests, versions, previous


def _unpacked(data: bytes, at: int, count: int) -> tuple[list[str], int]:
    """Returns ``count`` versions, which begin at a byte, and the byte at which they end."""
    lengths = data[at : at + count]
    begin = at + count
    end = begin + (sum(lengths) + 1) // 2
    if len(lengths) != count or end > len(data):
        raise Damaged("it ends within a version")
    text = data[begin:end].hex()
    places: list[str] = []
    at = 0
    for length in lengths:
        places.append(text[at : at + length])
        at += length
    return places, end

"""Freezes settled policy keys: serializes all that a view keeps of a key, the fold's state and the head, to compact bytes, and back.

**Freezing and thawing changes nothing that matters**: the thawed state folds every further event as the original would have, and the thawed
head has the same document, version, previous version, number and place, so that watchers and answers show the same. Of the head's event,
what only the fold needs is not kept: ``base``, ``etag``, ``skip_if_absent``, ``reads``, ``operands``, ``remembered``, ``head_version``,
``seen``, ``known`` and ``trace_state`` of a thawed ``Head.placed`` are as if its writer had not set them. The event's place, time of
publication, producer, action and document, and its stamp's id, kind, request, digest, actor, reason, mask, principal, claimed name and
trace parent are exact. What a ring keeps for a while is not kept: ``Head.before`` and the bytes for watchers are None. ``Head.number``
belongs to the numbering of the view that froze it.

A key is not settled while events of it may have to be folded again, or while too many events were superseded lately (``fold/leftovers``).

The bytes mean the same in every process, and in every release that has the same ``FORMAT``. They have no checksum: damaged bytes raise
``Damaged``, or are read as something else. Code that puts them on a disk must add a checksum.

==========  =================================================================================================================
part        content
==========  =================================================================================================================
numbers     ``NUMBERS``: format, flags, the head's number, partitions, the document's size, times, where parts begin, counts
texts       ``_FIXED`` texts, the head's position first, then the mask's paths, then the trace parent, if there is one
            (``policies/texts``); a single character may stand for a whole text
id          16 bytes: the newest event's id, if it is a UUID
requests    the requests that the state remembers (``fold/remembered``)
documents   those that are not equal to one before (``policies/packed``)
leftovers   what is needed only for a while, last so that it can be cut off; mostly nothing (``fold/leftovers``)
==========  =================================================================================================================
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

from ..fold.keystate import ALONE, REMEMBERED_REQUESTS, KeyState
from ..fold.leftovers import pack_leftovers, unpack_leftovers
from ..fold.remembered import last_remembered, pack_remembered, unpack_remembered
from ..names import PolicyKey
from ..policies import documents, texts
from ..policies.documents import Settings
from ..policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from ..policies.packed import Damaged, is_like, pack, unpack
from .heads import Head

FORMAT = 3
"""The first byte. Bytes that begin with another one are not read."""
NUMBERS = struct.Struct(">BIQHHIqqIIHHB")
GLANCE = struct.Struct(">BIQHH")
_FIXED = 16
_PLACE, _VERSION, _NEWEST, _HEAD_EVENT, _LAST, _ID = "\x01", "\x02", "\x03", "\x04", "\x05", "\x06"
"""Single characters that stand for a text that is there anyway: the head's position, the state's version, the newest event's id, the id of
the head's event, the id and digest of the newest remembered request, or the id after the texts."""
_KINDS = tuple(StampKind)
_ACTIONS = {int(action): action for action in Action}
_NEWEST_KNOWN, DUE, _ALONE, HEAD, PLACED, _STAMP, _REPLICATED, QUOTED, _PACKED_ID, _ONE = (1 << bit for bit in range(10))
_DOCUMENT, _LIVE, SHOWN, _WRITTEN, _ACTION, _KIND = 10, 12, 14, 16, 18, 21
"""The first bit of each flag with more than two values. The documents are, in this order, that of the state, the raw (live) one, that of
the head (shown to watchers), and that of the head's event."""
_TRACED = 1 << 23
"""Whether the event's trace parent is among the texts. A release that does not know this flag finds one text too many: ``Damaged``."""
_NONE, _SAME, _OWN = range(3)
"""The values of a document's flag: no document; equal to another one (the live and the head's to the state's, the event's to the head's);
serialized itself."""
SIZE, _ID_SIZE = NUMBERS.size, 16
_PROBLEMS = (struct.error, LookupError, ValueError, OverflowError, MemoryError)
_Numbers: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class Thawed(NamedTuple):
    """A key that was frozen, as objects again."""

    state: KeyState
    """The fold's state."""
    head: Head | None
    """None: no event of the key has made a head."""
    partition: int
    """The partition of the key's last event."""
    touched_at: int
    """When the key's last event was published, in milliseconds since 1970."""


def freeze(state: KeyState, head: Head | None, partition: int = 0, touched_at: int = 0) -> bytes | None:
    """Returns all that a view keeps of a key, as bytes; None: the key is not settled.

    Args:
        state: the fold's state.
        head: the head; None: no event of the key has made one.
        partition: the partition of the key's last event.
        touched_at: when the key's last event was published, in milliseconds since 1970.
    """
    try:
        return _frozen(state, head, partition, touched_at)
    except struct.error:  # a number is too large for its field: no real key has that much
        return None


def _frozen(state: KeyState, head: Head | None, partition: int, touched_at: int) -> bytes | None:
    leftovers = pack_leftovers(state)
    if leftovers is None or len(state.remembered) > REMEMBERED_REQUESTS:
        return None
    document, newest = state.document, state.newest
    flags = state.due * DUE
    if newest is not None:
        flags |= _NEWEST_KNOWN
    if state.joined is ALONE:
        flags |= _ALONE
    packed = bytearray()
    flags |= _pack(document, None, packed) << _DOCUMENT | _pack(state.live, document, packed) << _LIVE
    number = size = place = published_at = 0
    words = ["", state.version, newest or "", state.head_event, state.since, state.upto, "", "", "", "", "", "", "", "", "", ""]
    mask: tuple[str, ...] = ()
    if head is not None:
        flags |= HEAD | _pack(head.document, document, packed) << SHOWN
        size = documents.size(head.document) if head.document else 0
        number, place = head.number, head.partition
        words[0], words[6], words[7] = head.place, head.version, head.previous
        placed = head.placed
        if placed is not None:
            event = placed.event
            if event is None or placed.problem:
                return None
            published_at = placed.published_at
            flags |= PLACED | event.replicated * _REPLICATED | event.action << _ACTION
            flags |= _pack(event.document, head.document, packed) << _WRITTEN
            words[8] = placed.producer
            stamp = event.stamp
            if stamp is not None:
                flags |= _STAMP | _KINDS.index(stamp.kind) << _KIND | bool(stamp.trace_parent) * _TRACED
                words[9:] = stamp.event_id, stamp.request_id, stamp.digest, stamp.actor, stamp.reason, stamp.principal, stamp.claimed
                mask = stamp.mask
                words += (*mask, stamp.trace_parent) if stamp.trace_parent else mask
    requests = b""
    if len(state.remembered) == 1 and state.remembered[0] == (words[10], words[11], state.version, words[7]):
        flags |= _ONE  # the request of the head's own event, whose texts are there
    elif state.remembered:
        requests = pack_remembered(state.remembered)
    id_of_newest = b""
    if texts.RESERVED.search("".join(words)):
        flags |= QUOTED
        words = texts.quoted(words)
    else:
        _shorten(words, state.remembered if requests else ())
        if words[2] == _ID and newest:
            flags |= _PACKED_ID
            id_of_newest = bytes.fromhex(newest)
    text = texts.joined(words)
    body = id_of_newest + requests + bytes(packed)
    begin = SIZE + len(text)
    rest = touched_at, published_at, begin, begin + len(body), len(requests), len(mask), state.contradictions
    return NUMBERS.pack(FORMAT, flags, number, partition, place, size, *rest) + text + body + leftovers


def _pack(document: Settings | None, like: Settings | None, into: bytearray) -> int:
    if document is None:
        return _NONE
    if is_like(document, like):
        return _SAME
    pack(document, into)
    return _OWN


def _shorten(words: list[str], remembered: tuple[Remembered, ...]) -> None:
    """Replaces texts that are there anyway by single characters."""
    place, version, newest, head_event, _, upto, shown, _, _, event_id, request_id, digest, *_ = words[:_FIXED]
    if texts.is_hexadecimal(newest, 2 * _ID_SIZE):
        words[2] = _ID
    if head_event:
        if head_event == newest:
            words[3] = _NEWEST
        elif head_event == version:
            words[3] = _VERSION
        if event_id == head_event:
            words[9] = _HEAD_EVENT
    if version:
        if upto == version:
            words[5] = _VERSION
        if shown == version:
            words[6] = _VERSION
        if place == version:
            words[1] = _PLACE
    if remembered and request_id == remembered[-1].request_id and digest == remembered[-1].digest:
        words[10] = words[11] = _LAST


def thaw(key: PolicyKey, data: bytes) -> Thawed:
    """Returns what was frozen of a key.

    Raises:
        Damaged: the bytes are not what ``freeze`` wrote.
    """
    try:
        numbers: _Numbers = NUMBERS.unpack_from(data)
        flags, end = numbers[1], numbers[9]
        words = _texts(data, numbers)
        document, live, shown, _ = _documents(data, numbers)
        state = KeyState()
        state.document = document
        state.live = live
        _, state.version, newest, state.head_event, state.since, state.upto = words[:6]
        if flags & _NEWEST_KNOWN:
            state.newest = newest
        if flags & _ONE:
            state.remembered = (Remembered(words[10], words[11], words[1], words[7]),)
        elif numbers[10]:
            state.remembered = unpack_remembered(_requests(data, numbers))
        if flags & DUE:
            state.due = True
        state.contradictions = numbers[12]
        if flags & _ALONE:
            state.joined = ALONE
        if end < len(data):
            unpack_leftovers(data[end:], state)
        return Thawed(state, _head(key, data, numbers, words, shown), numbers[3], numbers[6])
    except _PROBLEMS as error:
        raise Damaged(f"what is kept of {key} can't be read: {error}") from error


def thaw_head(key: PolicyKey, data: bytes) -> Head | None:
    """Returns the head of a frozen key without the rest; None: it has none. Its event is decoded when ``Head.placed`` is first read.

    Raises:
        Damaged: the bytes that were read are not what ``freeze`` wrote. Reading ``Head.placed`` later may raise this, too.
    """
    try:
        numbers: _Numbers = NUMBERS.unpack_from(data)
        return _head(key, data, numbers, _texts(data, numbers), _shown(data, numbers))
    except _PROBLEMS as error:
        raise Damaged(f"what is kept of {key} can't be read: {error}") from error


def _texts(data: bytes, numbers: _Numbers) -> list[str]:
    """Returns the texts, each as it was before ``_shorten``."""
    form, flags, _, _, _, _, _, _, begin, _, _, paths, _ = numbers
    if form != FORMAT:
        raise Damaged(f"its format is {form}, not {FORMAT}")
    words = texts.split(data[SIZE:begin])
    if len(words) != _FIXED + paths + (1 if flags & _TRACED else 0):
        raise Damaged("it has other texts than it says")
    if flags & QUOTED:
        words = texts.unquoted(words)
    else:
        _lengthen(data, numbers, words)
    return words


def _shown(data: bytes, numbers: _Numbers) -> Settings | None:
    """Returns the head's document, and decodes no more of the documents before it than that takes."""
    flags, at = numbers[1], _at_documents(numbers)
    which = flags >> SHOWN & 3
    if which == _NONE:
        return None
    document = None
    if flags >> _DOCUMENT & 3 == _OWN:
        document, at = unpack(data, at)
    if which == _SAME:
        return document
    if flags >> _LIVE & 3 == _OWN:
        _, at = unpack(data, at)
    return unpack(data, at)[0]


def _at_documents(numbers: _Numbers) -> int:
    """Returns the byte at which the documents begin."""
    return numbers[8] + (_ID_SIZE if numbers[1] & _PACKED_ID else 0) + numbers[10]


def _documents(data: bytes, numbers: _Numbers) -> tuple[Settings | None, Settings | None, Settings | None, Settings | None]:
    """Returns the documents: the state's, the live one, the head's, and that of the head's event."""
    flags, end, at = numbers[1], numbers[9], _at_documents(numbers)
    document = live = shown = written = None
    if (which := flags >> _DOCUMENT & 3) == _OWN:
        document, at = unpack(data, at)
    if (which := flags >> _LIVE & 3) == _OWN:
        live, at = unpack(data, at)
    elif which == _SAME:
        live = document
    if (which := flags >> SHOWN & 3) == _OWN:
        shown, at = unpack(data, at)
    elif which == _SAME:
        shown = document
    if (which := flags >> _WRITTEN & 3) == _OWN:
        written, at = unpack(data, at)
    elif which == _SAME:
        written = shown
    if at != end or end > len(data):
        raise Damaged("its documents end elsewhere than it says")
    return document, live, shown, written


def _lengthen(data: bytes, numbers: _Numbers, words: list[str]) -> None:
    """Undoes ``_shorten``."""
    place, version, newest, head_event, _, upto, shown, _, _, event_id = words[:10]
    if version == _PLACE:
        words[1] = version = place
    if newest == _ID:
        words[2] = newest = data[numbers[8] : numbers[8] + _ID_SIZE].hex()
    if head_event == _NEWEST:
        words[3] = head_event = newest
    elif head_event == _VERSION:
        words[3] = head_event = version
    if upto == _VERSION:
        words[5] = version
    if shown == _VERSION:
        words[6] = version
    if event_id == _HEAD_EVENT:
        words[9] = head_event


def _requests(data: bytes, numbers: _Numbers) -> bytes:
    at = numbers[8] + (_ID_SIZE if numbers[1] & _PACKED_ID else 0)
    return data[at : at + numbers[10]]


def _head(key: PolicyKey, data: bytes, numbers: _Numbers, words: list[str], shown: Settings | None) -> Head | None:
    flags = numbers[1]
    if not flags & HEAD:
        return None
    number, partition = numbers[2], numbers[4]
    if not 1 <= flags >> _ACTION & 7 <= 4 and flags & PLACED:
        raise Damaged("its event does something unknown")
    found = Head(key, shown, words[6], words[7], None, number, partition)
    if flags & PLACED:
        found.placed_late(partition, lambda: _placed(key, data, numbers, words))
    return found


def _placed(key: PolicyKey, data: bytes, numbers: _Numbers, words: list[str]) -> Placed:
    _, flags, _, _, partition, _, _, published_at, _, _, _, paths, _ = numbers
    producer, event_id, request_id, digest, actor, reason, principal, claimed = words[8:_FIXED]
    try:
        *_, written = _documents(data, numbers)
        if request_id == _LAST:
            request_id, digest = last_remembered(_requests(data, numbers))
    except _PROBLEMS as error:
        raise Damaged(f"what is kept of {key} can't be read: {error}") from error
    stamp = None
    if flags & _STAMP:
        kind = _KINDS[flags >> _KIND & 3]
        mask = tuple(words[_FIXED : _FIXED + paths])
        trace = words[_FIXED + paths] if flags & _TRACED else ""
        stamp = Stamp(event_id, kind, request_id, digest, actor, reason, mask, principal=principal, claimed=claimed, trace_parent=trace)
    event = Event(key, _ACTIONS[flags >> _ACTION & 7], written, stamp, None, bool(flags & _REPLICATED))
    return Placed(partition, words[0], event, published_at, producer)

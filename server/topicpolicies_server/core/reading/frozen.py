"""Settled policy keys as bytes: all that a view keeps of one, its fold's state and its head, in one compact value and back.

**What is frozen is the same after thawing**: the state folds every further event as the original would have, and the head has the same
document, version, version before, number and place, so that watchers and answers show the same. Not kept of the head's event is what only
folding it needed: ``base``, ``etag``, ``skip_if_absent``, ``reads``, ``operands``, ``remembered``, ``head_version``, ``seen`` and ``known``
of a thawed ``Head.placed`` are as if its writer had not said them. Its place, when it was published, its producer, action and document,
and the stamp's id, kind, request, digest, actor, reason and mask are exact. Nothing is kept of what a ring keeps for its time:
``Head.before`` and the bytes for watchers are None. ``Head.number`` belongs to the numbering of the view that froze it.

A key is not settled while events of it may have to be folded again, or many were superseded lately (``fold/leftovers``).

The bytes mean the same in every process, and in every release that has the same ``FORMAT``. They have no checksum: damaged ones raise
``Damaged`` and nothing else, or say something else than before. Whoever puts them on a disk adds one.

==========  =================================================================================================================
part        what it has
==========  =================================================================================================================
numbers     ``_NUMBERS``: format, flags, the document's size, the head's number, partitions, times, where the leftovers begin, counts
id          16 bytes: the newest event's, if it is a UUID
requests    those that are remembered (``fold/remembered``)
documents   those that are not the same as one before (``policies/packed``)
texts       ``_FIXED`` of them, then the mask (``policies/texts``); a single character stands for one of them
leftovers   what is of use for a while only, so that it can be cut off; mostly nothing (``fold/leftovers``)
==========  =================================================================================================================
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

from ..fold.keystate import ALONE, REMEMBERED_REQUESTS, KeyState
from ..fold.leftovers import is_of_no_use, pack_leftovers, unpack_leftovers
from ..fold.remembered import last_remembered, pack_remembered, unpack_remembered
from ..names import PolicyKey
from ..policies import documents, texts
from ..policies.documents import Settings
from ..policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from ..policies.packed import Damaged, pack, unpack
from ..policies.texts import Form
from .heads import Head

__all__ = ["FORMAT", "Damaged", "Thawed", "freeze", "thaw", "thaw_head", "trimmed"]

FORMAT = 1
"""The first byte. Bytes with another one are not read."""
_NUMBERS = struct.Struct(">BIIQHHqqIHHB")
_FIXED = 14
_VERSION, _NEWEST, _HEAD_EVENT, _LAST, _ID = "\x01", "\x02", "\x03", "\x04", "\x05"
"""Stand for a text: the version, the newest event's id, that of the head's event, or what is remembered last; and for the id before all."""
_KINDS = tuple(StampKind)
_ACTIONS = {int(action): action for action in Action}
_NEWEST_KNOWN, _DUE, _ALONE, _HEAD, _PLACED, _STAMP, _REPLICATED, _QUOTED, _PACKED_ID = (1 << bit for bit in range(9))
_DOCUMENT, _LIVE, _SHOWN, _WRITTEN, _ACTION, _KIND = 9, 11, 13, 15, 17, 20
"""Where the flags begin that have more than two values."""
_NONE, _SAME, _OWN = range(3)
"""Whether there is a document, and whether it is the same as one before: the live one and the head's as the state's, the event's as the
head's."""
_SIZE, _ID_SIZE = _NUMBERS.size, 16
_PROBLEMS = (struct.error, LookupError, ValueError, OverflowError, MemoryError)
_Numbers: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int]


class Thawed(NamedTuple):
    """What was frozen of one key."""

    state: KeyState
    """The fold's."""
    head: Head | None
    """None: no event of the key has made a head."""
    partition: int
    """In which its last event stands."""
    touched_at: int
    """When that was published, in milliseconds since 1970."""


def freeze(state: KeyState, head: Head | None, partition: int = 0, touched_at: int = 0) -> bytes | None:
    """All that is kept of a key, as bytes; None: it is not settled.

    Args:
        state: the fold's.
        head: what was told last of it; None: nothing.
        partition: in which its last event stands.
        touched_at: when that was published, in milliseconds since 1970.
    """
    try:
        return _frozen(state, head, partition, touched_at)
    except struct.error:  # there is more of something than any key has
        return None


def _frozen(state: KeyState, head: Head | None, partition: int, touched_at: int) -> bytes | None:
    leftovers = pack_leftovers(state)
    if leftovers is None or len(state.remembered) > REMEMBERED_REQUESTS:
        return None
    document, newest = state.document, state.newest
    flags = state.due * _DUE
    if newest is not None:
        flags |= _NEWEST_KNOWN
    if state.joined is ALONE:
        flags |= _ALONE
    packed = bytearray()
    flags |= _pack(document, None, packed) << _DOCUMENT | _pack(state.live, document, packed) << _LIVE
    number = size = place = published_at = 0
    words = [state.version, newest or "", state.head_event, state.since, state.upto, "", "", "", "", "", "", "", "", ""]
    mask: tuple[str, ...] = ()
    if head is not None:
        flags |= _HEAD | _pack(head.document, document, packed) << _SHOWN
        size = documents.size(head.document) if head.document else 0
        number, place = head.number, head.partition
        words[5], words[6] = head.version, head.previous
        placed = head.placed
        if placed is not None:
            event = placed.event
            if event is None or placed.problem:
                return None
            published_at = placed.published_at
            flags |= _PLACED | event.replicated * _REPLICATED | event.action << _ACTION
            flags |= _pack(event.document, head.document, packed) << _WRITTEN
            words[7], words[8] = placed.position, placed.producer
            stamp = event.stamp
            if stamp is not None:
                flags |= _STAMP | _KINDS.index(stamp.kind) << _KIND
                words[9:] = stamp.event_id, stamp.request_id, stamp.digest, stamp.actor, stamp.reason
                mask = stamp.mask
                words += mask
    requests = pack_remembered(state.remembered)
    id_of_newest = b""
    if texts.RESERVED.search("".join(words)):
        flags |= _QUOTED
        words = texts.quoted(words)
    else:
        _shorten(words, state.remembered)
        if words[1] == _ID and newest:
            flags |= _PACKED_ID
            id_of_newest = texts.packed((newest,))
    body = id_of_newest + requests + bytes(packed) + texts.joined(words)
    end = _SIZE + len(body)
    times = touched_at, published_at
    rest = end, len(requests), len(mask), state.contradictions
    return _NUMBERS.pack(FORMAT, flags, size, number, partition, place, *times, *rest) + body + leftovers


def _pack(document: Settings | None, like: Settings | None, into: bytearray) -> int:
    if document is None:
        return _NONE
    if document is like or document == like:
        return _SAME
    pack(document, into)
    return _OWN


def _shorten(words: list[str], remembered: tuple[Remembered, ...]) -> None:
    """Has single characters stand for texts that are there anyway."""
    version, newest, head_event, _, upto, shown, _, position, _, event_id, request_id, digest, _, _ = words[:_FIXED]
    if newest and texts.form_of((newest,), 2 * _ID_SIZE) is Form.HEXADECIMAL:
        words[1] = _ID
    if head_event and head_event == newest:
        words[2] = _NEWEST
    elif head_event and head_event == version:
        words[2] = _VERSION
    if version:
        if upto == version:
            words[4] = _VERSION
        if shown == version:
            words[5] = _VERSION
        if position == version:
            words[7] = _VERSION
    if event_id and event_id == head_event:
        words[9] = _HEAD_EVENT
    if remembered and request_id == remembered[-1].request_id and digest == remembered[-1].digest:
        words[10] = words[11] = _LAST


def thaw(key: PolicyKey, data: bytes) -> Thawed:
    """What was frozen of a key.

    Raises:
        Damaged: it was something else.
    """
    try:
        numbers: _Numbers = _NUMBERS.unpack_from(data)
        flags, end = numbers[1], numbers[8]
        words, document, live, shown, written = _read(data, numbers)
        state = KeyState()
        state.document = document
        state.live = live
        state.version, newest, state.head_event, state.since, state.upto = words[:5]
        if flags & _NEWEST_KNOWN:
            state.newest = newest
        if numbers[9]:
            state.remembered = unpack_remembered(_requests(data, numbers))
        if flags & _DUE:
            state.due = True
        state.contradictions = numbers[11]
        if flags & _ALONE:
            state.joined = ALONE
        if end < len(data):
            unpack_leftovers(data[end:], state)
        return Thawed(state, _head(key, numbers, words, shown, written), numbers[4], numbers[6])
    except _PROBLEMS as error:
        raise Damaged(f"what is kept of {key} can't be read: {error}") from error


def thaw_head(key: PolicyKey, data: bytes) -> Head | None:
    """The head of what was frozen of a key, without the rest; None: it has none.

    Raises:
        Damaged: it was something else.
    """
    try:
        numbers: _Numbers = _NUMBERS.unpack_from(data)
        words, _, _, shown, written = _read(data, numbers)
        return _head(key, numbers, words, shown, written)
    except _PROBLEMS as error:
        raise Damaged(f"what is kept of {key} can't be read: {error}") from error


def _read(data: bytes, numbers: _Numbers) -> tuple[list[str], Settings | None, Settings | None, Settings | None, Settings | None]:
    """The texts, each as it was, and the documents: the head, the live one, the one that was told last, and that of its event."""
    form, flags, _, _, _, _, _, _, end, requests, paths, _ = numbers
    if form != FORMAT:
        raise Damaged(f"its format is {form}, not {FORMAT}")
    at = _SIZE + (_ID_SIZE if flags & _PACKED_ID else 0) + requests
    document = live = shown = written = None
    if (which := flags >> _DOCUMENT & 3) == _OWN:
        document, at = unpack(data, at)
    if (which := flags >> _LIVE & 3) == _OWN:
        live, at = unpack(data, at)
    elif which == _SAME:
        live = document
    if (which := flags >> _SHOWN & 3) == _OWN:
        shown, at = unpack(data, at)
    elif which == _SAME:
        shown = document
    if (which := flags >> _WRITTEN & 3) == _OWN:
        written, at = unpack(data, at)
    elif which == _SAME:
        written = shown
    if not at <= end <= len(data):
        raise Damaged("it ends too soon")
    words = texts.split(data[at:end])
    if len(words) != _FIXED + paths:
        raise Damaged("it has other texts than it says")
    if flags & _QUOTED:
        words = texts.unquoted(words)
    else:
        _lengthen(data, numbers, words)
    return words, document, live, shown, written


def _lengthen(data: bytes, numbers: _Numbers, words: list[str]) -> None:
    """Undoes ``_shorten``."""
    version, newest, head_event, _, upto, shown, _, position, _, event_id, request_id, digest, _, _ = words[:_FIXED]
    if newest == _ID:
        words[1] = newest = data[_SIZE : _SIZE + _ID_SIZE].hex()
    if head_event == _NEWEST:
        words[2] = head_event = newest
    elif head_event == _VERSION:
        words[2] = head_event = version
    if upto == _VERSION:
        words[4] = version
    if shown == _VERSION:
        words[5] = version
    if position == _VERSION:
        words[7] = version
    if event_id == _HEAD_EVENT:
        words[9] = head_event
    if request_id == _LAST and digest == _LAST:
        words[10], words[11] = last_remembered(_requests(data, numbers))


def _requests(data: bytes, numbers: _Numbers) -> bytes:
    at = _SIZE + (_ID_SIZE if numbers[1] & _PACKED_ID else 0)
    return data[at : at + numbers[9]]


def _head(key: PolicyKey, numbers: _Numbers, words: list[str], shown: Settings | None, written: Settings | None) -> Head | None:
    _, flags, _, number, _, partition, _, published_at, _, _, paths, _ = numbers
    if not flags & _HEAD:
        return None
    placed = stamp = None
    if flags & _PLACED:
        position, producer, event_id, request_id, digest, actor, reason = words[7:_FIXED]
        if flags & _STAMP:
            stamp = Stamp(event_id, _KINDS[flags >> _KIND & 3], request_id, digest, actor, reason, tuple(words[_FIXED : _FIXED + paths]))
        event = Event(key, _ACTIONS[flags >> _ACTION & 7], written, stamp, None, bool(flags & _REPLICATED))
        placed = Placed(partition, position, event, published_at, producer)
    return Head(key, shown, words[5], words[6], placed, number, partition)


def trimmed(data: bytes, now: int, window_ms: int) -> bytes | None:
    """What was frozen, after ``KeyState.trim``; None: to be trimmed it has to be thawed.

    Args:
        data: what was frozen.
        now: milliseconds since 1970.
        window_ms: W, in milliseconds.

    Raises:
        Damaged: it was something else.
    """
    try:
        end = _NUMBERS.unpack_from(data)[8]
        idle = is_of_no_use(data[end:], now, window_ms) if end != len(data) else False
    except struct.error as error:
        raise Damaged(str(error)) from error
    return None if idle is None else data[:end] if idle else data

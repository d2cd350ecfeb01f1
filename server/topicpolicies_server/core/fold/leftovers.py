"""Leftovers as bytes: the parts of a key's state that are needed only for a while after its events.

These are the superseded events and their ids, the first event that was seen (``KeyState.joined``), and how many events are owed. Once the
key is idle they are all dropped (``KeyState.trim``), so they are serialized apart from the rest, and a state without leftovers needs no
byte for them.
"""

from __future__ import annotations

import struct

from ..policies import texts
from ..policies.documents import Settings
from ..policies.packed import Damaged, is_like, pack, unpack
from ..policies.texts import Form
from .keystate import ALONE, Joined, KeyState, Owed, Superseded

MOST_SUPERSEDED = 16
"""How many superseded events are serialized at most; a state with more is not."""
_BEGIN = struct.Struct(">qqBHH")
"""When the last event was superseded, until when an event is owed (both in milliseconds since 1970, or ``_NEVER``), flags, and the counts
of superseded events and of ids."""
_NEVER = -(1 << 63)
_JOINED, _OWED, _OLDER, _SEEN, _QUOTED = (1 << bit for bit in range(5))
_FORM = 5
_NUMBERS = struct.Struct(">qq")
_AT = struct.Struct(">qB")
_NONE, _DOCUMENT, _LIVE, _AGAIN, _OWN = range(5)
"""The raw document after a superseded event: none, the head's, the live one, that after the superseded event before, or one of its own."""


def pack_leftovers(state: KeyState) -> bytes | None:
    """Returns a state's leftovers as bytes, empty if there are none; None: there are too many, or events that may be folded again."""
    kept, owed, older, seen = state.joined, state.owed, state.older, state.seen
    if kept is ALONE:
        kept = None
    if older is None and seen is None and kept is None and owed is None:
        return b""
    if (kept is not None and kept.trail) or (older is not None and len(older) > MOST_SUPERSEDED):
        return None
    flags = 0
    body = bytearray()
    words: list[str] = []
    if kept is not None:
        flags |= _JOINED
        body += _NUMBERS.pack(kept.first_at, 0)
        words += (kept.first, kept.dropped)
    if owed is not None:
        flags |= _OWED
        body += _NUMBERS.pack(owed.events, owed.until)
    if older is not None:
        flags |= _OLDER
        before: Settings | None = None
        for entry in older:
            raw = entry.raw
            which = _which(raw, before, state)
            body += _AT.pack(entry.at, which)
            if which == _OWN and raw is not None:
                pack(raw, body)
            before = raw
        words += [entry.event_id for entry in older]
    if seen is not None:
        flags |= _SEEN
        form = texts.form_of(list(seen), 32)
        flags |= form << _FORM
        if form is Form.TEXTS:
            words += seen
        else:
            body += texts.packed(list(seen))
    if any(map(texts.RESERVED.search, words)):
        flags |= _QUOTED
        words = texts.quoted(words)
    latest = older[-1].at if older else _NEVER
    until = owed.until if owed is not None else _NEVER
    return _BEGIN.pack(latest, until, flags, len(older or ()), len(seen or ())) + bytes(body) + texts.joined(words)


def _which(raw: Settings | None, before: Settings | None, state: KeyState) -> int:
    if raw is None:
        return _NONE
    if is_like(raw, before):
        return _AGAIN
    if is_like(raw, state.document):
        return _DOCUMENT
    return _LIVE if is_like(raw, state.live) else _OWN


def unpack_leftovers(data: bytes, state: KeyState) -> None:
    """Restores the leftovers that ``pack_leftovers`` wrote to a state that has its documents already.

    Raises:
        Damaged, IndexError, ValueError, struct.error: the bytes are no leftovers.
    """
    _, _, flags, entries, ids = _BEGIN.unpack_from(data)
    at = _BEGIN.size
    kept: Joined | None = None
    if flags & _JOINED:
        kept = state.joined = Joined(first_at=_NUMBERS.unpack_from(data, at)[0])
        at += _NUMBERS.size
    if flags & _OWED:
        state.owed = Owed(*_NUMBERS.unpack_from(data, at))
        at += _NUMBERS.size
    raws: list[tuple[Settings | None, int]] = []
    raw: Settings | None = None
    for _ in range(entries):
        published, which = _AT.unpack_from(data, at)
        at += _AT.size
        if which == _OWN:
            raw, at = unpack(data, at)
        elif which != _AGAIN:
            raw = (None, state.document, state.live)[which]
        raws.append((raw, published))
    form = flags >> _FORM
    seen: list[str] = []
    if form != Form.TEXTS:
        seen = texts.unpacked(data[at : at + 16 * ids], 32, form)
        at += 16 * ids
    words = texts.split(data[at:])
    if flags & _QUOTED:
        words = texts.unquoted(words)
    expected = 2 * (kept is not None) + entries + (ids if form == Form.TEXTS else 0)
    if len(words) != max(expected, 1):
        raise Damaged("it has other texts than it says")
    if kept is not None:
        kept.first, kept.dropped = words[0], words[1]
        del words[:2]
    if flags & _OLDER:
        state.older = [Superseded(raw, published, event_id) for (raw, published), event_id in zip(raws, words, strict=False)]
    if flags & _SEEN:
        state.seen = dict.fromkeys(seen or words[entries : entries + ids])


def joined_at(data: bytes) -> tuple[int, bool] | None:
    """Returns ``Joined.first_at``, and whether the leftovers have nothing but ``KeyState.joined``; None: they do not have that.

    Args:
        data: what ``pack_leftovers`` wrote; not empty.
    """
    flags = _BEGIN.unpack_from(data)[2]
    if not flags & _JOINED:
        return None
    return _NUMBERS.unpack_from(data, _BEGIN.size)[0], not flags & (_OWED | _OLDER | _SEEN)


def is_of_no_use(data: bytes, now: int, window_ms: int) -> bool | None:
    """Returns whether ``KeyState.trim`` would drop all leftovers (True) or none (False); None: a part of them.

    Args:
        data: what ``pack_leftovers`` wrote; not empty.
        now: milliseconds since 1970.
        window_ms: W, in milliseconds.
    """
    latest, until, *_ = _BEGIN.unpack_from(data)
    oldest = now - 2 * window_ms
    if latest != _NEVER and latest >= oldest:
        return False
    return True if until == _NEVER or until < oldest else None

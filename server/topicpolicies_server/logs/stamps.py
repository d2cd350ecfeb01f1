"""Stamps as message properties: the metadata of a sidecar's event, in strings that brokers store and ignore.

Each part of a stamp is one property whose name begins with ``tp-``; parts without a value are left out::

    tp-v        the format's version, "1": its presence is what makes an event one of ours
    tp-id       the event's id                     tp-kind    update, delete, tombstone or repair
    tp-request  the request's id                   tp-digest  the digest of its body
    tp-actor    who made the request               tp-reason  why
    tp-principal  whose credentials were verified  tp-claimed  the name that the caller gave, if it is not the actor's
    tp-mask     path,path,...
    tp-base     the event it was computed from     tp-head    the version that a repair or tombstone restates
    tp-etag     the version the head must have     tp-skip    "1": the operation counts only if there is a document
    tp-reads    setting,digest,...                 tp-operands  setting,union|subtract,base64,...
    tp-history  first,last: the events between which its writer had seen all of the key
    tp-seen     request,digest,version,previous,...   the requests before this one, newest last
    traceparent, tracestate                the trace of the request, under the names that tracing tools know (``core/traces``)

Inside a list, ``%`` and ``,`` are escaped as in URLs. Properties hold names, digests and elements of lists, never the values
of other settings, so no secret can get there: secrets are leaves of offload policies.

**Every message can be read.** An event without ``tp-v`` is a broker's. A stamp that can't be read (another version of the format, a part
missing or damaged) raises ``MalformedStamp``; the codec then treats the event as a broker's, as every reader that can't read the stamp
does, and reports the problem: the document is still applied, as the difference that it makes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, overload
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.errors import Kind
from ..core.policies.documents import split
from ..core.policies.events import ListChange, Remembered, Seen, Stamp, StampKind
from ..core.reasons import Reason
from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, trace_context
from .change_log import LogError

FORMAT = "1"
"""The version of the format that this module writes, and the only one that it reads."""
REMEMBERED = 16
"""How many requests of a key each of its events carries; older ones are left out."""
MAX_BYTES = 128 * 1024
"""The maximum size of an event's properties, counted in characters. Brokers keep them in memory with each unread entry."""

_SEEN = "tp-seen"
"""The property that names the requests before an event's own."""
ANNOUNCEMENT = "tp-leader"
"""The property of a message that holds no event, but announces who leads from its position on (``leadership``)."""
_VERSION = "tp-v"
_ID = "tp-id"
_KIND = "tp-kind"
_REQUEST = "tp-request"
_DIGEST = "tp-digest"
_ACTOR = "tp-actor"
_REASON = "tp-reason"
_PRINCIPAL = "tp-principal"
_CLAIMED = "tp-claimed"
_MASK = "tp-mask"
_BASE = "tp-base"
_HEAD = "tp-head"
_ETAG = "tp-etag"
_SKIP = "tp-skip"
_READS = "tp-reads"
_OPERANDS = "tp-operands"
_HISTORY = "tp-history"


_KINDS: Mapping[str, StampKind] = {kind.value: kind for kind in StampKind}
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_KNOWN_MASKS, _KNOWN_LENGTH = 1_024, 256
"""How many parsed masks are cached, and the most characters of one that is."""
_COLUMNS = 4
"""The parts of each carried request in ``_SEEN``: the fields of ``Remembered``."""
_REMEMBER: Callable[[tuple[Any, ...]], Remembered] = partial(tuple.__new__, Remembered)
"""Makes a ``Remembered`` of a tuple of its four fields, without the check of ``Remembered._make`` that there are four."""


class MalformedStamp(ValueError):
    """The properties of an event contain a stamp that can't be read."""


class Carried(Sequence[Remembered]):
    """The requests that an event carries, kept as the text of its property and parsed on first use.

    Mostly they are never parsed: a reader that has read the earlier events knows these requests. Equal to a tuple of the same requests.
    """

    __slots__ = ("_made", "_text")
    __hash__ = None  # type: ignore[assignment]  # nor have stamps one

    def __init__(self, text: str) -> None:
        """``text``: at least one request, as ``seen_text`` writes them.

        Raises:
            MalformedStamp: the text is not a list of requests, or one of more than ``REMEMBERED``.
        """
        _count_rows(_SEEN, text.count(",") + 1, _COLUMNS, REMEMBERED)
        self._text = text
        self._made: tuple[Remembered, ...] | None = None

    def __len__(self) -> int:
        return (self._text.count(",") + 1) // _COLUMNS

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Remembered]:
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> Remembered: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Remembered, ...]: ...

    def __getitem__(self, at: int | slice) -> Remembered | tuple[Remembered, ...]:
        if at == -1 and self._made is None:  # often only the newest is needed: it shows whether an event was computed from one in flight
            last = self._text.rsplit(",", _COLUMNS)[-_COLUMNS:]
            return _REMEMBER(tuple(map(unquote, last) if "%" in self._text else last))
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Carried):
            return self._text == other._text or self._all() == other._all()
        return self._all() == other

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> tuple[Remembered, ...]:
        made = self._made
        if made is None:
            made = self._made = tuple(map(_REMEMBER, zip(*[iter(_parts(self._text))] * _COLUMNS, strict=True)))
        return made


def to_properties(stamp: Stamp) -> dict[str, str]:
    """Encodes a stamp as message properties.

    Raises:
        LogError: the properties would exceed ``MAX_BYTES`` (FAILED_PRECONDITION, reason ``NOT_EXPRESSIBLE``).
    """
    properties = {_VERSION: FORMAT, _ID: stamp.event_id, _KIND: stamp.kind.value}
    if stamp.request_id:
        properties[_REQUEST] = stamp.request_id
    if stamp.digest:
        properties[_DIGEST] = stamp.digest
    if stamp.actor or stamp.reason or stamp.principal or stamp.claimed or stamp.trace_parent:
        _say_who(properties, stamp)
    if stamp.base:
        properties[_BASE] = stamp.base
    if stamp.head_version:
        properties[_HEAD] = stamp.head_version
    if stamp.mask:
        properties[_MASK] = _list(stamp.mask)
    if stamp.etag is not None:
        properties[_ETAG] = stamp.etag
    if stamp.skip_if_absent:
        properties[_SKIP] = "1"
    if stamp.reads:
        properties[_READS] = _list(tuple(chain.from_iterable(stamp.reads.items())))
    if stamp.operands:
        rows = [(setting, change.value, base64.b64encode(value).decode()) for setting, (change, value) in stamp.operands.items()]
        properties[_OPERANDS] = _list(tuple(chain.from_iterable(rows)))
    if stamp.remembered:
        properties[_SEEN] = seen_text(stamp.remembered[-REMEMBERED:])
    if stamp.seen is not None:
        properties[_HISTORY] = _list(stamp.seen)
    _check_size(properties)
    return properties


def _say_who(properties: dict[str, str], stamp: Stamp) -> None:
    if stamp.actor:
        properties[_ACTOR] = stamp.actor
    if stamp.reason:
        properties[_REASON] = stamp.reason
    if stamp.principal:
        properties[_PRINCIPAL] = stamp.principal
    if stamp.claimed:
        properties[_CLAIMED] = stamp.claimed
    if stamp.trace_parent:
        properties[PARENT_KEY] = stamp.trace_parent
        if stamp.trace_state:
            properties[STATE_KEY] = stamp.trace_state


def event_id_of(properties: Mapping[str, str]) -> str:
    """The event id in the properties of a message; "" if the stamp is missing or of another format. No other property is checked."""
    return properties.get(_ID, "") if properties.get(_VERSION) == FORMAT else ""


def _check_size(properties: Mapping[str, str]) -> None:
    size = sum(map(len, properties.values()))
    if size > MAX_BYTES:
        raise LogError(
            Reason.NOT_EXPRESSIBLE,
            f"The change needs {size} characters of event metadata, more than {MAX_BYTES}. Split it into several updates.",
            kind=Kind.FAILED_PRECONDITION,
        )


def seen_text(remembered: Sequence[Remembered]) -> str:
    """Encodes requests as the value of the property ``_SEEN``."""
    return _list(tuple(chain.from_iterable(remembered)))


def from_properties(properties: Mapping[str, str]) -> Stamp | None:
    """Decodes the stamp in a message's properties; None if there is none (a broker's event).

    Raises:
        MalformedStamp: there is a stamp, and it can't be read.
    """
    version = properties.get(_VERSION)
    if version is None:
        return None
    if version != FORMAT:
        raise MalformedStamp(f"its format is {version[:20]!r}, not {FORMAT!r}")
    if sum(map(len, properties.values())) > 2 * MAX_BYTES:
        raise MalformedStamp("its properties are larger than those of any sidecar")
    event_id = properties.get(_ID)
    if not event_id:
        raise MalformedStamp("it has no event id")
    skip = properties.get(_SKIP, "")
    if skip not in ("", "1"):
        raise MalformedStamp(f"{_SKIP} is {skip[:20]!r}")
    mask = properties.get(_MASK)
    seen = properties.get(_SEEN)
    carried = () if seen is None else Carried(seen)
    history = properties.get(_HISTORY)
    try:
        kind = _KINDS.get(properties.get(_KIND, ""))
        return Stamp(  # positional arguments are faster
            event_id,
            StampKind(properties.get(_KIND)) if kind is None else kind,
            properties.get(_REQUEST, ""),
            properties.get(_DIGEST, ""),
            properties.get(_ACTOR, ""),
            properties.get(_REASON, ""),
            () if mask is None else _known_mask(mask) if len(mask) <= _KNOWN_LENGTH else _mask(mask),
            properties.get(_BASE, ""),
            properties.get(_ETAG),
            skip == "1",
            dict(_rows(properties, _READS, 2)) if _READS in properties else _NOTHING,
            _operands(properties) if _OPERANDS in properties else _NOTHING,
            carried,
            properties.get(_HEAD, ""),
            None if history is None else _seen(history),
            properties.get(_PRINCIPAL, ""),
            properties.get(_CLAIMED, ""),
            *(trace_context(properties[PARENT_KEY], properties.get(STATE_KEY, "")) if PARENT_KEY in properties else NO_TRACE),
        )
    except (ValueError, binascii.Error, DecodeError) as error:
        raise MalformedStamp(str(error)) from error


def _operands(properties: Mapping[str, str]) -> dict[str, tuple[ListChange, bytes]]:
    return {setting: (ListChange(change), _operand(setting, value)) for setting, change, value in _rows(properties, _OPERANDS, 3)}


def _operand(setting: str, text: str) -> bytes:
    """Decodes the operand of a list operation, and checks that it sets this setting and no other.

    Raises:
        MalformedStamp: the operand is something else.
    """
    value = base64.b64decode(text, validate=True)
    if split(TopicPolicies.FromString(value)) != {setting: value}:
        raise MalformedStamp(f"the operand of {setting[:80]!r} does not have its elements")
    return value


def _list(parts: Sequence[str]) -> str:
    """Joins parts to one string; escapes them only if a part needs it."""
    text = ",".join(parts)
    if "%" in text or text.count(",") != len(parts) - 1:
        return ",".join([part.replace("%", "%25").replace(",", "%2C") for part in parts])
    return text


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    return list(map(unquote, parts)) if "%" in text else parts


def _mask(text: str) -> tuple[str, ...]:
    return tuple(_parts(text))


_known_mask = lru_cache(_KNOWN_MASKS)(_mask)
"""``_mask`` with a cache, for short masks: most events have one of a few, and events that are kept for long share the tuple."""


def _seen(text: str) -> Seen:
    parts = _parts(text)
    _count_rows(_HISTORY, len(parts), 2, 1)
    return Seen(*parts)


def _rows(properties: Mapping[str, str], name: str, columns: int) -> list[tuple[Any, ...]]:
    """The parts of a property's list, in rows of ``columns``."""
    parts = _parts(properties[name])
    _count_rows(name, len(parts), columns)
    return list(zip(*[iter(parts)] * columns, strict=True))


def _count_rows(name: str, parts: int, columns: int, most: int | None = None) -> None:
    """Checks that ``parts`` parts make whole rows of ``columns``, and not more than ``most`` rows.

    Raises:
        MalformedStamp: they don't.
    """
    if parts % columns:
        raise MalformedStamp(f"{name} has {parts} parts, which do not make rows of {columns}")
    if most is not None and parts > most * columns:
        raise MalformedStamp(f"{name} has {parts // columns} rows")

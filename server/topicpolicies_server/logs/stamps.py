"""Stamps as message properties: the metadata of a sidecar's event, in strings that brokers store and ignore.

Each part of a stamp is one property whose name begins with ``tp-``; parts without a value are left out::

    tp-v        the format's version, "1": its presence is what makes an event one of ours
    tp-id       the event's id                     tp-kind    update, delete, tombstone or repair
    tp-request  the request's id                   tp-digest  the digest of its body
    tp-actor    who made the request               tp-reason  why
    tp-principal  whose credentials were verified  tp-claimed  the name that the caller gave, if it is not the actor's
    tp-owner    the owner of the declaration that the request carries out
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
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.errors import Kind
from ..core.fold.keystate import REMEMBERED_REQUESTS
from ..core.policies.documents import split
from ..core.policies.events import ListChange, Remembered, Seen, Stamp, StampKind
from ..core.reasons import Reason
from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, trace_context
from .change_log import LogError

FORMAT = "1"
"""The version of the format that this module writes, and the only one that it reads."""
MAX_BYTES = 128 * 1024
"""The maximum size of an event's properties, counted in characters. Brokers keep them in memory with each unread entry."""

ANNOUNCEMENT = "tp-leader"
"""The property of a message that holds no event, but announces who leads from its position on (``leadership``)."""
_TEXTS = {
    "tp-id": "event_id",
    "tp-request": "request_id",
    "tp-digest": "digest",
    "tp-actor": "actor",
    "tp-reason": "reason",
    "tp-principal": "principal",
    "tp-claimed": "claimed",
    "tp-owner": "owner",
    "tp-base": "base",
    "tp-head": "head_version",
    PARENT_KEY: "trace_parent",
    STATE_KEY: "trace_state",
}
"""The parts of a stamp that are plain texts."""
_TEXTS_OF: Callable[[Stamp], tuple[str, ...]] = itemgetter(*map(Stamp._fields.index, _TEXTS.values()))

_KINDS: Mapping[str, StampKind] = {kind.value: kind for kind in StampKind}
_KIND_NAMES = {kind: name for name, kind in _KINDS.items()}
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_KNOWN_MASKS, _KNOWN_LENGTH = 1_024, 256
"""How many parsed masks are cached, and the most characters of one that is."""
_COLUMNS = 4
_REMEMBER: Callable[[tuple[Any, ...]], Remembered] = partial(tuple.__new__, Remembered)
"""Makes a ``Remembered`` of a tuple of its four fields, faster than ``Remembered._make``."""


class MalformedStamp(ValueError):
    """The properties of an event contain a stamp that can't be read."""


def to_properties(stamp: Stamp) -> dict[str, str]:
    """Encodes a stamp as message properties.

    Raises:
        LogError: the properties would exceed ``MAX_BYTES`` (FAILED_PRECONDITION, reason ``NOT_EXPRESSIBLE``).
    """
    properties = {name: text for name, text in zip(_TEXTS, _TEXTS_OF(stamp), strict=True) if text}
    properties["tp-v"] = FORMAT
    properties["tp-kind"] = _KIND_NAMES[stamp.kind]
    if stamp.mask:
        properties["tp-mask"] = _list(stamp.mask)
    if stamp.etag is not None:
        properties["tp-etag"] = stamp.etag
    if stamp.skip_if_absent:
        properties["tp-skip"] = "1"
    if stamp.reads:
        properties["tp-reads"] = _list(tuple(chain.from_iterable(stamp.reads.items())))
    if stamp.operands:
        rows = [(setting, change.value, base64.b64encode(value).decode()) for setting, (change, value) in stamp.operands.items()]
        properties["tp-operands"] = _list(tuple(chain.from_iterable(rows)))
    if stamp.remembered:
        properties["tp-seen"] = _list(tuple(chain.from_iterable(stamp.remembered[-REMEMBERED_REQUESTS:])))
    if stamp.history is not None:
        properties["tp-history"] = _list(stamp.history)
    size = sum(map(len, properties.values()))
    if size > MAX_BYTES:
        raise LogError(
            Reason.NOT_EXPRESSIBLE,
            f"The change needs {size} characters of event metadata, more than {MAX_BYTES}. Split it into several updates.",
            kind=Kind.FAILED_PRECONDITION,
        )
    return properties


def from_properties(properties: Mapping[str, str]) -> Stamp | None:
    """Decodes the stamp in a message's properties; None if there is none (a broker's event).

    Raises:
        MalformedStamp: there is a stamp, and it can't be read.
    """
    version = properties.get("tp-v")
    if version is None:
        return None
    if version != FORMAT:
        raise MalformedStamp(f"its format is {version[:20]!r}, not {FORMAT!r}")
    if sum(map(len, properties.values())) > 2 * MAX_BYTES:
        raise MalformedStamp("its properties are larger than those of any sidecar")
    event_id = properties.get("tp-id")
    if not event_id:
        raise MalformedStamp("it has no event id")
    skip = properties.get("tp-skip", "")
    if skip not in ("", "1"):
        raise MalformedStamp(f"tp-skip is {skip[:20]!r}")
    mask = properties.get("tp-mask")
    seen = properties.get("tp-seen")
    history = properties.get("tp-history")
    try:
        kind = _KINDS.get(properties.get("tp-kind", ""))
        return Stamp(  # positional arguments are faster
            event_id,
            StampKind(properties.get("tp-kind")) if kind is None else kind,
            properties.get("tp-request", ""),
            properties.get("tp-digest", ""),
            properties.get("tp-actor", ""),
            properties.get("tp-reason", ""),
            () if mask is None else _known_mask(mask) if len(mask) <= _KNOWN_LENGTH else _mask(mask),
            properties.get("tp-base", ""),
            properties.get("tp-etag"),
            skip == "1",
            dict(_rows(properties, "tp-reads", 2)) if "tp-reads" in properties else _NOTHING,
            _operands(properties) if "tp-operands" in properties else _NOTHING,
            () if seen is None else _remembered(seen),
            properties.get("tp-head", ""),
            None if history is None else _seen(history),
            properties.get("tp-principal", ""),
            properties.get("tp-claimed", ""),
            properties.get("tp-owner", ""),
            *(trace_context(properties[PARENT_KEY], properties.get(STATE_KEY, "")) if PARENT_KEY in properties else NO_TRACE),
        )
    except (ValueError, binascii.Error, DecodeError) as error:
        raise MalformedStamp(str(error)) from error


def _remembered(text: str) -> tuple[Remembered, ...]:
    parts = _parts(text)
    _count_rows("tp-seen", len(parts), _COLUMNS, REMEMBERED_REQUESTS)
    return tuple(map(_REMEMBER, zip(*[iter(parts)] * _COLUMNS, strict=True)))


def _operands(properties: Mapping[str, str]) -> dict[str, tuple[ListChange, bytes]]:
    """Decodes the operands of list operations, and checks that each sets its setting and no other."""
    operands = {}
    for setting, change, text in _rows(properties, "tp-operands", 3):
        value = base64.b64decode(text, validate=True)
        if split(TopicPolicies.FromString(value)) != {setting: value}:
            raise MalformedStamp(f"the operand of {setting[:80]!r} does not have its elements")
        operands[setting] = ListChange(change), value
    return operands


def _list(parts: Sequence[str]) -> str:
    text = "".join(parts)
    if "%" in text or "," in text:
        return ",".join([part.replace("%", "%25").replace(",", "%2C") for part in parts])
    return ",".join(parts)


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    return list(map(unquote, parts)) if "%" in text else parts


def _mask(text: str) -> tuple[str, ...]:
    return tuple(_parts(text))


_known_mask = lru_cache(_KNOWN_MASKS)(_mask)
"""``_mask`` with a cache, for short masks: most events have one of a few, and events that are kept for long share the tuple."""


def _seen(text: str) -> Seen:
    parts = _parts(text)
    _count_rows("tp-history", len(parts), 2, 1)
    return Seen(*parts)


def _rows(properties: Mapping[str, str], name: str, columns: int) -> list[tuple[Any, ...]]:
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

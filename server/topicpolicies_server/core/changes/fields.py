"""The fields of a message type, as field masks need them, and the fields that a message has beyond those."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from topicpolicies.masks import Path, format_path

from ..errors import Violation
from ..policies.documents import EXTRAS_FIELD
from ..reasons import ViolationReason


class Form(enum.Enum):
    """How a field holds its value. This decides what may follow the field in a path."""

    SCALAR = enum.auto()
    """Nothing may follow."""
    LIST = enum.auto()
    """Nothing may follow: a list is replaced as a whole."""
    OBJECT = enum.auto()
    """A field of the object may follow."""
    MAP = enum.auto()
    """A key may follow and, if the values are objects, a field after the key."""


class Field(NamedTuple):
    """One field of a message type."""

    name: str
    form: Form
    object: Descriptor | None
    """The type of the object, or of the map's values; None if there is no object."""
    keys: frozenset[str] | None
    """The only keys that the map may have (``BacklogQuota.BacklogQuotaType``); None: it may have any."""

    def key_problem(self, key: str) -> str:
        """Returns why the map can't have a key, as part of a sentence; "" if it can."""
        if not key:
            return f'"{self.name}" can\'t have an empty key'
        if self.keys is not None and key not in self.keys:
            return f'"{self.name}" has only the keys {", ".join(sorted(self.keys))}'
        return ""


_KEYS = {"back_log_quota_map": frozenset({"destination_storage", "message_age"})}


@cache
def fields(descriptor: Descriptor) -> Mapping[str, Field]:
    """Returns the fields of a message type by name, in the order of their numbers."""
    return {field.name: _field(field) for field in sorted(descriptor.fields, key=lambda field: field.number)}


def _field(field: FieldDescriptor) -> Field:
    form, target = Form.SCALAR, field.message_type
    if target is not None and target.GetOptions().map_entry:
        form, target = Form.MAP, target.fields_by_name["value"].message_type
    elif field.is_repeated:
        form = Form.LIST
    elif target is not None:
        form = Form.OBJECT
    return Field(field.name, form, target, _KEYS.get(field.name))


# --- fields that the definition lacks ---

MOST_NAMED: Final = 100
"""The most unknown fields of one message that are named; a status has room for fewer."""
_MOST_BYTES: Final = 64 * 1024
"""Most bytes of unknown fields of which the fields are named: Protobuf lists them in a quarter of a second for one MiB."""


def unknown_bytes(message: Message) -> int:
    """Returns the size of the fields that this definition lacks, in a message and the objects in it."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return message.ByteSize() - known.ByteSize()


def unknown_fields(policies: Message, named: Sequence[Path] = ((),)) -> Iterator[Violation]:
    """Yields a violation for each field, of a document that a caller sent, that this definition lacks: its value would be lost silently.

    Leaves of a newer broker (``documents.EXTRAS_FIELD``) are accepted: a caller that writes back what it read sends them. Each number is
    named once for an object, and at most ``MOST_NAMED`` in all; of more than 64 KiB none is.

    ``named``: only these objects and maps, and the objects in them, are looked at.
    """
    size = unknown_bytes(policies)
    if size > _MOST_BYTES:
        yield _violation(f"fields of {size} bytes", policies, ())
    elif size:
        found = _unknown_fields(policies, ())
        yield from islice((_violation(*each) for each in found if any(each[2][: len(path)] == path for path in named)), MOST_NAMED)


def _unknown_fields(message: Message, at: Path) -> Iterator[tuple[str, Message, Path]]:
    unknown: Any = UnknownFieldSet(message)  # a sequence, though its type stub does not say so
    for number in dict.fromkeys(field.field_number for field in unknown if field.field_number != EXTRAS_FIELD):
        yield f"field number {number}", message, at
    forms = fields(message.DESCRIPTOR)
    for field, value in message.ListFields():
        known = forms[field.name]
        if known.form is Form.OBJECT:
            yield from _unknown_fields(value, (*at, field.name))
        elif known.form is Form.MAP and known.object is not None:
            for key in value:
                yield from _unknown_fields(value[key], (*at, field.name, key))


def _violation(what: str, message: Message, at: Path) -> Violation:
    problem = f"This server does not know {what} of {message.DESCRIPTOR.name}: leave that out."
    return Violation(blamed(at), ViolationReason.UNKNOWN_FIELD, problem)


def blamed(at: Path) -> str:
    """Returns the request's field of a path in the document, for a violation."""
    return f"policies.{format_path(at)}" if at else "policies"

"""Field masks on documents: reading, checking and applying them (AIP-134, AIP-161).

``google.protobuf.FieldMask`` is only a list of strings. Protobuf's own ``MergeMessage`` appends to lists, ignores clears below an unset
parent, fails half-way through an unknown path, and can't name map keys. Here a mask is read and checked as a whole before any field is
changed, and then each path is applied:

- a path that is set in the source is set in the target, and the objects above it are created;
- a path that is not set in the source is cleared in the target, and no object is created;
- a list or a map is replaced as a whole; of a map that is named with a key, only that entry;
- the empty path (``*``) replaces the whole message.

Unknown fields, those of a newer definition, can't be named: those of the target stay as long as their object does, and those of the source
are not copied.

``topicpolicies.masks`` defines how a path is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from topicpolicies.masks import Path, PathError, format_path, parse_path
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..errors import Violation
from ..reasons import ViolationReason
from .fields import Field, Form, fields

_DOCUMENT = TopicPolicies.DESCRIPTOR
Mask: TypeAlias = tuple[Path, ...]
"""Checked paths in sorted order, none of which contains another."""
MAX_PATHS = 1_000
"""Most paths of a mask."""
MAX_PATH_LENGTH = 4_096
"""Most characters of a path."""
MAX_MASK_LENGTH = 65_536
"""Most characters of all paths of a mask together: the mask is stored with each event in the log."""
_SHOWN = 120
"""Most characters of a path that an error message repeats."""


def read(texts: Sequence[str]) -> tuple[Mask, tuple[Violation, ...]]:
    """Reads a mask of a document. Returns the valid paths, without those that another path contains, and the violations of the others."""
    field = "update_mask.paths"
    if len(texts) > MAX_PATHS:
        problem = f"A mask has at most {MAX_PATHS} paths; mask whole maps or send several updates."
        return (), (Violation(field, ViolationReason.TOO_MANY_PATHS, problem),)
    if sum(map(len, texts)) > MAX_MASK_LENGTH:
        problem = f"The paths of a mask have at most {MAX_MASK_LENGTH} characters together; mask whole maps or send several updates."
        return (), (Violation(field, ViolationReason.MASK_TOO_LONG, problem),)
    paths: list[Path] = []
    violations: list[Violation] = []
    wildcard = -1
    for index, text in enumerate(texts):
        try:
            path = _read(text)
        except PathError as error:
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            violations.append(
                Violation(f"{field}[{index}]", ViolationReason(error.reason), f'The path "{shown}" can\'t be followed: {error}.')
            )
            continue
        if not path:
            wildcard = index
        paths.append(path)
    if wildcard >= 0 and any(text != texts[wildcard] for text in texts):
        problem = 'The path "*" replaces the whole document and stands alone: leave out the others, or it.'
        violations.append(Violation(f"{field}[{wildcard}]", ViolationReason.WILDCARD_NOT_ALONE, problem))
    return _absorbed(paths), tuple(violations)


def _read(text: str) -> Path:
    if len(text) > MAX_PATH_LENGTH:
        raise PathError(ViolationReason.PATH_TOO_LONG, f"it has more than {MAX_PATH_LENGTH} characters")
    path = parse_path(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PathError(ViolationReason.MALFORMED_PATH, "it is not valid Unicode") from None
    message: Descriptor | None = _DOCUMENT
    segments = iter(path)
    before = ""
    form = Form.OBJECT
    for segment in segments:
        if message is None:
            if form is Form.LIST:
                raise PathError(
                    ViolationReason.INDEX_INTO_LIST, f'"{before}" is a list, of which no part can be masked: end the path there'
                )
            raise PathError(ViolationReason.THROUGH_SCALAR, f'"{before}" is a plain value without fields: end the path there')
        field = fields(message).get(segment)
        if field is None:
            raise PathError(ViolationReason.UNKNOWN_PATH, _unknown(segment, message))
        message = None if field.form is Form.LIST else field.object
        before, form = segment, field.form
        if form is Form.MAP:
            key = next(segments, None)
            if key is not None:
                if problem := field.key_problem(key):
                    raise PathError(ViolationReason.INVALID_MAP_KEY, problem)
                before, form = key, Form.OBJECT
    return path


def _unknown(segment: str, message: Descriptor) -> str:
    """Returns the message for an unknown field; it names the field that is meant if the segment is that field's JSON name."""
    meant = next((field.name for field in message.fields if field.json_name == segment), None)
    advice = f', but "{meant}": paths are in snake case' if meant else ""
    return f'{message.name} has no field "{segment[:_SHOWN]}"{advice}'


def _absorbed(paths: Sequence[Path]) -> Mask:
    kept: list[Path] = []
    for path in sorted(paths):
        if not kept or path[: len(kept[-1])] != kept[-1]:
            kept.append(path)
    return tuple(kept)


def texts(mask: Mask) -> tuple[str, ...]:
    """Returns the canonical texts of a mask's paths."""
    return tuple(format_path(path) for path in mask)


def populated(message: Message, at: Path = ()) -> list[Path]:
    """Returns the paths of what is set in a message: plain values and lists, also those inside objects and map entries.

    An object of which every leaf is set is named as a whole, which means the same and is shorter. Objects without a leaf, and enums of zero
    (UNSPECIFIED), do not count as set.
    """
    forms = fields(message.DESCRIPTOR)
    paths: list[Path] = []
    complete = 0
    for field, value in message.ListFields():
        known = forms[field.name]
        path = (*at, field.name)
        found = [path]
        if known.form is Form.OBJECT:
            found = populated(value, path)
        elif known.form is Form.MAP:
            found = [leaf for key in value for leaf in _entry(known, value[key], (*path, key))]
        elif known.form is Form.SCALAR and field.enum_type is not None and value == 0:
            found = []
        complete += found == [path]
        paths += found
    return [at] if at and complete == len(forms) else paths


def _entry(field: Field, value: Any, at: Path) -> list[Path]:
    return [at] if field.object is None else populated(value, at)


def apply(mask: Mask, target: Message, source: Message) -> None:
    """Makes the masked fields of ``target`` equal to those of ``source``. Both are of the type that the mask was read for."""
    for path in mask:
        if path:
            _apply(path, target, source)
        else:
            _replace(target, source)


def is_set(path: Path, message: Message) -> bool:
    """Returns whether a message has a value at a path; a list or a map has one if it is not empty."""
    field = fields(message.DESCRIPTOR)[path[0]]
    rest = path[1:]
    if field.form is Form.MAP and rest:
        entries = getattr(message, field.name)
        key = rest[0]
        return key in entries and (len(rest) == 1 or is_set(rest[1:], entries[key]))
    if not rest:
        return message.HasField(field.name) if field.form in (Form.SCALAR, Form.OBJECT) else bool(getattr(message, field.name))
    return message.HasField(field.name) and is_set(rest, getattr(message, field.name))


def object_at(path: Path) -> Descriptor | None:
    """Returns the type of the object that a path names; None if the path names a plain value, a list or a map."""
    target: Descriptor | None = _DOCUMENT
    field: Field | None = None
    for segment in path:
        if field is not None and field.form is Form.MAP:
            field = None
            continue
        assert target is not None  # the path was read
        field = fields(target)[segment]
        target = field.object
    return None if field is not None and field.form is not Form.OBJECT else target


def covers(mask: Sequence[Path], path: Path) -> bool:
    """Returns whether a mask contains a path: names the path itself, one above it, or each leaf of the object there."""
    if any(path[: len(named)] == named for named in mask):
        return True
    below = [named for named in mask if named[: len(path)] == path]
    target = object_at(path) if below else None
    return target is not None and all(covers(below, (*path, name)) for name in fields(target))


def _apply(path: Path, target: Message, source: Message) -> None:
    field = fields(target.DESCRIPTOR)[path[0]]
    name, rest = field.name, path[1:]
    if not rest:
        _put(field, target, source)
    elif field.form is Form.MAP:
        key, below = rest[0], rest[1:]
        ours, theirs = getattr(target, name), getattr(source, name)
        if not below:
            _put_entry(field, ours, theirs, key)
        elif key in theirs and (key in ours or is_set(below, theirs[key])):
            _apply(below, ours[key], theirs[key])
        elif key in ours:
            _apply(below, ours[key], type(ours[key])())
    elif target.HasField(name) or is_set(path, source):  # else reading the object, and clearing a leaf of it, would create it
        _apply(rest, getattr(target, name), getattr(source, name))


def _put(field: Field, target: Message, source: Message) -> None:
    name = field.name
    ours, theirs = getattr(target, name), getattr(source, name)
    if not is_set((name,), source):
        target.ClearField(name)
    elif field.form is Form.SCALAR:
        setattr(target, name, theirs)
    elif field.form is Form.OBJECT:
        if target.HasField(name):
            _replace(ours, theirs)
        else:
            _copy(ours, theirs)
    elif field.form is Form.LIST:
        ours[:] = theirs
    else:
        for key in dict.fromkeys((*ours, *theirs)):
            _put_entry(field, ours, theirs, key)


def _put_entry(field: Field, ours: Any, theirs: Any, key: str) -> None:
    if key not in theirs:
        ours.pop(key, None)
    elif field.object is None:
        ours[key] = theirs[key]
    elif key in ours:
        _replace(ours[key], theirs[key])
    else:
        _copy(ours[key], theirs[key])


def _replace(target: Message, source: Message) -> None:
    """Makes all known fields of the target equal to those of the source; the target's unknown fields stay."""
    for field in fields(target.DESCRIPTOR).values():
        _put(field, target, source)


def _copy(target: Message, source: Message) -> None:
    target.CopyFrom(source)
    target.DiscardUnknownFields()

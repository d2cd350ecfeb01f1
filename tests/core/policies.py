"""Random documents and masks, for the properties of masks and changes."""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.completion import COMPLETIONS
from topicpolicies_server.core.changes.fields import Form, fields
from topicpolicies_server.core.policies.documents import EXTRAS_FIELD, GROUPS, Document, split

EXTRAS = bytes([0xFA, 0xFF, 0xFF, 0xFF, 0x0F])
"""The tag of a newer broker's leaves inside an object (``documents.EXTRAS_FIELD``)."""
assert EXTRAS_FIELD == 536_870_911

KEYS = ("a", "b", "my-sub", "x.y", "`", "``", "a/b", "ü", "*", "a b")
"""Few keys, so that random documents and masks overlap; most have characters that the syntax of paths treats specially."""
_CONFIGURATION_KEYS = ("k", "k.l")
_PLAIN = ("max_producer_per_topic", "schema_compatibility_strategy", *GROUPS)
_FIELDS = [field for field in TopicPolicies.DESCRIPTOR.fields if field.message_type or field.is_repeated or field.name in _PLAIN]
"""The fields that are drawn: of the many plain ones only some, so that random documents and masks overlap."""

# Made once: making a strategy takes as long as drawing from it.
_ONE_OF_TWO, _ONE_OF_THREE, _ONE_OF_FOUR = st.booleans(), st.integers(0, 2), st.integers(0, 3)
_DIGITS = st.integers(0, 9)
_SOME_FIELDS = st.lists(st.sampled_from(_FIELDS), unique=True, max_size=8)
_ENTRIES = st.dictionaries(st.sampled_from(_CONFIGURATION_KEYS), st.sampled_from(["", "v"]), min_size=1)


@functools.cache
def _values(field: FieldDescriptor, *, unspecified: bool) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([number for number in field.enum_type.values_by_number if unspecified or number])
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_STRING:
            return st.sampled_from(["", "one", "two", "three"])
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return st.sampled_from([0.0, 0.5, 8.0])
        case _:
            return st.integers(-1, 3)


@functools.cache
def _one_of(descriptor: Descriptor) -> st.SearchStrategy[FieldDescriptor]:
    return st.sampled_from(_FIELDS if descriptor is TopicPolicies.DESCRIPTOR else list(descriptor.fields))


@functools.cache
def _lists(field: FieldDescriptor, *, unique: bool) -> st.SearchStrategy[list[Any]]:
    return st.lists(_values(field, unspecified=False), unique=unique, max_size=4)


@functools.cache
def _key(field: FieldDescriptor) -> st.SearchStrategy[str]:
    return st.sampled_from(_keys(field))


@functools.cache
def _some_keys(field: FieldDescriptor) -> st.SearchStrategy[list[str]]:
    return st.lists(_key(field), unique=True, max_size=3)


@st.composite
def _objects(draw: st.DrawFn, descriptor: Descriptor, *, complete: bool, extras: bool) -> Message:
    """Draws an object inside a document: complete, as in a stored document, or with any leaves, as a caller may send it."""
    message: Message = GetMessageClass(descriptor)()
    completion = COMPLETIONS[descriptor]
    always = {*completion.required, *completion.defaults} if complete else set()
    drawn = [field for field in descriptor.fields if field.name in always or draw(_ONE_OF_THREE) == 0]
    if complete and completion.optional and not drawn:
        drawn = [draw(_one_of(descriptor))]
    for field in drawn:
        form = fields(descriptor)[field.name].form
        value = getattr(message, field.name)
        if form is Form.OBJECT:
            value.CopyFrom(draw(objects(value.DESCRIPTOR, complete=complete, extras=extras)))
        elif form is Form.MAP:
            value.update(draw(_ENTRIES))
        else:
            setattr(message, field.name, draw(_values(field, unspecified=not complete)))
    if extras and draw(_ONE_OF_FOUR) == 0:
        message.MergeFromString(EXTRAS + b"\x07" + b'{"x":%d}' % draw(_DIGITS))
    return message


objects = functools.cache(_objects)
"""Returns the strategy for objects of one type inside a document."""


@functools.cache
@st.composite
def policies(draw: st.DrawFn, *, complete: bool = True, extras: bool = False) -> TopicPolicies:
    """Draws a document as a message: with complete objects, or as a caller may send it."""
    message = TopicPolicies()
    for field in draw(_SOME_FIELDS):
        shape = fields(TopicPolicies.DESCRIPTOR)[field.name]
        value = getattr(message, field.name)
        if shape.form is Form.OBJECT:
            assert shape.object is not None
            value.CopyFrom(draw(objects(shape.object, complete=complete, extras=extras)))
        elif shape.form is Form.MAP:
            assert shape.object is not None
            for key in draw(_some_keys(field)):
                entry = value[key]
                entry.CopyFrom(draw(objects(shape.object, complete=complete, extras=extras)))
        elif shape.form is Form.LIST:
            value.extend(draw(_lists(field, unique=complete)))
        else:
            setattr(message, field.name, draw(_values(field, unspecified=not complete)))
    return message


@functools.cache
@st.composite
def documents(draw: st.DrawFn, *, extras: bool = False) -> dict[str, bytes]:
    """Draws a document as settings; with ``extras`` also settings and leaves that only a newer broker knows."""
    settings = split(draw(policies(extras=extras)))
    if extras and draw(_ONE_OF_TWO):
        settings["?newerPolicy"] = b'{"a":1}'
    return settings


@functools.cache
def heads(*, extras: bool = False) -> st.SearchStrategy[Document | None]:
    """Returns the strategy for a document or None."""
    return st.none() | documents(extras=extras)


@st.composite
def _path(draw: st.DrawFn, descriptor: Descriptor) -> tuple[str, ...]:
    field = draw(_one_of(descriptor))
    shape = fields(descriptor)[field.name]
    path: tuple[str, ...] = (field.name,)
    if shape.form is Form.MAP:
        if draw(_ONE_OF_FOUR) == 0:
            return path
        path = (*path, draw(_key(field)))
    if shape.form in (Form.OBJECT, Form.MAP) and shape.object is not None and draw(_ONE_OF_THREE):
        return path + draw(_paths(shape.object))
    return path


_paths = functools.cache(_path)


@functools.cache
def masks(*, wildcard: bool = True) -> st.SearchStrategy[list[str]]:
    """Returns the strategy for valid masks as texts, with overlaps; rarely ``*``."""
    objects_only = st.sampled_from([name for name, field in fields(TopicPolicies.DESCRIPTOR).items() if field.form is Form.OBJECT])
    paths = st.lists(_paths(TopicPolicies.DESCRIPTOR), min_size=1, max_size=6).map(lambda found: [format_path(path) for path in found])
    leaves = objects_only.map(_all_leaves)
    return paths | leaves | (st.just(["*"]) if wildcard else st.nothing())


def _all_leaves(name: str) -> list[str]:
    descriptor = fields(TopicPolicies.DESCRIPTOR)[name].object
    assert descriptor is not None
    return [f"{name}.{leaf}" for leaf in fields(descriptor)]


def _keys(field: FieldDescriptor) -> list[str]:
    if field.full_name.startswith(f"{TopicPolicies.DESCRIPTOR.full_name}."):
        return sorted(fields(field.containing_type)[field.name].keys or KEYS)
    return list(_CONFIGURATION_KEYS)

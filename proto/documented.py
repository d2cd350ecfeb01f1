"""What the definitions say of themselves: services, messages and enums, each part with its comment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
    SourceCodeInfo,
)

_SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
_PACKAGE, _MESSAGES, _ENUMS, _SERVICES = 2, 4, 5, 6
"""Numbers of the fields of a file's descriptor, from which the paths of its comments are made; below them those of its parts."""
_FIELDS, _ONEOFS, _VALUES, _CALLS = 2, 8, 2, 2

_Path: TypeAlias = tuple[int, ...]
_Comments: TypeAlias = dict[_Path, SourceCodeInfo.Location]


class Call(NamedTuple):
    """One call of a service."""

    name: str
    comment: str
    request: str
    response: str
    streams_requests: bool
    streams_responses: bool


class Service(NamedTuple):
    """A service."""

    name: str
    comment: str
    calls: tuple[Call, ...]


class Type(NamedTuple):
    """What a field holds."""

    name: str
    """Of a message or an enum, without the package if it is ours; or of a scalar."""
    scalar: bool
    repeated: bool = False
    optional: bool = False
    """Whether a scalar that is not set differs from one that is zero."""
    key: str = ""
    """The type of a map's keys; empty for what is no map."""


class Field(NamedTuple):
    """One field of a message."""

    name: str
    number: int
    type: Type
    comment: str
    oneof: str
    """The choice that it belongs to; empty for none."""


class Message(NamedTuple):
    """A message."""

    name: str
    comment: str
    fields: tuple[Field, ...]
    oneofs: dict[str, str]
    """The comments of its choices, by name."""


class Value(NamedTuple):
    """One value of an enum."""

    name: str
    number: int
    comment: str
    section: str
    """What stands above it, for it and those that follow; empty for nothing."""


class Enum(NamedTuple):
    """An enum."""

    name: str
    comment: str
    values: tuple[Value, ...]


class File(NamedTuple):
    """One file of definitions."""

    name: str
    comment: str
    services: tuple[Service, ...]
    types: tuple[Message | Enum, ...]
    """In the order in which they stand there."""

    @property
    def names(self) -> list[str]:
        """The names of its services and types."""
        return [service.name for service in self.services] + [each.name for each in self.types]


def file(descriptor: FileDescriptorProto) -> File:
    """What one file says. It needs the comments (``source_code_info``)."""
    comments = {tuple(location.path): location for location in descriptor.source_code_info.location}
    prefix = f".{descriptor.package}."
    types: dict[_Path, Message | Enum] = {}
    for index, message in enumerate(descriptor.message_type):
        types[_MESSAGES, index] = _message(message, comments, (_MESSAGES, index), prefix)
    for index, enum in enumerate(descriptor.enum_type):
        types[_ENUMS, index] = _enum(enum, comments, (_ENUMS, index))
    return File(
        descriptor.name,
        _comment(comments, (_PACKAGE,)),
        tuple(_service(each, comments, (_SERVICES, index), prefix) for index, each in enumerate(descriptor.service)),
        tuple(types[at] for at in sorted(types, key=lambda at: tuple(comments[at].span))),
    )


def undocumented(of: File) -> list[str]:
    """The names of all that has no comment."""
    return [name for name, comment in comments_of(of) if not comment]


def comments_of(of: File) -> Iterator[tuple[str, str]]:
    """The names of all that may have a comment, such as ``DispatchRate.rate_period_in_second``, with it."""
    yield of.name, of.comment
    for service in of.services:
        yield service.name, service.comment
        yield from ((f"{service.name}.{call.name}", call.comment) for call in service.calls)
    for each in of.types:
        yield each.name, each.comment
        if isinstance(each, Enum):
            yield from ((value.name, value.comment) for value in each.values)
        else:
            yield from ((f"{each.name}.{name}", comment) for name, comment in each.oneofs.items())
            yield from ((f"{each.name}.{field.name}", field.comment) for field in each.fields)


def _service(descriptor: ServiceDescriptorProto, comments: _Comments, at: _Path, prefix: str) -> Service:
    calls = tuple(
        Call(
            each.name,
            _comment(comments, (*at, _CALLS, index)),
            each.input_type.removeprefix(prefix),
            each.output_type.removeprefix(prefix),
            each.client_streaming,
            each.server_streaming,
        )
        for index, each in enumerate(descriptor.method)
    )
    return Service(descriptor.name, _comment(comments, at), calls)


def _message(descriptor: DescriptorProto, comments: _Comments, at: _Path, prefix: str) -> Message:
    # A map is a list of entries, whose message protoc makes; an optional scalar is alone in a choice that protoc makes.
    entries = {f"{prefix}{descriptor.name}.{each.name}": each for each in descriptor.nested_type if each.options.map_entry}
    choices = [
        (index, each.name)
        for index, each in enumerate(descriptor.oneof_decl)
        if not any(field.HasField("oneof_index") and field.oneof_index == index and field.proto3_optional for field in descriptor.field)
    ]
    fields = tuple(
        Field(
            each.name,
            each.number,
            _type(each, entries, prefix),
            _comment(comments, (*at, _FIELDS, index)),
            dict(choices).get(each.oneof_index, "") if each.HasField("oneof_index") else "",
        )
        for index, each in enumerate(descriptor.field)
    )
    return Message(
        descriptor.name, _comment(comments, at), fields, {name: _comment(comments, (*at, _ONEOFS, index)) for index, name in choices}
    )


def _type(field: FieldDescriptorProto, entries: dict[str, DescriptorProto], prefix: str) -> Type:
    entry = entries.get(field.type_name)
    if entry is not None:
        key, value = entry.field
        return _type(value, {}, prefix)._replace(key=_SCALARS[key.type])
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    if field.type_name:
        return Type(field.type_name.removeprefix(prefix).removeprefix("."), scalar=False, repeated=repeated)
    return Type(_SCALARS[field.type], scalar=True, repeated=repeated, optional=field.proto3_optional)


def _enum(descriptor: EnumDescriptorProto, comments: _Comments, at: _Path) -> Enum:
    values = []
    for index, each in enumerate(descriptor.value):
        location = comments.get((*at, _VALUES, index), SourceCodeInfo.Location())
        section = " ".join(" ".join(location.leading_detached_comments).split())
        values.append(Value(each.name, each.number, _comment(comments, (*at, _VALUES, index)), section))
    return Enum(descriptor.name, _comment(comments, at), tuple(values))


def _comment(comments: _Comments, at: _Path) -> str:
    """A part's comment: paragraphs without line breaks, with an empty line between them."""
    location = comments.get(at, SourceCodeInfo.Location())
    paragraphs = "\n".join(line.strip() for line in location.leading_comments.splitlines()).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())

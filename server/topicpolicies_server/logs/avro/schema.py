"""Avro schemas, compiled to types that read and write values, for the schemas of ``__change_events`` that a broker's registry has.

Any version of Pulsar may have registered them, so this module assumes nothing about a schema but that it is valid, and has no fixed types
(Pulsar makes its schemas of Java classes, and so has none); which fields a schema has or lacks is the concern of the modules beside this
one. The format is that of the Avro 1.11 specification, "Names" and "Binary encoding".

**Values are what JSON can hold**, so that those of a newer broker can be kept without their schema: bytes are ``{"-bytes": base64}``, and
a value of a union with several types beside null is ``{"-type": name, "-value": value}``.

**Bounds** are checked before anything is read with a schema, so that reading takes time and memory in proportion to the data: any client
that may register schemas for a log chooses the types that its payloads are read with. A record that contains itself makes unlimited depth,
and an array whose items have no bytes makes unlimited length, from almost no data. Named types also make a schema larger than its text:
with thirty records, each of which has two fields of the type of the record before, one value consists of a thousand million values.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from ...core.policies.documents import read_varint
from ...core.policies.documents import varint as unsigned

Value: TypeAlias = Any
"""A value of a type, as JSON has it."""
Read: TypeAlias = Callable[[bytes, int], tuple[Value, int]]
"""Reads a value at an offset; returns it, and the offset of its end. Raises one of ``DAMAGE`` if the data is damaged."""
Write: TypeAlias = Callable[[Value], bytes]
"""Returns the bytes of a value. Raises one of ``DAMAGE`` if the value is not of the type."""

PULSAR_4_2_4: str = files("topicpolicies_server.logs").joinpath("schemas", "pulsar_4_2_4.avsc").read_text(encoding="utf-8")
"""The schema that brokers of Pulsar 4.2.4 register for ``__change_events``, verbatim."""

DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error)
"""The exceptions of reading damaged data, and of writing a value of another type."""
_LARGEST = 2_000
"""The largest size: the nested types, each counted wherever it is named. Pulsar 4.2.4's schema has 282."""
_BYTES, _TYPE, _VALUE = "-bytes", "-type", "-value"


class UnsupportedSchema(ValueError):
    """A definition is not a schema of ``__change_events``, or not a schema at all."""


class Field(NamedTuple):
    """A field of a record."""

    name: str
    type: Type
    absent: Value
    """Its value where the writer has none: its default if that is a plain value, else its type's ``nothing``."""


@dataclass(slots=True, eq=False)
class Type:
    """A type of values."""

    kind: str
    """A primitive's name, ``record``, ``enum``, ``array``, ``map`` or ``union``."""
    read: Read
    write: Write
    nothing: Value = None
    """The value that means "not set": null if null is allowed, else zero, empty or the first symbol; for records, field by field."""
    name: str = ""
    """The full name of a record or an enum."""
    least: int = 1
    """The fewest bytes that a value has."""
    size: int = 1
    """Of how many types it consists."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    """Those of a record, in the order of their bytes."""
    symbols: Sequence[str] = ()
    """Those of an enum."""
    item: Type | None = None
    """The type of an array's items, or of a map's values."""
    prefix: bytes = b""
    """The bytes before each value that is not null, if it is a union with one type beside null."""
    only: Type | None = None
    """The only type beside null of a union."""

    @property
    def present(self) -> Type | None:
        """The type of a value that is not null; None if it is a union with several such types."""
        return self.only if self.kind == "union" else self


def read_all(read: Read, data: bytes) -> Value:
    """Reads one value, which must take up all of the data.

    Raises:
        ValueError: bytes are left over, or the data is damaged.
    """
    try:
        value, end = read(data, 0)
    except DAMAGE as error:
        raise ValueError(_in_words(error)) from error
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes are left over")
    return value


def compiled(definition: str | Mapping[str, Any]) -> Type:
    """Returns the type that a schema defines. Logical types are ignored: they leave the bytes as they are.

    Raises:
        UnsupportedSchema: the definition is not an Avro schema, or it has a type that is too large, or contains itself.
    """
    try:
        return _Compiler().compile(json.loads(definition) if isinstance(definition, str) else definition, "")
    except DAMAGE as error:
        raise UnsupportedSchema(f"not a schema to read with: {_in_words(error)}") from error


def varint(value: int) -> bytes:
    """Encodes a non-negative length, count or branch number as Avro does: zigzag, then a varint as in Protobuf."""
    return unsigned(value << 1)


def blocks(items: Sequence[bytes]) -> bytes:
    """Returns the bytes of an array or a map, from those of its items."""
    return b"".join((varint(len(items)), *items, b"\0")) if items else b"\0"


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _null() -> Type:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        del data
        return None, at

    def write(value: Value) -> bytes:
        if value is not None:
            raise ValueError("a value stands for null")
        return b""

    return Type("null", read, write, least=0)


def _boolean() -> Type:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        return (False, True)[data[at]], at + 1

    def write(value: Value) -> bytes:
        if not isinstance(value, bool):
            raise ValueError(f"{value} is not a boolean")
        return b"\1" if value else b"\0"

    return Type("boolean", read, write, False)


def _integer(kind: str, bits: int) -> Type:
    end = 1 << bits - 1

    def read(data: bytes, at: int) -> tuple[Value, int]:
        number = data[at]
        if number < 0x80:  # most numbers take one byte
            return number >> 1 ^ -(number & 1), at + 1
        number, at = read_varint(data, at)
        value = number >> 1 ^ -(number & 1)
        if not -end <= value < end:
            raise ValueError(f"{value} is out of range: its type is {kind}")
        return value, at

    def write(value: Value) -> bytes:
        if isinstance(value, bool) or not isinstance(value, int) or not -end <= value < end:
            raise ValueError(f"{value} is too large for {kind}, or not a number")
        return unsigned(value << 1 ^ value >> 63)

    return Type(kind, read, write, 0)


def _float(kind: str, form: struct.Struct) -> Type:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        return form.unpack_from(data, at)[0], at + form.size

    def write(value: Value) -> bytes:
        if isinstance(value, bool):
            raise ValueError(f"{value} is not a number")
        written: bytes = form.pack(value)
        return written

    return Type(kind, read, write, 0.0, least=form.size)


def _text() -> Type:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        content, at = _content(data, at)
        return content.decode(), at

    def write(value: Value) -> bytes:
        content: bytes = value.encode()
        return varint(len(content)) + content

    return Type("string", read, write, "")


def _bytes() -> Type:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        content, at = _content(data, at)
        return {_BYTES: base64.b64encode(content).decode()}, at

    def write(value: Value) -> bytes:
        content = base64.b64decode(value[_BYTES], validate=True)
        return varint(len(content)) + content

    return Type("bytes", read, write, {_BYTES: ""})


def _content(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _LONG.read(data, at)
    end = at + length
    if not at <= end <= len(data):
        raise ValueError(f"a length of {length} is beyond the end of the data")
    return data[at:end], end


def _enum(name: str, symbols: Sequence[str]) -> Type:
    written = {symbol: varint(index) for index, symbol in enumerate(symbols)}

    def read(data: bytes, at: int) -> tuple[Value, int]:
        index, at = _LONG.read(data, at)
        return _chosen(symbols, index), at

    return Type("enum", read, written.__getitem__, symbols[0], name, symbols=symbols)


def _array(item: Type) -> Type:
    if item.least == 0:
        raise ValueError("it has an array whose items may have no bytes")

    def read(data: bytes, at: int) -> tuple[Value, int]:
        return _read_blocks(data, at, item.read)

    def write(value: Value) -> bytes:
        if not isinstance(value, list):
            raise ValueError("a list is needed")
        return blocks([item.write(each) for each in value])

    return Type("array", read, write, [], size=1 + item.size, item=item)


def _map(item: Type) -> Type:
    def read_entry(data: bytes, at: int) -> tuple[Value, int]:
        key, at = TEXT.read(data, at)
        value, at = item.read(data, at)
        return (key, value), at

    def read(data: bytes, at: int) -> tuple[Value, int]:
        entries, at = _read_blocks(data, at, read_entry)
        return dict(entries), at

    def write(value: Value) -> bytes:
        return blocks([write_entry(key, each, item) for key, each in value.items()])

    return Type("map", read, write, {}, size=1 + item.size, item=item)


def write_entry(key: str, value: Value, item: Type) -> bytes:
    """Returns the bytes of one entry of a map whose values are of the type ``item``."""
    return TEXT.write(key) + item.write(value)


def _read_blocks(data: bytes, at: int, read: Read) -> tuple[list[Value], int]:
    found: list[Value] = []
    count, at = _LONG.read(data, at)
    while count:
        if count < 0:  # then the block's length in bytes follows
            count = -count
            _, at = _LONG.read(data, at)
        for _ in range(count):
            item, at = read(data, at)
            found.append(item)
        count, at = _LONG.read(data, at)
    return found, at


def _record(name: str, fields: Sequence[Field]) -> Type:
    by_name = {each.name: each for each in fields}
    for each in fields:
        if by_name[each.name] is not each:
            raise ValueError(f'its record "{name}" has the field "{each.name}" twice')

    def read(data: bytes, at: int) -> tuple[Value, int]:
        value = {}
        for each in fields:
            value[each.name], at = each.type.read(data, at)
        return value, at

    def write(value: Value) -> bytes:
        if len(value) != len(fields):
            raise ValueError(f"{name} has other fields")
        return b"".join([each.type.write(value[each.name]) for each in fields])

    nothing = {each.name: each.absent for each in fields}
    least, size = sum(each.type.least for each in fields), 1 + sum(each.type.size for each in fields)
    return Type("record", read, write, nothing, name, least, size, by_name)


def _union(branches: Sequence[Type]) -> Type:
    names = [branch.name or branch.kind for branch in branches]
    if len(set(names)) < len(names) or "union" in names:
        raise ValueError("it has a union with a type twice, or with another union")
    others = [branch for branch in branches if branch.kind != "null"]
    only = others[0] if len(others) == 1 else None
    prefixes = {name: varint(index) for index, name in enumerate(names)}
    prefix = b"" if only is None else varint(branches.index(only))

    def read(data: bytes, at: int) -> tuple[Value, int]:
        index, at = _LONG.read(data, at)
        value, at = _chosen(branches, index).read(data, at)
        return value if only is not None or names[index] == "null" else {_TYPE: names[index], _VALUE: value}, at

    def write(value: Value) -> bytes:
        if value is None:
            return prefixes["null"]
        if only is not None:
            return prefix + only.write(value)
        branch = branches[names.index(value[_TYPE])]
        return prefixes[value[_TYPE]] + branch.write(value[_VALUE])

    nothing = None if "null" in names else branches[0].nothing if only is not None else {_TYPE: names[0], _VALUE: branches[0].nothing}
    return Type("union", read, write, nothing, size=1 + sum(branch.size for branch in branches), prefix=prefix, only=only)


def _chosen(choices: Sequence[Any], index: int) -> Any:
    if index < 0:
        raise ValueError(f"there is no number {index}")
    return choices[index]


_LONG = _integer("long", 64)
TEXT = _text()
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_PRIMITIVES: Mapping[str, Type] = {
    each.kind: each
    for each in (_null(), _boolean(), _integer("int", 32), _LONG, _float("float", _FLOAT), _float("double", _DOUBLE), _bytes(), TEXT)
}


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[str, Type | None] = {}

    def compile(self, avro: Any, namespace: str) -> Type:
        """Compiles a type; ``namespace``: that of the type around it."""
        made = self._compile(avro, namespace)
        if made.size > _LARGEST:
            raise ValueError(f"it is of more than {_LARGEST} types, with what it names")
        return made

    def _compile(self, avro: Any, namespace: str) -> Type:
        if isinstance(avro, str):
            return self._by_name(avro, namespace)
        if isinstance(avro, list):
            return _union([self.compile(branch, namespace) for branch in avro])
        match avro["type"]:
            case "array":
                return _array(self.compile(avro["items"], namespace))
            case "map":
                return _map(self.compile(avro["values"], namespace))
            case "record" | "enum":
                return self._definition(avro, _full(avro["name"], avro.get("namespace", namespace)))
            case other:
                return self.compile(other, namespace)

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        found = self._named.get(_full(name, namespace))
        if found is None:
            raise ValueError(f'its type "{name}" contains itself, or is not defined')
        return found

    def _definition(self, avro: Mapping[str, Any], name: str) -> Type:
        if name in self._named:
            raise ValueError(f'it defines "{name}" twice')
        self._named[name] = None
        if avro["type"] == "enum":
            made = _enum(name, avro["symbols"])
        else:
            made = _record(name, [self._field(each, name.rpartition(".")[0]) for each in avro["fields"]])
        self._named[name] = made
        return made

    def _field(self, avro: Mapping[str, Any], namespace: str) -> Field:
        made = self.compile(avro["type"], namespace)
        default = avro.get("default")
        plain = isinstance(default, (bool, int, float, str)) and made.present is not None and made.present.kind != "bytes"
        return Field(avro["name"], made, default if plain else made.nothing)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"

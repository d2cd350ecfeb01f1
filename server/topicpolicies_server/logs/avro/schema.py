"""Avro schemas as the brokers' registry has them: checked, and then read and written with by ``fastavro``.

Any version of Pulsar may have registered a schema, and so may any client with the right to: it chooses the types that its payloads are read
with, and ``fastavro`` follows them in C, however deep they go. So a schema is refused if a record contains itself (unlimited depth from
almost no data), if the items of an array may take no bytes (unlimited length), if it is too large with all that it names (with thirty
records, each of which has two fields of the type of the record before, one value consists of a thousand million values), or if it has a
type that no schema of a Java class has. Then reading takes time and memory in proportion to the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import expand_schema
from fastavro.validation import ValidationError, validate

Json: TypeAlias = Any
Value: TypeAlias = Any
"""A value as ``fastavro`` has it. If a union has several types beside null: a tuple of the type's full name and the value, where named."""

PULSAR_4_2_4: str = Path(__file__).with_name("pulsar_4_2_4.avsc").read_text(encoding="utf-8")
"""The schema that brokers of Pulsar 4.2.4 register for ``__change_events``, verbatim."""

_LARGEST = 2_000
"""The most types of a schema, each counted wherever it is named. Pulsar 4.2.4's has 282."""
_LONGEST = 300
"""The most characters of an error's text, which may repeat the schema."""
_ZEROS: Mapping[str, Value] = MappingProxyType(
    {"null": None, "boolean": False, "int": 0, "long": 0, "float": 0.0, "double": 0.0, "bytes": b"", "string": ""}
)
_NAMED: Mapping[str, Any] = {"return_named_type": True, "return_named_type_override": True}
"""Has ``fastavro`` name the type of a value, where a union has several; this takes time everywhere."""


class UnsupportedSchema(ValueError):
    """A definition is not a schema of ``__change_events``, or not a schema at all."""


class Type(NamedTuple):
    """A type of values. A union of null and one type is that type, with another ``nothing``."""

    kind: str
    """A primitive's name, ``record``, ``enum``, ``array``, ``map``, or ``union`` of several types beside null."""
    nothing: Value
    """The value that means "not set": a field's default if that is a plain value, else null if null is allowed, else zero or empty."""
    empty: bool = False
    """Whether a value may take no bytes."""
    name: str = ""
    """The full name of a record."""
    fields: Mapping[str, Type] = MappingProxyType({})
    """Those of a record."""
    symbols: Sequence[str] = ()
    """Those of an enum."""
    item: Type | None = None
    """The type of an array's items, or of a map's values."""


class Schema:
    """Reads and writes the records of a schema whose types have been checked.

    Attributes:
        record: the type of the records.
        definition: the schema as JSON, without logical types: they leave the bytes as they are.
        named: the definitions of the types that it names, by full name.
    """

    def __init__(self, record: Type, definition: Json, named: Mapping[str, Json], *, unions: bool) -> None:
        self.record = record
        self.definition = definition
        self.named = dict(named)
        self._unions = unions
        self._parsed = parse_schema(definition, self.named)
        self._plain = any(not isinstance(field["type"], list) for field in definition["fields"])

    def part(self, record: Type, definition: Json) -> Schema:
        """Returns the schema of other records, which may name types of this one."""
        return Schema(record, definition, self.named, unions=self._unions)

    def read(self, data: bytes) -> Value:
        """Reads a record, which must take up all of the data.

        Raises:
            ValueError: the data is damaged.
        """
        stream = BytesIO(data)
        try:
            record: Any = schemaless_reader(stream, self._parsed, None, **(_NAMED if self._unions else {}))
        except EOFError:  # without its text, which has a memory address: equal problems are logged once
            raise ValueError("not of its schema: it ends too early") from None
        except Exception as error:  # damage can fail in any way
            raise ValueError(f"not of its schema: {type(error).__name__}: {error}") from error
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
        return record

    def write(self, record: Mapping[str, Value]) -> bytes:
        """Writes a record.

        Raises:
            ValueError: a value is not of its type. The text does not contain it: it may be a secret.
        """
        stream = BytesIO()
        try:
            if self._plain:  # only values of unions are checked by writing them
                validate(record, self._parsed, strict=True)
            schemaless_writer(stream, self._parsed, record, strict=True)
        except (ValueError, TypeError, AttributeError, ArithmeticError, ValidationError):
            raise ValueError(f"a value is outside of its type in {', '.join(record)}") from None
        return stream.getvalue()


def checked(definition: str) -> Schema:
    """Returns the schema that a definition defines.

    Raises:
        UnsupportedSchema: the definition is not an Avro schema of records, or one that can't be read with safely.
    """
    kinds: list[str] = []
    try:
        parts = json.loads(definition, object_hook=_without_logical_type)
        record = _type(expand_schema(parts), kinds)
        return Schema(record, parts, {}, unions="union" in kinds)
    except Exception as error:  # a schema can be wrong in any way
        raise UnsupportedSchema(f"not a schema to read with: {type(error).__name__}: {error}"[:_LONGEST]) from error


def _without_logical_type(part: dict[str, Json]) -> dict[str, Json]:
    part.pop("logicalType", None)
    return part


def _type(avro: Json, kinds: list[str]) -> Type:
    """Returns the type of a schema with all names expanded, but those that are inside of what they name.

    ``kinds`` gets the kind of each type in it.
    """
    kind = "union" if isinstance(avro, list) else avro if isinstance(avro, str) else avro["type"]
    if len(kinds) == _LARGEST:
        raise ValueError(f"it is of more than {_LARGEST} types, with what it names")
    if kind == "union":
        return _union([_type(branch, kinds) for branch in avro], kinds)
    kinds.append(kind)
    if kind in _ZEROS:
        return Type(kind, _ZEROS[kind], empty=kind == "null")
    match kind:
        case "record":
            fields = {field["name"]: _field(field, kinds) for field in avro["fields"]}
            if len(fields) < len(avro["fields"]):
                raise ValueError(f"its record {avro['name']} has a field twice")
            nothing = {name: field.nothing for name, field in fields.items()}
            return Type(kind, nothing, all(field.empty for field in fields.values()), avro["name"], fields)
        case "enum":
            return Type(kind, avro["symbols"][0], symbols=avro["symbols"])
        case "array":
            item = _type(avro["items"], kinds)
            if item.empty:
                raise ValueError("it has an array whose items may take no bytes")
            return Type(kind, [], item=item)
        case "map":
            return Type(kind, {}, item=_type(avro["values"], kinds))
    raise ValueError(f"its type {kind} contains itself, or is not one of a Java class")


def _union(branches: Sequence[Type], kinds: list[str]) -> Type:
    others = [branch for branch in branches if branch.kind != "null"]
    nothing = None if len(others) < len(branches) else others[0].nothing
    if len(others) == 1:
        return others[0]._replace(nothing=nothing, empty=False)
    kinds.append("union")
    return Type("union", nothing)


def _field(avro: Json, kinds: list[str]) -> Type:
    made = _type(avro["type"], kinds)
    default = avro.get("default")
    return made._replace(nothing=default) if isinstance(default, (bool, int, float, str)) and made.kind != "bytes" else made

"""A registered schema, and pieces of it that fastavro writes and reads on their own.

Schemas come from a broker's registry, where any version of Pulsar may have registered them at any time. So this module assumes nothing
about a schema but that it is valid; which fields it has or lacks is the concern of the modules beside this one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, TypeAlias

import fastavro

from ...core.policies import documents
from .bounds import SchemaBounds

AvroType: TypeAlias = Any
"""A type as parsed JSON: a name, a list (a union) or a mapping."""
AvroValue: TypeAlias = Any
"""A value as fastavro reads and writes it."""

PULSAR_4_2_4: str = files("topicpolicies_server.logs").joinpath("schemas", "pulsar_4_2_4.avsc").read_text(encoding="utf-8")
"""The schema that brokers of Pulsar 4.2.4 register for ``__change_events``, verbatim."""

PRIMITIVES: Mapping[str, AvroValue] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": b"",
    "string": "",
}
"""The primitive types, each with the value that means "not set"."""


DAMAGE = (ValueError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError, RecursionError)
"""The exceptions that fastavro raises when it reads damaged data."""


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class UnsupportedSchema(ValueError):
    """A definition is not a schema of ``__change_events``, or not a schema at all."""


class Schema:
    """A parsed schema with its named types.

    Attributes:
        options: the options with which fastavro reads values of the schema.

    Raises:
        UnsupportedSchema: the definition is not an Avro schema, or exceeds the limits of ``bounds``.
    """

    def __init__(self, definition: str | Mapping[str, Any]) -> None:
        try:
            parsed = json.loads(definition) if isinstance(definition, str) else definition
            # Logical types are dropped: they leave the bytes as they are, and would turn plain numbers into dates and decimals.
            self.root: AvroType = _without_marks(fastavro.parse_schema(_without_logical_types(parsed)))
        except (ValueError, KeyError, TypeError, AttributeError, fastavro.schema.SchemaParseException, RecursionError) as error:
            raise UnsupportedSchema(f"not an Avro schema: {in_words(error)}") from error
        self.named: dict[str, AvroType] = {}
        self._collect(self.root)
        try:
            SchemaBounds().check(self.root)
        except (ValueError, RecursionError) as error:
            raise UnsupportedSchema(f"not a schema to read with: {in_words(error)}") from error
        self._reader = fastavro.parse_schema(self.root)
        # In a union of several records a value must say which one it is, or it could not be written again. That makes reading a quarter
        # slower, so it is switched on only for schemas with such unions.
        self.options: dict[str, Any] = (
            {"return_record_name": True, "return_record_name_override": True} if self._ambiguous(self.root) else {}
        )

    def read(self, data: bytes) -> AvroValue:
        """Reads one value, which must take up all of the data.

        Raises:
            ValueError: bytes are left over, or the data is damaged (``DAMAGE``).
        """
        source = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(source, self._reader, None, **self.options)
        except DAMAGE as error:
            raise ValueError(in_words(error)) from error
        left = len(data) - source.tell()
        if left:
            raise ValueError(f"{left} bytes are left over")
        return value

    def resolve(self, avro: AvroType) -> AvroType:
        """The definition of a type that is given by name; any other type as it is."""
        return self.named.get(avro, avro) if isinstance(avro, str) else avro

    def record(self, avro: AvroType) -> AvroType:
        """The record if the type is a record or a nullable record; None if it is something else."""
        present = self.present(avro)
        return present if kind(present) == "record" else None

    def present(self, avro: AvroType) -> AvroType:
        """The type of a value that is not null; None if the type is a union with several such types."""
        if not isinstance(avro, list):
            return self.resolve(avro)
        branches = [branch for branch in avro if branch != "null"]
        return self.resolve(branches[0]) if len(branches) == 1 else None

    def nothing(self, avro: AvroType) -> AvroValue:
        """The value that means "not set": null if null is allowed, else zero, empty or the first symbol; for records, field by field."""
        if isinstance(avro, list):
            return None if "null" in avro else self.nothing(avro[0])
        avro = self.resolve(avro)
        match kind(avro):
            case "record":
                return {field["name"]: self.absent(field) for field in avro["fields"]}
            case "enum":
                return avro["symbols"][0]
            case "array":
                return []
            case "map":
                return {}
            case "fixed":
                return bytes(avro["size"])
            case primitive:
                return PRIMITIVES[primitive]

    def absent(self, field: AvroType) -> AvroValue:
        """The value of a field that the writer has no value for: the field's default if that is a plain value, else ``nothing``."""
        default = field.get("default")
        if isinstance(default, (bool, int, float, str)) and kind(self.present(field["type"])) not in ("bytes", "fixed"):
            return default
        return self.nothing(field["type"])

    def unused_name(self, wanted: str) -> str:
        """A name like ``wanted`` that no type of this schema has, for a record that is put around one of its types."""
        return wanted if wanted not in self.named else self.unused_name(wanted + "_")

    def self_contained(self, avro: AvroType) -> AvroType:
        """The type as a schema of its own: every type that it names is defined where it is first used."""
        return self._inlined(avro, set())

    def _ambiguous(self, avro: AvroType) -> bool:
        if isinstance(avro, list):
            return sum(kind(self.resolve(branch)) == "record" for branch in avro) > 1 or any(map(self._ambiguous, avro))
        if isinstance(avro, dict):
            parts = [field["type"] for field in avro.get("fields", ())]
            return any(self._ambiguous(part) for part in (*parts, *(avro.get(part) for part in ("items", "values", "type"))))
        return False

    def _inlined(self, avro: AvroType, done: set[str]) -> AvroType:
        if isinstance(avro, list):
            return [self._inlined(branch, done) for branch in avro]
        if isinstance(avro, str):
            if avro not in self.named or avro in done:
                return avro
            avro = self.named[avro]
        result = dict(avro)
        if "name" in avro:
            if avro["name"] in done:
                return avro["name"]
            done.add(avro["name"])
        if "fields" in avro:
            result["fields"] = [{**field, "type": self._inlined(field["type"], done)} for field in avro["fields"]]
        for part in ("items", "values"):
            if part in avro:
                result[part] = self._inlined(avro[part], done)
        if isinstance(avro["type"], (dict, list)):
            result["type"] = self._inlined(avro["type"], done)
        return result

    def _collect(self, avro: AvroType) -> None:
        if isinstance(avro, list):
            for branch in avro:
                self._collect(branch)
        elif isinstance(avro, dict):
            if "name" in avro:
                self.named[avro["name"]] = avro
            for field in avro.get("fields", ()):
                self._collect(field["type"])
            for part in ("items", "values", "type"):
                self._collect(avro.get(part))


class Piece:
    """Writes values of one type as the bytes that they have inside a record.

    A union's branch number is written by hand if the union has only one type beside null: fastavro would try the value on each branch,
    which takes longer than writing it. A type other than a record is wrapped in a record with one field, which adds no bytes.
    """

    def __init__(self, schema: Schema, avro: AvroType) -> None:
        present = schema.present(avro)
        single = isinstance(avro, list) and present is not None
        self._branch = varint(present_branch(avro)) if single else b""
        self._null = varint(avro.index("null")) if single and "null" in avro else None
        inner = schema.self_contained(present if single else avro)
        self._wrapped = kind(inner) != "record"
        self._schema = fastavro.parse_schema(
            {"type": "record", "name": schema.unused_name("Piece"), "fields": [{"name": "value", "type": inner}]}
            if self._wrapped
            else inner
        )

    def takes(self, value: AvroValue) -> bool:
        """Whether a value is of the type. Call this for values of unknown origin: writing does not check everything (an int's range)."""
        if value is None and self._null is not None:
            return True
        valid: bool = fastavro.validate({"value": value} if self._wrapped else value, self._schema, raise_errors=False)
        return valid

    def __call__(self, value: AvroValue) -> bytes:
        """Encodes a value.

        Raises:
            ValueError: the value is not of the type.
        """
        if value is None and self._null is not None:
            return self._null
        out = io.BytesIO()
        out.write(self._branch)
        try:
            fastavro.schemaless_writer(out, self._schema, {"value": value} if self._wrapped else value)
        except (TypeError, LookupError, ArithmeticError, AttributeError) as error:
            raise ValueError(in_words(error)) from error
        return out.getvalue()


def kind(avro: AvroType) -> str:
    """The kind of a resolved type: a primitive's name, ``record``, ``enum``, ``array``, ``map``, ``fixed``, or ``union``."""
    if isinstance(avro, dict):
        inner = avro["type"]
        return kind(inner) if isinstance(inner, dict) else str(inner)
    return "union" if isinstance(avro, list) else str(avro)


def in_words(error: BaseException) -> str:
    """Describes an error of fastavro's, without the memory addresses of objects that its messages contain."""
    words = _ADDRESS.sub("", str(error))
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def present_branch(avro: AvroType) -> int:
    """The number of the first branch of a union that is not null."""
    return next(index for index, branch in enumerate(avro) if branch != "null")


def varint(value: int) -> bytes:
    """Encodes a non-negative length, count or branch number as Avro does: zigzag, then a varint as in Protobuf."""
    return documents.varint(value << 1)


def _without_logical_types(avro: AvroType) -> AvroType:
    if isinstance(avro, list):
        return [_without_logical_types(part) for part in avro]
    if isinstance(avro, Mapping):
        return {name: part if name == "default" else _without_logical_types(part) for name, part in avro.items() if name != "logicalType"}
    return avro


def _without_marks(avro: AvroType) -> AvroType:
    return {name: part for name, part in avro.items() if not name.startswith("__")} if isinstance(avro, dict) else avro

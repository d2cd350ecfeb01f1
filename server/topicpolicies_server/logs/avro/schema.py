"""A registered schema, and pieces of it that fastavro writes and reads on their own.

Schemas come from a broker's registry: whatever version of Pulsar registered them, at any time. So nothing is assumed of them but that they
are records with the fields that make an event; what else they have, or lack, is for the modules beside this one to find out.
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
"""A schema in JSON's types: a name, a list (a union) or a mapping."""
AvroValue: TypeAlias = Any
"""A value as fastavro has it."""

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
"""The primitive types, each with the value that stands for nothing."""


DAMAGE = (ValueError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError, RecursionError)
"""What fastavro raises where it reads damaged data."""


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class UnsupportedSchema(ValueError):
    """A schema that is not one of ``__change_events``, or not a schema at all."""


class Schema:
    """A parsed schema with its named types.

    Attributes:
        options: with which fastavro reads values of it.

    Raises:
        UnsupportedSchema: the text is not an Avro schema, or one that nothing is to be read with (``bounds``).
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
        # In a union of several records a value must say which one it is, or it could not be written again. Asking for it costs a quarter.
        self.options: dict[str, Any] = (
            {"return_record_name": True, "return_record_name_override": True} if self._ambiguous(self.root) else {}
        )

    def read(self, data: bytes) -> AvroValue:
        """Reads one value and demands that it takes all of the data.

        Raises:
            ValueError: bytes are left over, or the data is damaged in one of the many ways in which fastavro says so.
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
        """The type itself, if it is given by name."""
        return self.named.get(avro, avro) if isinstance(avro, str) else avro

    def record(self, avro: AvroType) -> AvroType:
        """The record that a type is, on its own or made nullable; None if it is something else."""
        present = self.present(avro)
        return present if kind(present) == "record" else None

    def present(self, avro: AvroType) -> AvroType:
        """The one type that a value of this type has when it is not null; None if there are several."""
        if not isinstance(avro, list):
            return self.resolve(avro)
        branches = [branch for branch in avro if branch != "null"]
        return self.resolve(branches[0]) if len(branches) == 1 else None

    def nothing(self, avro: AvroType) -> AvroValue:
        """The value that stands for nothing: null where null is allowed, else zero, empty, the first symbol, and so on down."""
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
        """What a writer that knows nothing of a field writes there: its default, if it has a plain one, else nothing."""
        default = field.get("default")
        if isinstance(default, (bool, int, float, str)) and kind(self.present(field["type"])) not in ("bytes", "fixed"):
            return default
        return self.nothing(field["type"])

    def unused_name(self, wanted: str) -> str:
        """A name for a record around types of this schema, which has none of that name."""
        return wanted if wanted not in self.named else self.unused_name(wanted + "_")

    def self_contained(self, avro: AvroType) -> AvroType:
        """A type with every type that it names defined where it is first used: a schema of its own."""
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

    A union's branch is written by hand where only one can be meant: fastavro would try the value on each of them, which takes longer than
    writing it. Anything but a record is written by means of a record that has nothing else.
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
        """Whether a value is of the type. Writing does not check everything: not the range of an int."""
        if value is None and self._null is not None:
            return True
        valid: bool = fastavro.validate({"value": value} if self._wrapped else value, self._schema, raise_errors=False)
        return valid

    def __call__(self, value: AvroValue) -> bytes:
        """The value's bytes.

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
    """What a failure of fastavro's was: its words name objects by where they are in memory, which is nobody's concern."""
    words = _ADDRESS.sub("", str(error))
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def present_branch(avro: AvroType) -> int:
    """The number of a union's first branch that is not null."""
    return next(index for index, branch in enumerate(avro) if branch != "null")


def varint(value: int) -> bytes:
    """A non-negative length, count or union branch as Avro writes it: zigzag, and then as Protobuf does."""
    return documents.varint(value << 1)


def _without_logical_types(avro: AvroType) -> AvroType:
    if isinstance(avro, list):
        return [_without_logical_types(part) for part in avro]
    if isinstance(avro, Mapping):
        return {name: part if name == "default" else _without_logical_types(part) for name, part in avro.items() if name != "logicalType"}
    return avro


def _without_marks(avro: AvroType) -> AvroType:
    return {name: part for name, part in avro.items() if not name.startswith("__")} if isinstance(avro, dict) else avro

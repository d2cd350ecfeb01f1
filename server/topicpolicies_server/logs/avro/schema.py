"""A registered schema, and pieces of it that fastavro writes and reads on their own.

Schemas come from a broker's registry, where any version of Pulsar may have registered them at any time. So this module assumes nothing
about a schema but that it is valid; which fields it has or lacks is the concern of the modules beside this one.

**Bounds** are checked before anything is read with a schema, so that reading takes time and memory in proportion to the data.
Any client that may register schemas for a log chooses the types that its payloads are read with. A record that contains itself makes
unlimited depth, and an array whose items have no bytes makes unlimited length, from almost no data: some hundred bytes end a process, or
block it for minutes. Named types also make a schema larger than its text: with thirty records, each of which has two fields of the type of
the record before, one value consists of a thousand million values.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

import fastavro

from ...core.policies import documents

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


_DEEPEST = 64
"""The most levels of nested types. Pulsar 4.2.4's schema has 11."""
_LARGEST = 2_000
"""The largest size: the nested types, each counted wherever it is named, plus the bytes of fixed types. Pulsar 4.2.4's schema has 282."""
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class UnsupportedSchema(ValueError):
    """A definition is not a schema of ``__change_events``, or not a schema at all."""


class Schema:
    """A parsed schema with its named types.

    Attributes:
        options: the options with which fastavro reads values of the schema.

    Raises:
        UnsupportedSchema: the definition is not an Avro schema, or exceeds the bounds.
    """

    def __init__(self, definition: str | Mapping[str, Any]) -> None:
        self.named: dict[str, AvroType] = {}
        try:
            parsed = json.loads(definition) if isinstance(definition, str) else definition
            # Logical types are dropped: they leave the bytes as they are, and would turn plain numbers into dates and decimals.
            self._reader = fastavro.parse_schema(_without_logical_types(parsed), named_schemas=self.named)
        except (ValueError, KeyError, TypeError, AttributeError, fastavro.schema.SchemaParseException, RecursionError) as error:
            raise UnsupportedSchema(f"not an Avro schema: {in_words(error)}") from error
        self.root: AvroType = _without_marks(self._reader)
        try:
            _Bounds().measure(self.root)
        except (ValueError, RecursionError) as error:
            raise UnsupportedSchema(f"not a schema to read with: {in_words(error)}") from error
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

    def alone(self, avro: AvroType) -> AvroType:
        """A type as the only field, "value", of a record, which adds no bytes: fastavro parses any other schema again for each value.

        The record is a schema of its own: every type that it names is defined where it is first used. (With the definitions beside it,
        fastavro would copy all of them for each value.)
        """
        field = {"name": "value", "type": self._inlined(avro, set())}
        return fastavro.parse_schema({"type": "record", "name": self.unused_name("Piece"), "fields": [field]})

    def _inlined(self, avro: AvroType, done: set[str]) -> AvroType:
        if isinstance(avro, list):
            return [self._inlined(branch, done) for branch in avro]
        avro = self.resolve(avro)
        if not isinstance(avro, dict):
            return avro
        if "name" in avro:
            if avro["name"] in done:
                return avro["name"]
            done.add(avro["name"])
        result = {part: self._inlined(inner, done) if part in ("items", "values", "type") else inner for part, inner in avro.items()}
        if "fields" in avro:
            result["fields"] = [{**field, "type": self._inlined(field["type"], done)} for field in avro["fields"]]
        return result

    def _ambiguous(self, avro: AvroType) -> bool:
        if isinstance(avro, list):
            return sum(kind(self.resolve(branch)) == "record" for branch in avro) > 1 or any(map(self._ambiguous, avro))
        if isinstance(avro, dict):
            parts = [field["type"] for field in avro.get("fields", ())]
            return any(self._ambiguous(part) for part in (*parts, *(avro.get(part) for part in ("items", "values", "type"))))
        return False


class Piece:
    """Writes values of one type as the bytes that they have inside a record.

    A union's branch number is written by hand if the union has only one type beside null: fastavro would try the value on each branch,
    which takes longer than writing it.
    """

    def __init__(self, schema: Schema, avro: AvroType) -> None:
        present = schema.present(avro)
        single = isinstance(avro, list) and present is not None
        self._branch = varint(present_branch(avro)) if single else b""
        self._null = varint(avro.index("null")) if single and "null" in avro else None
        self._schema = schema.alone(present if single else avro)

    def takes(self, value: AvroValue) -> bool:
        """Whether a value is of the type. Call this for values of unknown origin: writing does not check everything (an int's range)."""
        if value is None and self._null is not None:
            return True
        valid: bool = fastavro.validate({"value": value}, self._schema, raise_errors=False)
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
            fastavro.schemaless_writer(out, self._schema, {"value": value})
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


class _Measure(NamedTuple):
    """How large a type is, including the types that it names."""

    depth: int
    size: int
    least: int
    """The fewest bytes that a value of the type can have."""


class _Bounds:
    """Measures the types of one schema, as ``fastavro.parse_schema`` returns them."""

    def __init__(self) -> None:
        self._named: dict[str, _Measure | None] = {}
        """The measures of named types; None while a type is measured."""

    def measure(self, avro: Any) -> _Measure:
        """Measures a type.

        Raises:
            ValueError: the type exceeds a limit, contains itself, or is not valid.
        """
        measure = self._of(avro)
        if measure.depth > _DEEPEST:
            raise ValueError(f"its types are more than {_DEEPEST} levels deep")
        if measure.size > _LARGEST:
            raise ValueError(f"it is of more than {_LARGEST} types and bytes, with what it names")
        return measure

    def _of(self, avro: Any) -> _Measure:
        if isinstance(avro, list):
            return _around([self.measure(branch) for branch in avro], least=1)
        if not isinstance(avro, dict):
            return self._by_name(str(avro))
        kind = avro["type"]
        if isinstance(kind, (dict, list)):
            return self.measure(kind)
        if "name" in avro and kind in ("record", "enum", "fixed"):
            self._named[avro["name"]] = None
            measure = self._named[avro["name"]] = self._definition(avro)
            return measure
        if kind == "map":
            return _around([self.measure(avro["values"])], least=1)
        if kind == "array":
            items = self.measure(avro["items"])
            if items.least == 0:
                raise ValueError("it has an array whose items may have no bytes")
            return _around([items], least=1)
        return self._by_name(str(kind))

    def _by_name(self, name: str) -> _Measure:
        if name in self._named:
            known = self._named[name]
            if known is None:
                raise ValueError(f'its type "{name}" contains itself')
            return known
        if name not in PRIMITIVES:
            raise ValueError(f'it has a type "{name}", which is not a type of values')
        return _Measure(1, 1, int(name != "null"))

    def _definition(self, avro: Any) -> _Measure:
        if avro["type"] == "enum":
            if not avro["symbols"]:
                raise ValueError(f'its enum "{avro["name"]}" has no symbols')
            return _Measure(1, 1, 1)
        if avro["type"] == "fixed":
            return _Measure(1, 1 + avro["size"], avro["size"])
        twice = [name for name, count in Counter(field["name"] for field in avro["fields"]).items() if count > 1]
        if twice:
            raise ValueError(f'its record "{avro["name"]}" has the field "{twice[0]}" twice')
        fields = [self.measure(field["type"]) for field in avro["fields"]]
        return _around(fields, least=sum(each.least for each in fields))


def _around(parts: Sequence[_Measure], *, least: int) -> _Measure:
    """The measure of a type that consists of others."""
    depth = max((each.depth for each in parts), default=0)
    return _Measure(1 + depth, 1 + sum(each.size for each in parts), least)

"""A whole document, setting by setting, as the ``TopicPolicies`` record of one schema.

**Writing joins chunks.** A document maps settings to bytes, and successive documents of a topic differ in one setting. So the Avro form of
a setting, its *chunk*, is cached by the setting's bytes: fastavro writes each chunk once, and a document is its chunks in the schema's
order. Only a map's frame (branch, count, end) is put around its entries by hand. This is several times faster than writing the record anew,
and gives the same bytes.

**Reading** turns each field that is present into its setting's bytes, as ``documents.split`` does. A document has some fifty fields, of
which one to five are set. Each of the others is written in one certain way, such as the number of null's branch, or an empty map, and is
skipped by a comparison; fastavro reads the set fields one by one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import fastavro

from ...core.policies.documents import FIELDS, Setting, Settings, family
from .fields import known_field, unknown_field
from .schema import DAMAGE, AvroType, AvroValue, Piece, Schema, UnsupportedSchema, in_words, kind, varint

Reader: TypeAlias = Callable[[AvroValue, dict[Setting, bytes]], None]

IS_GLOBAL = "isGlobal"
CACHED_CHUNKS = 2_048
"""How many chunks are cached for each field of one schema."""
CACHED_ENTRIES = 16_384
"""How many chunks are cached for a map: a document may have that many subscriptions, and each of its updates needs them all."""
CACHED_BYTES = 1_024
"""Settings larger than this are not cached, so that the memory of the cache stays bounded."""


class Chunks(dict[bytes, bytes]):
    """A cache of a field's chunks, by the setting's bytes. A missing chunk is made; a full cache is cleared, which is rare and cheap."""

    def __init__(self, encode: Callable[[bytes], bytes], limit: int) -> None:
        super().__init__()
        self._encode = encode
        self._limit = limit

    def __missing__(self, value: bytes) -> bytes:
        chunk = self._encode(value)
        if len(value) <= CACHED_BYTES:
            if len(self) >= self._limit:
                self.clear()
            self[value] = chunk
        return chunk


class Place(NamedTuple):
    """The field of the record to which a setting belongs."""

    at: int
    """The field's index."""
    chunks: Chunks
    branch: bytes | None
    """For a map, of which the setting is one entry: the bytes before the map's blocks. None: the field is not a map."""


class Document:
    """Encodes and decodes documents as the ``TopicPolicies`` record of one schema.

    Attributes:
        families: the families (``documents.family``) that the schema has a place for.

    Raises:
        UnsupportedSchema: the record has no boolean ``isGlobal`` to tell the scopes apart.
    """

    def __init__(self, schema: Schema, record: AvroType) -> None:
        own = {field.json_name: field for field in FIELDS.values()}
        absent: list[bytes] = []
        readers: list[tuple[int, str, Reader]] = []
        flag: AvroType = None
        flag_at = 0
        self._places: dict[Setting, list[Place]] = {}
        for index, part in enumerate(record["fields"]):
            name = part["name"]
            if name == IS_GLOBAL:
                flag = part["type"]
                flag_at = index
                absent.append(b"")
                continue
            field = known_field(schema, own[name], part) if name in own else None
            # Fields that make up a setting together are read in the order of their numbers; unknown fields, which have none, come last.
            number = own[name].number if field is not None else len(own) + 1
            field = field or unknown_field(schema, part)
            absent.append(field.absent)
            readers.append((number, name, field.read))
            chunks = Chunks(field.encode, CACHED_CHUNKS if field.branch is None else CACHED_ENTRIES)
            self._places.setdefault(field.setting, []).append(Place(index, chunks, field.branch))
        if flag is None:
            raise UnsupportedSchema(f"TopicPolicies has no field {IS_GLOBAL}")
        if kind(schema.present(flag)) != "boolean":
            raise UnsupportedSchema(f"{IS_GLOBAL} of TopicPolicies is not a boolean")
        piece = Piece(schema, flag)
        self._templates = {value: [*absent[:flag_at], piece(value), *absent[flag_at + 1 :]] for value in (False, True)}
        self._readers = [(name, read) for _, name, read in sorted(readers, key=lambda reader: reader[0])]
        reads = {name: (order, read) for order, (name, read) in enumerate(self._readers)}
        self._by_field = [reads.get(part["name"]) for part in record["fields"]]
        types = [part["type"] for part in record["fields"]]
        self._record = SparseRecord(schema, types, self._silent(schema, types))
        self._single = {setting: places[0] for setting, places in self._places.items() if len(places) == 1 and places[0].branch is None}
        self.families = frozenset(self._places)

    def encode(self, document: Settings, is_global: bool) -> bytes:
        """Encodes a document as the record's bytes.

        Raises:
            ValueError: the schema has no place for something in the document.
        """
        parts = self._templates[is_global].copy()
        single = self._single
        entries: dict[int, list[bytes]] = {}
        for setting, value in document.items():
            if setting in single:
                index, chunks, _ = single[setting]
                parts[index] = chunks[value]
                continue
            if family(setting) not in self._places:
                raise ValueError(f'it has no field for "{setting}"')
            for index, chunks, branch in self._places[family(setting)]:
                if branch is None:
                    parts[index] = chunks[value]
                else:
                    entries.setdefault(index, [branch]).append(chunks[value])
        for index, (branch, *written) in entries.items():
            written.sort()
            parts[index] = b"".join([branch, varint(len(written)), *written, b"\0"])
        return b"".join(parts)

    def read(self, data: bytes) -> tuple[dict[Setting, bytes], bool]:
        """Decodes a record's bytes to the settings of the document, and whether the document is GLOBAL.

        Raises:
            ValueError: the data is damaged; ValueError, TypeError: a value is outside the range of its type.
        """
        is_global = False
        parts: list[tuple[int, Reader, AvroValue]] = []
        for number, value in self._record.read(data):
            field = self._by_field[number]
            if field is None:
                is_global = bool(value)
            elif value is not None:
                parts.append((*field, value))
        if len(parts) > 1:
            parts.sort(key=_order)
        settings: dict[Setting, bytes] = {}
        for _, read, value in parts:
            read(value, settings)
        return settings, is_global

    def _silent(self, schema: Schema, types: Sequence[AvroType]) -> list[bytes | None]:
        """The bytes of each field that mean that it says nothing: those that we write then; None if they are read as a setting.

        The latter happens if the schema has a default for the field that says something.
        """
        told = SparseRecord(schema, types, [None] * len(types)).read(b"".join(self._templates[False]))
        return [
            written if value is None or not self._settings(field, value) else None
            for written, field, (_, value) in zip(self._templates[False], self._by_field, told, strict=True)
        ]

    @staticmethod
    def _settings(field: tuple[int, Reader] | None, value: AvroValue) -> dict[Setting, bytes]:
        settings: dict[Setting, bytes] = {}
        if field is not None:
            field[1](value, settings)
        return settings

    def decode(self, record: AvroValue) -> dict[Setting, bytes]:
        """Converts a record that fastavro has read to the settings of the document.

        Raises:
            ValueError, TypeError: a value is outside the range of its type.
        """
        settings: dict[Setting, bytes] = {}
        for name, read in self._readers:
            value = record[name]
            if value is not None:
                read(value, settings)
        return settings


def _order(part: tuple[int, Reader, AvroValue]) -> int:
    return part[0]


class SparseRecord:
    """Reads the fields of a record of one schema, which are numbered from 0."""

    def __init__(self, schema: Schema, types: Sequence[AvroType], nothing: Sequence[bytes | None]) -> None:
        """Makes the readers of the fields.

        ``types``: those of the record's fields, in order; ``nothing``: the bytes of each field when it is not set (None: it is always
        read).
        """
        self._options = schema.options
        rest: bytes | None = b""
        fields: list[tuple[AvroType, bytes | None, bytes | None]] = []
        for avro, each in zip(reversed(types), reversed(nothing), strict=True):
            fields.append((schema.alone(avro), each, rest))
            rest = None if each is None or rest is None else each + rest
        self._fields = fields[::-1]
        """By field: its schema, its bytes when it is not set, and those of all later fields when none of them is (None: see above)."""
        self._rest = rest

    def read(self, data: bytes) -> list[tuple[int, AvroValue]]:
        """Returns the numbers and values of the fields whose bytes are not those of a field that is not set.

        Raises:
            ValueError: bytes are left over, or the data is damaged (``DAMAGE``).
        """
        found: list[tuple[int, AvroValue]] = []
        if data == self._rest:
            return found
        at, size, source = 0, len(data), io.BytesIO(data)
        for number, (avro, nothing, rest) in enumerate(self._fields):
            if nothing is not None and data.startswith(nothing, at):  # a value's bytes are never the beginning of those of another
                at += len(nothing)
                continue
            source.seek(at)
            try:
                record: Any = fastavro.schemaless_reader(source, avro, None, **self._options)
            except DAMAGE as error:
                raise ValueError(in_words(error)) from error
            found.append((number, record["value"]))
            at = source.tell()
            if rest is not None and size - at == len(rest) and data.endswith(rest):  # the usual end: no later field is set
                return found
        if at < size:
            raise ValueError(f"{size - at} bytes are left over")
        return found

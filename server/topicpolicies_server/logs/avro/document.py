"""A whole document, setting by setting, as the ``TopicPolicies`` record of one schema.

**Writing joins chunks.** A document maps settings to bytes, and successive documents of a topic differ in one setting. So the Avro forms of
settings, their *chunks*, are cached by the settings' bytes, and a document is its chunks in the schema's order.

**Reading** skips what is not set. A document has some fifty fields, of which one to five are set. Each of the others is written in one
certain way, such as the number of null's branch, or an empty map, and is skipped by a comparison.
"""

from __future__ import annotations

import json
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ...core.policies.documents import EXTRA_PREFIX, MAPS, Setting, Settings, family, setting_of, split
from .fields import Fields, Leaf, to_json
from .schema import DAMAGE, Field, Type, Value, blocks, read_all, write_entry

IS_GLOBAL = "isGlobal"
CACHED_CHUNKS = 16_384
"""How many settings' chunks are cached: a document may have that many subscriptions, and each of its updates needs them all."""
CACHED_BYTES = 1_024
"""Settings larger than this are not cached, so that the memory of the cache stays bounded."""


class _Place(NamedTuple):
    field: Field
    leaf: Leaf | None
    """None: the field is ``isGlobal``, or one of a newer broker."""
    silent: bytes | None
    """Its bytes when it is not set; None: it is always read, because the default of the schema says something."""
    rest: bytes | None
    """The bytes of all later fields when none of them is set; None: there is one that is always read."""


class Document:
    """Encodes and decodes documents as the ``TopicPolicies`` record of one schema.

    Attributes:
        families: the families (``documents.family``) that the schema has a place for.

    Raises:
        ValueError: the record has no boolean ``isGlobal`` to tell the scopes apart, or its values can't be written.
    """

    def __init__(self, record: Type) -> None:
        flag = record.fields.get(IS_GLOBAL)
        if flag is None or flag.type.present is None or flag.type.present.kind != "boolean":
            raise ValueError(f"TopicPolicies has no boolean {IS_GLOBAL}")
        self._fields = Fields(TopicPolicies.DESCRIPTOR, record)
        leaves = self._fields.leaves
        self._index = {name: index for index, name in enumerate(record.fields)}
        self._types = [field.type for field in record.fields.values()]
        nothing = [field.type.write(leaves[name].absent if name in leaves else field.absent) for name, field in record.fields.items()]
        self._templates = {False: nothing, True: nothing.copy()}
        for is_global, template in self._templates.items():
            template[self._index[IS_GLOBAL]] = flag.type.write(is_global)
        self._places: list[_Place] = []
        rest: bytes | None = b""
        for field, written in reversed(list(zip(record.fields.values(), nothing, strict=True))):
            place = _Place(field, leaves.get(field.name), None, rest)
            silent = None if self._settings([(place, field.type.read(written, 0)[0])])[0] else written
            self._places.insert(0, place._replace(silent=silent))
            rest = None if silent is None or rest is None else silent + rest
        self.families = frozenset(
            {setting_of(leaf.name) for leaf in leaves.values()}
            | {EXTRA_PREFIX + name for name in self._fields.unknown if name != IS_GLOBAL}
        )
        self._cached = lru_cache(CACHED_CHUNKS)(self._chunks)

    def encode(self, document: Settings, is_global: bool) -> bytes:
        """Encodes a document as the record's bytes.

        Raises:
            ValueError: the schema has no place for something in the document.
        """
        parts = self._templates[is_global].copy()
        entries: dict[int, list[bytes]] = {}
        for setting, value in document.items():
            name = family(setting)
            for index, chunk in (self._cached if len(value) <= CACHED_BYTES else self._chunks)(name, value):
                if name in MAPS:
                    entries.setdefault(index, []).append(chunk)
                else:
                    parts[index] = chunk
        for index, written in entries.items():
            parts[index] = self._types[index].prefix + blocks(sorted(written))
        return b"".join(parts)

    def _chunks(self, name: str, value: bytes) -> list[tuple[int, bytes]]:
        """Returns the indexes and bytes of the fields of a setting; for a map, those of the entry.

        ``name``: the setting's family; ``value``: its bytes.
        """
        try:
            if name.startswith(EXTRA_PREFIX):
                if name not in self.families:
                    raise ValueError(f'it has no field for "{name}"')
                index = self._index[name.removeprefix(EXTRA_PREFIX)]
                return [(index, self._types[index].write(json.loads(value)))]
            chunks = []
            for avro, each in self._fields.values(TopicPolicies.FromString(value)):
                index = self._index[avro]
                mapping = self._types[index].present
                if name in MAPS and mapping is not None and mapping.item is not None:
                    ((key, entry),) = each.items()
                    chunks.append((index, write_entry(key, entry, mapping.item)))
                else:
                    chunks.append((index, self._types[index].write(each)))
        except ValueError:
            raise
        except DAMAGE as error:
            raise ValueError(f'its field for "{name}" is of another type: {error}') from error
        return chunks

    def decode(self, data: bytes) -> tuple[Settings, bool]:
        """Decodes a record's bytes to the settings of the document, and whether the document is GLOBAL.

        Raises:
            ValueError: the data is damaged, or a value is outside the range of its type.
        """
        document: tuple[Settings, bool] = read_all(self.read, data)
        return document

    def read(self, data: bytes, at: int) -> tuple[tuple[Settings, bool], int]:
        """Reads a document at an offset: returns what ``decode`` does, and the offset of its end. Raises one of ``DAMAGE``."""
        found: list[tuple[_Place, Value]] = []
        for place in self._places:
            silent = place.silent
            if silent is not None and data.startswith(silent, at):  # a value's bytes are never the beginning of those of another
                at += len(silent)
                continue
            value, at = place.field.type.read(data, at)
            found.append((place, value))
            if place.rest is not None and data.startswith(place.rest, at):  # the usual end: no later field is set
                at += len(place.rest)
                break
        return self._settings(found), at

    @staticmethod
    def _settings(found: list[tuple[_Place, Value]]) -> tuple[Settings, bool]:
        is_global = False
        policies = TopicPolicies()
        extras: dict[Setting, bytes] = {}
        for (field, leaf, _, _), value in found:
            if field.name == IS_GLOBAL:
                is_global = bool(value)
            elif leaf is None:
                if value != field.absent:
                    extras[EXTRA_PREFIX + field.name] = to_json(value)
            elif value is not None:
                leaf.read(policies, value)
        return MappingProxyType({**split(policies), **extras}), is_global

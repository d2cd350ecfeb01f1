"""A whole document, setting by setting, as the ``TopicPolicies`` record of one schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ...core.policies.documents import EXTRA_PREFIX, Setting, Settings, family, setting_of, split
from .fields import Fields, from_json, to_json
from .schema import Schema, Value

IS_GLOBAL = "isGlobal"
CACHED = 4_096
"""How many documents are cached, and how many settings."""
CACHED_BYTES = 4_096
"""Those that are larger are not cached, so that the memory of the caches stays bounded."""


class Document:
    """Encodes and decodes documents as the ``TopicPolicies`` record of one schema.

    Most topics of a namespace have equal documents, and successive documents of a topic differ in one setting. So equal documents are
    decoded once, and equal settings encoded once.

    Attributes:
        families: the families (``documents.family``) that the schema has a place for.

    Raises:
        ValueError: the record has no boolean ``isGlobal`` to tell the scopes apart, or its values can't be written.
    """

    def __init__(self, schema: Schema) -> None:
        types = dict(schema.record.fields)
        flag = types.pop(IS_GLOBAL, None)
        if flag is None or flag.kind != "boolean":
            raise ValueError(f"TopicPolicies has no boolean {IS_GLOBAL}")
        self._schema = schema
        self._fields = Fields(TopicPolicies.DESCRIPTOR, types)
        alone = {"type": "record", "name": "Field"}
        self._alone = {field["name"]: schema.part(schema.record, {**alone, "fields": [field]}) for field in schema.definition["fields"]}
        absent = {**self._fields.absent, IS_GLOBAL: False}
        self._nothing = {name: alone.write({name: absent[name]}) for name, alone in self._alone.items()}
        """The bytes of each field that is not set, in the order of the record."""
        self._flags = [self._alone[IS_GLOBAL].write({IS_GLOBAL: value}) for value in (False, True)]
        foreign = {EXTRA_PREFIX + name for name in self._fields.unknown}
        self.families = frozenset({setting_of(leaf.name) for leaf in self._fields.leaves.values()} | foreign)
        self._remembered = lru_cache(CACHED)(self._decode)
        self._written = lru_cache(CACHED)(self._write)

    def encode(self, document: Settings, is_global: bool) -> bytes:
        """Encodes a document as the record's bytes.

        Raises:
            ValueError: the schema has no place for something in the document.
        """
        settings: dict[Setting, list[bytes]] = {}
        for setting in sorted(document):
            settings.setdefault(family(setting), []).append(document[setting])
        written = {**self._nothing, IS_GLOBAL: self._flags[is_global]}
        for name, entries in settings.items():
            value = entries[0] if len(entries) == 1 else b"".join(entries)
            written.update((self._written if len(value) <= CACHED_BYTES else self._write)(name, value))
        return b"".join(written.values())

    def _write(self, name: str, value: bytes) -> dict[str, bytes]:
        """Returns the bytes of the fields of a family whose settings are ``value``, by the fields' names."""
        if not name.startswith(EXTRA_PREFIX):
            values = self._fields.values(TopicPolicies.FromString(value))
        elif name in self.families:
            values = {name.removeprefix(EXTRA_PREFIX): from_json(value)}
        else:
            raise ValueError(f"it has no field for {name}")
        return {field: self._alone[field].write({field: each}) for field, each in values.items()}

    def decode(self, data: bytes) -> tuple[Settings, bool]:
        """Decodes a record's bytes to the settings of the document, and whether the document is GLOBAL.

        Raises:
            ValueError: the data is damaged, or a value is outside the range of its type.
        """
        return (self._remembered if len(data) <= CACHED_BYTES else self._decode)(data)

    def _decode(self, data: bytes) -> tuple[Settings, bool]:
        return self.of(self._schema.read(data))

    def of(self, record: Mapping[str, Value]) -> tuple[Settings, bool]:
        """Converts a record as ``decode`` does."""
        policies = TopicPolicies()
        foreign = self._fields.fill(policies, record)
        extras = {EXTRA_PREFIX + name: to_json(value) for name, value in foreign.items()}
        return MappingProxyType({**split(policies), **extras}), bool(record[IS_GLOBAL])

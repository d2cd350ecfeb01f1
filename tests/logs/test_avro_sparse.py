"""Documents are read field by field: skipped fields have no value, and damage is detected, as when the whole record is read."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs import avro_values
from tests.logs.test_avro_schemas import newer_schema, older_schema
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.logs.avro.document import IS_GLOBAL, Document, SparseRecord
from topicpolicies_server.logs.avro.schema import DAMAGE, Schema


def with_a_default() -> Any:
    """Returns a schema in which a field that the sidecar knows has a default other than null, which readers must see."""
    schema = copy.deepcopy(avro_values.SHIPPED)
    fields = avro_values.record_in(schema, "TopicPolicies")["fields"]
    next(field for field in fields if field["name"] == "maxProducerPerTopic").update(type="int", default=7)
    return schema


class Whole:
    """Reads and writes the same record as a whole, with one schema."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self.schema = Schema(json.dumps(definition))
        record = next(each for name, each in self.schema.named.items() if name.rpartition(".")[2] == "TopicPolicies")
        self.record = self.schema.alone(record)
        self.document = Document(self.schema, record)

    def read(self, data: bytes) -> tuple[Settings, bool]:
        """Returns the settings, and whether the document is GLOBAL. Raises ValueError or TypeError, as ``Document.read`` does."""
        source = io.BytesIO(data)
        try:
            value: Any = fastavro.schemaless_reader(source, self.record, None, **self.schema.options)
        except DAMAGE as error:
            raise ValueError from error
        if source.tell() < len(data):
            raise ValueError("bytes are left over")
        record = value["value"]
        return self.document.decode(record), bool(record[IS_GLOBAL])

    def write(self, policies: dict[str, Any]) -> bytes:
        """Encodes a record."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.record, {"value": policies})
        return out.getvalue()


SCHEMAS = [Whole(each) for each in (avro_values.SHIPPED, newer_schema(), older_schema(), with_a_default())]


def read(whole: Whole, data: bytes) -> tuple[Settings, bool] | None:
    """Returns the settings and the scope of a document, after checking that both ways of reading agree; None: the bytes are damaged."""
    try:
        expected = whole.read(data)
    except (ValueError, TypeError):
        with pytest.raises((ValueError, TypeError)):
            whole.document.read(data)
        return None
    found = whole.document.read(data)
    assert found == expected
    assert list(found[0]) == list(expected[0])
    return found


@given(st.sampled_from(SCHEMAS), st.data())
def test_reading_field_by_field_returns_what_reading_the_whole_record_returns(whole: Whole, data: st.DataObject) -> None:
    assert read(whole, whole.write(data.draw(avro_values.policies(whole.definition)))) is not None


@pytest.mark.slow
@given(st.sampled_from(SCHEMAS), st.data())
def test_damage_is_detected_or_read_as_in_the_whole_record(whole: Whole, data: st.DataObject) -> None:
    written = bytearray(whole.write(data.draw(avro_values.policies(whole.definition))))
    for _ in range(data.draw(st.integers(1, 3))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    read(whole, bytes(written))


@pytest.mark.slow
@given(st.sampled_from(SCHEMAS), st.data())
def test_a_truncated_or_extended_record_is_damaged(whole: Whole, data: st.DataObject) -> None:
    written = whole.write(data.draw(avro_values.policies(whole.definition)))
    assert read(whole, written[: data.draw(st.integers(0, len(written) - 1))]) is None
    assert read(whole, written + data.draw(st.binary(min_size=1, max_size=5))) is None


def test_a_default_other_than_null_is_not_skipped() -> None:
    whole = SCHEMAS[3]
    document = whole.document
    data = document.encode({}, is_global=False)
    found = read(whole, data)
    assert found is not None
    assert list(found[0]) == ["max_producer_per_topic"]


def test_only_fields_with_a_value_are_read() -> None:
    types = ["null", ["null", "int"], "boolean"] * 100
    record = SparseRecord(Schema(avro_values.SHIPPED), types, [b"", b"\0", b"\0"] * 100)
    assert record.read(b"\0" * 199 + b"\1") == [(299, True)]
    assert record.read(b"\0" * 200) == [], "empty fields up to the end of the record are skipped at once"
    assert record.read(b"\0" * 100 + b"\2\0" + b"\0" * 99) == [(151, 0)], "also after a field with a value"
    assert record.read(b"\0\0\2\x0a" + b"\0" * 197)[0] == (4, 5)
    with pytest.raises(ValueError, match="left over"):
        record.read(b"\0" * 201)
    with pytest.raises(ValueError, match="EOFError"):
        record.read(b"\0" * 199)

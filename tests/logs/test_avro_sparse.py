"""Documents read field by field: what is passed over says nothing, and what is damaged is found out, as if the record were read whole."""

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
from topicpolicies_server.logs.avro.document import IS_GLOBAL, Document
from topicpolicies_server.logs.avro.schema import Schema
from topicpolicies_server.logs.avro.sparse_record import SparseRecord


def with_a_default() -> Any:
    """A schema of which a field of ours has a default that is something: whoever reads it is told that."""
    schema = copy.deepcopy(avro_values.SHIPPED)
    fields = avro_values.record_in(schema, "TopicPolicies")["fields"]
    next(field for field in fields if field["name"] == "maxProducerPerTopic").update(type="int", default=7)
    return schema


class Whole:
    """Reads the same record as a whole, in one schema."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        schema = Schema(json.dumps(definition))
        record = next(each for name, each in schema.named.items() if name.rpartition(".")[2] == "TopicPolicies")
        self.schema = Schema(schema.self_contained(record))
        self.document = Document(schema, record)

    def read(self, data: bytes) -> tuple[Settings, bool]:
        """The settings, and whether it is GLOBAL. Raises ValueError or TypeError, as what it is compared with does."""
        record = self.schema.read(data)
        return self.document.decode(record), bool(record[IS_GLOBAL])

    def write(self, policies: dict[str, Any]) -> bytes:
        """A record's bytes."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.schema.root, policies)
        return out.getvalue()


SCHEMAS = [Whole(each) for each in (avro_values.SHIPPED, newer_schema(), older_schema(), with_a_default())]


def read(whole: Whole, data: bytes) -> tuple[Settings, bool] | None:
    """What a document's bytes say, which is the same both ways; None: they are damaged."""
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
def test_it_says_what_the_whole_record_says(whole: Whole, data: st.DataObject) -> None:
    assert read(whole, whole.write(data.draw(avro_values.policies(whole.definition)))) is not None


@pytest.mark.slow
@given(st.sampled_from(SCHEMAS), st.data())
def test_damage_is_found_or_says_the_same(whole: Whole, data: st.DataObject) -> None:
    written = bytearray(whole.write(data.draw(avro_values.policies(whole.definition))))
    for _ in range(data.draw(st.integers(1, 3))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    read(whole, bytes(written))


@pytest.mark.slow
@given(st.sampled_from(SCHEMAS), st.data())
def test_what_was_cut_or_extended_is_damaged(whole: Whole, data: st.DataObject) -> None:
    written = whole.write(data.draw(avro_values.policies(whole.definition)))
    assert read(whole, written[: data.draw(st.integers(0, len(written) - 1))]) is None
    assert read(whole, written + data.draw(st.binary(min_size=1, max_size=5))) is None


def test_a_default_that_says_something_is_not_passed_over() -> None:
    whole = SCHEMAS[3]
    document = whole.document
    data = document.encode({}, is_global=False)
    found = read(whole, data)
    assert found is not None
    assert list(found[0]) == ["max_producer_per_topic"]


def test_only_what_says_something_is_read() -> None:
    types = ["null", ["null", "int"], "boolean"] * 100
    record = SparseRecord(Schema(avro_values.SHIPPED), types, [b"", b"\0", b"\0"] * 100)
    ends = [(64, None), (129, None), (194, False), (259, None)]
    assert record.read(b"\0" * 199 + b"\1") == [*ends, (299, True)], "each run has an end"
    assert record.read(b"\0" * 200) == [], "up to the end of the record it takes one look"
    assert record.read(b"\0" * 100 + b"\2\0" + b"\0" * 99) == [*ends[:2], (151, 0)], "and so it does behind what says something"
    assert record.read(b"\0\0\2\x0a" + b"\0" * 197)[0] == (4, 5)
    with pytest.raises(ValueError, match="left over"):
        record.read(b"\0" * 201)
    with pytest.raises(ValueError, match="EOFError"):
        record.read(b"\0" * 199)

"""Acknowledged events are kept until they are read, so that they need not be decoded; other messages are not mistaken for them."""

from __future__ import annotations

import functools
import json
from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeMessage, a_message
from tests.logs.samples import a_key, an_update
from tests.logs.test_avro_schemas import newer_schema
from topicpolicies_server.core.policies.events import Event, Placed
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.pulsar import entries as entries_module
from topicpolicies_server.logs.pulsar.entries import Entries
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of

KEY = a_key("public/default")


@functools.cache
def an_event(number: int) -> Event:
    return an_update(KEY, number, event_id=f"{number}")


def placed(number: int) -> Placed:
    return Placed(2, position_of(MessageId(7, number)), an_event(number), 0)


class _Schemas:
    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def known(self, _version: int) -> Codec:
        return self.codec


class Reading:
    """Reads entries, and records which of them were decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, codec: Codec | None = None) -> None:
        self.decoded: list[str] = []
        schemas = _Schemas(codec or Codec())
        read = schemas.codec.read

        def counted(key: str, payload: bytes | None, properties: Any) -> tuple[Event | None, str]:
            self.decoded.append(properties.get("tp-id", ""))
            return read(key, payload, properties)

        monkeypatch.setattr(schemas.codec, "read", counted)
        self.entries = Entries(2, cast("Any", schemas), "standalone")

    def read(self, message: FakeMessage) -> Placed | None:
        assert self.entries.ready(message)
        ident = message.message_id()
        return self.entries.entry(MessageId(ident.ledger, ident.entry), message)


def test_an_acknowledged_event_is_not_decoded_when_it_is_read_and_equals_the_decoded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, beside = Reading(monkeypatch), Reading(monkeypatch)
    reading.entries.keep([placed(0), placed(1)])
    for number in range(3):
        message = a_message(number, an_event(number))
        ours, decoded = reading.read(message), beside.read(message)
        assert ours is not None and decoded is not None and ours.event is not None and decoded.event is not None
        assert ours._replace(event=None) == decoded._replace(event=None)
        assert ours.event._replace(document=None) == decoded.event._replace(document=None)
        assert dict(ours.event.document or {}) == dict(decoded.event.document or {})
    assert reading.decoded == ["2"]
    assert beside.decoded == ["0", "1", "2"]


def test_an_acknowledged_event_in_a_schema_of_other_families_equals_the_decoded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, beside = (Reading(monkeypatch, Codec(json.dumps(newer_schema()))) for _ in range(2))
    reading.entries.keep([placed(0)])
    message = a_message(0, an_event(0), codec=Codec(json.dumps(newer_schema())))
    ours, decoded = reading.read(message), beside.read(message)
    assert ours == decoded
    assert ours is not None and ours.event is not None and ours.event.known is not None


@pytest.mark.parametrize("properties", [{}, {"tp-v": "1", "tp-id": "another"}, {"tp-v": "2", "tp-id": "0"}, {"tp-id": "0"}])
def test_a_different_message_at_the_place_of_an_acknowledged_event_is_decoded(
    properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, beside = Reading(monkeypatch), Reading(monkeypatch)
    reading.entries.keep([placed(0)])
    message = a_message(0, an_event(5))
    message._properties = properties
    found, decoded = reading.read(message), beside.read(message)
    assert found == decoded
    assert found is not None and found.event is not None and found.event.document == an_event(5).document


@pytest.mark.parametrize("kept", [[1], [0, 1], [0, 2], [0, 1, 2, 3]])
def test_events_that_are_acknowledged_after_they_were_read_or_are_never_read_delay_no_other(
    kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch)
    reading.read(a_message(0, an_event(0)))
    reading.entries.keep([placed(number) for number in kept])
    for number in (2, 4):
        found = reading.read(a_message(number, an_event(number)))
        assert found is not None and found.event is not None and found.event.document == an_event(number).document
    reading.entries.keep([placed(5)])
    reading.read(a_message(5, an_event(5)))
    assert reading.decoded == ["0", *([] if 2 in kept else ["2"]), "4"]
    assert not reading.entries._kept


def test_acknowledged_events_beyond_the_limit_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries_module, "_MOST_KEPT", 2)
    reading = Reading(monkeypatch)
    reading.entries.keep([placed(0), placed(1), placed(2)])
    for number in range(3):
        reading.read(a_message(number, an_event(number)))
    assert reading.decoded == ["2"]

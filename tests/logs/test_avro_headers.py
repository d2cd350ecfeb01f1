"""The document of most events is found without decoding the event."""

from __future__ import annotations

from typing import Any

import pytest

from tests.logs import samples
from tests.logs.test_avro_schemas import NEWER, OLDER
from topicpolicies_server.core.names import Scope, parse_topic
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Codec
from topicpolicies_server.logs.avro.envelope import Envelope
from topicpolicies_server.logs.avro.schema import Schema


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("definition", [PULSAR_4_2_4, NEWER, OLDER])
def test_the_document_in_an_update_of_ours_is_found_without_decoding(definition: Any, scope: Scope) -> None:
    codec = Codec(definition)
    schema = Schema(definition)
    envelope = Envelope(schema, "standalone")
    found = set()
    for topic in range(3):
        key, payload, _, _ = codec.encode(Event(samples.a_key("t/n", topic, scope), Action.UPDATE, samples.a_document()))
        assert payload is not None
        name = parse_topic(key.removeprefix("__G__"))
        frame = envelope.frame(name, Action.UPDATE, local=scope is Scope.LOCAL)
        body = frame.document(payload)
        assert body is not None
        assert len(body) < len(payload)
        found.add(body)
        assert frame.document(payload[:-1]) is None
        assert frame.document(payload[1:]) is None
    assert len(found) == 1

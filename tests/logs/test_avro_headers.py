"""Parsing only a message's key gives the same result as parsing its topic name and encoding the whole event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.logs import samples
from tests.logs.test_avro_schemas import NEWER, OLDER
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope, parse_topic
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Codec, Unreadable
from topicpolicies_server.logs.avro.envelope import Envelope
from topicpolicies_server.logs.avro.headers import Headers
from topicpolicies_server.logs.avro.schema import Schema

ENVELOPES = [Envelope(Schema(definition), "standalone") for definition in (PULSAR_4_2_4, NEWER, OLDER)]
PARTS = ["__G__", "persistent", "non-persistent", "://", "/", "t", "n-1", "topic", "-partition-", "3", "03"]
ODD = ["\u0663", "Größe", "\U0001f680", "\ud800", "\n", "\x7f", " ", "%", "x" * 70, "y" * 1000]
PIECES = st.sampled_from([*PARTS, *ODD])
KEYS = st.lists(PIECES, max_size=9).map("".join)
NAMES = st.builds("{}persistent://t/{}/{}".format, st.sampled_from(["", "__G__", "non-"]), st.sampled_from(["n", "m.1"]), KEYS)


@given(st.lists(KEYS | NAMES, min_size=1, max_size=4))
@example(["persistent://t/n/a", "persistent://t/n/a-partition-1", "persistent://t/n/a/b", "t/n/a", "__G__t/n/a"])
@example(["__G__persistent://t/n/" + "x" * 1005])
@example(["persistent://t/n/", "persistent://t/n/-partition-1"])
def test_a_header_has_the_key_and_the_frame_that_the_parsed_topic_name_gives(keys: list[str]) -> None:
    for envelope in ENVELOPES:
        headers = Headers(envelope)
        for key in keys:
            is_global = key.startswith("__G__")
            try:
                name = parse_topic(key[5:] if is_global else key)
            except PolicyError:
                with pytest.raises(Unreadable):
                    headers.of(key)
                continue
            header = headers.of(key)
            assert header.key == PolicyKey(str(name), Scope.GLOBAL if is_global else Scope.LOCAL)
            assert (header.before, header.after) == envelope.document_frame(name, Action.UPDATE, local=not is_global)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("definition", [PULSAR_4_2_4, NEWER, OLDER])
def test_the_document_in_an_update_of_ours_is_found_without_decoding(definition: Any, scope: Scope) -> None:
    codec = Codec(definition)
    headers = Headers(Envelope(Schema(definition), "standalone"))
    found = set()
    for topic in range(3):
        key, payload, _, _ = codec.encode(Event(samples.a_key("t/n", topic, scope), Action.UPDATE, samples.a_document()))
        assert payload is not None
        body = headers.of(key).document(payload)
        assert body is not None
        assert len(body) < len(payload)
        found.add(body)
        assert headers.of(key).document(payload[:-1]) is None
        assert headers.of(key).document(payload[1:]) is None
    assert len(found) == 1

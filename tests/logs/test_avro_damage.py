"""Reading any message at all soon ends in an event or in a problem, and leaves no trace in the codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.logs import avro_values, samples
from tests.logs.test_avro_schemas import NEWER_CODEC, OLDER_CODEC
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import Codec

CODEC = Codec()
TOPIC = "persistent://public/orders/topic-0"
KEY = PolicyKey(TOPIC, Scope.LOCAL)
FULL = CODEC.encode(Event(KEY, Action.UPDATE, samples.documents()[3])).payload or b""
AWKWARD = CODEC.encode(Event(KEY, Action.UPDATE, samples.documents()[4])).payload or b""


def outcome(codec: Codec, key: str, payload: bytes | None, properties: dict[str, str]) -> Event | str:
    event, problem = codec.read(key, payload, properties)
    if event is None:
        assert problem
        return problem
    return event


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x02" * 150)
@example(b"\x02\x04\x02\x00\x02" + b"\xff" * 8 + b"\x7f")
def test_random_bytes_are_unreadable_or_an_event(payload: bytes) -> None:
    for codec in (CODEC, NEWER_CODEC, OLDER_CODEC):
        outcome(codec, TOPIC, payload, {})


@given(st.sampled_from([FULL, AWKWARD]), st.data())
def test_a_payload_with_a_few_bytes_changed_is_unreadable_or_an_event(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    outcome(CODEC, TOPIC, bytes(damaged), {})


@given(st.sampled_from([FULL, AWKWARD]), st.data())
def test_a_payload_that_was_cut_or_extended_is_unreadable(payload: bytes, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(payload) - 1))
    assert isinstance(outcome(CODEC, TOPIC, payload[:end], {}), str)
    more = data.draw(st.binary(min_size=1, max_size=5))
    assert "left over" in str(outcome(CODEC, TOPIC, payload + more, {}))


def test_an_empty_payload_is_unreadable_and_a_missing_one_is_a_tombstone() -> None:
    assert isinstance(outcome(CODEC, TOPIC, b"", {}), str)
    assert outcome(CODEC, TOPIC, None, {}) == Event(KEY, Action.DELETE, None)


@given(st.one_of(st.text(max_size=40), st.text("persitn:/_Gao%-\0é", max_size=40)))
@example("")
@example("__G__")
@example("__change_events")
@example("__G____G__persistent://a/b/c")
@example("persistent://a/b")
@example("persistent://a/b/-partition-0")
@example("persistent://a/b/" + "c" * 10_000)
def test_a_key_that_is_not_a_topic_is_unreadable(key: str) -> None:
    tombstone = outcome(CODEC, key, None, {})
    update = outcome(CODEC, key, FULL, {})
    assert isinstance(update, str), "the payload belongs to another topic"
    if isinstance(tombstone, Event):
        assert tombstone.key.topic.partition("://")[2].count("/") >= 2


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**62])
def test_a_number_outside_its_range_is_unreadable(number: int) -> None:
    policies = {**avro_values.nothing(), "isGlobal": False, "subscribeRate": {"ratePeriodInSecond": number}}
    policies["subscribeRate"] |= {"subscribeThrottlingRatePerConsumer": 1}
    payload = _written_unchecked(policies)
    assert "out of range" in str(outcome(CODEC, TOPIC, payload, {}))


def _written_unchecked(policies: dict[str, Any]) -> bytes:
    """Encodes numbers that fastavro would refuse: it encodes other numbers, which are then replaced."""
    rate = dict(policies["subscribeRate"])
    marker = {"ratePeriodInSecond": 1_234_567, "subscribeThrottlingRatePerConsumer": 7_654_321}
    payload = avro_values.written(avro_values.an_event(TOPIC, {**policies, "subscribeRate": marker}))
    return payload.replace(_zigzag(1_234_567) + _zigzag(7_654_321), b"".join(map(_zigzag, rate.values())))


def _zigzag(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_text_that_is_not_unicode_is_unreadable() -> None:
    payload = AWKWARD.replace("Größe".encode(), b"Gr\xff\xfe\xff\xfee")
    assert payload != AWKWARD
    assert "Unicode" in str(outcome(CODEC, TOPIC, payload, {}))


@settings(max_examples=30)
@given(st.integers(1, 2**62))
def test_a_length_beyond_the_end_of_the_payload_is_unreadable_and_allocates_nothing(length: int) -> None:
    start = FULL.index(b"\x0cpublic")
    assert isinstance(outcome(CODEC, TOPIC, FULL[:start] + _zigzag(length) + b"x", {}), str)


def test_a_cached_event_is_not_returned_for_a_payload_that_differs_or_has_another_key() -> None:
    codec = Codec()
    assert isinstance(outcome(codec, TOPIC, FULL, {}), Event)
    other = f"{TOPIC}-other"
    assert "not its key's" in str(outcome(codec, other, FULL, {}))
    swapped = FULL.replace(b"topic-0", b"topic-1")
    assert isinstance(outcome(codec, TOPIC, swapped, {}), str)

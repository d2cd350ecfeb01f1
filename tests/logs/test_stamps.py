"""Stamps survive encoding in message properties; an event whose stamp can't be event_of is treated as a broker's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.logs import samples
from tests.logs.samples import event_of
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.fold.keystate import REMEMBERED_REQUESTS
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, ListChange, Remembered, Stamp, StampKind
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.stamps import MAX_BYTES, MalformedStamp, from_properties, to_properties

KEY = PolicyKey("persistent://public/orders/topic-0", Scope.LOCAL)

TEXTS = st.text(st.one_of(st.sampled_from(",;%=25BC`./"), st.characters(codec="utf-8")), max_size=12)
NAMES = TEXTS.filter(bool)
LISTS = st.sampled_from(["replication_clusters", "shadow_topics"])


def _operand(setting: str, elements: list[str]) -> bytes:
    policies = TopicPolicies()
    getattr(policies, setting).extend(elements)
    return split(policies)[setting]


@st.composite
def operands(draw: st.DrawFn) -> dict[str, tuple[ListChange, bytes]]:
    return {
        setting: (draw(st.sampled_from(ListChange)), _operand(setting, draw(st.lists(TEXTS, min_size=1, max_size=3))))
        for setting in draw(st.sets(LISTS, max_size=2))
    }


STAMPS = st.builds(
    Stamp,
    event_id=NAMES,
    kind=st.sampled_from(StampKind),
    request_id=TEXTS,
    digest=TEXTS,
    actor=TEXTS,
    mask=st.lists(TEXTS, max_size=3).map(tuple),
    base=TEXTS,
    etag=st.none() | TEXTS,
    skip_if_absent=st.booleans(),
    reads=st.dictionaries(TEXTS, TEXTS, max_size=3),
    operands=operands(),
    remembered=st.lists(st.builds(Remembered, TEXTS, TEXTS, TEXTS, TEXTS), max_size=REMEMBERED_REQUESTS).map(tuple),
    head_version=TEXTS,
    trace_parent=st.sampled_from(["", samples.TRACE_PARENT]),
).map(lambda stamp: stamp._replace(trace_state="congo=t61rcWkgMzE" if stamp.trace_parent and stamp.mask else ""))


@given(STAMPS)
@example(Stamp(event_id="1", kind=StampKind.UPDATE, mask=("%2C", "%25", "a,b", "100%", "")))
@example(Stamp(event_id="1", kind=StampKind.UPDATE, remembered=(Remembered("%2C", "a,b", "%", ""),)))
def test_an_encoded_stamp_is_decoded_unchanged(stamp: Stamp) -> None:
    properties = to_properties(stamp)
    assert from_properties(properties) == stamp
    assert all(name.startswith("tp-") or name in ("traceparent", "tracestate") for name in properties)
    assert all(isinstance(value, str) for value in properties.values())


@given(STAMPS, st.dictionaries(TEXTS.map("x-{}".format), TEXTS, max_size=3))
def test_properties_of_other_programs_are_ignored(stamp: Stamp, others: dict[str, str]) -> None:
    assert from_properties({**others, **to_properties(stamp)}) == stamp
    assert from_properties(others) is None


def test_only_parts_with_a_value_are_encoded() -> None:
    assert to_properties(Stamp(event_id="1", kind=StampKind.REPAIR)) == {"tp-v": "1", "tp-id": "1", "tp-kind": "repair"}


def test_only_the_last_remembered_requests_are_encoded() -> None:
    remembered = tuple(Remembered(f"request-{n}", "d", "v", "p") for n in range(40))
    stamp = from_properties(to_properties(Stamp(event_id="1", kind=StampKind.UPDATE, remembered=remembered)))
    assert stamp is not None
    assert stamp.remembered == remembered[-REMEMBERED_REQUESTS:]


def test_a_stamp_that_is_too_large_is_refused_before_it_is_encoded() -> None:
    stamp = Stamp(event_id="1", kind=StampKind.UPDATE, mask=tuple(f"subscription_policies.`{'x' * 90}{n}`" for n in range(1_500)))
    with pytest.raises(LogError) as refused:
        to_properties(stamp)
    assert (refused.value.kind, refused.value.reason) == (Kind.FAILED_PRECONDITION, "NOT_EXPRESSIBLE")
    assert sum(map(len, to_properties(stamp._replace(mask=stamp.mask[:1_000])).values())) < MAX_BYTES


def test_the_requests_that_an_event_carries_count_towards_the_size_of_its_stamp() -> None:
    carried = tuple(Remembered("r" * 1_000, "d", "v", "p") for _ in range(REMEMBERED_REQUESTS))
    stamp = Stamp(event_id="1", kind=StampKind.UPDATE, mask=("x" * (MAX_BYTES - 1_000),), remembered=carried)
    with pytest.raises(LogError, match="Split it"):
        to_properties(stamp)
    assert to_properties(stamp._replace(remembered=()))["tp-mask"] == stamp.mask[0]


GOOD = to_properties(samples.stamps()[4])


@pytest.mark.parametrize(
    "changed",
    [
        {"tp-v": "2"},
        {"tp-v": ""},
        {"tp-id": ""},
        {"tp-kind": "UPDATE"},
        {"tp-kind": ""},
        {"tp-skip": "true"},
        {"tp-reads": "retention_policies"},
        {"tp-reads": ""},
        {"tp-seen": ""},
        {"tp-seen": "a,b,c"},
        {"tp-seen": "a,b,c,d,e"},
        {"tp-seen": ",".join(["a,b,c,d"] * (REMEMBERED_REQUESTS + 1))},
        {"tp-history": ""},
        {"tp-history": "a"},
        {"tp-history": "a,b,c,d"},
        {"tp-operands": "shadow_topics,union,!"},
        {"tp-operands": "shadow_topics,union,"},
        {"tp-operands": "shadow_topics,replace,6gECb25l"},
        {"tp-operands": "shadow_topics,union,/////w=="},
        {"tp-operands": "retention_policies,union,6gECb25l"},
        {"tp-mask": "x" * (2 * MAX_BYTES)},
    ],
)
def test_an_event_with_a_damaged_stamp_is_read_as_a_brokers_and_the_damage_is_reported(changed: dict[str, str]) -> None:
    properties = {**GOOD, **changed}
    with pytest.raises(MalformedStamp):
        from_properties(properties)
    codec = Codec()
    message = codec.encode(Event(KEY, Action.UPDATE, samples.a_document()))
    event, problem = codec.read(message.key, message.payload, properties)
    assert event == Event(KEY, Action.UPDATE, samples.a_document())
    assert "stamp" in problem
    assert codec.read(message.key, message.payload, GOOD)[1] == ""
    assert event_of(codec, message.key, message.payload, properties) == event


@given(st.dictionaries(st.sampled_from(sorted({*GOOD, "tp-operands", "tp-etag", "tp-seen"})), st.none() | TEXTS, max_size=4))
@example({"tp-mask": "%"})
@example({"tp-mask": "%zz,%ff,\ud800"})
def test_decoding_any_properties_returns_a_stamp_or_none_or_raises_malformed_stamp(changed: dict[str, Any]) -> None:
    properties = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    try:
        stamp = from_properties(properties)
    except MalformedStamp:
        return
    assert stamp is None or stamp.event_id


def test_properties_contain_no_values_of_settings_but_elements_of_lists() -> None:
    secret = split(TopicPolicies(offload_policies={"s3_managed_ledger_offload_credential_secret": "hush"}))  # type: ignore[arg-type]
    stamp = Stamp(event_id="1", kind=StampKind.UPDATE, mask=("offload_policies.s3_managed_ledger_offload_credential_secret",))
    message = Codec().encode(Event(KEY, Action.UPDATE, secret, stamp))
    assert b"hush" in (message.payload or b"")
    assert "hush" not in str(message.properties)

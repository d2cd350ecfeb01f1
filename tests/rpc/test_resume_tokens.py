"""Resume tokens: their texts, and where in a stream they stand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stubs import AsyncStub
from topicpolicies.v1.policies_pb2 import EntryFilters, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    WATCH_MODE_EVERY,
    WATCH_MODE_LATEST,
    ListPoliciesRequest,
    UpdatePolicyRequest,
    WatchMode,
    WatchPoliciesResponse,
)
from topicpolicies_server.core.reading import tokens
from topicpolicies_server.core.reading.tokens import Token

from .conftest import TOPIC
from .watching import WatchReader, changes, kinds

NAMESPACE = "public/default"

TOKENS = (
    Token("log", ("", "12", "3f")),
    Token("", ()),
    Token("pulsar://name/tenant/ns 📦", ("17",), "0f0f"),
    tokens.NOTHING_READ,
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_read_as_it_was_written(token: Token) -> None:
    text = tokens.write(token)
    assert tokens.read(text) == token and text.isascii()
    position = tokens.write_position(17, token)
    assert tokens.read_position(position) == token


MALFORMED = ["", "x", "=", "abcd", "not a token", "é", "MQ==", "MQBh", "MgBhAGI=", "A" * 65_537, "MQBhAP8="]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        tokens.read(text)
    with pytest.raises(ValueError, match=r"."):
        tokens.read_position(text)


def test_a_token_longer_than_requests_take_is_not_written() -> None:
    assert tokens.write(Token("log", ("1" * 30,) * 2_000)) == ""


def test_positions_are_in_the_order_of_the_record() -> None:
    positions = [tokens.write_position(number, Token("log", (str(number),))) for number in (0, 9, 10, 255, 256, 2**40)]
    assert positions == sorted(positions)


async def write(stub: AsyncStub, begin: int, end: int, size: int = 20_000) -> None:
    """Makes changes of many bytes, each to a topic of its own."""
    for number in range(begin, end):
        policies = TopicPolicies(max_producer_per_topic=number, entry_filters=EntryFilters(entry_filter_names="x" * size))
        await stub.UpdatePolicy(UpdatePolicyRequest(topic=f"{TOPIC}-{number:03}", policies=policies))


@pytest.mark.parametrize("mode", [WATCH_MODE_LATEST, WATCH_MODE_EVERY])
async def test_every_batch_but_those_of_a_snapshot_ends_with_a_token_that_resumes_there(stub: AsyncStub, mode: WatchMode.ValueType) -> None:
    await write(stub, 0, 30)
    listed = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, page_size=1))
    second = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, page_size=1, page_token=listed.next_page_token))
    assert listed.resume_token and not second.resume_token
    await write(stub, 30, 60)
    resumed = WatchReader(stub, namespaces=[NAMESPACE], mode=mode, resume_tokens={NAMESPACE: listed.resume_token})
    begun = WatchReader(stub, namespaces=[NAMESPACE], mode=mode)
    snapshot, batches, values = await _batches(begun.call), await _batches(resumed.call), range(30, 60)
    assert len(snapshot) > 1 and not any(event.resume_token for batch in snapshot for event in batch.events if event.HasField("change"))
    assert len(batches) > 1 and all(batch.events[-1].resume_token for batch in batches)
    for batch in batches:
        seen = changes(batch.events)
        assert [each.document.policies.max_producer_per_topic for each in seen] == list(values[: len(seen)])
        values = values[len(seen) :]
        again = WatchReader(stub, namespaces=[NAMESPACE], mode=mode, resume_tokens={NAMESPACE: batch.events[-1].resume_token})
        rest = await again.whole()
        assert [each.document.policies.max_producer_per_topic for each in changes(rest)] == list(values)
        assert kinds(rest)[-1] == "bookmark"
    assert not values


async def _batches(call: Any) -> list[WatchPoliciesResponse]:
    """Returns the messages up to the first that has SYNCED."""
    found: list[WatchPoliciesResponse] = []
    while not found or not found[-1].events[-1].bookmark.synced:
        found.append(await call.read())
    call.cancel()
    return found

"""Values that no message can contain: they are refused as invalid arguments before sending, and one of many changes fails alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest

import topicpolicies as tp
from tests.client.fault_service import FaultService

TOPIC = "persistent://public/default/orders"
NAMESPACE = "public/default"
HALF = "\ud800"
"""Half of a surrogate pair: a Python string can contain it, but it can't be encoded as UTF-8."""

CALLS: dict[str, Callable[[Any], Any]] = {
    "a topic": lambda client: client.get(HALF),
    "a topic that is no text": lambda client: client.get(5),
    "a scope": lambda client: client.get(TOPIC, scope="LOCAL"),
    "a time too early": lambda client: client.get(TOPIC, as_of_time=datetime.min),  # noqa: DTZ901 - a time without a zone is local
    "a time that is none": lambda client: client.get(TOPIC, as_of_time="yesterday"),
    "a version": lambda client: client.get(TOPIC, at_least_version=HALF),
    "a reason": lambda client: client.update(TOPIC, max_producer_per_topic=1, reason=HALF),
    "an etag": lambda client: client.update(TOPIC, max_producer_per_topic=1, etag=5),
    "a value": lambda client: client.update(TOPIC, {"shadow_topics": [HALF]}),
    "an entry": lambda client: client.update(TOPIC, {f"subscription_policies.`{HALF}`": {}}),
    "a path": lambda client: client.update(TOPIC, {HALF: 1}),
    "a part": lambda client: client.update(TOPIC, {"retention_policies": {HALF: 1}}),
    "a part without a name": lambda client: client.update(TOPIC, {"retention_policies": {5: 1}}),
    "a path that is none": lambda client: client.update(TOPIC, {5: 1}),
    "a mask": lambda client: client.update(TOPIC, mask=HALF),
    "a list operation": lambda client: client.update(TOPIC, shadow_topics=["a"], list_operations={"shadow_topics": "union"}),
    "a deletion": lambda client: client.delete(TOPIC, request_id=HALF),
    "a view": lambda client: client.effective(TOPIC, view="all"),
    "a page": lambda client: client.list(NAMESPACE, page_size=1 << 40),
    "a namespace": lambda client: client.list(HALF),
    "a beginning": lambda client: next(client.history_pages(topic=TOPIC, start=datetime.min)),  # noqa: DTZ901
    "an interval": lambda client: client.watch(namespaces=[NAMESPACE], bookmark_interval=math.inf),
    "a long interval": lambda client: client.watch(namespaces=[NAMESPACE], bookmark_interval=1e300),
    "a mode": lambda client: client.watch(namespaces=[NAMESPACE], mode="LATEST"),
    "a token": lambda client: client.watch(namespaces=[NAMESPACE], token="abc"),
    "patience": lambda client: client.watch(namespaces=[NAMESPACE], patience=math.nan),
    "a cache's namespace": lambda client: client.cache(namespaces=[HALF]),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_value_that_no_message_can_contain_is_refused_as_an_invalid_argument(what: str) -> None:
    with tp.Client("127.0.0.1:1", timeout=0.05) as client:
        with pytest.raises(tp.InvalidArgument) as caught:
            CALLS[what](client)
        assert caught.value.reason
        assert str(caught.value).encode()
        assert all(f"{violation}".encode() for violation in caught.value.violations)


def changes() -> list[Any]:
    return [
        tp.Update(TOPIC, max_producer_per_topic=1, reason=HALF),
        None,
        tp.Update(TOPIC, max_producer_per_topic=2),
        "x",
        tp.Deletion(TOPIC, etag=5),  # type: ignore[arg-type]
        tp.Deletion(TOPIC, because="I may"),  # type: ignore[call-arg]
        tp.Update(TOPIC, max_producer_per_topic=3),
    ]


def check(settled: list[tp.Settled], service: FaultService) -> None:
    assert sorted(each.sequence for each in settled) == list(range(7))
    assert {each.sequence for each in settled if isinstance(each.error, tp.InvalidArgument)} == {0, 1, 3, 4, 5}
    assert {each.sequence for each in settled if each.error is None} == {2, 6}
    assert service.documents[TOPIC][0].max_producer_per_topic == 3


@pytest.mark.parametrize("source", ["at hand", "waited for"])
async def test_a_change_that_can_not_be_sent_does_not_fail_the_others(address: str, service: FaultService, source: str) -> None:
    async def waited_for() -> AsyncIterator[Any]:
        for change in changes():
            yield change

    async with tp.AsyncClient(address) as client:
        many = client.update_many(changes() if source == "at hand" else waited_for())
        check([each async for each in many], service)


async def test_a_change_that_can_not_be_sent_by_the_synchronous_client_does_not_fail_the_others(
    address: str, service: FaultService
) -> None:
    def change() -> list[tp.Settled]:
        with tp.Client(address) as client:
            return list(client.update_many(changes()))

    check(await asyncio.to_thread(change), service)

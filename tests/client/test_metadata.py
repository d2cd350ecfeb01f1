"""What can't be sent as metadata is refused before anything is sent: gRPC's own error would leave the outcome of a change unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import topicpolicies as tp
from tests.client.fault_service import FaultService

TOPIC = "persistent://public/default/orders"
NAMESPACE = "public/default"
HASTY = tp.RetryPolicy(first_delay_seconds=0.001, longest_delay_seconds=0.01)
NO_TOKENS: list[Any] = ["secret\n", "sécret", "sec\x00ret", None, b"secret", 5]


@pytest.mark.parametrize("make", [tp.Client, tp.AsyncClient])
@pytest.mark.parametrize("token", [token for token in NO_TOKENS if token is not None])
def test_a_token_that_can_not_be_sent_is_refused_by_the_constructor_and_not_shown(make: Callable[..., Any], token: Any) -> None:
    with pytest.raises(tp.InvalidArgument, match="The token can't be sent as metadata") as caught:
        make("localhost:6680", token=token)
    assert caught.value.reason == "MALFORMED_TOKEN"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("make", [tp.Client, tp.AsyncClient])
@pytest.mark.parametrize(
    "metadata", [{"key": "value"}, ("key", "value"), [("Key", "value")], [("key", "line\n")], [("key", 5)], [("", "value")], [5]]
)
def test_metadata_that_can_not_be_sent_is_refused_by_the_constructor(make: Callable[..., Any], metadata: Any) -> None:
    with pytest.raises(tp.InvalidArgument, match="metadata takes pairs") as caught:
        make("localhost:6680", metadata=metadata)
    assert caught.value.reason == "MALFORMED_METADATA"


@pytest.mark.parametrize("make", [tp.Client, tp.AsyncClient])
def test_an_actor_that_is_no_text_is_refused_by_the_constructor(make: Callable[..., Any]) -> None:
    with pytest.raises(tp.InvalidArgument, match="actor must be a text, not 5"):
        make("localhost:6680", actor=5)


@pytest.mark.parametrize("token", NO_TOKENS)
async def test_a_change_with_a_token_that_can_not_be_sent_is_certainly_not_made(address: str, service: FaultService, token: Any) -> None:
    async with tp.AsyncClient(address, token=lambda: token) as client:
        with tp.Client(address, token=lambda: token) as blocking:
            update, many = tp.Update(TOPIC, max_producer_per_topic=5), asyncio.to_thread(list, blocking.update_many([]))
            assert await many == []
            for call in (
                client.update(TOPIC, max_producer_per_topic=5),
                anext(aiter(client.list(NAMESPACE))),
                asyncio.to_thread(blocking.update, TOPIC, max_producer_per_topic=5),
            ):
                with pytest.raises(tp.InvalidArgument, match="The token can't be sent as metadata"):
                    await call
            settled = [next(blocking.update_many([update])), await anext(client.update_many([update]))]
            assert [each.error.reason if each.error is not None else "" for each in settled] == ["MALFORMED_TOKEN"] * 2
    assert not service.documents


async def test_a_watch_tries_again_until_its_function_returns_a_token(address: str) -> None:
    tokens = iter(["half\n", None, "token", "half\n", "token"])
    token: Any = lambda: next(tokens)  # noqa: E731 - not a text at first
    async with tp.AsyncClient(address, token=token, retries=HASTY) as client, client.cache(namespaces=[NAMESPACE]) as cache:
        assert await cache.wait_synced(20)
    with tp.Client(address, token=token, retries=HASTY) as blocking, blocking.cache(namespaces=[NAMESPACE]) as copy:
        assert await asyncio.to_thread(copy.wait_synced, 20)

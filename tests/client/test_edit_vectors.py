"""What an edit does, and how often it runs its function, in both clients, against the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from google.protobuf.json_format import ParseDict

import topicpolicies as tp
from tests.client.vectors import examples, name
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

in_one_loop = pytest.mark.asyncio(loop_scope="module")
all_examples = pytest.mark.parametrize("example", examples("edits.json"), ids=name)
NAMES = {"skipIfAbsent": "skip_if_absent", "includePrevious": "include_previous", "validateOnly": "validate_only"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address() -> AsyncIterator[str]:
    async with Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))) as server:
        yield server.address


def _message(document: dict[str, Any] | None) -> tp.TopicPolicies | None:
    return None if document is None else ParseDict(document, tp.TopicPolicies())


class _Function:
    """The function of the edit."""

    def __init__(self, example: dict[str, Any]) -> None:
        self.runs = 0
        self._edit = ParseDict(example["edit"], tp.TopicPolicies())

    def __call__(self, policies: tp.TopicPolicies) -> None:
        self.runs += 1
        policies.MergeFrom(self._edit)


def _prepare(client: tp.Client, topic: str, example: dict[str, Any]) -> Any:
    """Makes the document and what comes meanwhile. Returns the options of the edit."""
    if example["document"] is not None:
        client.update(topic, _message(example["document"]), mask="*")
    known = client.get(topic)
    if example.get("meanwhile") is not None:
        client.update(topic, _message(example["meanwhile"]))
    elif "meanwhile" in example:
        client.delete(topic)
    start = {"start": known} if example.get("start") else {}
    return {**{NAMES[option]: True for option in example.get("options", ())}, **start}


def _judge(client: tp.Client, topic: str, example: dict[str, Any], function: _Function, result: tp.UpdateResult) -> None:
    assert (function.runs, result.outcome.name) == (example["runs"], example["outcome"])
    assert (result.previous is not None) == ("previous" in example)
    if result.previous is not None:
        assert result.previous.policies == _message(example["previous"])
    after = client.get(topic)
    assert after.policies == _message(example["after"])
    assert result.version == after.version


@in_one_loop
@all_examples
async def test_an_edit_with_the_client_for_threads_does_what_is_promised(example: dict[str, Any], address: str) -> None:
    topic, function = f"persistent://public/default/{uuid4()}", _Function(example)

    def use() -> None:
        with tp.Client(address) as client:
            options = _prepare(client, topic, example)
            _judge(client, topic, example, function, client.edit(topic, function, **options))

    await asyncio.to_thread(use)


@in_one_loop
@all_examples
async def test_an_edit_with_the_asyncio_client_does_the_same(example: dict[str, Any], address: str) -> None:
    topic, function = f"persistent://public/default/{uuid4()}", _Function(example)
    with tp.Client(address) as client:
        options = await asyncio.to_thread(_prepare, client, topic, example)
        async with tp.AsyncClient(address) as other:
            result = await other.edit(topic, function, **options)
        await asyncio.to_thread(_judge, client, topic, example, function, result)


@in_one_loop
async def test_a_block_has_the_same_options(address: str) -> None:
    topic = f"persistent://public/default/{uuid4()}"
    async with tp.AsyncClient(address) as client:
        skipping = client.edit(topic, skip_if_absent=True, include_previous=True)
        async with skipping as policies:
            policies.max_producer_per_topic = 1
        assert skipping.result is not None
        assert (skipping.result.outcome, (await client.get(topic)).policies) == (tp.UpdateOutcome.SKIPPED, None)
        known = (await client.update(topic, max_producer_per_topic=1)).document
        editing = client.edit(topic, start=known, include_previous=True)
        async with editing as policies:
            policies.max_producer_per_topic = 2
        assert editing.result is not None
        assert editing.result.previous == known
        with pytest.raises(tp.Conflict):
            async with client.edit(topic, start=known) as policies:
                policies.max_producer_per_topic = 3

    def block() -> tp.UpdateResult | None:
        with tp.Client(address) as client:
            trying = client.edit(topic, validate_only=True)
            with trying as policies:
                policies.max_producer_per_topic = 4
            return trying.result

    result = await asyncio.to_thread(block)
    assert result is not None
    assert result.outcome is tp.UpdateOutcome.WOULD_APPLY


def test_an_option_that_there_is_not_is_refused() -> None:
    with tp.Client("127.0.0.1:1") as client, pytest.raises(TypeError, match="reson"):
        client.edit("t/n/x", reson="a misspelt word")  # type: ignore[call-overload]

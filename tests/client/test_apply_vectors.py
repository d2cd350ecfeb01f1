"""What an update does to a document, as both clients request it and read it back: the examples of apply.json.

A server without a broker does not know the name of its own cluster, and therefore accepts lists of clusters only in the GLOBAL scope.
"""

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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address() -> AsyncIterator[str]:
    async with Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))) as server:
        yield server.address


def _message(document: dict[str, Any] | None) -> tp.TopicPolicies | None:
    return None if document is None else ParseDict(document, tp.TopicPolicies())


def _scope(example: dict[str, Any]) -> tp.Scope:
    documents = [example["policies"], example["document"] or {}]
    return tp.Scope.GLOBAL if any("replicationClusters" in document for document in documents) else tp.Scope.LOCAL


def _options(example: dict[str, Any]) -> tp.UpdateOptions:
    named = {path: tp.ListOperation[each.removeprefix("LIST_OPERATION_")] for path, each in example.get("listOperations", {}).items()}
    options = tp.UpdateOptions(scope=_scope(example), list_operations=named)
    if "mask" in example:
        options["mask"] = example["mask"]
    return options


def _judge(example: dict[str, Any], error: tp.TopicPoliciesError | None, document: tp.Document) -> None:
    if "reason" in example:
        assert isinstance(error, tp.InvalidArgument)
        assert example["reason"] in {violation.reason for violation in error.violations}
        assert document.policies == _message(example["document"]), "a refused update changes nothing"
    else:
        assert error is None
        assert document.policies == _message(example["after"])


@in_one_loop
@pytest.mark.parametrize("example", examples("apply.json"), ids=name)
async def test_an_update_of_the_asyncio_client_has_the_result_of_the_example(example: dict[str, Any], address: str) -> None:
    topic = f"persistent://public/default/{uuid4()}"
    failure = None
    async with tp.AsyncClient(address) as client:
        if (before := _message(example["document"])) is not None:
            await client.update(topic, before, mask="*", scope=_scope(example))
        try:
            await client.update(topic, ParseDict(example["policies"], tp.TopicPolicies()), **_options(example))
        except tp.TopicPoliciesError as error:
            failure = error
        _judge(example, failure, await client.get(topic, scope=_scope(example)))


@in_one_loop
@pytest.mark.parametrize("example", examples("apply.json"), ids=name)
async def test_an_update_of_the_synchronous_client_has_the_result_of_the_example(example: dict[str, Any], address: str) -> None:
    topic = f"persistent://public/default/{uuid4()}"

    def use() -> tuple[tp.TopicPoliciesError | None, tp.Document]:
        failure = None
        with tp.Client(address) as client:
            if (before := _message(example["document"])) is not None:
                client.update(topic, before, mask="*", scope=_scope(example))
            try:
                client.update(topic, ParseDict(example["policies"], tp.TopicPolicies()), **_options(example))
            except tp.TopicPoliciesError as error:
                failure = error
            return failure, client.get(topic, scope=_scope(example))

    _judge(example, *await asyncio.to_thread(use))


def test_the_examples_have_unique_names_and_include_refusals() -> None:
    names = [example["name"] for example in examples("apply.json")]
    assert len(set(names)) == len(names) > 50
    assert sum("reason" in example for example in examples("apply.json")) > 10

"""Watches of topics whose policies are disabled or become disabled, with the embedded log and a cluster file."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.rpc.watching import WatchReader, changes, kinds, token_of
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import errors_pb2
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.errors_pb2 import ErrorReason
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL, TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.rpc.server import Server

NAMESPACE, OTHER_NAMESPACE = "acme/orders", "acme/other"
ONE, TWO, THREE = (f"persistent://{NAMESPACE}/{name}" for name in ("one", "two", "three"))
ELSEWHERE = f"persistent://{OTHER_NAMESPACE}/one"
PATIENCE = 30


class Cluster:
    """The cluster file, and how to change it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 1
        self.say()

    def say(self, namespace: str = "false", **topics: str) -> None:
        """Sets the property of the namespace, and of topics by their local names."""
        lines = ['cluster = "us"', f'[namespaces."{NAMESPACE}"]', f'properties = {{ __topic_policies_disabled = "{namespace}" }}']
        for name, value in topics.items():
            lines += [f'[topics."persistent://{NAMESPACE}/{name}"]', f'properties = {{ __topic_policies_disabled = "{value}" }}']
        self.path.write_text("\n".join(lines))
        self._at += 1
        os.utime(self.path, (self._at, self._at))


class Serving(NamedTuple):
    """A running server, and a stub of it."""

    server: Server
    stub: AsyncStub

    async def update(self, topic: str, value: int) -> None:
        await self.stub.UpdatePolicy(pb.UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value)))

    async def written_by_broker(self, topic: str, value: int) -> None:
        """Makes a change that was not admitted, as brokers do: they ignore the property."""
        change = compile_change(TopicPolicies(max_producer_per_topic=value), [], {})
        request = Request(PolicyKey(topic, Scope.LOCAL), change, uuid.uuid4().hex, "", "a broker")
        await self.server.registry.get(NAMESPACE).update(request)


Start = Callable[[], AbstractAsyncContextManager[Serving]]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster.toml")


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Start:
    """Returns a function that starts a server, each time on the same files."""
    log = EmbeddedLogConfig(path=tmp_path / "policies.db", cluster_file=cluster.path)
    limits = replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0)
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=limits)

    @asynccontextmanager
    async def serving() -> AsyncIterator[Serving]:
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            yield Serving(server, async_stub(channel))

    return serving


@pytest.fixture
async def serving(start: Start) -> AsyncIterator[Serving]:
    async with start() as serving:
        yield serving


class Values:
    """A watch that is read as the values of documents by topic; None: the document is absent."""

    def __init__(self, stub: AsyncStub, **selection: Any) -> None:
        self.reader = WatchReader(stub, scopes=[SCOPE_LOCAL], **selection)

    async def until_synced(self) -> tuple[dict[str, int | None], str]:
        """Returns the values of a snapshot, or since a token, and the new token."""
        values, events = await self._whole()
        return values, token_of(events)

    async def reset(self) -> tuple[str, dict[str, int | None]]:
        """Returns the reason of the next reset, and the values after it. No change may come before the reset."""
        events = await self.reader.until(lambda event: event.HasField("reset"))
        assert not changes(events)
        values, _ = await self._whole()
        return ErrorReason.Name(events[-1].reset.reason).removeprefix("ERROR_REASON_"), values

    async def change(self) -> dict[str, int | None]:
        return _put({}, await self.reader.change())

    async def state(self) -> pb.NamespaceStatus:
        """Returns the next status. No change may come before it."""
        events = await self.reader.until(lambda event: event.HasField("status"))
        assert not changes(events)
        return events[-1].status

    def cancel(self) -> None:
        self.reader.cancel()

    async def _whole(self) -> tuple[dict[str, int | None], list[pb.WatchEvent]]:
        values: dict[str, int | None] = {}
        events = await self.reader.until_synced()
        assert "reset" not in kinds(events)
        for change in changes(events):
            _put(values, change)
        return values, events


def _put(values: dict[str, int | None], change: pb.PolicyChange) -> dict[str, int | None]:
    document = change.document
    assert document.topic not in values, "a document was sent twice"
    values[document.topic] = document.policies.max_producer_per_topic if document.HasField("policies") else None
    assert document.disabled == (values[document.topic] is None), "a document is absent but not disabled"
    return values


async def test_a_disabled_namespace_appears_empty_and_its_documents_are_sent_again_when_it_is_enabled(
    serving: Serving, cluster: Cluster
) -> None:
    await serving.update(ONE, 1)
    watch = Values(serving.stub, namespaces=[NAMESPACE])
    values, token = await watch.until_synced()
    assert values == {ONE: 1}
    cluster.say("true")
    status = await watch.state()
    assert (status.state, status.reason) == (pb.NAMESPACE_STATE_DISABLED, errors_pb2.ERROR_REASON_TOPIC_POLICIES_DISABLED)
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {})
    cluster.say("false")
    assert (await watch.state()).state == pb.NAMESPACE_STATE_READY
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 1})
    watch.cancel()
    resumed = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: token})
    assert (await resumed.until_synced())[0] == {}, "no topic is disabled, as when the token was issued"
    resumed.cancel()


async def test_a_disabled_namespace_has_bookmarks_whose_token_resumes_after_it_is_enabled(serving: Serving, cluster: Cluster) -> None:
    cluster.say("true")
    watch = Values(serving.stub, namespaces=[NAMESPACE], bookmark_interval=Duration(seconds=1))
    values, token = await watch.until_synced()
    assert values == {}
    timer = (await watch.reader.until(lambda event: event.HasField("bookmark")))[-1]
    assert timer.resume_token == token and timer.bookmark.age.ToTimedelta().total_seconds() < 1
    watch.cancel()
    cluster.say("false")
    await asyncio.sleep(1.5)  # facts are cached for a second
    await serving.update(ONE, 1)
    resumed = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: token})
    assert await resumed.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 1})
    resumed.cancel()


async def test_a_token_of_a_disabled_namespace_resets_the_watch_once_if_it_is_disabled_still(serving: Serving, cluster: Cluster) -> None:
    cluster.say("true")
    watch = Values(serving.stub, namespaces=[NAMESPACE])
    _, token = await watch.until_synced()
    watch.cancel()
    resumed = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: token})
    assert await resumed.reset() == ("TOPIC_POLICIES_SWITCHED", {})
    resumed.cancel()


async def test_a_disabled_namespace_does_not_end_the_stream_of_other_namespaces(serving: Serving, cluster: Cluster) -> None:
    cluster.say("true")
    await serving.update(ELSEWHERE, 1)
    watch = Values(serving.stub, namespaces=[NAMESPACE, OTHER_NAMESPACE])
    assert (await watch.until_synced())[0] == {ELSEWHERE: 1}
    await serving.update(ELSEWHERE, 2)
    assert await watch.change() == {ELSEWHERE: 2}
    watch.cancel()


async def test_a_watch_of_one_disabled_topic_gets_status_disabled_and_one_of_several_topics_its_absence(
    serving: Serving, cluster: Cluster
) -> None:
    await serving.update(ONE, 1)
    await serving.update(TWO, 2)
    cluster.say(one="true")
    await asyncio.sleep(1.5)
    alone, both = Values(serving.stub, topics=[ONE]), Values(serving.stub, topics=[ONE, TWO])
    assert (await alone.state()).reason == errors_pb2.ERROR_REASON_TOPIC_POLICIES_DISABLED
    assert (await alone.until_synced())[0] == {ONE: None}
    assert (await both.until_synced())[0] == {ONE: None, TWO: 2}
    cluster.say(one="false")
    assert await alone.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 1})
    assert await both.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 1, TWO: 2})
    cluster.say(one="true")
    assert await alone.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: None})
    assert await both.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: None, TWO: 2})
    alone.cancel()
    both.cancel()


async def test_a_list_and_a_watch_of_a_namespace_show_the_documents_of_a_topic_that_is_disabled_by_its_own_property(
    serving: Serving, cluster: Cluster
) -> None:
    await serving.update(ONE, 1)
    await serving.update(TWO, 2)
    cluster.say(one="true")
    await asyncio.sleep(1.5)  # facts are cached for a second
    page = await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE))
    assert [document.topic for document in page.documents] == [ONE, TWO]
    await serving.written_by_broker(ONE, 10)
    watch = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: page.resume_token})
    assert (await watch.until_synced())[0] == {ONE: 10}
    await serving.written_by_broker(ONE, 11)
    assert await watch.change() == {ONE: 11}
    watch.cancel()


async def test_a_watch_of_named_topics_leaves_out_the_changes_of_disabled_ones_and_their_token_names_these(
    start: Start, cluster: Cluster
) -> None:
    cluster.say(one="true")
    async with start() as first:
        await first.written_by_broker(ONE, 1)
        await first.update(TWO, 2)
        watch = Values(first.stub, topics=[ONE, TWO])
        values, without_one = await watch.until_synced()
        assert values == {ONE: None, TWO: 2}
        await first.written_by_broker(ONE, 10)
        await first.update(TWO, 3)
        assert await watch.change() == {TWO: 3}
        watch.cancel()
    async with start() as second:
        watch = Values(second.stub, topics=[ONE, TWO], resume_tokens={NAMESPACE: without_one})
        assert (await watch.until_synced())[0] == {ONE: None, TWO: 3}
        watch.cancel()
    cluster.say()
    async with start() as third:
        watch = Values(third.stub, topics=[ONE, TWO], resume_tokens={NAMESPACE: without_one})
        assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 10, TWO: 3})
        watch.cancel()


async def test_a_namespace_watch_resumes_from_the_token_of_a_list_of_a_disabled_namespace(serving: Serving, cluster: Cluster) -> None:
    await serving.update(ONE, 1)
    cluster.say("true")
    await asyncio.sleep(2.5)  # a list may use older facts, and has them refreshed
    await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE))
    await asyncio.sleep(0.5)
    page = await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE))
    assert not page.documents
    watch = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: page.resume_token})
    assert (await watch.state()).state == pb.NAMESPACE_STATE_DISABLED
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {})
    cluster.say()
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 1})
    watch.cancel()

"""Watches of topics whose policies are disabled or become disabled, with the embedded log and a cluster file."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
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
from topicpolicies_server.cluster.disabled_topics import DisabledTopics
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.core.chains.sequencer import Request
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.namespaces.namespace import Namespace
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


async def test_a_listing_leaves_out_disabled_topics_and_misses_no_other_whatever_the_page_size(serving: Serving, cluster: Cluster) -> None:
    topics = [f"persistent://{NAMESPACE}/topic-{number}" for number in range(10)]
    for number, topic in enumerate(topics):
        await serving.update(topic, number)
    off = {0, 3, 4, 5, 9}
    cluster.say(**{f"topic-{number}": "true" for number in off})
    await asyncio.sleep(1.5)  # facts are cached for a second
    for page_size in (1, 3, 100):
        listed: list[str] = []
        token = ""
        while True:
            page = await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE, page_size=page_size, page_token=token))
            listed += [document.topic for document in page.documents]
            token = page.next_page_token
            if not token:
                break
        assert listed == [topic for number, topic in enumerate(topics) if number not in off]


async def test_a_watch_of_a_namespace_leaves_out_disabled_topics_until_they_are_enabled(serving: Serving, cluster: Cluster) -> None:
    for number, topic in enumerate((ONE, TWO)):
        await serving.update(topic, number)
    cluster.say(one="true", three="true")
    await asyncio.sleep(1.5)  # facts are cached for a second
    watch = Values(serving.stub, namespaces=[NAMESPACE])
    assert (await watch.until_synced())[0] == {TWO: 1}
    await serving.written_by_broker(ONE, 10)
    await serving.written_by_broker(THREE, 30)  # no event of this topic came before
    await serving.update(TWO, 2)
    assert await watch.change() == {TWO: 2}
    cluster.say(three="true")
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 10, TWO: 2})
    watch.cancel()


async def test_changes_during_the_lookup_of_a_new_topics_property_are_sent_right_after_the_lookup(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, waiting = asyncio.Event(), asyncio.Event()
    look = DisabledTopics.look_up_all

    async def slowly(disabled_topics: DisabledTopics, topics: Iterable[str]) -> None:
        waiting.set()
        await gate.wait()
        await look(disabled_topics, topics)

    watch = Values(serving.stub, namespaces=[NAMESPACE], mode=pb.WATCH_MODE_EVERY, bookmark_interval=Duration(seconds=300))
    await watch.until_synced()
    monkeypatch.setattr(DisabledTopics, "look_up_all", slowly)
    await serving.update(ONE, 1)
    await asyncio.wait_for(waiting.wait(), PATIENCE)
    for value in range(2, 7):
        await serving.update(ONE, value)
    await asyncio.sleep(0.1)  # each change wakes the stream, which can send nothing yet
    gate.set()
    assert [await watch.change() for _ in range(6)] == [{ONE: value} for value in range(1, 7)]
    watch.cancel()


async def test_an_unexpected_failure_of_a_new_topics_lookup_is_reported_and_the_lookup_is_retried(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_disabled_topics: DisabledTopics, _topics: Iterable[str]) -> None:
        raise LookupError

    watch = WatchReader(serving.stub, namespaces=[NAMESPACE], mode=pb.WATCH_MODE_EVERY, bookmark_interval=Duration(seconds=300))
    await watch.until_synced()
    with monkeypatch.context() as planted:
        planted.setattr(DisabledTopics, "look_up_all", fail)
        await serving.update(ONE, 1)
        (failed,) = (await watch.until(lambda event: event.status.state == pb.NAMESPACE_STATE_FAILED))[-1:]
        assert failed.status.reason == errors_pb2.ERROR_REASON_INTERNAL
    events = await watch.until(lambda event: event.HasField("change"))
    assert events[-1].change.document.policies.max_producer_per_topic == 1
    assert [event.status.state for event in events if event.HasField("status")] == [pb.NAMESPACE_STATE_READY]
    assert "LookupError" in caplog.text
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


async def test_a_stream_gets_no_reset_when_a_topic_that_it_does_not_watch_is_disabled(serving: Serving, cluster: Cluster) -> None:
    await serving.update(ONE, 1)
    await serving.update(TWO, 2)
    everything, one = Values(serving.stub, namespaces=[NAMESPACE]), Values(serving.stub, topics=[ONE])
    await everything.until_synced()
    await one.until_synced()
    cluster.say(two="true")
    assert await everything.reset() == ("TOPIC_POLICIES_SWITCHED", {ONE: 1})
    await serving.update(ONE, 3)
    assert await one.change() == {ONE: 3}
    everything.cancel()
    one.cancel()


async def test_a_token_of_other_disabled_topics_resets_the_watch(start: Start, cluster: Cluster) -> None:
    async with start() as first:
        await first.update(ONE, 1)
        await first.update(TWO, 2)
        watch = Values(first.stub, namespaces=[NAMESPACE])
        _, all_of_them = await watch.until_synced()
        watch.cancel()
    cluster.say(one="true")
    async with start() as second:
        watch = Values(second.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: all_of_them})
        assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {TWO: 2})
        watch.cancel()
        watch = Values(second.stub, namespaces=[NAMESPACE])
        values, without_one = await watch.until_synced()
        assert values == {TWO: 2}
        watch.cancel()
    async with start() as third:
        watch = Values(third.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: without_one})
        assert (await watch.until_synced())[0] == {}
        await third.update(TWO, 3)
        assert await watch.change() == {TWO: 3}
        watch.cancel()


async def test_a_watch_resumes_from_the_token_of_a_listing_although_a_topic_is_disabled(serving: Serving, cluster: Cluster) -> None:
    await serving.update(ONE, 1)
    await serving.update(TWO, 2)
    cluster.say(one="true")
    await asyncio.sleep(1.5)  # facts are cached for a second
    page = await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE))
    assert [document.topic for document in page.documents] == [TWO]
    await serving.update(TWO, 3)
    watch = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: page.resume_token})
    assert (await watch.until_synced())[0] == {TWO: 3}
    watch.cancel()
    cluster.say("true")
    async with asyncio.timeout(PATIENCE):
        while page.documents:
            await asyncio.sleep(0.1)  # a listing may use older facts; each request has them refreshed
            page = await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE))
    watch = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: page.resume_token})
    assert (await watch.state()).state == pb.NAMESPACE_STATE_DISABLED
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {})
    cluster.say(one="true")
    assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {TWO: 3})
    watch.cancel()


async def test_the_first_page_of_a_large_namespace_reads_only_the_documents_of_one_page(
    serving: Serving, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [f"persistent://{NAMESPACE}/topic-{number:03}" for number in range(120)]
    for topic in topics:
        await serving.update(topic, 1)
    cluster.say(**{"topic-001": "true", "topic-119": "true", "elsewhere": "true"})
    await asyncio.sleep(1.5)  # facts are cached for a second
    read: list[int] = []
    page = Namespace.page

    async def counted(namespace: Namespace, scopes: Any, after: Any, most: int, most_bytes: int | None = None) -> Any:
        read.append(most)
        return await page(namespace, scopes, after, most, most_bytes)

    with monkeypatch.context() as planted:
        planted.setattr(Namespace, "page", counted)
        listed = await serving.stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE, page_size=5))
    assert [document.topic for document in listed.documents] == [topics[0], *topics[2:5]]
    assert read == [5]
    await serving.update(topics[7], 2)
    watch = Values(serving.stub, namespaces=[NAMESPACE], resume_tokens={NAMESPACE: listed.resume_token})
    assert (await watch.until_synced())[0] == {topics[7]: 2}, "the token of the page does not resume a watch"
    watch.cancel()

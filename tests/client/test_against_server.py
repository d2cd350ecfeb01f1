"""The clients against the real server on the embedded log: vectors, cut connections, restarts and concurrent changes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.json_format import ParseDict

import topicpolicies as tp
from tests.client.cutting_proxy import CuttingProxy
from tests.client.fake_service import BOTH, use
from tests.client.vectors import examples, name
from topicpolicies.v1 import service_pb2
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/orders"
LIMITS = replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=1.0)
NAMES = {"skipIfAbsent": "skip_if_absent", "includePrevious": "include_previous", "validateOnly": "validate_only"}
both = pytest.mark.parametrize("kind", BOTH)
Kind = type[tp.Client | tp.AsyncClient]


@contextlib.contextmanager
def in_thread(config: ServerConfig) -> Iterator[str]:
    """Runs a server in an event loop of its own; yields its address."""
    with asyncio.Runner() as runner, ThreadPoolExecutor(1) as pool:
        server = Server(config)
        pool.submit(runner.run, server.start()).result()
        stop, loop = asyncio.Event(), runner.get_loop()
        serving = pool.submit(runner.run, stop.wait())
        try:
            yield server.address
        finally:
            loop.call_soon_threadsafe(stop.set)
            serving.result()
            pool.submit(runner.run, server.stop()).result()


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """The address of a server for tests that have topics of their own."""
    with in_thread(ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))) as address:
        yield address


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    history = HistoryConfig(path=tmp_path / "history.db")
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), limits=LIMITS, history=history)
    async with Server(config) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[tp.AsyncClient]:
    async with tp.AsyncClient(server.address, actor="tests") as client:
        yield client


def message(document: dict[str, Any] | None) -> tp.TopicPolicies | None:
    return None if document is None else ParseDict(document, tp.TopicPolicies())


def policies(document: tp.PolicyDocument) -> tp.TopicPolicies | None:
    return document.policies if document.HasField("policies") else None


@pytest.mark.parametrize("example", examples("apply.json"), ids=name)
async def test_an_update_has_the_result_of_the_example(example: dict[str, Any], shared: str) -> None:
    """A server without a broker does not know the name of its own cluster, and accepts lists of clusters only in the GLOBAL scope."""
    topic = f"persistent://public/default/{uuid4()}"
    clusters = any("replicationClusters" in (document or {}) for document in (example["policies"], example["document"]))
    scope = tp.SCOPE_GLOBAL if clusters else tp.SCOPE_LOCAL
    operations = {path: tp.ListOperation.Value(each) for path, each in example.get("listOperations", {}).items()}
    options: Any = {"scope": scope, "list_operations": operations, "mask": example.get("mask")}
    if (before := message(example["document"])) is not None:
        await use(tp.Client, shared, lambda client: client.update(topic, before, mask="*", scope=scope))
    try:
        await use(tp.Client, shared, lambda client: client.update(topic, message(example["policies"]), **options))
    except tp.InvalidArgument as error:
        assert example["reason"] in {violation.reason for violation in error.violations}
    else:
        assert "reason" not in example
    after = await use(tp.Client, shared, lambda client: client.get(topic, scope=scope))
    assert policies(after) == message(example["document" if "reason" in example else "after"])


@both
@pytest.mark.parametrize("example", examples("edits.json"), ids=name)
async def test_an_edit_does_what_the_example_says(kind: Kind, example: dict[str, Any], shared: str) -> None:
    topic, runs = f"persistent://public/default/{uuid4()}", 0
    if (before := message(example["document"])) is not None:
        await use(kind, shared, lambda client: client.update(topic, before, mask="*"))

    def meanwhile() -> None:
        with tp.Client(shared) as other:
            if (values := message(example["meanwhile"])) is not None:
                other.update(topic, values)
            else:
                other.delete(topic)

    def change(edited: tp.TopicPolicies) -> None:
        nonlocal runs
        runs += 1
        edited.MergeFrom(ParseDict(example["edit"], tp.TopicPolicies()))
        if runs == 1 and "meanwhile" in example:
            meanwhile()

    options = {NAMES[option]: True for option in example.get("options", ())}
    result = await use(kind, shared, lambda client: client.edit(topic, change, **options))
    assert (runs, tp.ChangeOutcome.Name(result.outcome)) == (example["runs"], f"CHANGE_OUTCOME_{example['outcome']}")
    assert result.HasField("previous") == ("previous" in example)
    if "previous" in example:
        assert policies(result.previous) == message(example["previous"])
    after = await use(kind, shared, lambda client: client.get(topic))
    assert policies(after) == message(example["after"])
    assert result.version == after.version


def chained(results: list[tp.ChangeResult]) -> bool:
    """Returns whether each change was made on the one before it, in the order of versions."""
    links = sorted({(result.version, result.previous_version) for result in results})
    return all(after[1] == before[0] for before, after in pairwise(links))


async def test_a_document_can_be_created_changed_checked_cleared_listed_and_deleted(client: tp.AsyncClient) -> None:
    absent = await client.get(TOPIC)
    assert policies(absent) is None
    rate = {"subscription_policies.`a.b`": {"dispatch_rate": {"dispatch_throttling_rate_in_msg": 5}}}
    first = await client.update(TOPIC, rate, version=absent.version)
    assert first.outcome == tp.CHANGE_OUTCOME_APPLIED
    assert first.document.policies.subscription_policies["a.b"].dispatch_rate.rate_period_in_second == 1, "Pulsar's own default"
    second = await client.update(TOPIC, max_producer_per_topic=5, subscription_types_enabled=["shared"], include_previous=True)
    assert (second.previous, second.previous_version) == (first.document, first.version)
    union = {"subscription_types_enabled": tp.LIST_OPERATION_UNION}
    third = await client.update(TOPIC, subscription_types_enabled=["failover"], list_operations=union)
    assert len(third.document.policies.subscription_types_enabled) == 2
    checked = await client.update(TOPIC, max_producer_per_topic=7, validate_only=True)
    assert (checked.outcome, checked.document.policies.max_producer_per_topic) == (tp.CHANGE_OUTCOME_WOULD_APPLY, 7)
    cleared = await client.update(TOPIC, subscription_policies=None, subscription_types_enabled=[])
    assert cleared.document.policies == tp.TopicPolicies(max_producer_per_topic=5)
    for precondition in ({"version": first.version}, {"exists": False}):
        with pytest.raises(tp.PreconditionFailed) as caught:
            await client.update(TOPIC, max_producer_per_topic=8, **precondition)
        assert (caught.value.reason, caught.value.metadata["version"]) == ("PRECONDITION_FAILED", cleared.version)
    assert [document async for document in client.list(NAMESPACE)] == [cleared.document]
    deleted = await client.delete(TOPIC, exists=True, include_previous=True)
    assert (deleted.outcome, deleted.previous) == (tp.CHANGE_OUTCOME_APPLIED, cleared.document)
    assert (await client.delete(TOPIC)).outcome == tp.CHANGE_OUTCOME_UNCHANGED
    assert policies(await client.get(TOPIC, at_least_version=deleted.version)) is None


@both
async def test_a_batch_applies_the_changes_of_a_document_in_their_order(kind: Kind, server: Server) -> None:
    changes: list[Any] = [tp.update_request(f"{TOPIC}-{number % 3}", max_producer_per_topic=number) for number in range(1_200)]
    changes += [tp.update_request(f"{TOPIC}-0", mask=["nope"]), tp.delete_request(f"{TOPIC}-1")]
    outcomes = await use(kind, server.address, lambda client: client.batch(changes))
    assert [change for change, _ in outcomes] == changes
    assert [made.reason for _, made in outcomes if isinstance(made, tp.TopicPoliciesError)] == ["INVALID_REQUEST"]
    listed = await use(kind, server.address, lambda client: client.list(NAMESPACE, page_size=1))
    assert [document.policies.max_producer_per_topic for document in listed] == [1_197, 1_199]


async def test_a_watch_of_every_change_has_each_version_and_its_origin(client: tp.AsyncClient) -> None:
    async with client.watch(topics=[TOPIC], scopes=[tp.SCOPE_LOCAL], mode=tp.WATCH_MODE_EVERY) as watch:
        while not (await anext(watch)).bookmark.synced:
            pass
        results = [await client.update(TOPIC, max_producer_per_topic=value, reason="why") for value in range(1, 20)]
        changes: list[service_pb2.PolicyChange] = []
        while len(changes) < len(results):
            event = await anext(watch)
            changes += [event.change] if event.HasField("change") else []
    assert [(each.document, each.previous_version) for each in changes] == [(each.document, each.previous_version) for each in results]
    origins = [(each.origin.actor, each.origin.reason, each.origin.request_id) for each in changes]
    assert origins == [("tests", "why", each.request_id) for each in results]


async def test_a_watch_resumes_from_the_token_of_a_list_and_of_another_watch(client: tp.AsyncClient, server: Server) -> None:
    for number in range(5):
        await client.update(f"{TOPIC}-{number}", max_producer_per_topic=1)
    pages = client.list_pages(NAMESPACE, page_size=2)
    first = await anext(pages)
    changed = await client.update(first.documents[0].topic, max_producer_per_topic=2)
    assert sum([len(page.documents) async for page in pages]) == 3

    def copy(tokens: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        with tp.Client(server.address) as other, other.watch(namespaces=[NAMESPACE], resume_tokens=tokens, until_synced=True) as watch:
            return [event.change.document.version for event in watch if event.HasField("change")], watch.resume_tokens

    versions, tokens = await asyncio.to_thread(copy, {NAMESPACE: first.resume_token})
    assert versions == [changed.version]
    assert (await asyncio.to_thread(copy, tokens))[0] == []
    assert len((await asyncio.to_thread(copy, {}))[0]) == 5


@both
async def test_the_history_is_listed_read_and_copied(kind: Kind, server: Server) -> None:
    changes = [tp.update_request(TOPIC, max_producer_per_topic=value) for value in (1, 2, 3)]
    made = [result for _, result in await use(kind, server.address, lambda client: client.batch(changes), actor="bot")]
    entries = await use(kind, server.address, lambda client: client.history(topic=TOPIC, page_size=2, oldest_first=True))
    assert [entry.document for entry in entries] == [each.document for each in made]
    assert {entry.origin.actor for entry in entries} == {"bot"}
    assert await use(kind, server.address, lambda client: client.as_of(TOPIC, made[0].version)) == made[0].document
    events = await use(kind, server.address, lambda client: client.watch_history([NAMESPACE], until_synced=True))
    assert [event.entry.document for event in events if event.HasField("entry")] == [each.document for each in made]


async def test_a_cache_is_complete_whatever_token_it_is_given_and_nothing_selected_is_refused(client: tp.AsyncClient) -> None:
    await client.update(TOPIC, max_producer_per_topic=1)
    async with client.watch(namespaces=[NAMESPACE], until_synced=True) as watch:
        assert [event async for event in watch]
    async with client.cache(namespaces=[NAMESPACE], resume_tokens=watch.resume_tokens) as cache:
        assert await cache.wait_synced(20) and cache.get(TOPIC) is not None
    with pytest.raises(tp.InvalidArgument, match="at least one"):
        _ = [event async for event in client.watch(until_synced=True)]


async def test_a_cache_keeps_its_documents_while_the_server_is_down_and_catches_up_later(tmp_path: Path) -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=tmp_path / "policies.db"), listen=parse_address("127.0.0.1:0"), limits=LIMITS)
    first = Server(config)
    await first.start()

    def value(document: tp.PolicyDocument | None) -> int:
        return document.policies.max_producer_per_topic if document is not None else 0

    async with tp.AsyncClient(first.address) as client, client.cache(namespaces=[NAMESPACE], bookmark_interval=1) as cache:
        await client.update(TOPIC, max_producer_per_topic=1)
        assert await cache.wait_synced(20)
        await first.stop()
        async with asyncio.timeout(20):
            while cache.age() < 1.2:  # noqa: ASYNC110 - there is no event for this
                await asyncio.sleep(0.05)
        assert (value(cache.get(TOPIC)), cache.synced()) == (1, True)
        async with Server(replace(config, listen=parse_address(first.address))):
            changed = await client.update(TOPIC, max_producer_per_topic=2)
            async with asyncio.timeout(20):
                while value(cache.get(TOPIC)) != 2 or cache.age() > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
    assert changed.version == getattr(cache.get(TOPIC), "version", "")


@pytest.mark.slow
async def test_changes_and_watches_over_cut_connections_lose_and_repeat_nothing(server: Server) -> None:
    """A proxy between the clients and the server aborts all connections every 20 to 80 ms."""
    chance, proxy = random.Random(7), CuttingProxy(server.address)
    results: defaultdict[str, list[tp.ChangeResult]] = defaultdict(list)
    delivered: list[tuple[str, str]] = []

    async def cut() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.02, 0.08))
            proxy.cut()

    async def work(number: int) -> None:
        topic, setting = f"{TOPIC}-{number % 2}", f"subscription_policies.s{number}.dispatch_rate.dispatch_throttling_rate_in_msg"
        async with tp.AsyncClient(proxy.address) as client:
            for value in range(1, 101):
                request_id = uuid4().hex
                while True:
                    try:
                        results[topic].append(await client.update(topic, {setting: value}, request_id=request_id))
                    except tp.OutcomeUnknown:
                        continue
                    break

    async def follow(watch: tp.AsyncWatch[tp.WatchEvent]) -> None:
        async for event in watch:
            if event.HasField("change"):
                delivered.append((event.change.document.topic, event.change.document.version))

    async with proxy.serving(), tp.AsyncClient(proxy.address) as client, client.watch(topics=[f"{TOPIC}-0"]) as empty:
        while not (await anext(empty)).bookmark.synced:
            pass
        async with client.watch(namespaces=[NAMESPACE], mode=tp.WATCH_MODE_EVERY) as watch:
            while not (await anext(watch)).bookmark.synced:
                pass
            following, cutting = asyncio.ensure_future(follow(watch)), asyncio.ensure_future(cut())
            await asyncio.gather(*map(work, range(4)))
            cutting.cancel()
            async with asyncio.timeout(30):
                while len(delivered) < 400:  # noqa: ASYNC110 - there is no event for this
                    await asyncio.sleep(0.01)
        await following
    assert proxy.cuts > 5
    for topic, made in results.items():
        assert len(made) == 200
        assert chained(made)
        assert [version for name, version in delivered if name == topic] == sorted(result.version for result in made)

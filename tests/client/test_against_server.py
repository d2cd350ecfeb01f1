"""The clients against the real server on the embedded log: cut connections, restarts and concurrent changes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

import topicpolicies as tp
from tests.client.cutting_proxy import CuttingProxy
from topicpolicies.v1 import service_pb2
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/orders"
FAST_RETRIES = tp.RetryPolicy(first_delay_seconds=0.005, longest_delay_seconds=0.1, attempt_timeout_seconds=2.0)
LIMITS = replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=1.0)


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EmbeddedLogConfig:
    return EmbeddedLogConfig(path=None if request.param == "memory" else tmp_path / "policies.db")


@pytest.fixture
async def server(log: EmbeddedLogConfig) -> AsyncIterator[Server]:
    async with Server(ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=LIMITS)) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[tp.AsyncClient]:
    async with tp.AsyncClient(server.address, actor="tests", retries=FAST_RETRIES) as client:
        yield client


def _policies(result: tp.UpdateResult) -> tp.TopicPolicies:
    assert result.document is not None
    assert result.document.policies is not None
    return result.document.policies


def bump(policies: tp.TopicPolicies) -> None:
    policies.max_producer_per_topic += 1


def chain(results: list[tp.UpdateResult]) -> list[tuple[str, str]]:
    """Returns pairs for the distinct updates after the first, in version order.

    Each pair is the previous version that the update reported, and the version of the update before it. They must be equal.
    """
    links = sorted({(result.version, result.previous_version) for result in results})
    return [(previous, before) for (_, previous), (before, _) in zip(links[1:], links, strict=False)]


async def test_a_document_can_be_created_changed_checked_cleared_listed_and_deleted(client: tp.AsyncClient) -> None:
    absent = await client.get(TOPIC)
    assert not absent.exists
    first = await client.update(
        TOPIC, {"subscription_policies.`a.b`": {"dispatch_rate": {"dispatch_throttling_rate_in_msg": 5}}}, etag=absent.version
    )
    assert first.outcome is tp.UpdateOutcome.APPLIED
    assert _policies(first).subscription_policies["a.b"].dispatch_rate.rate_period_in_second == 1, "Pulsar's own default"
    second = await client.update(TOPIC, max_producer_per_topic=5, subscription_types_enabled=["shared"], include_previous=True)
    assert second.previous == first.document
    assert second.previous_version == first.version
    union = {"subscription_types_enabled": tp.ListOperation.UNION}
    third = await client.update(TOPIC, subscription_types_enabled=["key_shared", "shared"], list_operations=union)
    assert list(_policies(third).subscription_types_enabled) == [2, 4]
    checked = await client.update(TOPIC, max_producer_per_topic=9, validate_only=True)
    assert (checked.outcome, checked.version) == (tp.UpdateOutcome.WOULD_APPLY, third.version)
    assert _policies(checked).max_producer_per_topic == 9
    cleared = await client.update(TOPIC, {"subscription_policies.`a.b`": None, "max_producer_per_topic": None})
    assert _policies(cleared) == tp.TopicPolicies(subscription_types_enabled=[2, 4])  # type: ignore[list-item]
    assert (await client.update(TOPIC, max_producer_per_topic=None)).outcome is tp.UpdateOutcome.UNCHANGED
    assert [document async for document in client.list(NAMESPACE)] == [await client.get(TOPIC, at_least_version=cleared.version)]
    with pytest.raises(tp.Conflict):
        await client.delete(TOPIC, etag=third.version)
    assert (await client.delete(TOPIC, etag=cleared.version, validate_only=True)).outcome is tp.DeleteOutcome.WOULD_DELETE
    deleted = await client.delete(TOPIC, etag=cleared.version, include_previous=True)
    assert (deleted.outcome, deleted.previous) == (tp.DeleteOutcome.DELETED, cleared.document)
    assert (await client.delete(TOPIC, scope=tp.Scope.GLOBAL)).outcome is tp.DeleteOutcome.ABSENT
    skipped = await client.update(TOPIC, max_producer_per_topic=1, skip_if_absent=True)
    assert skipped.outcome is tp.UpdateOutcome.SKIPPED
    assert not (await client.get(TOPIC)).exists
    await client.update(TOPIC, max_producer_per_topic=1, must_not_exist=True)
    with pytest.raises(tp.AlreadyExists):
        await client.update(TOPIC, max_producer_per_topic=1, must_not_exist=True)


async def test_entries_of_a_map_that_an_update_does_not_name_are_kept(client: tp.AsyncClient) -> None:
    def entry(rate: int) -> tp.SubscriptionPolicies:
        return tp.SubscriptionPolicies(dispatch_rate=tp.DispatchRate(dispatch_throttling_rate_in_msg=rate))

    await client.update(TOPIC, subscription_policies={"one": entry(1)})
    await client.update(TOPIC, subscription_policies={"two": entry(2)})
    both = await client.update(TOPIC, tp.TopicPolicies(subscription_policies={"three": entry(3)}))
    assert set(_policies(both).subscription_policies) == {"one", "two", "three"}
    alone = await client.update(TOPIC, tp.TopicPolicies(subscription_policies={"four": entry(4)}), mask="subscription_policies")
    assert set(_policies(alone).subscription_policies) == {"four"}


async def test_a_refusal_has_the_current_version_or_every_violation(client: tp.AsyncClient) -> None:
    absent = await client.get(TOPIC)
    made = await client.update(TOPIC, max_producer_per_topic=1)
    with pytest.raises(tp.Conflict) as conflict:
        await client.update(TOPIC, max_producer_per_topic=2, etag=absent.version)
    assert conflict.value.metadata["version"] == made.version
    with pytest.raises(tp.InvalidArgument) as refused:
        await client.update("not a topic", mask=["no_such_field", "neither.this"])
    assert refused.value.from_service
    assert {"update_mask.paths[0]", "update_mask.paths[1]"} <= {violation.field for violation in refused.value.violations}
    with pytest.raises(tp.InvalidArgument):
        await client.update(TOPIC, max_producer_per_topic=3, request_id="not a uuid")
    again = await client.update(TOPIC, max_producer_per_topic=1, request_id=made.request_id)
    assert again.replayed
    assert again.version == made.version
    with pytest.raises(tp.InvalidArgument):
        await client.update(TOPIC, max_producer_per_topic=4, request_id=made.request_id)


async def test_a_repeated_request_gets_its_first_result_even_after_200_other_changes_of_the_topic(client: tp.AsyncClient) -> None:
    first = await client.update(TOPIC, max_producer_per_topic=1)
    async for settled in client.update_many(tp.Update(TOPIC, max_consumer_per_topic=value) for value in range(1, 201)):
        assert settled.unwrap().outcome is tp.UpdateOutcome.APPLIED
    await client.update(TOPIC, max_producer_per_topic=2)
    again = await client.update(TOPIC, max_producer_per_topic=1, request_id=first.request_id)
    assert (again.replayed, again.version, again.previous_version) == (True, first.version, first.previous_version)
    assert (await client.get(TOPIC)).policies == tp.TopicPolicies(max_producer_per_topic=2, max_consumer_per_topic=200)
    with pytest.raises(tp.InvalidArgument):
        await client.update(TOPIC, max_producer_per_topic=3, request_id=first.request_id)


async def test_no_concurrent_edit_of_six_clients_is_lost(server: Server) -> None:
    clients = [tp.AsyncClient(server.address, retries=FAST_RETRIES) for _ in range(6)]
    runs = 0

    def counted(policies: tp.TopicPolicies) -> None:
        nonlocal runs
        runs += 1
        bump(policies)

    async def several(client: tp.AsyncClient) -> list[tp.UpdateResult]:
        return [await client.edit(TOPIC, counted) for _ in range(5)]

    results = [each for some in await asyncio.gather(*map(several, clients)) for each in some]
    document = await clients[0].get(TOPIC)
    await asyncio.gather(*(client.close() for client in clients))
    assert document.policies == tp.TopicPolicies(max_producer_per_topic=30)
    assert all(previous == before for previous, before in chain(results))
    assert runs > 30, "some edits met conflicts and ran again"


async def test_each_client_reads_what_the_other_wrote(server: Server, client: tp.AsyncClient) -> None:
    def synchronous() -> tuple[list[tp.Settled], list[tp.Document]]:
        with tp.Client(server.address, actor="threads") as other:
            other.edit(TOPIC, bump)
            with other.edit(TOPIC) as policies:
                bump(policies)
            updates = [tp.Update(f"{TOPIC}-{number % 3}", max_producer_per_topic=number) for number in range(60)]
            return list(other.update_many(updates, max_in_flight=16)), list(other.list(NAMESPACE, page_size=2))

    settled, documents = await asyncio.to_thread(synchronous)
    assert sorted(each.sequence for each in settled) == list(range(60))
    assert all(each.unwrap().outcome is tp.UpdateOutcome.APPLIED for each in settled[1:])
    assert [document async for document in client.list(NAMESPACE)] == documents
    assert {document.policies.max_producer_per_topic for document in documents if document.policies} == {2, 57, 58, 59}


async def test_a_watch_of_every_change_has_each_version_and_its_origin(client: tp.AsyncClient) -> None:
    async with client.watch(topics=[TOPIC], scopes=[tp.Scope.LOCAL], mode=tp.WatchMode.EVERY) as watch:
        absent = await anext(watch)
        while isinstance(absent, tp.Status):
            absent = await anext(watch)
        assert isinstance(absent, tp.Changed)
        assert absent.snapshot
        assert not absent.document.exists
        assert isinstance(await anext(watch), tp.Synced)
        results = [await client.update(TOPIC, max_producer_per_topic=value, reason="why") for value in range(1, 20)]
        changes: list[tp.Changed] = []
        while len(changes) < len(results):
            event = await anext(watch)
            if isinstance(event, tp.Changed):
                changes.append(event)
    pairs = [(result.document, result.previous_version) for result in results]
    assert [(event.document, event.previous_version) for event in changes] == pairs
    origins = [event.origin for event in changes if event.origin is not None]
    assert {(each.actor, each.reason, each.update_mask) for each in origins} == {("tests", "why", ("max_producer_per_topic",))}
    assert [each.request_id for each in origins] == [result.request_id for result in results]


async def test_a_watch_resumes_from_the_token_of_a_listing(client: tp.AsyncClient) -> None:
    for number in range(5):
        await client.update(f"{TOPIC}-{number}", max_producer_per_topic=1)
    listing = client.list(NAMESPACE, page_size=2)
    first = await anext(listing)
    await client.update(first.topic, max_producer_per_topic=2)
    listed = [first, *[document async for document in listing]]
    assert [document.topic for document in listed] == [f"{TOPIC}-{number}" for number in range(5)]
    async with client.watch(namespaces=[NAMESPACE], token=listing.token, end_when_synced=True) as watch:
        events = [event async for event in watch if not isinstance(event, tp.Status)]
    assert [type(event) for event in events] == [tp.Changed, tp.Synced]


async def test_a_watch_that_ends_when_synced_delivers_all_documents(client: tp.AsyncClient, server: Server) -> None:
    for number in range(5):
        await client.update(f"{TOPIC}-{number}", max_producer_per_topic=1)

    def copy() -> list[str]:
        with tp.Client(server.address) as other, other.watch(namespaces=[NAMESPACE], end_when_synced=True) as watch:
            return [event.document.topic for event in watch if isinstance(event, tp.Changed)]

    assert sorted(await asyncio.to_thread(copy)) == [f"{TOPIC}-{number}" for number in range(5)]


async def test_the_stub_makes_raw_calls_with_the_clients_actor(client: tp.AsyncClient) -> None:
    request = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=tp.TopicPolicies(max_producer_per_topic=1))
    await client.stub.UpdatePolicy(request)
    async with client.watch(topics=[TOPIC], mode=tp.WatchMode.EVERY) as watch:
        while not isinstance(event := await anext(watch), tp.Changed):
            pass
    assert event.origin is not None
    assert event.origin.actor == "tests"
    assert (await client.server_info()).log in (tp.LogKind.MEMORY, tp.LogKind.EMBEDDED)


class Traffic:
    """Clients that each change a setting of their own, the first of them over a stream, and a watch of all topics."""

    def __init__(self, topics: int) -> None:
        self._topics = topics
        self.results: dict[str, list[tp.UpdateResult]] = defaultdict(list)
        """The results of the updates by topic."""
        self.interrupted: list[tp.Interrupted] = []
        self.delivered: list[tuple[str, str]] = []
        """The topic and the version of each change that the watch delivered."""

    @property
    def made(self) -> int:
        return sum(map(len, self.results.values()))

    def topic(self, number: int) -> str:
        return f"{TOPIC}-{number % self._topics}"

    async def run(self, clients: list[tp.AsyncClient]) -> None:
        streaming, *working = clients
        work = (self._work(client, number) for number, client in enumerate(working, 1))
        await asyncio.gather(self._stream(streaming, 0), *work)

    async def _work(self, client: tp.AsyncClient, number: int) -> None:
        setting = f"subscription_policies.s{number}.dispatch_rate.dispatch_throttling_rate_in_msg"
        for value in range(1, 41):
            self.results[self.topic(number)].append(await client.update(self.topic(number), {setting: value}))

    async def _stream(self, client: tp.AsyncClient, number: int) -> None:
        updates = [tp.Update(self.topic(number), max_producer_per_topic=value) for value in range(1, 301)]
        async for settled in client.update_many(updates, max_in_flight=10):
            result = settled.unwrap()
            assert isinstance(result, tp.UpdateResult)
            self.results[self.topic(number)].append(result)

    async def follow(self, watch: tp.AsyncWatch) -> None:
        async for event in watch:
            if isinstance(event, tp.Interrupted):
                self.interrupted.append(event)
            elif isinstance(event, tp.Changed) and not event.snapshot:
                self.delivered.append((event.document.topic, event.document.version))

    def check(self) -> None:
        """Checks that no update was lost, that each was applied once, and that the watch missed and repeated none."""
        for name, mine in self.results.items():
            assert all(previous == before for previous, before in chain(mine))
            assert [version for topic, version in self.delivered if topic == name] == sorted(result.version for result in mine)


@pytest.mark.parametrize("topics", [6, pytest.param(1, marks=pytest.mark.slow)])
async def test_updates_and_watches_over_cut_connections_lose_and_repeat_nothing(server: Server, topics: int) -> None:
    """A proxy between the clients and the server aborts all connections every 10 to 80 ms."""
    chance = random.Random(7)
    proxy = CuttingProxy(server.address)
    traffic = Traffic(topics)

    async def cut() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.01, 0.08))
            proxy.cut()

    async with proxy.serving(), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(tp.AsyncClient(proxy.address, retries=FAST_RETRIES)) for _ in range(6)]
        watch = clients[0].watch(namespaces=[NAMESPACE], mode=tp.WatchMode.EVERY)
        while not isinstance(await anext(watch), tp.Synced):
            pass
        following = asyncio.ensure_future(traffic.follow(watch))
        cutting = asyncio.ensure_future(cut())
        await traffic.run(clients)
        cutting.cancel()
        await asyncio.gather(cutting, return_exceptions=True)
        async with asyncio.timeout(30):
            while len(traffic.delivered) < traffic.made:  # noqa: ASYNC110 - there is no event for this
                await asyncio.sleep(0.01)
        await watch.close()
        await following
    assert traffic.made == 500
    traffic.check()
    for number in range(6):
        final = (await _read(server, traffic.topic(number))).policies
        assert final is not None
        rate = final.subscription_policies[f"s{number}"].dispatch_rate.dispatch_throttling_rate_in_msg
        assert (final.max_producer_per_topic if number == 0 else rate) == (300 if number == 0 else 40)
    assert proxy.cuts > 5
    assert traffic.interrupted


async def test_a_watch_and_an_update_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=tmp_path / "policies.db"), listen=parse_address("127.0.0.1:0"), limits=LIMITS)
    first = Server(config)
    await first.start()
    address = first.address
    async with tp.AsyncClient(address, retries=FAST_RETRIES) as client:
        before = await client.update(TOPIC, max_producer_per_topic=1)
        watch = client.watch(namespaces=[NAMESPACE], mode=tp.WatchMode.EVERY)
        events: list[tp.WatchEvent] = []
        while not isinstance(events[-1] if events else None, tp.Synced):
            events.append(await anext(watch))
        await first.stop()
        pending = asyncio.ensure_future(client.update(TOPIC, max_producer_per_topic=2))
        await asyncio.sleep(0.05)
        async with Server(replace(config, listen=parse_address(address))):
            after = await pending
            events.clear()
            while not isinstance(events[-1] if events else None, tp.Changed):
                events.append(await asyncio.wait_for(anext(watch), 20))
            await watch.close()
    assert after.previous_version == before.version
    change = events[-1]
    assert isinstance(change, tp.Changed)
    assert change.document.version == after.version
    assert any(isinstance(event, tp.Interrupted) for event in events)
    assert not any(isinstance(event, tp.Reset) for event in events), "the watch was resumed, without a new snapshot"


async def _read(server: Server, topic: str) -> tp.Document:
    async with tp.AsyncClient(server.address) as client:
        return await client.get(topic)

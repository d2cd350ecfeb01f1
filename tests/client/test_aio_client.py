"""The asyncio client, and the streams of the synchronous client, against a gRPC service that fails on request."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

import topicpolicies as tp
from tests.client.clocks import FakeClock
from tests.client.fault_service import HANGS, Fault, FaultService
from tests.client.statuses import BROKEN, Code, Refusal

TOPIC = "persistent://public/default/orders"
A, B = "public/a", "public/b"
FAST_RETRIES = tp.RetryPolicy(first_delay_seconds=0.001, longest_delay_seconds=0.01, attempt_timeout_seconds=0.3)
LOST = Fault(BROKEN, after=1)


@pytest.fixture
def service() -> FaultService:
    return FaultService(A, B)


@pytest.fixture
async def client(address: str) -> AsyncIterator[tp.AsyncClient]:
    async with tp.AsyncClient(address, actor="tests", retries=FAST_RETRIES) as client:
        yield client


def bump(policies: tp.TopicPolicies) -> None:
    policies.max_producer_per_topic += 1


async def test_an_update_whose_response_was_lost_is_repeated_and_made_once(client: tp.AsyncClient, service: FaultService) -> None:
    service.faults.extend([Fault(), LOST, Fault(Refusal(Code.CANCELLED), after=1), Fault(Refusal(Code.DEADLINE_EXCEEDED))])
    result = await client.update(TOPIC, max_producer_per_topic=5)
    assert result.replayed
    assert result.version == "v1"
    assert service.documents[TOPIC][1] == 1
    assert service.met["UpdatePolicy"] == 4
    assert service.metadata["topicpolicies-actor"] == "tests"


async def test_an_update_without_a_response_is_repeated_before_its_deadline(client: tp.AsyncClient, service: FaultService) -> None:
    service.faults.append(HANGS)
    began = time.monotonic()
    result = await client.update(TOPIC, max_producer_per_topic=5)
    assert result.outcome is tp.UpdateOutcome.APPLIED
    assert 0.2 < time.monotonic() - began < 10
    assert service.met["UpdatePolicy"] == 1


async def test_an_update_without_a_response_until_its_deadline_has_an_unknown_outcome(
    client: tp.AsyncClient, service: FaultService
) -> None:
    service.faults.extend([HANGS] * 10)
    with pytest.raises(tp.OutcomeUnknown) as caught:
        await client.update(TOPIC, max_producer_per_topic=5, timeout=0.5)
    assert service.met["UpdatePolicy"] >= 1
    service.faults.clear()
    again = await client.update(TOPIC, max_producer_per_topic=5, request_id=caught.value.request_id)
    assert again.outcome is tp.UpdateOutcome.APPLIED


async def test_without_a_service_an_update_raises_unavailable_and_not_outcome_unknown() -> None:
    async with tp.AsyncClient("127.0.0.1:1", retries=FAST_RETRIES) as client:
        with pytest.raises(tp.Unavailable):
            await client.update(TOPIC, max_producer_per_topic=5, timeout=0.3)


async def test_a_cancelled_call_ends_and_is_not_repeated(client: tp.AsyncClient, service: FaultService) -> None:
    service.faults.append(HANGS)
    call = asyncio.ensure_future(client.get(TOPIC))
    await until(lambda: service.met["GetPolicy"] == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert service.met["GetPolicy"] == 1
    assert (await client.get(TOPIC)).version == "v0"


async def test_no_concurrent_edit_of_eight_clients_is_lost(address: str, service: FaultService) -> None:
    clients = [tp.AsyncClient(address, retries=FAST_RETRIES) for _ in range(8)]

    async def several(client: tp.AsyncClient) -> None:
        for _ in range(5):
            await client.edit(TOPIC, bump)

    await asyncio.gather(*map(several, clients))
    for client in clients:
        await client.close()
    assert service.documents[TOPIC][0].max_producer_per_topic == 40
    assert service.met["conflict"] > 0


async def test_an_edit_may_be_a_coroutine(client: tp.AsyncClient) -> None:
    async def later(policies: tp.TopicPolicies) -> None:
        await asyncio.sleep(0)
        policies.max_producer_per_topic = 3

    result = await client.edit(TOPIC, later)
    assert result.document is not None
    assert result.document.policies == tp.TopicPolicies(max_producer_per_topic=3)


async def test_an_edit_with_a_slow_function_ends_at_its_deadline(client: tp.AsyncClient, service: FaultService) -> None:
    async def slow(policies: tp.TopicPolicies) -> None:
        bump(policies)
        await asyncio.sleep(1)
        service.faults.extend([HANGS] * 10)

    began = time.monotonic()
    with pytest.raises(tp.OutcomeUnknown):
        await client.edit(TOPIC, slow, timeout=1.5)
    assert time.monotonic() - began < 2.3


async def test_an_edit_block_sends_its_changes_unless_it_conflicts_or_raises(client: tp.AsyncClient, service: FaultService) -> None:
    edit = client.edit(TOPIC)
    async with edit as policies:
        bump(policies)
    assert edit.result is not None
    with pytest.raises(tp.Conflict):
        async with client.edit(TOPIC) as policies:
            bump(policies)
            await client.edit(TOPIC, bump)
    assert service.documents[TOPIC][0].max_producer_per_topic == 2
    with pytest.raises(KeyError):
        async with client.edit(TOPIC) as policies:
            bump(policies)
            raise KeyError
    assert service.documents[TOPIC][1] == 2
    assert service.met["conflict"] == 1


@pytest.mark.parametrize("source", ["iterable", "async iterable"])
async def test_updates_over_broken_streams_are_each_made_once_and_in_order(
    client: tp.AsyncClient, service: FaultService, source: str
) -> None:
    topics = ("p", "q", "r")

    def updates() -> list[tp.Update]:
        return [tp.Update(f"persistent://{A}/{topics[value % 3]}", {"max_producer_per_topic": value}) for value in range(200)]

    async def slowly() -> AsyncIterator[tp.Update]:
        for update in updates():
            await asyncio.sleep(0)
            yield update

    service.faults.extend([Fault(after=count) for count in (0, 3, 10, 1, 40)])
    settled = [each async for each in client.update_many(updates() if source == "iterable" else slowly(), max_in_flight=8)]
    assert sorted(each.sequence for each in settled) == list(range(200))
    assert all(each.unwrap().outcome is tp.UpdateOutcome.APPLIED for each in settled)
    assert sum(version for _, version in service.documents.values()) == 200
    for topic, last in zip(topics, (198, 199, 197), strict=True):
        assert service.documents[f"persistent://{A}/{topic}"][0].max_producer_per_topic == last, "in order"
    assert service.met["UpdatePolicies"] == 5
    assert any(each.unwrap().replayed for each in settled)
    assert 1 <= service.most_unanswered <= 8


async def test_the_first_result_is_delivered_while_the_source_still_waits(client: tp.AsyncClient) -> None:
    resume = asyncio.Event()

    async def updates() -> AsyncIterator[tp.Update]:
        yield tp.Update(TOPIC, {"max_producer_per_topic": 1})
        await resume.wait()
        yield tp.Update(TOPIC, {"max_producer_per_topic": 2})

    results = client.update_many(updates())
    first = await asyncio.wait_for(anext(results), 10)
    assert first.sequence == 0
    resume.set()
    assert [each.sequence async for each in results] == [1]


async def test_changes_that_are_available_at_once_are_sent_in_few_batches(client: tp.AsyncClient, service: FaultService) -> None:
    changes = [tp.Update(f"persistent://{A}/t{number % 9}", max_producer_per_topic=number) for number in range(500)]
    settled = [each async for each in client.update_many([*changes, tp.Deletion(f"persistent://{A}/t0")])]
    assert [type(each.unwrap()) for each in settled] == [tp.UpdateResult] * 500 + [tp.DeleteResult]
    assert sum(service.batches) == 501
    assert len(service.batches) <= 12
    assert f"persistent://{A}/t0" not in service.documents


async def test_a_listing_reads_all_pages_and_then_has_a_token(client: tp.AsyncClient, service: FaultService) -> None:
    for local in "pqrst":
        await client.update(f"persistent://{A}/{local}", max_producer_per_topic=1)
    service.faults.append(Fault())
    listing = client.list(A)
    assert listing.token == tp.ResumeToken(), "a watch from this token begins with a snapshot"
    assert [each.topic[-1] async for each in listing] == list("pqrst")
    assert listing.token == tp.ResumeToken({A: tp.WatchToken(A, ("1",))})
    assert service.met["ListPolicies"] == 1


async def test_a_deletion_whose_response_was_lost_is_made_once_and_a_refused_one_raises(
    client: tp.AsyncClient, service: FaultService
) -> None:
    await client.update(TOPIC, max_producer_per_topic=1)
    with pytest.raises(tp.Conflict):
        await client.delete(TOPIC, etag="v9")
    service.faults.extend([Fault(), LOST])
    deletion = await client.delete(TOPIC)
    assert (deletion.outcome, deletion.replayed, deletion.previous_version) == (tp.DeleteOutcome.DELETED, True, "v1")
    assert (await client.delete(TOPIC)).outcome is tp.DeleteOutcome.ABSENT
    assert service.met["DeletePolicy"] == 2


async def test_the_results_of_many_updates_can_be_closed_after_the_first(client: tp.AsyncClient) -> None:
    results = client.update_many(tp.Update(TOPIC, {"max_producer_per_topic": value}) for value in range(1000))
    async with aclosing(results):  # the type of the results has to allow that
        async for each in results:
            assert each.sequence == 0
            break


async def test_each_of_many_updates_without_a_service_gets_an_error() -> None:
    for _ in range(5):
        taken = []
        async with tp.AsyncClient("127.0.0.1:1", retries=FAST_RETRIES) as client:
            with pytest.raises((tp.Unavailable, tp.DeadlineExceeded)) as raised:
                async for each in client.update_many([tp.Update(TOPIC, {"max_producer_per_topic": 1})] * 3, timeout=0.2):
                    taken.append(each)
        expected = tp.Unavailable if raised.type is tp.Unavailable else tp.OutcomeUnknown  # otherwise, the patience ended during an attempt
        assert [type(each.error) for each in taken] == [expected] * 3
        if expected is tp.Unavailable:
            return
    raise AssertionError("in none of five runs was an attempt refused before the patience ended")


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds, by polling: there is no event for it."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def known(cache: tp.Mirror) -> dict[str, int]:
    return {document.topic: document.policies.max_producer_per_topic for document in cache if document.policies is not None}


@pytest.mark.parametrize("seed", range(4))
async def test_a_watch_over_failing_streams_ends_with_the_documents_of_the_service(
    client: tp.AsyncClient, service: FaultService, seed: int
) -> None:
    chance = random.Random(seed)
    codes = (Code.UNAVAILABLE, Code.CANCELLED, Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.UNKNOWN, Code.DEADLINE_EXCEEDED)
    service.faults.extend(Fault(Refusal(chance.choice(codes)), after=chance.randrange(12)) for _ in range(25))
    cache = tp.Mirror()
    versions: dict[str, list[str]] = {}
    interrupted = 0

    async def follow(watch: tp.AsyncWatch) -> None:
        nonlocal interrupted
        async for event in watch:
            cache.apply(event)
            interrupted += isinstance(event, tp.Interrupted)
            if isinstance(event, tp.Changed) and not event.snapshot:
                versions.setdefault(event.document.topic, []).append(event.document.version)

    watch = client.watch(namespaces=[A, B], mode=tp.WatchMode.EVERY)
    following = asyncio.ensure_future(follow(watch))
    for step in range(150):
        service.write(chance.choice([A, B]), chance.choice("pqrs"), chance.choice([None, *range(9)]))
        if step == 75:
            service.model.forget(A)
        await asyncio.sleep(chance.choice([0, 0, 0.002]))
    async with asyncio.timeout(20):
        while service.met["WatchPolicies"] < 25:  # a fault happens only after messages
            service.write(A, "t", chance.randrange(9))
            await asyncio.sleep(0.002)
    await until(lambda: interrupted >= 25 and cache.synced(A) and cache.synced(B) and known(cache) == service.model.documents())
    await watch.close()
    await following
    for delivered in versions.values():
        assert delivered == sorted(set(delivered)), "versions only grow, and none is delivered twice"
    assert interrupted >= service.met["WatchPolicies"] == 25
    assert service.model.resumed > 0


async def test_a_watch_with_a_token_that_is_too_old_is_reset_and_begins_with_a_snapshot(
    client: tp.AsyncClient, service: FaultService
) -> None:
    service.write(A, "t", 1)
    async with client.watch(namespaces=[A]) as watch:
        while not isinstance(await anext(watch), tp.Synced):
            pass
        token = watch.token
    service.write(A, "u", 2)
    service.model.forget(A)
    async with client.watch(namespaces=[A], token=token) as watch:
        kinds = [type(await anext(watch)).__name__ for _ in range(4)]
    assert kinds == ["Reset", "Changed", "Changed", "Synced"]
    assert service.model.resets == 1


async def test_cancelling_a_wait_for_an_event_loses_no_event(client: tp.AsyncClient, service: FaultService) -> None:
    async with client.watch(namespaces=[A]) as watch:
        assert isinstance(await anext(watch), tp.Synced)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(watch), 0.02)
        service.write(A, "t", 1)
        event = await asyncio.wait_for(anext(watch), 10)
        assert isinstance(event, tp.Changed)
        assert service.model.resumed == 0


async def test_closing_the_client_ends_a_waiting_watch(client: tp.AsyncClient) -> None:
    watch = client.watch(namespaces=[A])

    async def collect() -> list[tp.WatchEvent]:
        return [event async for event in watch]

    collecting = asyncio.ensure_future(collect())
    await asyncio.sleep(0.05)
    await client.close()
    assert [type(event) for event in await asyncio.wait_for(collecting, 10)] == [tp.Synced]
    with pytest.raises(tp.TopicPoliciesError, match="closed"):
        await client.get(TOPIC)


async def test_closing_a_watch_ends_its_pause_before_a_retry(address: str, service: FaultService) -> None:
    service.faults.append(Fault())
    patient = tp.RetryPolicy(first_delay_seconds=3600, longest_delay_seconds=3600)
    async with tp.AsyncClient(address, retries=patient) as client:
        watch = client.watch(namespaces=[A])
        assert isinstance(await anext(watch), tp.Interrupted)
        waiting = asyncio.ensure_future(anext(watch, None))
        await asyncio.sleep(0.01)
        await watch.close()
        assert await asyncio.wait_for(waiting, 10) is None
    assert service.met["WatchPolicies"] == 1


async def test_a_refused_watch_raises_once_and_ends(client: tp.AsyncClient, service: FaultService) -> None:
    service.faults.append(Fault(Refusal(Code.INVALID_ARGUMENT, "No.", "MALFORMED_NAME")))
    watch = client.watch(namespaces=[A])
    with pytest.raises(tp.InvalidArgument):
        await anext(watch)
    assert [event async for event in watch] == []


async def test_a_watch_without_a_service_raises_when_its_patience_ends() -> None:
    clock = FakeClock()
    async with tp.AsyncClient("127.0.0.1:1", clock=clock) as client:
        with pytest.raises(tp.Unavailable):
            async for event in client.watch(namespaces=[A], patience=30):
                assert isinstance(event, tp.Interrupted)
    assert 20 < sum(clock.waits) <= 30


async def test_the_synchronous_watch_over_failing_streams_ends_with_the_documents_of_the_service(
    address: str, service: FaultService
) -> None:
    service.faults.extend(Fault(after=count) for count in (0, 1, 2, 5, 3, 8, 1))
    cache = tp.Mirror()
    interrupted: list[tp.Interrupted] = []

    def follow(watch: tp.Watch) -> None:
        for event in watch:
            cache.apply(event)
            if isinstance(event, tp.Interrupted):
                interrupted.append(event)

    with tp.Client(address, retries=FAST_RETRIES) as client:
        watch = client.watch(namespaces=[A, B])
        following = asyncio.ensure_future(asyncio.to_thread(follow, watch))
        for value in range(60):
            service.write(A if value % 3 else B, "pqrs"[value % 4], None if value % 7 == 0 else value)
            await asyncio.sleep(0.001)
        async with asyncio.timeout(20):
            while service.met["WatchPolicies"] < 7:
                service.write(B, "t", 1)
                await asyncio.sleep(0.002)
        await until(lambda: cache.synced(A) and cache.synced(B) and known(cache) == service.model.documents())
        watch.close()
        await following
    assert len(interrupted) >= service.met["WatchPolicies"] == 7


async def test_synchronous_updates_over_broken_streams_are_each_made_once(address: str, service: FaultService) -> None:
    service.faults.extend([Fault(after=count) for count in (0, 3, 10, 1)])

    def run() -> list[tp.Settled]:
        with tp.Client(address, retries=FAST_RETRIES) as client:
            updates = [tp.Update(TOPIC, {"max_producer_per_topic": value}) for value in range(100)]
            return list(client.update_many(updates, max_in_flight=8))

    settled = await asyncio.to_thread(run)
    assert sorted(each.sequence for each in settled) == list(range(100))
    assert service.documents[TOPIC] == (tp.TopicPolicies(max_producer_per_topic=99), 100)
    assert service.met["UpdatePolicies"] == 4

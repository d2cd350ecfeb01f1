"""Watches and caches beside a fake service: what they resume from, when they end, and the copy that a cache makes."""

from __future__ import annotations

import asyncio
import logging
import math
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict

import topicpolicies as tp
from tests.client.fake_service import BOTH, FakeService, use
from tests.client.statuses import BROKEN, Code, Refusal
from tests.client.vectors import examples, name
from topicpolicies import cache, watches
from topicpolicies.v1 import errors_pb2, history_pb2, service_pb2

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/orders"
both = pytest.mark.parametrize("kind", BOTH)
Kind = type[tp.Client | tp.AsyncClient]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(watches, "_LONGEST_PAUSE", 0.005)


def change(version: str, token: str = "", topic: str = TOPIC) -> service_pb2.WatchEvent:
    document = tp.PolicyDocument(topic=topic, scope=tp.SCOPE_LOCAL, policies=tp.TopicPolicies(max_producer_per_topic=1), version=version)
    return service_pb2.WatchEvent(namespace=NAMESPACE, resume_token=token, change=service_pb2.PolicyChange(document=document))


def synced(token: str) -> service_pb2.WatchEvent:
    return service_pb2.WatchEvent(namespace=NAMESPACE, resume_token=token, bookmark=service_pb2.Bookmark(synced=True))


def batch(*events: service_pb2.WatchEvent) -> service_pb2.WatchPoliciesResponse:
    return service_pb2.WatchPoliciesResponse(events=events)


def kinds(events: list[service_pb2.WatchEvent]) -> list[str]:
    return [event.change.document.version or str(event.WhichOneof("content")) for event in events]


def watching(**selection: Any) -> Any:
    return lambda client: client.watch(namespaces=[NAMESPACE], until_synced=True, **selection)


@both
async def test_a_watch_resumes_behind_its_last_token_and_loses_and_repeats_nothing(kind: Kind, service: FakeService) -> None:
    service.answers["WatchPolicies"] += [
        [batch(change("v1"), change("v2", "t2")), BROKEN],
        [batch(change("v3", "t3")), Refusal(Code.INTERNAL, reason="INTERNAL")],
        [],
    ]
    service.answers["WatchPolicies"][2].append(batch(synced("t4")))
    events = await use(kind, service.address, watching(mode=tp.WATCH_MODE_EVERY, resume_tokens={NAMESPACE: "t0"}, bookmark_interval=2.5))
    assert kinds(events) == ["v1", "v2", "v3", "bookmark"]
    requests = service.requests("WatchPolicies")
    assert [dict(request.resume_tokens) for request in requests] == [{NAMESPACE: token} for token in ("t0", "t2", "t3")]
    assert (requests[0].mode, requests[0].bookmark_interval.ToMilliseconds()) == (tp.WATCH_MODE_EVERY, 2_500)


@both
async def test_a_snapshot_that_broke_off_begins_again_after_a_reset(kind: Kind, service: FakeService) -> None:
    service.answers["WatchPolicies"] += [[batch(change("v1")), BROKEN], [BROKEN], [batch(change("v1"), synced("t1"))]]
    assert kinds(await use(kind, service.address, watching())) == ["v1", "reset", "v1", "bookmark"]
    assert all(not request.resume_tokens for request in service.requests("WatchPolicies"))


@both
async def test_a_reset_of_the_service_voids_the_token_and_what_was_synced(kind: Kind, service: FakeService) -> None:
    reset = service_pb2.WatchEvent(namespace=NAMESPACE, reset={"reason": errors_pb2.ERROR_REASON_EVENTS_GONE})  # type: ignore[arg-type]
    service.answers["WatchPolicies"] += [[batch(reset), BROKEN], [batch(synced("t1"), reset, change("v1"), synced("t2"))]]
    events = await use(kind, service.address, watching(resume_tokens={NAMESPACE: "t0"}))
    assert kinds(events) == ["reset", "bookmark", "reset", "v1", "bookmark"]
    assert not service.requests("WatchPolicies")[1].resume_tokens


@both
@pytest.mark.parametrize("example", [each for each in examples("retries.json") if each["call"] == "watch"], ids=name)
async def test_a_watch_goes_on_or_ends_as_in_the_example(kind: Kind, example: dict[str, Any], service: FakeService) -> None:
    first = [batch(change("v1", "t1"))] if example.get("began") else []
    refusal = Refusal(grpc.StatusCode[example["code"]], reason=example["reason"])
    service.answers["WatchPolicies"] += [[*first, refusal], [batch(synced("t2"))]]
    if example["resume"]:
        assert kinds(await use(kind, service.address, watching()))[-1] == "bookmark"
    else:
        with pytest.raises(tp.TopicPoliciesError) as caught:
            await use(kind, service.address, watching())
        assert caught.value.code is refusal.code
    assert len(service.calls) == (2 if example["resume"] else 1)


@both
async def test_a_watch_whose_token_has_expired_goes_on_with_the_next_one(kind: Kind, service: FakeService) -> None:
    tokens = iter(["old", "new"])
    expired = Refusal(Code.UNAUTHENTICATED, reason="CREDENTIALS_EXPIRED")
    service.answers["WatchPolicies"] += [[batch(change("v1", "t1")), expired], [batch(synced("t2"))]]
    await use(kind, service.address, watching(), token=lambda: next(tokens))
    assert [call.metadata["authorization"] for call in service.calls] == ["Bearer old", "Bearer new"]


@both
async def test_a_watch_gives_up_when_its_patience_is_over(kind: Kind, service: FakeService) -> None:
    service.answers["WatchPolicies"] += [[batch(change("v1", "t1")), BROKEN], *[[BROKEN]] * 1000]
    with pytest.raises(tp.Unavailable):
        await use(kind, service.address, watching(patience=0.5))
    assert len(service.calls) > 2
    with pytest.raises(TypeError, match="takes a list"):
        await use(kind, service.address, lambda client: client.watch(namespaces=NAMESPACE))


@both
async def test_a_watch_of_the_history_resumes_behind_its_last_position(kind: Kind, service: FakeService) -> None:
    entry = history_pb2.WatchHistoryEvent(namespace=NAMESPACE, position="p1", entry=history_pb2.HistoryEntry(problem="x"))
    bookmark = history_pb2.WatchHistoryEvent(namespace=NAMESPACE, position="p2", bookmark=service_pb2.Bookmark(synced=True))
    service.answers["WatchHistory"] += [
        [history_pb2.WatchHistoryResponse(events=[entry]), BROKEN],
        [history_pb2.WatchHistoryResponse(events=[bookmark])],
    ]
    events = await use(kind, service.address, lambda client: client.watch_history([NAMESPACE], until_synced=True))
    assert events == [entry, bookmark]
    assert [dict(request.positions) for request in service.requests("WatchHistory")] == [{}, {NAMESPACE: "p1"}]


async def test_a_task_that_stops_waiting_for_an_event_loses_none(service: FakeService) -> None:
    service.answers["WatchPolicies"] += [[batch(change("v1", "t1"))], [batch(change("v2", "t2"))]]
    async with tp.AsyncClient(service.address) as client, client.watch(namespaces=[NAMESPACE]) as watch:
        assert kinds([await anext(watch)]) == ["v1"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(watch), 0.05)
        assert kinds([await anext(watch)]) == ["v2"]
        assert watch.resume_tokens == {NAMESPACE: "t2"}
        waiting = asyncio.ensure_future(anext(watch, None))
        await asyncio.sleep(0.05)
        await watch.close()
        assert await waiting is None


@both
async def test_a_watch_that_is_closed_yields_what_has_arrived_with_its_token(kind: Kind, service: FakeService) -> None:
    service.answers["WatchPolicies"] += [[batch(change("v1"), change("v2", "t2"))]]
    if kind is tp.AsyncClient:
        async with tp.AsyncClient(service.address) as client, client.watch(namespaces=[NAMESPACE]) as watch:
            first = await anext(watch)
            await watch.close()
            rest, tokens = [event async for event in watch], watch.resume_tokens
    else:
        with tp.Client(service.address) as blocking, blocking.watch(namespaces=[NAMESPACE]) as iterator:
            first = await asyncio.to_thread(next, iterator)
            iterator.close()
            rest, tokens = list(iterator), iterator.resume_tokens
    assert (kinds([first]), kinds(rest), tokens) == (["v1"], ["v2"], {NAMESPACE: "t2"})


async def test_a_watch_for_threads_can_be_closed_by_another_thread_and_by_its_client(service: FakeService) -> None:
    client = tp.Client(service.address)
    first, second = client.watch(namespaces=[NAMESPACE]), client.watch(namespaces=[NAMESPACE])
    waiting = [asyncio.ensure_future(asyncio.to_thread(next, watch, None)) for watch in (first, second)]
    while len(service.calls) < 2:  # noqa: ASYNC110 - there is no event for this
        await asyncio.sleep(0.01)
    first.close()
    client.close()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == [None, None]


@pytest.mark.parametrize("example", examples("watch.json"), ids=name)
def test_the_copy_that_is_made_of_a_watch_is_that_of_the_example(example: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    now, connected = 0.0, False
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: now))
    progress = watches.policy_progress(namespaces=example["namespaces"])
    copy = cache.Copy(example["namespaces"])
    changes: list[list[str | None]] = []

    def listen(before: tp.PolicyDocument | None, after: tp.PolicyDocument | None) -> None:
        shown = before or after
        assert shown is not None
        key = f"{shown.topic} {tp.Scope.Name(shown.scope).removeprefix('SCOPE_')}"
        changes.append([key, *(each.version if each is not None else None for each in (before, after))])

    def take() -> None:
        while (event := progress.next()) is not None:
            copy.apply(event)

    def known(what: str) -> Any:
        match what:
            case "documents":
                found = copy.documents()
                return {f"{each.topic} {tp.Scope.Name(each.scope).removeprefix('SCOPE_')}": each.version for each in found}
            case "listener":
                taken, changes[:] = changes[:], []
                return taken
            case "tokens":
                return progress.tokens
            case "synced":
                return sorted(each for each in example["namespaces"] if copy.synced(each))
        assert what == "age"
        return None if math.isinf(copy.age()) else pytest.approx(copy.age())

    copy.listen(listen)
    for number, step in enumerate(example["steps"]):
        now = step.get("at", now)
        if "connect" in step:
            if connected:
                progress.ended(BROKEN.error)
            connected = True
            assert dict(progress.begin().resume_tokens) == step["connect"], number
            take()
        if "receive" in step:
            progress.received(ParseDict({"events": step["receive"]}, service_pb2.WatchPoliciesResponse()).events)
            take()
        for what, expected in step.get("expect", {}).items():
            assert known(what) == expected, (number, what)


async def test_the_caches_of_both_clients_wait_until_they_are_synced_and_call_listeners(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[tuple[str, str]] = []

    def listen(before: tp.PolicyDocument | None, after: tp.PolicyDocument | None) -> None:
        heard.append((before.version if before else "", after.version if after else ""))

    def fail(before: tp.PolicyDocument | None, after: tp.PolicyDocument | None) -> None:
        raise RuntimeError("a bad listener")

    async def until(count: int) -> None:
        async with asyncio.timeout(10):
            while len(heard) < count:  # noqa: ASYNC110 - there is no event for this
                await asyncio.sleep(0.005)

    proceed = threading.Event()

    def later(_: Any) -> service_pb2.WatchPoliciesResponse:
        proceed.wait(20)
        return batch(change("v2", "t2"))

    service.answers["WatchPolicies"] += [[batch(change("v1"), synced("t1")), later]] * 2
    with caplog.at_level(logging.ERROR):
        async with tp.AsyncClient(service.address) as client, client.cache(namespaces=[NAMESPACE]) as copy:
            assert await copy.wait_synced(10)
            copy.listen(fail)
            stop = copy.listen(listen)
            proceed.set()
            await until(2)
            stop()
        assert copy.closed
    assert "a listener failed" in caplog.text
    proceed.clear()

    def in_thread() -> None:
        with tp.Client(service.address) as client, client.cache(topics=[TOPIC]) as copy:
            assert copy.wait_synced(10)
            found = copy.get(f"{NAMESPACE}/orders-partition-3")
            assert found is not None
            assert found.version == "v1"
            assert copy.get(TOPIC, scope=tp.SCOPE_GLOBAL) is None
            copy.listen(listen)
            proceed.set()
            asyncio.run(until(4))
        assert copy.closed
        assert copy.error is None

    await asyncio.to_thread(in_thread)
    assert heard == [("", "v1"), ("v1", "v2")] * 2


@both
async def test_a_cache_that_can_not_follow_raises_the_reason(kind: Kind, service: FakeService) -> None:
    service.answers["WatchPolicies"] += [[Refusal(Code.PERMISSION_DENIED, reason="PERMISSION_DENIED")]]
    with pytest.raises(tp.PermissionDenied):
        await use(kind, service.address, lambda client: client.cache(namespaces=[NAMESPACE]).wait_synced(10))


PROGRAM = """
import sys
import topicpolicies as tp
client = tp.Client(sys.argv[1])
cache = client.cache(namespaces=["public/default"])
assert cache.wait_synced(20)
watch = client.watch(namespaces=["public/default"])
print(next(watch).change.document.version)
if sys.argv[2] == "close":
    client.close()
"""


@pytest.mark.parametrize("how", ["close", "leave"])
async def test_a_program_ends_with_or_without_closing_what_it_opened(how: str, service: FakeService) -> None:
    service.answers["WatchPolicies"] += [[batch(change("v1"), synced("t1"))]] * 2
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", PROGRAM, service.address, how], capture_output=True, text=True, env=environment, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "v1\n", "")

"""A watch outlives its streams: nothing is missed, nothing is told twice, and every new beginning is said."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

import topicpolicies as tp
from tests.client.log_model import LogModel, Refused, position
from tests.client.statuses import Code, Refusal
from topicpolicies.v1 import service_pb2
from topicpolicies.watching import WatchSession, namespace_of

A, B = "public/a", "public/b"
BROKEN = Refusal(Code.UNAVAILABLE, "Socket closed")


def take(stream: Iterator[service_pb2.WatchPoliciesResponse | None], session: WatchSession, count: int = 10**6) -> list[tp.WatchEvent]:
    """What the next messages tell."""
    events: list[tp.WatchEvent] = []
    for _ in range(count):
        message = next(stream, None)
        if message is None:
            break
        events += session.received(message, 0.0)
    return events


def kinds(events: list[tp.WatchEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def values(events: list[tp.WatchEvent]) -> list[int]:
    return [event.policies.max_producer_per_topic for event in events if isinstance(event, tp.Changed)]


def test_a_watch_begins_with_a_snapshot_and_no_reset() -> None:
    model = LogModel(A)
    model.write(A, "t", 1)
    session = WatchSession(namespaces=[A])
    request, events = session.connect(0.0)
    assert not events
    assert not request.resume
    stream = model.stream(request)
    told = take(stream, session)
    assert kinds(told) == ["Changed", "Synced"]
    assert isinstance(told[0], tp.Changed)
    assert told[0].snapshot
    model.write(A, "t", 2)
    model.write(A, "t", None)
    later = take(model.stream(session.connect(0.0)[0]), session)
    assert kinds(later)[:2] == ["Changed", "Deleted"]
    change, gone = later[0], later[1]
    assert isinstance(change, tp.Changed)
    assert isinstance(gone, tp.Deleted)
    assert not change.snapshot
    assert (change.previous_version, change.version) == (position(1), position(2))
    assert gone.previous_version == change.version
    assert change.origin.actor == "somebody"


def test_a_stream_that_breaks_between_bookmarks_is_resumed_where_it_broke() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(session.connect(0.0)[0])
    take(stream, session)
    for value in range(1, 6):
        model.write(A, "t", value)
    assert values(take(stream, session, 3)) == [1, 2, 3]
    interrupted = session.broke(BROKEN.error, 0.0, 0.5)
    assert interrupted.attempt == 1
    assert interrupted.retry_in_seconds > 0
    request, events = session.connect(0.0)
    assert not events
    assert max(request.resume[A].positions) == position(3)
    assert values(take(model.stream(request), session)) == [4, 5]
    assert model.resumed == 1


def test_a_snapshot_that_breaks_is_begun_again_and_says_so() -> None:
    model = LogModel(A)
    for each in "xyz":
        model.write(A, each, 1)
    session = WatchSession(namespaces=[A])
    assert kinds(take(model.stream(session.connect(0.0)[0]), session, 2)) == ["Changed", "Changed"]
    assert not session.token.namespaces
    session.broke(BROKEN.error, 0.0, 0.5)
    request, events = session.connect(0.0)
    assert not request.resume
    assert kinds(events) == ["Restarted"]
    assert kinds(take(model.stream(request), session)) == ["Changed", "Changed", "Changed", "Synced"]


def test_what_a_careless_service_repeats_is_told_once() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(session.connect(0.0)[0])
    take(stream, session)
    rows = [model.write(A, "t", 1), model.write(A, "u", 2)]
    assert len(take(stream, session)) == 2
    for row in rows:
        assert session.received(row.change(snapshot=False), 0.0) == []
    session.broke(BROKEN.error, 0.0, 0.5)
    session.connect(0.0)
    for row in rows:
        assert session.received(row.change(snapshot=False), 0.0) == []
    assert len(session.received(model.write(A, "t", 3).change(snapshot=False), 0.0)) == 1


def test_what_is_repeated_from_before_a_bookmark_is_told_once_and_needs_no_memory() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(session.connect(0.0)[0])
    take(stream, session)
    rows = [model.write(A, f"t{number}", number) for number in range(7)]
    told = take(stream, session)
    assert kinds(told) == ["Changed"] * 7 + ["Bookmark"]
    assert not session._places[A].recent, "what a bookmark covers is not remembered"
    session.broke(BROKEN.error, 0.0, 0.5)
    session.connect(0.0)
    for row in rows:
        assert session.received(row.change(snapshot=False), 0.0) == []
    assert len(session.received(model.write(A, "t0", 9).change(snapshot=False), 0.0)) == 1


def test_a_bookmark_within_a_snapshot_is_no_place_to_resume_from() -> None:
    model = LogModel(A)
    model.write(A, "t", 1)
    session = WatchSession(namespaces=[A])
    stream = model.stream(session.connect(0.0)[0])
    take(stream, session, 1)
    token = service_pb2.WatchToken(log=A, positions=[position(1)])
    early = service_pb2.Bookmark(namespace=A, kind=service_pb2.BOOKMARK_KIND_TIMER, token=token)
    assert session.received(service_pb2.WatchPoliciesResponse(bookmark=early), 0.0) == []
    assert not session.token.namespaces
    assert kinds(take(stream, session)) == ["Synced"]
    assert set(session.token.namespaces) == {A}


def test_a_token_that_is_too_old_starts_every_namespace_over() -> None:
    model = LogModel(A, B)
    model.write(A, "t", 1)
    model.write(B, "u", 1)
    session = WatchSession(namespaces=[A, B])
    take(model.stream(session.connect(0.0)[0]), session)
    assert set(session.token.namespaces) == {A, B}
    model.write(A, "t", 2)
    model.forget(A)
    session.broke(BROKEN.error, 0.0, 0.5)
    with pytest.raises(Refused) as refused:
        next(model.stream(session.connect(0.0)[0]))
    session.broke(refused.value.refusal.error, 0.0, 0.5)
    assert not session.token.namespaces
    request, events = session.connect(0.0)
    assert not request.resume
    assert kinds(events) == ["Restarted", "Restarted"]
    assert {event.namespace for event in events if isinstance(event, tp.Restarted)} == {A, B}
    assert all("too old" in event.reason for event in events if isinstance(event, tp.Restarted))
    assert values(take(model.stream(request), session)) == [2, 1]
    session.broke(BROKEN.error, 0.0, 0.5)
    assert session.connect(0.0)[1] == []


def test_a_snapshot_that_is_out_of_range_makes_no_sense_and_is_raised() -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    with pytest.raises(tp.OutOfRange):
        session.broke(Refusal(Code.OUT_OF_RANGE, reason="TOKEN_TOO_OLD").error, 0.0, 0.5)


def test_a_token_goes_on_in_another_process() -> None:
    model = LogModel(A, B)
    model.write(A, "t", 1)
    session = WatchSession(namespaces=[A])
    take(model.stream(session.connect(0.0)[0]), session)
    model.write(A, "t", 2)
    saved = tp.ResumeToken.loads(session.token.dumps())
    successor = WatchSession(namespaces=[A, B], token=saved)
    request, events = successor.connect(0.0)
    assert list(request.resume) == [A]
    assert kinds(events) == ["Restarted"], "the token does not know B, so what was kept of it is doubtful"
    told = take(model.stream(request), successor)
    assert values(told) == [2]
    assert set(successor.token.namespaces) == {A, B}


@pytest.mark.parametrize(
    "code", [Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.UNKNOWN]
)
def test_a_broken_stream_is_replaced(code: grpc.StatusCode) -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    assert session.broke(Refusal(code).error, 0.0, 0.5).retry_in_seconds > 0


@pytest.mark.parametrize(
    "code",
    [Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.UNIMPLEMENTED, Code.FAILED_PRECONDITION],
)
def test_a_refused_watch_is_not_repeated(code: grpc.StatusCode) -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    error = Refusal(code, reason="NO").error
    with pytest.raises(tp.TopicPoliciesError) as caught:
        session.broke(error, 0.0, 0.5)
    assert caught.value is error


def test_pauses_grow_until_a_bookmark_shows_that_it_works() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    pauses = []
    for _ in range(4):
        session.connect(0.0)
        pauses.append(session.broke(BROKEN.error, 0.0, 0.5).retry_in_seconds)
    assert pauses == sorted(pauses)
    assert len(set(pauses)) == 4
    take(model.stream(session.connect(0.0)[0]), session)
    assert session.broke(BROKEN.error, 0.0, 0.5).retry_in_seconds == pauses[0]


def test_patience_ends_when_nothing_is_heard_for_so_long() -> None:
    session = WatchSession(namespaces=[A], patience_seconds=10.0)
    session.connect(100.0)
    session.broke(BROKEN.error, 105.0, 0.5)
    session.received(service_pb2.WatchPoliciesResponse(status=service_pb2.NamespaceStatus(namespace=A)), 106.0)
    session.broke(BROKEN.error, 115.0, 0.5)
    with pytest.raises(tp.Unavailable):
        session.broke(BROKEN.error, 116.0, 0.5)


def test_states_of_a_namespace_are_told_and_lose_nothing() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(session.connect(0.0)[0])
    take(stream, session)
    token = session.token
    for state, reason, told in [
        (service_pb2.NAMESPACE_STATE_FAILED, "WHY", tp.NamespaceUnavailable(A, "so it is", "WHY")),
        (service_pb2.NAMESPACE_STATE_LOADING, "", tp.NamespaceLoading(A, "so it is")),
    ]:
        status = service_pb2.NamespaceStatus(namespace=A, state=state, message="so it is", reason=reason)
        assert session.received(service_pb2.WatchPoliciesResponse(status=status), 0.0) == [told]
    assert session.token == token


def test_content_of_a_newer_service_is_passed_over() -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    assert session.received(service_pb2.WatchPoliciesResponse(), 0.0) == []


def test_an_absent_topic_that_was_asked_for_is_said_to_be_absent() -> None:
    topic = f"persistent://{A}/t"
    session = WatchSession(topics=[topic])
    session.connect(0.0)
    change = service_pb2.PolicyChange(namespace=A, topic=topic, scope=tp.Scope.LOCAL.number, version="0")
    (told,) = session.received(service_pb2.WatchPoliciesResponse(change=change), 0.0)
    assert isinstance(told, tp.Deleted)
    assert told.snapshot


def test_the_selection_is_sent() -> None:
    session = WatchSession(
        topics=["public/a/t"],
        namespaces=[B],
        scopes=[tp.Scope.GLOBAL],
        mode=tp.WatchMode.EVERY,
        bookmark_interval_seconds=1.5,
    )
    request, _ = session.connect(0.0)
    assert (list(request.topics), list(request.namespaces), list(request.scopes)) == (["public/a/t"], [B], [2])
    assert request.mode == service_pb2.WATCH_MODE_EVERY
    assert request.bookmark_interval.ToNanoseconds() == 1_500_000_000


def test_nothing_selected_is_refused() -> None:
    with pytest.raises(tp.InvalidArgument):
        WatchSession()


@pytest.mark.parametrize("topic", ["persistent://public/a/t", "public/a/t", "persistent://public/a/t/with/slashes"])
def test_the_namespace_of_a_topic(topic: str) -> None:
    assert namespace_of(topic) == A


def run(seed: int) -> Counter[str]:
    """One watch of two namespaces whose streams break anywhere, whose tokens expire, and which moves to other processes.

    Checks that in the end both sides know the same and that no change was told twice; gives the faults that there were.
    """
    chance = random.Random(seed)
    model = LogModel(A, B)
    session = WatchSession(namespaces=[A, B])
    cache = tp.PolicyCache()
    faults: Counter[str] = Counter()
    told: Counter[tuple[str, str]] = Counter()

    def deliver(events: list[tp.WatchEvent]) -> None:
        for event in events:
            cache.apply(event)
            faults["restarted"] += isinstance(event, tp.Restarted)
            if isinstance(event, (tp.Changed, tp.Deleted)) and not event.snapshot:
                told[event.topic, event.version] += 1

    def follow(most: int) -> bool:
        """Opens a stream and takes from it; tells whether the service had nothing more to say."""
        request, events = session.connect(0.0)
        deliver(events)
        stream = model.stream(request)
        try:
            for _ in range(most):
                message = next(stream)
                if message is None:
                    return True
                deliver(session.received(message, 0.0))
        except Refused as refused:
            faults["refused"] += 1
            session.broke(refused.refusal.error, 0.0, 0.5)
        return False

    for _ in range(40):
        for _ in range(chance.randrange(12)):
            model.write(chance.choice([A, B]), chance.choice("pqrs"), chance.choice([None, *range(5)]))
        follow(chance.randrange(25))
        faults["broken"] += 1
        session.broke(BROKEN.error, 0.0, 0.5)
        if chance.random() < 0.1:
            model.forget(chance.choice([A, B]))
        if chance.random() < 0.1:
            faults["moved"] += 1
            session = WatchSession(namespaces=[A, B], token=tp.ResumeToken.loads(session.token.dumps()))
    while not follow(10**6):
        pass
    known = {document.topic: document.policies.max_producer_per_topic for document in cache if document.policies is not None}
    assert known == model.documents()
    assert cache.synced(A)
    assert cache.synced(B)
    assert all(count == 1 for count in told.values()), "told twice"
    faults["resumed"] += model.resumed
    return faults


@pytest.mark.parametrize("seed", range(60))
def test_a_cache_agrees_with_the_service_after_any_faults(seed: int) -> None:
    faults = run(seed)
    assert faults["broken"] == 40
    assert faults["resumed"] > 5


def test_the_runs_above_meet_every_kind_of_fault() -> None:
    faults = sum((run(seed) for seed in range(60)), Counter[str]())
    assert min(faults[kind] for kind in ("broken", "resumed", "refused", "restarted", "moved")) > 50, faults

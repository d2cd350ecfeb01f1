"""A watch survives its streams: no event is missed or delivered twice, and each new snapshot is preceded by a reset."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

import topicpolicies as tp
from tests.client.log_model import LogModel, position
from tests.client.statuses import BROKEN, Code, Refusal
from topicpolicies.v1 import errors_pb2, policies_pb2, service_pb2
from topicpolicies.watch_session import WatchSession

A, B = "public/a", "public/b"


def take(stream: Iterator[service_pb2.WatchPoliciesResponse | None], session: WatchSession, count: int = 10**6) -> list[tp.WatchEvent]:
    """Receives the next messages of a stream, at most ``count``; returns the events of the watch."""
    events: list[tp.WatchEvent] = []
    for _ in range(count):
        message = next(stream, None)
        if message is None:
            break
        events += receive(session, *message.events)
    return events


def receive(session: WatchSession, *events: service_pb2.WatchEvent) -> list[tp.WatchEvent]:
    """Receives these events as one message; returns the events of the watch."""
    session.received(service_pb2.WatchPoliciesResponse(events=events), 0.0)
    return list(session.rest())


def connected(session: WatchSession) -> tuple[service_pb2.WatchPoliciesRequest, list[tp.WatchEvent]]:
    """Opens a stream; returns its request, and the events that the watch has before any message."""
    request = session.connect(0.0)
    return request, list(session.rest())


def broken(session: WatchSession, refusal: Refusal = BROKEN, now: float = 0.0) -> tp.Interrupted:
    """Breaks the stream; returns the event of the watch."""
    pause = session.broke(refusal.error, now, 0.5)
    (interrupted,) = session.rest()
    assert isinstance(interrupted, tp.Interrupted)
    assert interrupted.retry_in_seconds == pause
    return interrupted


def kinds(events: list[tp.WatchEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def values(events: list[tp.WatchEvent]) -> list[int]:
    return [
        event.document.policies.max_producer_per_topic
        for event in events
        if isinstance(event, tp.Changed) and event.document.policies is not None
    ]


def test_a_watch_begins_with_a_snapshot_and_no_reset() -> None:
    model = LogModel(A)
    model.write(A, "t", 1)
    session = WatchSession(namespaces=[A])
    request, events = connected(session)
    assert not events
    assert not request.resume
    stream = model.stream(request)
    events = take(stream, session)
    assert kinds(events) == ["Changed", "Synced"]
    assert isinstance(events[0], tp.Changed)
    assert events[0].snapshot
    model.write(A, "t", 2)
    model.write(A, "t", None)
    change, gone = take(stream, session)[:2]
    assert isinstance(change, tp.Changed)
    assert isinstance(gone, tp.Changed)
    assert (change.document.exists, gone.document.exists) == (True, False)
    assert not change.snapshot
    assert (change.previous_version, change.document.version) == (position(1), position(2))
    assert gone.previous_version == change.document.version
    assert change.origin is not None
    assert change.origin.actor == "somebody"


def test_the_token_is_the_position_after_the_last_event_that_was_taken() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(connected(session)[0])
    take(stream, session)
    rows = [model.write(A, "t", value) for value in range(3)]
    session.received(service_pb2.WatchPoliciesResponse(events=[row.change(snapshot=False) for row in rows]), 0.0)
    for row in rows:
        assert session.next() is not None
        assert session.token.namespaces[A].at(row.partition) == position(row.number)


def test_a_stream_that_breaks_between_bookmarks_is_resumed_where_it_broke() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(connected(session)[0])
    take(stream, session)
    for value in range(1, 6):
        model.write(A, "t", value)
    assert values(take(stream, session, 3)) == [1, 2, 3]
    interrupted = broken(session)
    assert interrupted.attempt == 1
    assert interrupted.retry_in_seconds > 0
    request, events = connected(session)
    assert not events
    assert max(request.resume[A].positions) == position(3)
    assert values(take(model.stream(request), session)) == [4, 5]
    assert model.resumed == 1


def test_an_interrupted_snapshot_begins_again_after_a_reset() -> None:
    model = LogModel(A)
    for each in "xyz":
        model.write(A, each, 1)
    session = WatchSession(namespaces=[A])
    assert kinds(take(model.stream(connected(session)[0]), session, 2)) == ["Changed", "Changed"]
    assert not session.token.namespaces
    broken(session)
    request, events = connected(session)
    assert not request.resume
    assert kinds(events) == ["Reset"]
    assert kinds(take(model.stream(request), session)) == ["Changed", "Changed", "Changed", "Synced"]


def test_an_event_that_the_service_repeats_is_delivered_once() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(connected(session)[0])
    take(stream, session)
    rows = [model.write(A, "t", 1), model.write(A, "u", 2)]
    assert len(take(stream, session)) == 2
    for row in rows:
        assert receive(session, row.change(snapshot=False)) == []
    broken(session)
    session.connect(0.0)
    for row in rows:
        assert receive(session, row.change(snapshot=False)) == []
    assert len(receive(session, model.write(A, "t", 3).change(snapshot=False))) == 1


def test_an_event_repeated_from_before_a_bookmark_is_delivered_once_without_being_remembered() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(connected(session)[0])
    take(stream, session)
    rows = [model.write(A, f"t{number}", number) for number in range(7)]
    events = take(stream, session)
    assert kinds(events) == ["Changed"] * 7 + ["Bookmark"]
    assert not session._progress[A].recent, "events that a bookmark covers are not remembered"
    broken(session)
    session.connect(0.0)
    for row in rows:
        assert receive(session, row.change(snapshot=False)) == []
    assert len(receive(session, model.write(A, "t0", 9).change(snapshot=False))) == 1


def test_a_watch_is_not_resumed_from_a_bookmark_within_a_snapshot() -> None:
    model = LogModel(A)
    model.write(A, "t", 1)
    session = WatchSession(namespaces=[A])
    stream = model.stream(connected(session)[0])
    take(stream, session, 1)
    token = service_pb2.WatchToken(log=A, positions=[position(1)])
    early = service_pb2.Bookmark(kind=service_pb2.BOOKMARK_KIND_TIMER, token=token)
    assert receive(session, service_pb2.WatchEvent(namespace=A, bookmark=early)) == []
    assert not session.token.namespaces
    assert kinds(take(stream, session)) == ["Synced"]
    assert set(session.token.namespaces) == {A}


def test_a_token_that_is_too_old_resets_only_its_namespace() -> None:
    model = LogModel(A, B)
    model.write(A, "t", 1)
    model.write(B, "u", 1)
    session = WatchSession(namespaces=[A, B])
    take(model.stream(connected(session)[0]), session)
    model.write(A, "t", 2)
    model.forget(A)
    broken(session)
    request, events = connected(session)
    assert set(request.resume) == {A, B}
    assert events == []
    stream = model.stream(request)
    (reset,) = take(stream, session, 1)
    assert reset == tp.Reset(A, "EVENTS_GONE", "The token is too old.")
    assert set(session.token.namespaces) == {B}
    later = take(stream, session)
    assert kinds(later) == ["Changed", "Synced", "Synced"]
    assert set(session.token.namespaces) == {A, B}


def test_after_a_reset_a_broken_namespace_of_the_token_is_not_reported_as_uncovered() -> None:
    covered = tp.ResumeToken({A: tp.WatchToken("log", ("7",))})
    session = WatchSession(namespaces=[A, B], token=covered)
    _, (uncovered,) = connected(session)
    assert uncovered == tp.Reset(B, "", f"The namespace {B} begins again: the token does not cover this namespace.")
    document = policies_pb2.PolicyDocument(topic=f"persistent://{A}/t", scope=policies_pb2.SCOPE_LOCAL, version="1")
    change = service_pb2.WatchEvent(namespace=A, change=service_pb2.PolicyChange(document=document))
    assert kinds(receive(session, service_pb2.WatchEvent(namespace=A, reset=service_pb2.WatchReset()), change)) == ["Reset", "Changed"]
    broken(session)
    _, (again,) = connected(session)
    assert again == tp.Reset(A, "", f"The namespace {A} begins again: the watch was interrupted before the snapshot was complete.")


def test_after_a_reset_smaller_versions_are_delivered() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    take(model.stream(connected(session)[0]), session)
    assert len(receive(session, model.write(A, "u", 1).change(snapshot=False), model.write(A, "t", 2).change(snapshot=False))) == 2
    reset = service_pb2.WatchEvent(namespace=A, reset=service_pb2.WatchReset(reason=errors_pb2.ERROR_REASON_LOG_REPLACED))
    again = LogModel(A).write(A, "t", 7).change(snapshot=True)
    assert kinds(receive(session, reset, again)) == ["Reset", "Changed"]


def test_a_saved_token_resumes_in_another_watch_and_namespaces_that_it_lacks_are_reset() -> None:
    model = LogModel(A, B)
    model.write(A, "t", 1)
    session = WatchSession(namespaces=[A])
    take(model.stream(connected(session)[0]), session)
    model.write(A, "t", 2)
    saved = tp.ResumeToken.loads(session.token.dumps())
    successor = WatchSession(namespaces=[A, B], token=saved)
    request, events = connected(successor)
    assert list(request.resume) == [A]
    assert kinds(events) == ["Reset"], "the token does not cover B, so documents of B that were kept may be outdated"
    events = take(model.stream(request), successor)
    assert values(events) == [2]
    assert set(successor.token.namespaces) == {A, B}


@pytest.mark.parametrize(
    "code",
    [
        Code.UNAVAILABLE,
        Code.CANCELLED,
        Code.DEADLINE_EXCEEDED,
        Code.INTERNAL,
        Code.UNKNOWN,
        Code.ABORTED,
        Code.OUT_OF_RANGE,
        Code.NOT_FOUND,
    ],
)
def test_a_broken_stream_is_replaced_after_a_short_pause(code: grpc.StatusCode) -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    assert 0 < broken(session, Refusal(code)).retry_in_seconds < 0.2


def test_after_a_refusal_for_too_many_watches_the_pause_is_long() -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    assert broken(session, Refusal(Code.RESOURCE_EXHAUSTED, reason="TOO_MANY_WATCHES")).retry_in_seconds == 7.5


def test_without_retries_a_broken_stream_is_raised() -> None:
    session = WatchSession(namespaces=[A], policy=tp.NO_RETRIES)
    session.connect(0.0)
    with pytest.raises(tp.Unavailable):
        session.broke(BROKEN.error, 0.0, 0.5)


@pytest.mark.parametrize(
    "code",
    [Code.INVALID_ARGUMENT, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.UNIMPLEMENTED, Code.FAILED_PRECONDITION],
)
def test_a_refused_watch_is_not_repeated(code: grpc.StatusCode) -> None:
    session = WatchSession(namespaces=[A])
    session.connect(0.0)
    error = Refusal(code, reason="NO").error
    with pytest.raises(tp.TopicPoliciesError) as caught:
        session.broke(error, 0.0, 0.5)
    assert caught.value is error


def test_a_watch_whose_credentials_expire_resumes_unless_they_expire_at_once_again() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    expired = Refusal(Code.UNAUTHENTICATED, reason="CREDENTIALS_EXPIRED").error
    for _ in range(3):
        take(model.stream(connected(session)[0]), session)
        session.broke(expired, 0.0, 0.5)
    session.connect(0.0)
    with pytest.raises(tp.TopicPoliciesError) as caught:
        session.broke(expired, 0.0, 0.5)
    assert caught.value is expired, "the credentials were not renewed"


def test_pauses_grow_until_a_namespace_is_synced_again() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    pauses = []
    for _ in range(4):
        session.connect(0.0)
        pauses.append(broken(session).retry_in_seconds)
    assert pauses == sorted(pauses)
    assert len(set(pauses)) == 4
    take(model.stream(connected(session)[0]), session)
    assert broken(session).retry_in_seconds == pauses[0]


def test_a_broken_watch_is_raised_when_no_message_came_for_the_patience() -> None:
    session = WatchSession(namespaces=[A], patience=10.0)
    session.connect(100.0)
    session.broke(BROKEN.error, 105.0, 0.5)
    session.received(service_pb2.WatchPoliciesResponse(), 106.0)
    session.broke(BROKEN.error, 115.0, 0.5)
    with pytest.raises(tp.Unavailable):
        session.broke(BROKEN.error, 116.0, 0.5)


def test_states_of_a_namespace_are_delivered_and_keep_the_token() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    stream = model.stream(connected(session)[0])
    take(stream, session)
    token = session.token
    for state, name in [
        (service_pb2.NAMESPACE_STATE_FAILED, tp.NamespaceState.FAILED),
        (service_pb2.NAMESPACE_STATE_LOADING, tp.NamespaceState.LOADING),
        (service_pb2.NAMESPACE_STATE_DISABLED, tp.NamespaceState.DISABLED),
    ]:
        status = service_pb2.NamespaceStatus(state=state, message="so it is", reason=errors_pb2.ERROR_REASON_LOG_LOST)
        assert receive(session, service_pb2.WatchEvent(namespace=A, status=status)) == [tp.Status(A, name, "LOG_LOST", "so it is")]
    ready = service_pb2.NamespaceStatus(state=service_pb2.NAMESPACE_STATE_READY)
    assert receive(session, service_pb2.WatchEvent(namespace=A, status=ready)) == [tp.Status(A, tp.NamespaceState.READY, "", "")]
    assert session.token == token


def test_unknown_content_of_a_newer_service_is_ignored_and_does_not_end_the_watch() -> None:
    model = LogModel(A)
    session = WatchSession(namespaces=[A])
    take(model.stream(connected(session)[0]), session)
    strange = model.write(A, "t", 1).change(snapshot=False)
    strange.change.document.scope = 77  # type: ignore[assignment]
    kind = service_pb2.WatchEvent(namespace=A, bookmark=service_pb2.Bookmark(kind=9, token=service_pb2.WatchToken(log=A)))  # type: ignore[arg-type]
    state = service_pb2.WatchEvent(namespace=A, status=service_pb2.NamespaceStatus(state=9, reason=9999))  # type: ignore[arg-type]
    content = service_pb2.WatchEvent(namespace=A)
    elsewhere = service_pb2.WatchEvent(namespace="not/watched", reset=service_pb2.WatchReset())
    known = model.write(A, "t", 2).change(snapshot=False)
    events = receive(session, strange, content, elsewhere, state, known)
    assert kinds(events) == ["Status", "Changed"]
    assert events[0] == tp.Status(A, tp.NamespaceState.UNSPECIFIED, "9999", "")
    assert max(session.token.namespaces[A].positions) == position(2), "the position of an ignored event is folded too"
    assert kinds(receive(session, kind)) == ["Bookmark"]


def test_an_absent_topic_that_was_requested_is_delivered_as_absent() -> None:
    topic = f"persistent://{A}/t"
    session = WatchSession(topics=[topic])
    session.connect(0.0)
    document = policies_pb2.PolicyDocument(topic=topic, scope=tp.Scope.LOCAL.number, version="0")
    (event,) = receive(session, service_pb2.WatchEvent(namespace=A, change=service_pb2.PolicyChange(document=document)))
    assert isinstance(event, tp.Changed)
    assert not event.document.exists
    assert event.snapshot


def test_entries_and_gaps_are_delivered_and_the_positions_of_entries_are_folded() -> None:
    session = WatchSession(namespaces=[A], mode=tp.WatchMode.ENTRIES)
    assert connected(session)[0].mode == service_pb2.WATCH_MODE_ENTRIES
    document = policies_pb2.PolicyDocument(topic=f"persistent://{A}/t", scope=tp.Scope.LOCAL.number, version="v1")
    entry = service_pb2.HistoryEntry(document=document, kind=service_pb2.HISTORY_KIND_UPDATE, position="p6")
    unreadable = service_pb2.HistoryEntry(kind=service_pb2.HISTORY_KIND_UNREADABLE, position="p7", problem="not Avro")
    gap = service_pb2.HistoryGap(reason=service_pb2.HISTORY_GAP_REASON_TRIMMED)
    synced = service_pb2.Bookmark(kind=service_pb2.BOOKMARK_KIND_SYNCED, token=service_pb2.WatchToken(log="L", positions=["p5"]))
    batch = [
        service_pb2.WatchEvent(namespace=A, gap=gap),
        service_pb2.WatchEvent(namespace=A, bookmark=synced),
        service_pb2.WatchEvent(namespace=A, entry=entry),
        service_pb2.WatchEvent(namespace=A, entry=unreadable),
    ]
    events = receive(session, *batch)
    assert kinds(events) == ["Gap", "Synced", "Entry", "Entry"]
    assert session.token.namespaces[A] == tp.WatchToken("L", ("p7",))
    first, second = events[2:]
    assert isinstance(first, tp.Entry)
    assert isinstance(second, tp.Entry)
    assert first.entry.document is not None
    assert (second.entry.document, second.entry.problem) == (None, "not Avro")
    broken(session)
    connected(session)
    assert receive(session, batch[3]) == [], "it was delivered before"


def test_a_stream_that_ends_without_an_error_ends_the_watch_only_if_that_was_requested_and_all_is_synced() -> None:
    model = LogModel(A, B)
    session = WatchSession(namespaces=[A, B], end_when_synced=True)
    stream = model.stream(connected(session)[0])
    take(stream, session, 1)
    assert session.ended(0.0, 0.5), "B is not synced"
    take(stream, session)
    assert session.ended(0.0, 0.5) is None
    endless = WatchSession(namespaces=[A])
    take(model.stream(connected(endless)[0]), endless)
    assert endless.ended(0.0, 0.5)


def test_the_selection_and_the_options_are_sent() -> None:
    session = WatchSession(
        topics=["public/a/t"],
        namespaces=[B],
        scopes=[tp.Scope.GLOBAL],
        mode=tp.WatchMode.EVERY,
        bookmark_interval=1.5,
        from_beginning=True,
        end_when_synced=True,
        include_previous=True,
    )
    request, _ = connected(session)
    assert request.from_beginning and request.end_when_synced and request.include_previous
    assert (list(request.topics), list(request.namespaces), list(request.scopes)) == (["public/a/t"], [B], [2])
    assert request.mode == service_pb2.WATCH_MODE_EVERY
    assert request.bookmark_interval.ToNanoseconds() == 1_500_000_000


def test_a_watch_without_a_selection_is_refused() -> None:
    with pytest.raises(tp.InvalidArgument):
        WatchSession()


def run(seed: int) -> Counter[str]:
    """Runs one watch of two namespaces whose streams break anywhere, whose tokens expire, and which is moved to new sessions.

    Checks that the mirror ends with the documents of the service and that no change was delivered twice; returns the number of each fault.
    """
    chance = random.Random(seed)
    model = LogModel(A, B)
    session = WatchSession(namespaces=[A, B])
    mirror = tp.Mirror([A, B])
    faults: Counter[str] = Counter()
    counts: Counter[tuple[str, str]] = Counter()

    def deliver(events: list[tp.WatchEvent]) -> None:
        for event in events:
            mirror.apply(event)
            faults["begun anew"] += isinstance(event, tp.Reset) and not event.reason
            if isinstance(event, tp.Changed) and not event.snapshot:
                counts[event.document.topic, event.document.version] += 1

    def follow(most: int) -> bool:
        """Opens a stream and receives at most ``most`` messages; returns whether the service had nothing more to send."""
        request, events = connected(session)
        deliver(events)
        stream = model.stream(request, most=chance.choice((1, 1, 4)))
        for _ in range(most):
            message = next(stream)
            if message is None:
                return True
            deliver(receive(session, *message.events))
        return False

    for _ in range(40):
        for _ in range(chance.randrange(12)):
            model.write(chance.choice([A, B]), chance.choice("pqrs"), chance.choice([None, *range(5)]))
        follow(chance.choice((chance.randrange(3), chance.randrange(25))))
        faults["broken"] += 1
        broken(session)
        if chance.random() < 0.3:
            model.forget(chance.choice([A, B]))
        if chance.random() < 0.1:
            faults["moved"] += 1
            session = WatchSession(namespaces=[A, B], token=tp.ResumeToken.loads(session.token.dumps()))
    while not follow(10**6):
        pass
    known = {document.topic: document.policies.max_producer_per_topic for document in mirror if document.policies is not None}
    assert known == model.documents()
    assert mirror.synced(A)
    assert mirror.synced(B)
    assert all(count == 1 for count in counts.values()), "a change was delivered twice"
    faults["resumed"] += model.resumed
    faults["reset"] += model.resets
    return faults


@pytest.mark.parametrize("seed", range(60))
def test_a_mirror_has_the_documents_of_the_service_after_any_faults(seed: int) -> None:
    faults = run(seed)
    assert faults["broken"] == 40
    assert faults["resumed"] > 5


def test_the_runs_above_meet_every_kind_of_fault() -> None:
    faults = sum((run(seed) for seed in range(60)), Counter[str]())
    assert min(faults[kind] for kind in ("broken", "resumed", "reset", "begun anew", "moved")) > 50, faults

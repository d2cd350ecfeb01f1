"""The synchronous client over a fake channel: its requests, its repeats and its pauses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import grpc
import grpc_testing
import pytest

import topicpolicies as tp
from tests.client.clocks import FakeClock
from tests.client.log_model import LogModel
from tests.client.statuses import BROKEN, Code, Refusal
from topicpolicies.connections import Connections
from topicpolicies.routes import Routes
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.watch_session import WatchSession
from topicpolicies.watches import Watch

TOPIC = "persistent://public/default/orders"
A = "public/a"
GLOBAL = tp.Scope.GLOBAL.number
SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"]
T = TypeVar("T")


class Calls:
    """The server's end of the fake channel."""

    def __init__(self) -> None:
        self.channel = grpc_testing.channel([SERVICE], grpc_testing.strict_real_time())
        self.faults = 0

    def unary(self, method: str) -> Any:
        """Waits for the next call of a unary method; returns its metadata, its request and the call."""
        return self.channel.take_unary_unary(SERVICE.methods_by_name[method])

    def answer(self, method: str, response: Any) -> Any:
        """Answers the next call; returns its request."""
        metadata, request, call = self.unary(method)
        call.send_initial_metadata(())
        call.terminate(response, (), grpc.StatusCode.OK, "")
        self.metadata = dict(metadata)
        return request

    def fail(self, method: str, refusal: Refusal) -> Any:
        """Fails the next call; returns its request."""
        self.faults += 1
        _, request, call = self.unary(method)
        call.send_initial_metadata(())
        call.terminate(None, refusal.trailing_metadata, refusal.code, refusal.message)
        return request


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(calls: Calls, clock: FakeClock) -> Iterator[tp.Client]:
    with tp.Client(channel=calls.channel, clock=clock, actor="tests") as client:
        yield client


class Running(Generic[T]):
    """A call in another thread, which does not keep the process alive if a test fails."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by ``result``
            self._future.set_exception(error)

    def result(self) -> T:
        return self._future.result(timeout=20)


def start(call: Callable[[], T]) -> Running[T]:
    """Runs a call in another thread."""
    return Running(call)


def document(version: str, **fields: Any) -> policies_pb2.PolicyDocument:
    return policies_pb2.PolicyDocument(topic=TOPIC, scope=1, policies=tp.TopicPolicies(**fields), version=version)  # type: ignore[arg-type]


def got(version: str, **fields: Any) -> service_pb2.GetPolicyResponse:
    return service_pb2.GetPolicyResponse(documents=[document(version, **fields)])


def result(request: service_pb2.UpdatePolicyRequest, *, replayed: bool = False) -> service_pb2.UpdatePolicyResponse:
    after = policies_pb2.PolicyDocument(topic=request.topic, scope=request.scope, policies=request.policies, version="v2")
    return service_pb2.UpdatePolicyResponse(
        document=after,
        version="v2",
        previous_version="v1",
        outcome=service_pb2.UPDATE_OUTCOME_APPLIED,
        request_id=request.request_id,
        replayed=replayed,
    )


def answer_update(calls: Calls, *, replayed: bool = False) -> service_pb2.UpdatePolicyRequest:
    metadata, request, call = calls.unary("UpdatePolicy")
    calls.metadata = dict(metadata)
    call.send_initial_metadata(())
    call.terminate(result(request, replayed=replayed), (), grpc.StatusCode.OK, "")
    assert isinstance(request, service_pb2.UpdatePolicyRequest)
    return request


def test_an_update_is_sent_with_the_actor_and_returns_its_result(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5))
    request = answer_update(calls)
    assert not request.HasField("update_mask")
    assert calls.metadata["topicpolicies-actor"] == "tests"
    after = tp.Document(TOPIC, tp.Scope.LOCAL, tp.TopicPolicies(max_producer_per_topic=5), "v2")
    assert running.result() == tp.UpdateResult(after, "v2", "v1", None, tp.UpdateOutcome.APPLIED, request.request_id, replayed=False)
    assert running.result().version == "v2"


def test_a_change_whose_response_was_lost_is_repeated_with_the_same_id(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5))
    sent = [calls.fail("UpdatePolicy", refusal) for refusal in (BROKEN, Refusal(Code.DEADLINE_EXCEEDED), Refusal(Code.CANCELLED))]
    sent.append(answer_update(calls, replayed=True))
    assert running.result().replayed
    assert len({request.request_id for request in sent}) == 1
    assert all(request == sent[0] for request in sent)
    assert clock.waits == pytest.approx([0.075, 0.15, 0.3])
    assert calls.faults == 3


def test_a_change_without_a_response_until_its_deadline_raises_outcome_unknown(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    began = clock.now()
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5, request_id="mine", timeout=1.0))
    for _ in range(4):
        assert calls.fail("UpdatePolicy", BROKEN).request_id == "mine"
    with pytest.raises(tp.OutcomeUnknown) as caught:
        running.result()
    assert caught.value.request_id == "mine"
    assert clock.now() < began + 1.0
    assert calls.faults == 4


def test_an_invalid_request_is_not_repeated(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5))
    calls.fail("UpdatePolicy", Refusal(Code.INVALID_ARGUMENT, "Too many.", "TOO_MANY", violations=[("policies", "TOO_MANY", "Too many.")]))
    with pytest.raises(tp.InvalidArgument) as caught:
        running.result()
    assert caught.value.violations == (tp.Violation("policies", "TOO_MANY", "Too many."),)
    assert not clock.waits


def test_a_read_over_a_broken_connection_is_repeated(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.get(TOPIC, scope=tp.Scope.GLOBAL, at_least_version="v1"))
    calls.fail("GetPolicy", BROKEN)
    absent = policies_pb2.PolicyDocument(topic=TOPIC, scope=GLOBAL, version="0")
    request = calls.answer("GetPolicy", service_pb2.GetPolicyResponse(documents=[absent]))
    assert request == service_pb2.GetPolicyRequest(topic=TOPIC, scopes=[GLOBAL], at_least_version="v1")
    assert running.result() == tp.Document(TOPIC, tp.Scope.GLOBAL, None, "0")
    assert not running.result().exists
    assert calls.faults == 1


def test_both_scopes_are_read_with_one_call(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.get_both(TOPIC))
    absent = policies_pb2.PolicyDocument(topic=TOPIC, scope=GLOBAL, version="0", disabled=True)
    response = service_pb2.GetPolicyResponse(documents=[document("v1"), absent])
    assert list(calls.answer("GetPolicy", response).scopes) == [1, 2]
    both = running.result()
    assert both[tp.Scope.LOCAL].exists
    assert both[tp.Scope.GLOBAL].disabled


def test_effective_policies_are_requested_with_their_view(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.effective(TOPIC, view=tp.EffectiveView.APPLIED_GLOBAL, at_least_global_version="v1"))
    source = service_pb2.FieldSource(path="max_producer_per_topic", source=service_pb2.POLICY_SOURCE_NAMESPACE)
    request = calls.answer("GetEffectivePolicy", service_pb2.GetEffectivePolicyResponse(topic=TOPIC, sources=[source]))
    assert request == service_pb2.GetEffectivePolicyRequest(
        topic=TOPIC, view=service_pb2.EFFECTIVE_VIEW_APPLIED_GLOBAL, at_least_global_version="v1"
    )
    assert running.result().sources == {"max_producer_per_topic": tp.PolicySource.NAMESPACE}


def test_the_server_info_is_read_and_unknown_features_are_ignored(client: tp.Client, calls: Calls) -> None:
    running = start(client.server_info)
    limits = service_pb2.ServerLimits(message_bytes=4, changes_per_stream=3, watch_selectors=2, watches=1)
    limits.update_timeout.FromMilliseconds(1500)
    response = service_pb2.GetServerInfoResponse(
        version="0.1.0",
        log=service_pb2.LOG_KIND_PULSAR,
        cluster="us",
        writer_mode=service_pb2.WRITER_MODE_SHARED,
        features=[service_pb2.SERVER_FEATURE_HISTORY, 99],  # type: ignore[list-item]
        limits=limits,
    )
    calls.answer("GetServerInfo", response)
    features = frozenset({tp.ServerFeature.HISTORY})
    expected = tp.ServerInfo("0.1.0", tp.LogKind.PULSAR, "us", tp.WriterMode.SHARED, features, tp.ServerLimits(4, 3, 2, 1, 1.5))
    assert running.result() == expected


def test_a_listing_reads_its_pages_and_has_the_token_to_watch_from(client: tp.Client, calls: Calls) -> None:
    listing = client.list("public/default", scopes=[tp.Scope.LOCAL], page_size=1)
    running = start(lambda: list(listing))
    token = service_pb2.WatchToken(log="L", positions=["p1"], left_out="x")
    strange = policies_pb2.PolicyDocument(topic=TOPIC, scope=77, version="v9")  # type: ignore[arg-type]
    page = service_pb2.ListPoliciesResponse(documents=[document("v1"), strange], next_page_token="next", token=token)
    first = calls.answer("ListPolicies", page)
    calls.fail("ListPolicies", BROKEN)
    second = calls.answer("ListPolicies", service_pb2.ListPoliciesResponse(documents=[document("v2")]))
    assert (first.namespace, list(first.scopes), first.page_size) == ("public/default", [1], 1)
    assert second.page_token == "next"
    assert [each.version for each in running.result()] == ["v1", "v2"]
    assert listing.token == tp.ResumeToken({"public/default": tp.WatchToken("L", ("p1",), "x")})


def test_a_deletion_is_repeated_with_the_same_id_and_returns_its_result(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.delete(TOPIC, etag="v1", include_previous=True))
    lost = calls.fail("DeletePolicy", BROKEN)
    response = service_pb2.DeletePolicyResponse(
        document=policies_pb2.PolicyDocument(topic=TOPIC, scope=policies_pb2.SCOPE_LOCAL, version="v2"),
        version="v2",
        previous_version="v1",
        previous=document("v1", max_producer_per_topic=1),
        outcome=service_pb2.DELETE_OUTCOME_DELETED,
        request_id=lost.request_id,
    )
    assert calls.answer("DeletePolicy", response) == lost
    assert (lost.etag, lost.include_previous) == ("v1", True)
    before = tp.Document(TOPIC, tp.Scope.LOCAL, tp.TopicPolicies(max_producer_per_topic=1), "v1")
    absence = tp.Document(TOPIC, tp.Scope.LOCAL, None, "v2")
    assert running.result() == tp.DeleteResult(absence, "v2", "v1", before, tp.DeleteOutcome.DELETED, lost.request_id)


def test_a_deletion_that_is_refused_raises(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.delete(TOPIC, etag="v1"))
    calls.fail("DeletePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH"))
    with pytest.raises(tp.Conflict):
        running.result()


@pytest.mark.parametrize("change", ["update", "delete"])
def test_a_dry_run_that_exceeds_its_deadline_does_not_raise_outcome_unknown(client: tp.Client, calls: Calls, change: str) -> None:
    running: Running[object]
    if change == "update":
        running = start(lambda: client.update(TOPIC, max_producer_per_topic=1, validate_only=True))
    else:
        running = start(lambda: client.delete(TOPIC, validate_only=True))
    calls.fail("UpdatePolicy" if change == "update" else "DeletePolicy", Refusal(Code.DEADLINE_EXCEEDED))
    with pytest.raises(tp.DeadlineExceeded):
        running.result()


def test_an_edit_is_repeated_on_the_current_document_after_a_conflict(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    seen = []

    def change(policies: tp.TopicPolicies) -> None:
        seen.append(policies.max_producer_per_topic)
        policies.max_producer_per_topic += 1

    running = start(lambda: client.edit(TOPIC, change))
    calls.answer("GetPolicy", got("v1", max_producer_per_topic=1))
    first = calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": "v2"}))
    again = calls.answer("GetPolicy", got("v2", max_producer_per_topic=5))
    second = answer_update(calls)
    assert seen == [1, 5]
    assert (first.etag, first.policies.max_producer_per_topic) == ("v1", 2)
    assert again.at_least_version == "v2", "another sidecar may not have reached this version"
    assert (second.etag, second.policies.max_producer_per_topic) == ("v2", 6)
    assert list(second.update_mask.paths) == ["max_producer_per_topic"]
    assert first.request_id != second.request_id
    assert running.result().version == "v2"
    assert len(clock.waits) == 1
    assert calls.faults == 1


def test_an_edit_gives_up_after_a_bounded_number_of_conflicts(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    running = start(lambda: client.edit(TOPIC, lambda policies: policies.shadow_topics.append("x")))
    for _ in range(16):
        calls.answer("GetPolicy", got("v1"))
        calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH"))
    with pytest.raises(tp.Conflict):
        running.result()
    assert len(clock.waits) == 15
    assert clock.waits[0] < 0.01
    assert max(clock.waits) <= 0.5


def test_an_edit_with_a_slow_function_is_not_repeated_after_its_deadline(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    def slow(policies: tp.TopicPolicies) -> None:
        clock.time += 0.6
        policies.max_producer_per_topic += 1

    running = start(lambda: client.edit(TOPIC, slow, timeout=1.0))
    for _ in range(2):
        calls.answer("GetPolicy", got("v1"))
        calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH"))
    with pytest.raises(tp.Conflict):
        running.result()
    assert len(clock.waits) == 1


def test_an_edit_that_changes_nothing_sends_nothing(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.edit(TOPIC, lambda policies: policies.shadow_topics.extend([])))
    calls.answer("GetPolicy", got("v1", max_producer_per_topic=1))
    outcome = running.result()
    assert outcome.outcome is tp.UpdateOutcome.UNCHANGED
    assert outcome.version == outcome.previous_version == "v1"


def test_an_edit_block_sends_only_what_it_changed(client: tp.Client, calls: Calls) -> None:
    edit = client.edit(TOPIC)

    def block() -> None:
        with edit as policies:
            policies.subscription_policies["my-sub"].dispatch_rate.dispatch_throttling_rate_in_msg = 9
            policies.ClearField("max_producer_per_topic")

    running = start(block)
    calls.answer("GetPolicy", got("v1", max_producer_per_topic=1, max_consumer_per_topic=2))
    request = answer_update(calls)
    running.result()
    assert set(request.update_mask.paths) == {"subscription_policies.`my-sub`", "max_producer_per_topic"}
    assert request.etag == "v1"
    assert edit.result is not None
    assert edit.result.version == "v2"


def test_an_edit_block_with_a_concurrent_change_raises_the_conflict(client: tp.Client, calls: Calls) -> None:
    def block() -> None:
        with client.edit(TOPIC) as policies:
            policies.max_producer_per_topic = 9

    running = start(block)
    calls.answer("GetPolicy", got("v1"))
    calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": "v2"}))
    with pytest.raises(tp.Conflict) as caught:
        running.result()
    assert caught.value.metadata["version"] == "v2"


def test_an_edit_block_that_raises_sends_nothing(client: tp.Client, calls: Calls) -> None:
    edit = client.edit(TOPIC)

    def block() -> None:
        with edit as policies:
            policies.max_producer_per_topic = 9
            raise KeyError("mine")

    running = start(block)
    calls.answer("GetPolicy", got("v1"))
    with pytest.raises(KeyError, match="mine"):
        running.result()
    assert edit.result is None


def stream_updates(calls: Calls) -> Any:
    _, call = calls.channel.take_stream_stream(SERVICE.methods_by_name["UpdatePolicies"])
    call.send_initial_metadata(())
    return call


def settle(call: Any, *changes: service_pb2.PolicyChangeRequest) -> None:
    results = [service_pb2.PolicyChangeResult(sequence=change.sequence, updated=result(change.update)) for change in changes]
    call.send_response(service_pb2.UpdatePoliciesResponse(results=results))


def taken(call: Any, count: int) -> list[service_pb2.PolicyChangeRequest]:
    """Receives ``count`` changes, in any number of batches."""
    changes: list[service_pb2.PolicyChangeRequest] = []
    while len(changes) < count:
        changes += call.take_request().changes
    assert len(changes) == count
    return changes


def test_many_changes_are_sent_over_one_stream_and_again_after_it_breaks(client: tp.Client, calls: Calls) -> None:
    changes = (tp.Update(TOPIC, max_producer_per_topic=value) for value in range(5))
    running = start(lambda: list(client.update_many(changes, max_in_flight=3)))
    first = stream_updates(calls)
    sent = taken(first, 3)
    settle(first, sent[0])
    sent += taken(first, 1)
    first.terminate((), BROKEN.code, BROKEN.message)
    second = stream_updates(calls)
    again = taken(second, 3)
    assert again == sent[1:]
    settle(second, *again)
    settle(second, *taken(second, 1))
    settled = running.result()
    assert [each.sequence for each in settled] == [0, 1, 2, 3, 4]
    policies = [document.policies for each in settled if (document := each.unwrap().document) is not None]
    assert policies == [tp.TopicPolicies(max_producer_per_topic=value) for value in range(5)]


def test_available_changes_are_sent_while_the_source_still_waits(client: tp.Client, calls: Calls) -> None:
    resume = threading.Event()

    def changes() -> Iterator[tp.Update]:
        yield tp.Update(TOPIC, max_producer_per_topic=1)
        yield tp.Update(TOPIC, max_producer_per_topic=2)
        resume.wait(20)
        yield tp.Update(TOPIC, max_producer_per_topic=3)

    running = start(lambda: list(client.update_many(changes())))
    stream = stream_updates(calls)
    sent = taken(stream, 2)
    resume.set()
    settle(stream, *sent, *taken(stream, 1))
    assert len(running.result()) == 3


def test_many_updates_without_a_service_are_each_settled_before_the_error_is_raised(client: tp.Client, calls: Calls) -> None:
    taken: list[tp.Settled] = []

    def consume() -> None:
        taken.extend(client.update_many([tp.Update(TOPIC, max_producer_per_topic=1)] * 2, timeout=0.2))

    running = start(consume)
    for _ in range(2):
        stream_updates(calls).terminate((), BROKEN.code, BROKEN.message)
    with pytest.raises(tp.Unavailable):
        running.result()
    assert [type(each.error) for each in taken] == [tp.OutcomeUnknown, tp.OutcomeUnknown]


def test_an_error_of_the_callers_iterable_is_raised_to_the_caller(client: tp.Client) -> None:
    def updates() -> Iterator[tp.Update]:
        nothing: list[tp.Update] = []
        yield nothing[0]

    with pytest.raises(IndexError):
        list(client.update_many(updates()))


def open_watch(calls: Calls) -> tuple[service_pb2.WatchPoliciesRequest, Any]:
    _, request, call = calls.channel.take_unary_stream(SERVICE.methods_by_name["WatchPolicies"])
    call.send_initial_metadata(())
    return request, call


def serve(model: LogModel, calls: Calls, count: int) -> tuple[service_pb2.WatchPoliciesRequest, Any]:
    """Accepts the next watch and sends it the first ``count`` messages of a stream over the model."""
    request, call = open_watch(calls)
    stream = model.stream(request)
    for _ in range(count):
        call.send_response(next(stream))
    return request, call


def test_a_watch_resumes_over_new_streams(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    model = LogModel(A)
    model.write(A, "t", 1)
    watch = client.watch(namespaces=[A])
    events: list[tp.WatchEvent] = []
    closed = threading.Event()

    def consume() -> None:
        for event in watch:
            events.append(event)
            if len(events) == 7:
                watch.close()
        closed.set()

    def delivered(count: int) -> None:
        """Waits until ``count`` events were delivered: the fake channel drops messages in flight when a stream breaks."""
        give_up = time.monotonic() + 20
        while len(events) < count and time.monotonic() < give_up:
            time.sleep(0.001)
        assert len(events) >= count

    running = start(consume)
    _, call = serve(model, calls, 2)
    delivered(2)
    call.terminate((), BROKEN.code, BROKEN.message)
    model.write(A, "t", 2)
    request, call = serve(model, calls, 2)
    assert request.resume[A].positions
    delivered(5)
    call.terminate((), grpc.StatusCode.OK, "")
    model.write(A, "u", 3)
    serve(model, calls, 2)
    running.result()
    kinds = ["Changed", "Synced", "Interrupted", "Changed", "Synced", "Interrupted", "Changed"]
    assert [type(event).__name__ for event in events] == kinds
    assert len(clock.waits) == 2
    assert closed.is_set()
    with pytest.raises(StopIteration):
        next(watch)


def test_a_refused_watch_raises_once_and_ends(client: tp.Client, calls: Calls) -> None:
    watch = client.watch(namespaces=["no namespace"])
    running = start(lambda: next(watch))
    _, call = open_watch(calls)
    refusal = Refusal(Code.INVALID_ARGUMENT, "Not a namespace.", "MALFORMED_NAME")
    call.terminate(refusal.trailing_metadata, refusal.code, refusal.message)
    with pytest.raises(tp.InvalidArgument):
        running.result()
    assert list(watch) == []


def test_closing_the_client_ends_its_watches_and_refuses_calls(calls: Calls) -> None:
    client = tp.Client(channel=calls.channel)
    watch = client.watch(namespaces=[A])
    running = start(lambda: list(watch))
    open_watch(calls)
    client.close()
    assert running.result() == []
    with pytest.raises(tp.TopicPoliciesError, match="closed"):
        client.get(TOPIC)


def test_closing_while_the_stream_is_being_opened_ends_it() -> None:
    cancelled = threading.Event()

    class Opening:
        """A stub whose watch is closed while the call is made."""

        def WatchPolicies(self, request: object) -> Any:  # noqa: N802
            watch.close()
            return self

        def add_callback(self, _callback: object) -> bool:
            return True

        def cancel(self) -> None:
            cancelled.set()

        def __next__(self) -> Any:
            raise AssertionError("a closed watch does not read")

    class Opened(Connections):
        def stub(self, address: str) -> Any:
            assert address == "target"
            return Opening()

    def unused(address: str) -> Any:
        raise AssertionError(address)

    watch = Watch(Opened(unused, Routes(("target",)), lambda: (), FakeClock()), WatchSession(namespaces=[A]))
    assert list(watch) == []
    assert cancelled.is_set()


def test_calls_of_the_stub_have_the_actor_the_current_token_and_the_metadata_of_the_client(calls: Calls) -> None:
    tokens = iter(["one", "two"])
    with tp.Client(channel=calls.channel, actor="tests", token=lambda: next(tokens), metadata=[("x-more", "1")]) as client:
        for token in ("one", "two"):
            running = start(lambda: client.stub.GetServerInfo(service_pb2.GetServerInfoRequest(), metadata=(("x-own", "2"),)))
            calls.answer("GetServerInfo", service_pb2.GetServerInfoResponse(version="1"))
            assert running.result().version == "1"
            expected = {"topicpolicies-actor": "tests", "authorization": f"Bearer {token}", "x-more": "1", "x-own": "2"}
            assert expected.items() <= calls.metadata.items()


@pytest.mark.parametrize("make", [tp.Client, tp.AsyncClient])
def test_a_token_is_not_sent_to_another_machine_without_tls(make: type[tp.Client | tp.AsyncClient]) -> None:
    make("policies.example:6680", token="secret")
    make("localhost:6680", token="secret", tls=False)
    for target in ("policies.example:6680", "localhost:6680,policies.example:6680"):
        with pytest.raises(tp.InvalidArgument, match="without TLS"):
            make(target, token="secret", tls=False)


def test_a_token_is_not_sent_to_a_leader_on_another_machine_without_tls() -> None:
    with tp.Client("localhost:6680", token="secret") as client, pytest.raises(tp.InvalidArgument, match="without TLS"):
        client._connections.stub("policies.example:6680")


def test_an_unknown_field_or_a_wrong_type_is_refused_by_type_checkers_and_before_sending(client: tp.Client) -> None:
    with pytest.raises(tp.InvalidArgument):
        client.update(TOPIC, max_producers_per_topic=5)  # type: ignore[call-arg]
    with pytest.raises(tp.InvalidArgument):
        client.update(TOPIC, max_producer_per_topic="5")  # type: ignore[arg-type]


def test_an_actor_that_can_not_be_sent_is_refused() -> None:
    for actor in ("Jürgen", " x", "a\nb"):
        with pytest.raises(tp.InvalidArgument):
            tp.Client(actor=actor)

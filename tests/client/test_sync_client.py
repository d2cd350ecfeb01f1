"""The synchronous client against a fake channel: what it sends, what it repeats, and how long it waits."""

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
from tests.client.statuses import Code, Refusal
from topicpolicies.routes import Routes
from topicpolicies.streams import Line, Watch
from topicpolicies.v1 import service_pb2
from topicpolicies.watching import WatchSession

TOPIC = "persistent://public/default/orders"
A = "public/a"
GLOBAL = tp.Scope.GLOBAL.number
SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"]
BROKEN = Refusal(Code.UNAVAILABLE, "Socket closed")
T = TypeVar("T")


class Calls:
    """The other end of the fake channel."""

    def __init__(self) -> None:
        self.channel = grpc_testing.channel([SERVICE], grpc_testing.strict_real_time())
        self.faults = 0

    def unary(self, method: str) -> Any:
        """The next call of a unary method: its metadata, its request, and the call to be ended."""
        return self.channel.take_unary_unary(SERVICE.methods_by_name[method])

    def answer(self, method: str, response: Any) -> Any:
        """Answers the next call; gives its request."""
        metadata, request, call = self.unary(method)
        call.send_initial_metadata(())
        call.terminate(response, (), grpc.StatusCode.OK, "")
        self.metadata = dict(metadata)
        return request

    def fail(self, method: str, refusal: Refusal) -> Any:
        """Fails the next call; gives its request."""
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
    """A call in another thread, which does not outlive a test that fails."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            self._future.set_exception(error)

    def result(self) -> T:
        return self._future.result(timeout=20)


def start(call: Callable[[], T]) -> Running[T]:
    """Runs a call in another thread."""
    return Running(call)


def result(request: service_pb2.UpdatePolicyRequest, **fields: Any) -> service_pb2.UpdatePolicyResponse:
    values: dict[str, Any] = {
        "topic": request.topic,
        "scope": request.scope,
        "policies": request.policies,
        "version": "v2",
        "previous_version": "v1",
        "outcome": service_pb2.UPDATE_OUTCOME_APPLIED,
        "request_id": request.request_id,
    }
    return service_pb2.UpdatePolicyResponse(**(values | fields))


def document(version: str, **fields: Any) -> service_pb2.GetPolicyResponse:
    return service_pb2.GetPolicyResponse(topic=TOPIC, scope=1, exists=True, policies=tp.TopicPolicies(**fields), version=version)  # type: ignore[arg-type]


def answer_update(calls: Calls, **fields: Any) -> service_pb2.UpdatePolicyRequest:
    metadata, request, call = calls.unary("UpdatePolicy")
    calls.metadata = dict(metadata)
    call.send_initial_metadata(())
    call.terminate(result(request, **fields), (), grpc.StatusCode.OK, "")
    assert isinstance(request, service_pb2.UpdatePolicyRequest)
    return request


def test_an_update_is_sent_with_its_mask_and_actor_and_gives_what_became_of_it(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5))
    request = answer_update(calls)
    assert list(request.update_mask.paths) == ["max_producer_per_topic"]
    assert calls.metadata["topicpolicies-actor"] == "tests"
    expected = tp.UpdateResult(
        TOPIC,
        tp.Scope.LOCAL,
        tp.TopicPolicies(max_producer_per_topic=5),
        "v2",
        "v1",
        tp.UpdateOutcome.APPLIED,
        request.request_id,
        repeated=False,
    )
    assert running.result() == expected


def test_a_change_whose_answer_was_lost_is_repeated_with_the_same_id(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5))
    sent = [calls.fail("UpdatePolicy", refusal) for refusal in (BROKEN, Refusal(Code.DEADLINE_EXCEEDED), Refusal(Code.CANCELLED))]
    sent.append(answer_update(calls, repeated=True))
    assert running.result().repeated
    assert len({request.request_id for request in sent}) == 1
    assert all(request == sent[0] for request in sent)
    assert clock.waits == pytest.approx([0.075, 0.15, 0.3])
    assert calls.faults == 3


def test_a_change_without_any_answer_ends_as_unknown_at_its_deadline(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    began = clock.now()
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5, request_id="mine", timeout=1.0))
    for _ in range(4):
        assert calls.fail("UpdatePolicy", BROKEN).request_id == "mine"
    with pytest.raises(tp.OutcomeUnknown) as caught:
        running.result()
    assert caught.value.request_id == "mine"
    assert clock.now() < began + 1.0
    assert calls.faults == 4


def test_a_wrong_request_is_not_repeated(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5))
    calls.fail("UpdatePolicy", Refusal(Code.INVALID_ARGUMENT, "Too many.", "TOO_MANY", violations=[("policies", "TOO_MANY", "Too many.")]))
    with pytest.raises(tp.InvalidArgument) as caught:
        running.result()
    assert caught.value.violations == (tp.Violation("policies", "TOO_MANY", "Too many."),)
    assert not clock.waits


def test_a_check_is_a_read_and_its_outcome_is_never_unknown(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.update(TOPIC, max_producer_per_topic=5, validate_only=True))
    calls.fail("UpdatePolicy", Refusal(Code.DEADLINE_EXCEEDED))
    with pytest.raises(tp.DeadlineExceeded):
        running.result()


def test_a_read_is_repeated(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.get(TOPIC, scope=tp.Scope.GLOBAL, at_least="v1"))
    calls.fail("GetPolicy", BROKEN)
    request = calls.answer("GetPolicy", service_pb2.GetPolicyResponse(topic=TOPIC, scope=GLOBAL, version="0"))
    assert request == service_pb2.GetPolicyRequest(topic=TOPIC, scope=GLOBAL, at_least="v1")
    assert running.result() == tp.Document(TOPIC, tp.Scope.GLOBAL, None, "0")
    assert not running.result().exists
    assert calls.faults == 1


def test_a_list_goes_through_its_pages_as_it_is_read(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: list(client.list("public/default", scopes=[tp.Scope.LOCAL], page_size=1)))
    first = calls.answer("ListPolicies", service_pb2.ListPoliciesResponse(entries=[document("v1")], next_page_token="next"))
    calls.fail("ListPolicies", BROKEN)
    second = calls.answer("ListPolicies", service_pb2.ListPoliciesResponse(entries=[document("v2")]))
    assert (first.namespace, list(first.scopes), first.page_size, first.page_token) == ("public/default", [1], 1, "")
    assert second.page_token == "next"
    assert [each.version for each in running.result()] == ["v1", "v2"]


def test_a_deletion_gives_each_scope_its_result(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.delete(TOPIC, scopes={tp.Scope.LOCAL: "v1", tp.Scope.GLOBAL: ""}))
    failed = calls.fail("DeletePolicy", BROKEN)
    conflict = Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH")
    response = service_pb2.DeletePolicyResponse(topic=TOPIC, request_id=failed.request_id)
    response.results.add(scope=1, error=service_pb2.Status(code=10, message="Changed.", details=conflict.details))
    response.results.add(scope=2, outcome=service_pb2.DELETE_OUTCOME_DELETED, version="v3", previous_version="v2")
    assert calls.answer("DeletePolicy", response) == failed
    deletion = running.result()
    assert deletion.scopes[tp.Scope.GLOBAL] == tp.DeleteResult(tp.Scope.GLOBAL, tp.DeleteOutcome.DELETED, "v3", "v2")
    assert isinstance(deletion.scopes[tp.Scope.LOCAL].error, tp.Conflict)
    with pytest.raises(tp.Conflict):
        deletion.raise_for_errors()


def test_an_edit_is_made_again_on_the_fresh_document_until_nobody_was_faster(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    seen = []

    def change(policies: tp.TopicPolicies) -> None:
        seen.append(policies.max_producer_per_topic)
        policies.max_producer_per_topic += 1

    running = start(lambda: client.edit(TOPIC, change))
    calls.answer("GetPolicy", document("v1", max_producer_per_topic=1))
    first = calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": "v2"}))
    again = calls.answer("GetPolicy", document("v2", max_producer_per_topic=5))
    second = answer_update(calls)
    assert seen == [1, 5]
    assert (first.etag, first.policies.max_producer_per_topic) == ("v1", 2)
    assert again.at_least == "v2", "another sidecar may be behind"
    assert (second.etag, second.policies.max_producer_per_topic) == ("v2", 6)
    assert list(second.update_mask.paths) == ["max_producer_per_topic"]
    assert first.request_id != second.request_id
    assert running.result().policies == tp.TopicPolicies(max_producer_per_topic=6)
    assert len(clock.waits) == 1
    assert calls.faults == 1


def test_an_edit_gives_up_after_a_bounded_number_of_conflicts(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
    running = start(lambda: client.edit(TOPIC, lambda policies: policies.shadow_topics.append("x")))
    for _ in range(16):
        calls.answer("GetPolicy", document("v1"))
        calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH"))
    with pytest.raises(tp.Conflict):
        running.result()
    assert len(clock.waits) == 15
    assert clock.waits[0] < 0.01
    assert max(clock.waits) <= 0.5


def test_an_edit_that_changes_nothing_sends_nothing(client: tp.Client, calls: Calls) -> None:
    running = start(lambda: client.edit(TOPIC, lambda policies: policies.shadow_topics.extend([])))
    calls.answer("GetPolicy", document("v1", max_producer_per_topic=1))
    outcome = running.result()
    assert outcome.outcome is tp.UpdateOutcome.UNCHANGED
    assert outcome.version == outcome.previous_version == "v1"


def test_a_block_sends_what_it_changed(client: tp.Client, calls: Calls) -> None:
    edit = client.edit(TOPIC)

    def block() -> None:
        with edit as policies:
            policies.subscription_policies["my-sub"].dispatch_rate.dispatch_throttling_rate_in_msg = 9
            policies.ClearField("max_producer_per_topic")

    running = start(block)
    calls.answer("GetPolicy", document("v1", max_producer_per_topic=1, max_consumer_per_topic=2))
    request = answer_update(calls)
    running.result()
    assert set(request.update_mask.paths) == {"subscription_policies.`my-sub`", "max_producer_per_topic"}
    assert request.etag == "v1"
    assert edit.result is not None
    assert edit.result.version == "v2"


def test_a_block_that_was_overtaken_raises_the_conflict(client: tp.Client, calls: Calls) -> None:
    def block() -> None:
        with client.edit(TOPIC) as policies:
            policies.max_producer_per_topic = 9

    running = start(block)
    calls.answer("GetPolicy", document("v1"))
    calls.fail("UpdatePolicy", Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": "v2"}))
    with pytest.raises(tp.Conflict) as caught:
        running.result()
    assert caught.value.metadata["version"] == "v2"


def test_a_block_that_raises_sends_nothing(client: tp.Client, calls: Calls) -> None:
    edit = client.edit(TOPIC)

    def block() -> None:
        with edit as policies:
            policies.max_producer_per_topic = 9
            raise KeyError("mine")

    running = start(block)
    calls.answer("GetPolicy", document("v1"))
    with pytest.raises(KeyError, match="mine"):
        running.result()
    assert edit.result is None


def stream_updates(calls: Calls) -> Any:
    _, call = calls.channel.take_stream_stream(SERVICE.methods_by_name["UpdatePolicies"])
    call.send_initial_metadata(())
    return call


def settle(call: Any, request: service_pb2.UpdatePoliciesRequest) -> None:
    call.send_response(service_pb2.UpdatePoliciesResponse(sequence=request.sequence, response=result(request.update)))


def test_many_updates_go_over_one_stream_and_survive_its_end(client: tp.Client, calls: Calls) -> None:
    updates = (tp.Update(TOPIC, {"max_producer_per_topic": value}) for value in range(5))
    running = start(lambda: list(client.update_many(updates, max_in_flight=3)))
    first = stream_updates(calls)
    requests = [first.take_request() for _ in range(3)]
    settle(first, requests[0])
    requests.append(first.take_request())
    first.terminate((), BROKEN.code, BROKEN.message)
    second = stream_updates(calls)
    again = [second.take_request() for _ in range(3)]
    assert again == requests[1:]
    for request in again:
        settle(second, request)
    settle(second, second.take_request())
    settled = running.result()
    assert [each.sequence for each in settled] == [0, 1, 2, 3, 4]
    assert [each.unwrap().policies for each in settled] == [tp.TopicPolicies(max_producer_per_topic=value) for value in range(5)]


def test_many_updates_without_a_service_give_each_its_error_and_then_raise(client: tp.Client, calls: Calls) -> None:
    taken: list[tp.Settled] = []

    def consume() -> None:
        taken.extend(client.update_many([tp.Update(TOPIC, {"max_producer_per_topic": 1})] * 2, timeout=0.2))

    running = start(consume)
    for _ in range(2):
        stream_updates(calls).terminate((), BROKEN.code, BROKEN.message)
    with pytest.raises(tp.Unavailable):
        running.result()
    assert [type(each.error) for each in taken] == [tp.OutcomeUnknown, tp.OutcomeUnknown]


def test_an_error_of_the_callers_iterable_is_the_callers(client: tp.Client) -> None:
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
    """Opens a stream over the model and sends its next messages."""
    request, call = open_watch(calls)
    stream = model.stream(request)
    for _ in range(count):
        call.send_response(next(stream))
    return request, call


def test_a_watch_goes_on_over_streams(client: tp.Client, calls: Calls, clock: FakeClock) -> None:
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

    def told(count: int) -> None:
        """Waits until so many events were told: the fake channel drops what is under way when a stream breaks."""
        give_up = time.monotonic() + 20
        while len(events) < count and time.monotonic() < give_up:
            time.sleep(0.001)
        assert len(events) >= count

    running = start(consume)
    _, call = serve(model, calls, 2)
    told(2)
    call.terminate((), BROKEN.code, BROKEN.message)
    model.write(A, "t", 2)
    request, call = serve(model, calls, 2)
    assert request.resume[A].positions
    told(5)
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


def test_a_refused_watch_raises_and_is_over(client: tp.Client, calls: Calls) -> None:
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
        """A stub whose call takes so long that the watch is closed meanwhile."""

        def WatchPolicies(self, request: object, metadata: object) -> Any:  # noqa: N802
            watch.close()
            return self

        def cancel(self) -> None:
            cancelled.set()

        def __next__(self) -> Any:
            raise AssertionError("nobody reads any more")

    class Opened(Line):
        def stub(self, address: str) -> Any:
            assert address == "target"
            return Opening()

    def unused(address: str) -> Any:
        raise AssertionError(address)

    watch = Watch(Opened(unused, Routes(("target",)), (), FakeClock()), WatchSession(namespaces=[A]))
    assert list(watch) == []
    assert cancelled.is_set()


def test_a_field_of_another_name_or_type_is_refused_by_type_checkers_and_before_it_is_sent(client: tp.Client) -> None:
    with pytest.raises(tp.InvalidArgument):
        client.update(TOPIC, max_producers_per_topic=5)  # type: ignore[call-arg]
    with pytest.raises(tp.InvalidArgument):
        client.update(TOPIC, max_producer_per_topic="5")  # type: ignore[arg-type]


def test_an_actor_that_can_not_be_sent_is_refused() -> None:
    for actor in ("Jürgen", " x", "a\nb"):
        with pytest.raises(tp.InvalidArgument):
            tp.Client(actor=actor)

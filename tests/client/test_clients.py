"""Both clients beside a fake service: their requests, metadata, pages, batches, errors, and which calls gRPC repeats for them."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import grpc
import grpc_testing
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import topicpolicies as tp
from tests.client.fake_service import BOTH, FakeService, use
from tests.client.statuses import BROKEN, Code, Refusal
from tests.client.vectors import examples, name
from topicpolicies import edits
from topicpolicies.v1 import history_pb2, service_pb2

TOPIC = "persistent://public/default/orders"
ROOT = Path(__file__).parents[2]
both = pytest.mark.parametrize("kind", BOTH)
Kind = type[tp.Client | tp.AsyncClient]


def result(**fields: Any) -> service_pb2.ChangeResult:
    return service_pb2.ChangeResult(version="v2", outcome=tp.CHANGE_OUTCOME_APPLIED, **fields)


@both
async def test_a_change_is_sent_with_the_clients_actor_and_a_request_id_and_its_result_returned(kind: Kind, service: FakeService) -> None:
    service.answers["UpdatePolicy"] += [result(), result()]
    service.answers["DeletePolicy"] += [result()]
    assert await use(kind, service.address, lambda client: client.update(TOPIC, max_producer_per_topic=5), actor="bot") == result()
    await use(kind, service.address, lambda client: client.update(TOPIC, max_producer_per_topic=5, actor="me"), actor="bot")
    await use(kind, service.address, lambda client: client.delete(TOPIC, version="v1"), actor="bot")
    first, second, deletion = (call.request for call in service.calls)
    assert (first.actor, second.actor, deletion.actor) == ("bot", "me", "bot")
    assert len({first.request_id, second.request_id, deletion.request_id}) == 3
    assert deletion.precondition == service_pb2.Precondition(version="v1")


@both
async def test_grpc_repeats_a_call_that_met_no_service_with_the_same_request(kind: Kind, service: FakeService) -> None:
    service.answers["UpdatePolicy"] += [BROKEN, Refusal(Code.UNAVAILABLE, reason="NOT_APPENDED"), result(replayed=True)]
    assert (await use(kind, service.address, lambda client: client.update(TOPIC, max_producer_per_topic=5))).replayed
    first, *others = service.requests("UpdatePolicy")
    assert others == [first, first]
    assert [call.metadata.get("grpc-previous-rpc-attempts") for call in service.calls] == [None, "1", "2"]


@both
async def test_a_large_batch_is_repeated_too(kind: Kind, service: FakeService) -> None:
    changes = [tp.update_request(f"{TOPIC}-{number}", shadow_topics=["x" * 900] * 900) for number in range(3)]
    answer = service_pb2.BatchUpdatePoliciesResponse(results=[service_pb2.PolicyChangeResult(success=result())] * 3)
    service.answers["BatchUpdatePolicies"] += [BROKEN, answer]
    done = await use(kind, service.address, lambda client: client.batch(changes))
    assert [change for change, _ in done] == changes
    assert len(service.calls) == 2


@both
@pytest.mark.parametrize("example", [each for each in examples("retries.json") if each["call"] != "watch"], ids=name)
async def test_a_status_becomes_the_error_of_the_example(kind: Kind, example: dict[str, Any], service: FakeService) -> None:
    refusal = Refusal(grpc.StatusCode[example["code"]], reason=example["reason"], domain=example.get("domain", "topicpolicies"))
    service.answers["UpdatePolicy"] += [refusal] * 5
    service.answers["GetPolicy"] += [refusal] * 5

    def call(client: Any) -> Any:
        return client.update(TOPIC, max_producer_per_topic=1) if example["call"] == "change" else client.get(TOPIC)

    with pytest.raises(tp.TopicPoliciesError) as caught:
        await use(kind, service.address, call, options=[("grpc.service_config", quick_config())])
    assert isinstance(caught.value, tp.OutcomeUnknown) == (example["error"] == "outcome unknown")
    assert caught.value.code is refusal.code
    assert len(service.calls) == (5 if example["repeat"] else 1)
    assert caught.value.request_id == getattr(service.calls[0].request, "request_id", "")


def quick_config() -> str:
    config = json.loads((ROOT / "clients/service_config.json").read_text())
    config["methodConfig"][0]["retryPolicy"] |= {"initialBackoff": "0.01s", "maxBackoff": "0.01s"}
    return json.dumps(config)


def test_the_package_has_the_service_config_of_all_clients_and_it_names_all_unary_methods() -> None:
    text = (ROOT / "clients/service_config.json").read_text()
    assert (ROOT / "clients/python/topicpolicies/service_config.json").read_text() == text
    named = {(each["service"], each["method"]) for each in json.loads(text)["methodConfig"][0]["name"]}
    services = [*service_pb2.DESCRIPTOR.services_by_name.values(), *history_pb2.DESCRIPTOR.services_by_name.values()]
    assert named == {(each.full_name, method.name) for each in services for method in each.methods if not method.server_streaming}


@both
async def test_an_error_has_all_details(kind: Kind, service: FakeService) -> None:
    violations = [("update_mask.paths[0]", "UNKNOWN_PATH", "No such path."), ("topic", "", "No topic.")]
    refusal = Refusal(Code.INVALID_ARGUMENT, "Two problems.", "INVALID_REQUEST", {"a": "b"}, violations, retry_seconds=1.5)
    service.answers["UpdatePolicy"].append(refusal)
    with pytest.raises(tp.InvalidArgument, match=r"Two problems\.") as caught:
        await use(kind, service.address, lambda client: client.update(TOPIC, mask=["nope"], request_id="id"))
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.code, error.reason, error.metadata) == (Code.INVALID_ARGUMENT, "INVALID_REQUEST", {"a": "b"})
    assert error.violations == tuple(tp.Violation(*each) for each in violations)
    assert (error.request_id, error.retry_seconds) == ("id", 1.5)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.NOT_FOUND, tp.NotFound),
        (Code.ABORTED, tp.PreconditionFailed),
        (Code.FAILED_PRECONDITION, tp.FailedPrecondition),
        (Code.OUT_OF_RANGE, tp.OutOfRange),
        (Code.RESOURCE_EXHAUSTED, tp.ResourceExhausted),
        (Code.PERMISSION_DENIED, tp.PermissionDenied),
        (Code.UNAUTHENTICATED, tp.Unauthenticated),
        (Code.DEADLINE_EXCEEDED, tp.DeadlineExceeded),
        (Code.UNIMPLEMENTED, tp.TopicPoliciesError),
    ],
)
async def test_each_status_code_has_its_exception(code: grpc.StatusCode, error: type[tp.TopicPoliciesError], service: FakeService) -> None:
    service.answers["GetServerInfo"].append(Refusal(code))
    with pytest.raises(tp.TopicPoliciesError) as caught:
        await use(tp.Client, service.address, lambda client: client.server_info())
    assert type(caught.value) is error


@both
async def test_a_call_without_an_answer_ends_at_its_timeout(kind: Kind, service: FakeService) -> None:
    with pytest.raises(tp.DeadlineExceeded):
        await use(kind, service.address, lambda client: client.get(TOPIC, timeout=0.1))
    with pytest.raises(tp.OutcomeUnknown) as caught:
        await use(kind, service.address, lambda client: client.update(TOPIC, max_producer_per_topic=1), timeout=0.1)
    assert caught.value.request_id == service.requests("UpdatePolicy")[0].request_id
    with pytest.raises(tp.DeadlineExceeded):
        await use(kind, service.address, lambda client: client.update(TOPIC, max_producer_per_topic=1, validate_only=True), timeout=0.1)


@both
async def test_the_token_of_each_call_is_the_current_one(kind: Kind, service: FakeService) -> None:
    tokens = iter(["first", "second"])
    service.answers["GetServerInfo"] += [service_pb2.ServerInfo()] * 2

    def call(client: Any) -> Any:
        return client.list_pages("public/default")

    service.answers["ListPolicies"] += [service_pb2.ListPoliciesResponse(next_page_token="2"), service_pb2.ListPoliciesResponse()]
    await use(kind, service.address, call, token=lambda: next(tokens))
    assert [each.metadata["authorization"] for each in service.calls] == ["Bearer first", "Bearer second"]
    with pytest.raises(tp.Unavailable, match="token function"):
        await use(kind, service.address, lambda client: client.get(TOPIC), token=lambda: next(tokens))


def test_a_token_that_can_not_be_sent_or_would_be_read_by_others_is_refused() -> None:
    for token in ("two words", "line\n", "tökén", ""):
        with pytest.raises(tp.InvalidArgument) as caught:
            tp.Client("localhost:1", token=token)
        assert not token or token not in str(caught.value)
    with pytest.raises(tp.InvalidArgument, match="without TLS"):
        tp.Client("policies.example:6680", token="secret", tls=False)
    with pytest.raises(tp.InvalidArgument, match="not a URL"):
        tp.Client("https://policies.example:6680")


def test_the_token_of_a_file_is_read_again_and_kept_while_the_file_has_none(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = tp.TokenFile(file)
    assert token() == "first"
    for wrong in ("", "two words", "tökén", "a\0b"):
        file.write_text(wrong)
        assert token() == "first"
        with pytest.raises(tp.InvalidArgument, match="no bearer token"):
            tp.TokenFile(file)
    file.unlink()
    assert token() == "first"
    file.write_text(" second \n")
    assert token() == "second"


async def test_the_programs_trace_is_sent_with_its_calls(service: FakeService) -> None:
    service.answers["GetServerInfo"].append(service_pb2.ServerInfo())
    span = NonRecordingSpan(SpanContext(0xA1, 0xB2, is_remote=False, trace_flags=TraceFlags(1)))
    with trace.use_span(span):
        async with tp.AsyncClient(service.address) as client:
            await client.stub.GetServerInfo(service_pb2.GetServerInfoRequest(), metadata=[("x-mine", "1")])
    metadata = service.calls[0].metadata
    assert (metadata["traceparent"], metadata["x-mine"]) == (f"00-{0xA1:032x}-{0xB2:016x}-01", "1")


@both
async def test_lists_and_histories_are_read_page_by_page(kind: Kind, service: FakeService) -> None:
    documents = [tp.PolicyDocument(topic=f"{TOPIC}-{number}") for number in range(3)]
    pages = [
        service_pb2.ListPoliciesResponse(documents=documents[:2], next_page_token="p2", resume_token="r"),
        service_pb2.ListPoliciesResponse(documents=documents[2:]),
    ]
    service.answers["ListPolicies"] += [*pages, *pages]
    listed = await use(kind, service.address, lambda client: client.list("public/default", scopes=[tp.SCOPE_GLOBAL], page_size=2))
    assert listed == documents
    assert (await use(kind, service.address, lambda client: client.list_pages("public/default"))) == pages
    assert [request.page_token for request in service.requests("ListPolicies")] == ["", "p2", "", "p2"]
    assert (list(service.requests("ListPolicies")[0].scopes), service.requests("ListPolicies")[0].page_size) == ([tp.SCOPE_GLOBAL], 2)
    entry = history_pb2.HistoryEntry(problem="x")
    service.answers["ListHistory"].append(history_pb2.ListHistoryResponse(entries=[entry]))
    start = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    entries = await use(kind, service.address, lambda client: client.history(topic=TOPIC, start=start, actor="", oldest_first=True))
    assert entries == [entry]
    (request,) = service.requests("ListHistory")
    assert request.start_time.ToDatetime(UTC) == start
    assert request.HasField("actor")
    assert not request.HasField("end_time")


@both
async def test_reads_of_one_document_are_sent_as_they_are_named(kind: Kind, service: FakeService) -> None:
    document = tp.PolicyDocument(topic=TOPIC, version="v1")
    service.answers["GetPolicy"].append(document)
    service.answers["GetPolicyAsOf"] += [document, document]
    service.answers["GetEffectivePolicy"].append(service_pb2.EffectivePolicy(topic=TOPIC))
    assert await use(kind, service.address, lambda client: client.get(TOPIC, scope=tp.SCOPE_GLOBAL, at_least_version="v1")) == document
    assert await use(kind, service.address, lambda client: client.as_of(TOPIC, "v1")) == document
    assert await use(kind, service.address, lambda client: client.as_of(TOPIC, datetime(2026, 1, 1))) == document  # noqa: DTZ001 - local
    assert (await use(kind, service.address, lambda client: client.effective(TOPIC))).topic == TOPIC
    get, by_version, by_time, _ = (call.request for call in service.calls)
    assert get == service_pb2.GetPolicyRequest(topic=TOPIC, scope=tp.SCOPE_GLOBAL, at_least_version="v1")
    assert by_version == history_pb2.GetPolicyAsOfRequest(topic=TOPIC, scope=tp.SCOPE_LOCAL, version="v1")
    assert by_time.time.ToDatetime(UTC) == datetime(2026, 1, 1).astimezone(UTC)


def answered(request: service_pb2.BatchUpdatePoliciesRequest) -> service_pb2.BatchUpdatePoliciesResponse:
    results = []
    for change in request.changes:
        own = change.update if change.HasField("update") else change.delete
        made = service_pb2.PolicyChangeResult(success=result(request_id=own.request_id))
        if own.topic == "wrong":
            made.ClearField("success")
            made.error.code, made.error.message = Code.INVALID_ARGUMENT.value[0], "The topic is wrong."
            made.error.details.extend(Refusal(Code.INVALID_ARGUMENT, reason="INVALID_REQUEST").details)
        results.append(made)
    return service_pb2.BatchUpdatePoliciesResponse(results=results)


@both
async def test_any_number_of_changes_is_divided_into_batches_and_each_has_its_own_outcome(kind: Kind, service: FakeService) -> None:
    service.answers["BatchUpdatePolicies"] += [answered] * 5
    changes: list[Any] = [tp.update_request(f"{TOPIC}-{number}", max_producer_per_topic=number) for number in range(2_300)]
    changes[7] = tp.delete_request("wrong", actor="other")
    changes += [tp.update_request(TOPIC, shadow_topics=["x" * 900] * 900)] * 4
    outcomes = await use(kind, service.address, lambda client: client.batch(changes), actor="bot")
    assert [change for change, _ in outcomes] == changes
    assert all(made.request_id == change.request_id for change, made in outcomes)
    failed = [made for _, made in outcomes if isinstance(made, tp.TopicPoliciesError)]
    assert [(type(made), made.reason) for made in failed] == [(tp.InvalidArgument, "INVALID_REQUEST")]
    sent = service.requests("BatchUpdatePolicies")
    assert [len(each.changes) for each in sent] == [1_000, 1_000, 303, 1]
    assert all(each.ByteSize() < 3_000_100 for each in sent)
    assert (sent[0].changes[7].delete.actor, sent[0].changes[8].update.actor) == ("other", "bot")
    assert not changes[8].actor, "the caller's own message is left alone"


@both
async def test_a_batch_that_fails_as_a_whole_is_the_error_of_each_of_its_changes(kind: Kind, service: FakeService) -> None:
    service.answers["BatchUpdatePolicies"] += [Refusal(Code.INTERNAL), Refusal(Code.UNAUTHENTICATED)]
    changes: list[Any] = [tp.update_request(TOPIC, max_producer_per_topic=1), tp.delete_request(TOPIC, validate_only=True)]
    (_, first), (_, second) = await use(kind, service.address, lambda client: client.batch(changes))
    assert (type(first), first.request_id) == (tp.OutcomeUnknown, changes[0].request_id)
    assert type(second) is tp.TopicPoliciesError
    outcomes = await use(kind, service.address, lambda client: client.batch(changes))
    assert [type(error) for _, error in outcomes] == [tp.Unauthenticated] * 2
    assert await use(kind, service.address, lambda client: client.batch([])) == []


@both
async def test_an_edit_runs_again_on_the_version_that_was_in_its_way_and_gives_up_after_16_times_or_in_time(
    kind: Kind, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicpolicies.edits.random.uniform", lambda *_: 0.0)
    service.answers["GetPolicy"] += [tp.PolicyDocument(topic=TOPIC, version="v1", policies=tp.TopicPolicies(max_producer_per_topic=1))] * 50
    service.answers["UpdatePolicy"] += [Refusal(Code.ABORTED, reason="PRECONDITION_FAILED", metadata={"version": "v2"})] * 50

    def add(policies: tp.TopicPolicies) -> None:
        policies.max_producer_per_topic += 1

    with pytest.raises(tp.PreconditionFailed) as caught:
        await use(kind, service.address, lambda client: client.edit(TOPIC, add, timeout=60), actor="bot")
    assert len(service.requests("UpdatePolicy")) == 16
    with pytest.raises(tp.PreconditionFailed):
        edits.Edit(TOPIC, add, timeout=0.0).pause(caught.value)
    first, second = service.requests("GetPolicy")[:2]
    assert (first.at_least_version, second.at_least_version) == ("", "v2")
    update = service.requests("UpdatePolicy")[0]
    assert (update.precondition.version, list(update.update_mask.paths), update.actor) == ("v1", ["max_producer_per_topic"], "bot")


async def later(policies: tp.TopicPolicies) -> None:
    """An edit's function that would have to be awaited."""


@both
@pytest.mark.parametrize("wrong", [lambda _: tp.TopicPolicies(), later])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_an_edit_that_returns_what_would_be_dropped_is_refused(kind: Kind, wrong: Any, service: FakeService) -> None:
    service.answers["GetPolicy"].append(tp.PolicyDocument(topic=TOPIC))
    with pytest.raises(TypeError, match="neither sent nor awaited"):
        await use(kind, service.address, lambda client: client.edit(TOPIC, wrong))
    assert not service.requests("UpdatePolicy")


async def test_a_client_for_threads_can_be_closed_by_another_thread(service: FakeService) -> None:
    client = tp.Client(service.address)
    calling = asyncio.ensure_future(asyncio.to_thread(client.update, TOPIC, max_producer_per_topic=1))
    while not service.calls:  # noqa: ASYNC110 - there is no event for this
        await asyncio.sleep(0.01)
    client.close()
    with pytest.raises(tp.OutcomeUnknown):
        await calling


def test_a_client_for_asyncio_is_made_inside_its_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        tp.AsyncClient("localhost:1")


def test_a_program_that_uses_the_client_can_be_tested_over_the_fake_channel_of_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = grpc_testing.channel(list(service_pb2.DESCRIPTOR.services_by_name.values()), grpc_testing.strict_real_time())
    monkeypatch.setattr(grpc, "insecure_channel", lambda *_: channel)
    method = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].methods_by_name["GetServerInfo"]
    with tp.Client("localhost:1") as client, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(client.server_info)
        _, request, call = channel.take_unary_unary(method)
        call.send_initial_metadata(())
        call.terminate(tp.ServerInfo(version="1"), (), Code.OK, "")
        assert (request, reading.result().version) == (service_pb2.GetServerInfoRequest(), "1")

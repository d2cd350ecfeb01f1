"""Statuses of failed calls become exceptions with all details that the service sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

import topicpolicies as tp
from tests.client.statuses import Code, Refusal
from topicpolicies.errors import TopicPoliciesError, Violation, clearer, from_rpc_error, from_status, outcome_unknown, reason_name
from topicpolicies.retries import Attempts, RetryPolicy
from topicpolicies.v1 import errors_pb2
from topicpolicies.watch_session import WatchSession


class _Failed(grpc.RpcError):
    def __init__(self, refusal: Refusal, trailing: tuple[tuple[str, str | bytes], ...] | None) -> None:
        self._refusal = refusal
        self._trailing = trailing

    def code(self) -> grpc.StatusCode:
        return self._refusal.code

    def details(self) -> str:
        return self._refusal.message

    def trailing_metadata(self) -> Any:
        return self._trailing


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.INVALID_ARGUMENT, tp.InvalidArgument),
        (Code.NOT_FOUND, tp.NotFound),
        (Code.ABORTED, tp.Conflict),
        (Code.ALREADY_EXISTS, tp.AlreadyExists),
        (Code.FAILED_PRECONDITION, tp.FailedPrecondition),
        (Code.OUT_OF_RANGE, tp.OutOfRange),
        (Code.RESOURCE_EXHAUSTED, tp.ResourceExhausted),
        (Code.UNAUTHENTICATED, tp.PermissionDenied),
        (Code.PERMISSION_DENIED, tp.PermissionDenied),
        (Code.UNAVAILABLE, tp.Unavailable),
        (Code.DEADLINE_EXCEEDED, tp.DeadlineExceeded),
        (Code.INTERNAL, TopicPoliciesError),
        (Code.UNIMPLEMENTED, TopicPoliciesError),
    ],
)
def test_each_status_code_has_its_exception_class(code: grpc.StatusCode, kind: type[TopicPoliciesError]) -> None:
    error = from_status(code.value[0], "no", ())
    assert type(error) is kind
    assert error.code is code
    assert str(error) == error.message == "no"


def test_reason_metadata_and_every_violation_are_read_from_the_details() -> None:
    violations = [("update_mask.paths[0]", "UNKNOWN_PATH", "No such path."), ("topic", "", "No topic.")]
    refusal = Refusal(Code.INVALID_ARGUMENT, "Two problems.", "UNKNOWN_PATH", {"path": "x"}, violations)
    error = from_rpc_error(_Failed(refusal, refusal.trailing_metadata))
    assert isinstance(error, tp.InvalidArgument)
    assert isinstance(error, ValueError)
    assert error.message == "Two problems."
    assert error.reason == "UNKNOWN_PATH"
    assert error.metadata == {"path": "x"}
    assert error.violations == tuple(Violation(*each) for each in violations)
    assert error.from_service


def test_only_errors_of_the_domain_topicpolicies_are_from_the_service() -> None:
    assert Refusal(Code.ABORTED, reason="ETAG_MISMATCH", domain="topicpolicies").error.from_service
    assert not Refusal(Code.ABORTED, reason="ETAG_MISMATCH", domain="topicpolicies.v1").error.from_service


def test_a_reason_is_named_without_its_prefix_and_an_unknown_one_by_its_number() -> None:
    assert [reason_name(number) for number in (0, errors_pb2.ERROR_REASON_ETAG_MISMATCH, 9999)] == ["", "ETAG_MISMATCH", "9999"]


def test_an_error_of_another_domain_keeps_its_reason_and_is_not_from_the_service() -> None:
    refusal = Refusal(Code.UNAVAILABLE, reason="PROXY", domain="proxy.example")
    error = from_rpc_error(_Failed(refusal, refusal.trailing_metadata))
    assert error.reason == "PROXY"
    assert not error.from_service


@pytest.mark.parametrize("trailing", [None, (), (("grpc-status-details-bin", b"\xff\xff"),), (("other", "x"),)])
def test_missing_or_broken_details_do_not_hide_the_error(trailing: tuple[tuple[str, str | bytes], ...] | None) -> None:
    error = from_rpc_error(_Failed(Refusal(Code.ABORTED, "changed"), trailing))
    assert isinstance(error, tp.Conflict)
    assert error.message == "changed"
    assert not error.from_service


def test_unknown_and_unreadable_details_are_ignored() -> None:
    unknown = AnyMessage(type_url="type.googleapis.com/no.such.Type", value=b"x")
    broken = AnyMessage(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff\xff")
    error = from_status(10, "changed", [unknown, broken, *Refusal(Code.ABORTED, reason="ETAG_MISMATCH").details])
    assert error.reason == "ETAG_MISMATCH"


def test_an_unknown_status_code_is_read_as_unknown() -> None:
    assert from_status(77, "new", ()).code is Code.UNKNOWN


def test_outcome_unknown_has_the_id_of_the_request_and_the_details_of_its_cause() -> None:
    cause = Refusal(Code.DEADLINE_EXCEEDED, "Too late.", "OUTCOME_UNKNOWN", {"a": "b"}).error
    error = outcome_unknown(cause, "id-1")
    assert error.request_id == "id-1"
    assert "id-1" in str(error)
    assert error.__cause__ is cause
    assert (error.code, error.reason, error.metadata) == (Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN", {"a": "b"})
    without = Refusal(Code.UNAVAILABLE, "failed to connect to all addresses").error
    assert not outcome_unknown(without, "id-1").never_sent


@pytest.mark.parametrize(
    ("refusal", "never"),
    [
        (Refusal(Code.UNAVAILABLE, "failed to connect to all addresses; last error: refused"), True),
        (Refusal(Code.UNAVAILABLE, "DNS resolution failed for nowhere"), True),
        (Refusal(Code.UNAVAILABLE, "errors resolving nowhere:1: [field:hostname lookup error:Domain name not found]"), True),
        (Refusal(Code.UNKNOWN, "Failed to create channel to 'nowhere':the target uri is not valid: dns:///"), True),
        (Refusal(Code.UNKNOWN, "errors resolving nowhere:1"), False),
        (Refusal(Code.UNAVAILABLE, "Socket closed"), False),
        (Refusal(Code.UNAVAILABLE, "failed to connect to all addresses", "LOG_UNREACHABLE"), False),
        (Refusal(Code.DEADLINE_EXCEEDED, "failed to connect to all addresses"), False),
    ],
)
def test_only_a_call_without_a_connection_counts_as_never_sent(refusal: Refusal, never: bool) -> None:
    assert refusal.error.never_sent is never


@pytest.mark.parametrize("target", ["localhost:port", "ipv4:127.0.0.1"])
async def test_a_change_to_an_address_that_grpc_can_not_resolve_is_certainly_not_made(target: str) -> None:
    topic = "persistent://public/default/orders"
    async with tp.AsyncClient(target, tls=False, timeout=0.5) as client:
        with tp.Client(target, tls=False, timeout=0.5) as blocking:
            changes: list[Callable[[], Awaitable[object]]] = [
                lambda: client.update(topic, max_producer_per_topic=5),
                lambda: asyncio.to_thread(blocking.update, topic, max_producer_per_topic=5),
            ]
            for change in changes:
                with pytest.raises(tp.TopicPoliciesError) as caught:
                    await change()
                assert caught.value.never_sent
                assert not isinstance(caught.value, tp.OutcomeUnknown)


def at(address: str, why: str) -> Refusal:
    """The status of a call for which gRPC found no connection; ``address``: the one that failed last."""
    return Refusal(Code.UNAVAILABLE, f"failed to connect to all addresses; last error: UNKNOWN: {address}: {why}")


HIDING = at("ipv6:%5B::1%5D:1", "Failed to connect to remote host: Connection refused")
TELLING = at("ipv4:127.0.0.1:1", "Socket closed")


@pytest.mark.parametrize(
    ("former", "error", "kept"),
    [
        (None, HIDING, HIDING),
        (TELLING, HIDING, TELLING),
        (HIDING, TELLING, TELLING),
        (TELLING, at("ipv4:127.0.0.1:1", "Connection refused"), at("ipv4:127.0.0.1:1", "Connection refused")),
        (TELLING, at("ipv6:%5B::1%5D:1", "No route to host"), at("ipv6:%5B::1%5D:1", "No route to host")),
        (TELLING, Refusal(Code.UNAVAILABLE, "The log can't be reached.", "LOG_UNREACHABLE"), None),
    ],
)
def test_a_refusal_at_one_address_does_not_hide_what_is_wrong_at_another(
    former: Refusal | None, error: Refusal, kept: Refusal | None
) -> None:
    assert clearer(former.error if former else None, error.error).message == (kept or error).message


def test_the_clearer_error_of_two_addresses_is_raised_in_the_end_by_calls_and_watches() -> None:
    tries = Attempts(RetryPolicy(), 1.0, None)
    tries.failed(TELLING.error, 0.0, 0.5)
    with pytest.raises(tp.Unavailable, match="Socket closed"):
        tries.failed(HIDING.error, 1.0, 0.5)
    session = WatchSession(namespaces=["a/b"], patience=1.0)
    session.connect(0.0)
    session.broke(TELLING.error, 0.0, 0.5)
    with pytest.raises(tp.Unavailable, match="Socket closed"):
        session.broke(HIDING.error, 1.0, 0.5)

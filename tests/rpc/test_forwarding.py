"""Changes that are forwarded to a leader: what it is sent, and what becomes of a change that it does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.rpc.error_details_pb2 import ErrorInfo

from tests.client.certificates import Authority
from tests.ports import free_port
from topicpolicies import Tls
from topicpolicies.v1 import service_pb2 as messages
from topicpolicies_server.access import Caller, Way
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.errors import Kind, PolicyError, stopping
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import Leadership, NotLeader
from topicpolicies_server.rpc import errors, forwarding
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.forwarding import FORWARDED_KEY, Forwarding
from topicpolicies_server.rpc.requests import BatchedChange

REQUEST = messages.UpdatePolicyRequest(topic="persistent://acme/shop/orders", request_id="a" * 32)
ANSWER = messages.ChangeResult(version="7", outcome=messages.CHANGE_OUTCOME_APPLIED)
TRACE = ("traceparent", f"00-{'1' * 32}-{'2' * 16}-01")
Answer = Callable[[bytes, Any], Awaitable[bytes]]


class Leader(grpc.GenericRpcHandler):
    """A server that answers every method as it is told to."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.calls: list[tuple[str, bytes, dict[str, Any]]] = []
        self.left: list[float] = []
        self.refusal: PolicyError | None = None
        self.batch: list[messages.PolicyChangeResult] = []
        self.hangs = False
        self.came = asyncio.Event()
        """Set when a call has come."""
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((self,))
        if credentials is None:
            self.server.add_insecure_port(self.address)
        else:
            self.server.add_secure_port(self.address, credentials)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Returns the handler of every method."""
        method = handler_call_details.method.rpartition("/")[2]

        async def handle(request: bytes, context: Any) -> bytes:
            self.calls.append((method, request, dict(context.invocation_metadata())))
            self.left.append(context.time_remaining())
            self.came.set()
            if self.hangs:
                await asyncio.sleep(60)
            if self.refusal is not None:
                await context.abort(*errors.trailer(self.refusal))
            if method == "BatchUpdatePolicies":
                return messages.BatchUpdatePoliciesResponse(results=self.batch).SerializeToString()
            return ANSWER.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(handle)


class _Context:
    """Stands in for gRPC's context of a call."""

    def __init__(self, left: float | None, metadata: tuple[tuple[str, str], ...]) -> None:
        self._left = left
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata that the caller sent."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Returns the time that the caller has left."""
        return self._left


def call_of(method: str = "UpdatePolicy", *metadata: tuple[str, str], left: float | None = None) -> Call:
    """Returns a call of the caller ``ann``."""
    call = Call(method, _Context(left, metadata))
    call.caller = Caller("ann", Way.TOKEN)
    call.request = Request(PolicyKey(REQUEST.topic, Scope.LOCAL), None, REQUEST.request_id, "")
    return call


def batched(index: int, request_id: str) -> BatchedChange:
    """Returns a change of a batch that was read."""
    topic = f"persistent://acme/shop/t{index}"
    message = messages.PolicyChangeRequest(update=messages.UpdatePolicyRequest(topic=topic))
    return BatchedChange(index, message, Request(PolicyKey(topic, Scope.LOCAL), None, request_id, ""), "acme/shop")


def led_by(address: str) -> NotLeader:
    """Returns the error of a change that another sidecar makes."""
    return NotLeader("acme/shop", Leadership(False, address))


@pytest_asyncio.fixture
async def leader() -> AsyncIterator[Leader]:
    """A running leader."""
    made = Leader()
    await made.server.start()
    yield made
    await made.server.stop(None)


@pytest_asyncio.fixture
async def peers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forwarding]:
    """Connections without TLS, with a token."""
    monkeypatch.setattr(forwarding, "PAUSE_SECONDS", 0.01)
    made = Forwarding(0.5, tls=None, token=lambda: "secret")
    yield made
    await made.close()


async def test_a_leader_is_sent_the_request_for_the_caller(leader: Leader, peers: Forwarding) -> None:
    call = call_of("UpdatePolicy", TRACE, ("other", "x"), left=10.0)
    assert await peers.change(call, REQUEST, led_by(leader.address)) == ANSWER.SerializeToString()
    ((method, request, metadata),) = leader.calls
    assert (method, messages.UpdatePolicyRequest.FromString(request)) == ("UpdatePolicy", REQUEST)
    wanted = {FORWARDED_KEY: "1", "authorization": "Bearer secret", "topicpolicies-original-principal": "ann"}
    wanted |= dict((TRACE,))
    assert wanted.items() <= metadata.items()
    assert "other" not in metadata
    assert leader.left[0] < 1.7, "the change's own limit, and a second"
    assert call.outcome is not None and call.outcome.name == "APPLIED"
    await peers.change(call_of(left=0.4), REQUEST, led_by(leader.address))
    assert leader.left[1] < 0.37, "the leader has to answer before the caller's deadline"


async def test_a_forwarded_change_is_not_forwarded_again(leader: Leader, peers: Forwarding) -> None:
    with pytest.raises(NotLeader):
        await peers.change(call_of("UpdatePolicy", (FORWARDED_KEY, "1")), REQUEST, led_by(leader.address))
    assert not leader.calls


async def test_a_leader_that_is_not_known_is_not_waited_for(peers: Forwarding) -> None:
    with pytest.raises(NotLeader):
        await peers.change(call_of(), REQUEST, led_by(""))


async def test_the_leaders_error_is_the_callers(leader: Leader, peers: Forwarding) -> None:
    leader.refusal = PolicyError(Kind.ABORTED, Reason.PRECONDITION_FAILED, "No.", metadata={"version": "9"}, retry_seconds=1.5)
    call = call_of()
    with pytest.raises(PolicyError) as refused:
        await peers.change(call, REQUEST, led_by(leader.address))
    error = refused.value
    assert (error.kind, error.reason, error.message, error.metadata) == (Kind.ABORTED, Reason.PRECONDITION_FAILED, "No.", {"version": "9"})
    assert error.retry_seconds == 1.5
    assert not call.unsure


@pytest.mark.parametrize(
    "refusal",
    [
        None,
        led_by("elsewhere:1"),
        stopping(),
        PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_MISSING, "No token."),
        PolicyError(Kind.PERMISSION_DENIED, Reason.PROXY_REFUSED, "No proxy."),
    ],
    ids=["not-reached", "not-leader", "stopping", "unauthenticated", "no-proxy"],
)
async def test_a_change_that_certainly_was_not_made_is_tried_here_again(
    leader: Leader, peers: Forwarding, refusal: PolicyError | None, caplog: pytest.LogCaptureFixture
) -> None:
    leader.refusal = refusal
    if refusal is None:
        await leader.server.stop(None)
    call = call_of()
    caplog.set_level(logging.WARNING)
    assert await peers.change(call, REQUEST, led_by(leader.address)) is None
    assert not call.unsure
    call.started -= 1.0
    with pytest.raises(NotLeader) as refused:
        await peers.change(call, REQUEST, led_by(leader.address))
    assert call.of_all_attempts(refused.value, REQUEST.request_id, unsure=call.unsure) is refused.value
    warned = refusal is not None and refusal.kind is not Kind.UNAVAILABLE
    assert len([each for each in caplog.records if "refuses the changes" in each.message]) == warned


async def test_a_leader_that_comes_back_is_found_at_once(leader: Leader, peers: Forwarding) -> None:
    address = leader.address
    await leader.server.stop(None)
    assert await peers.change(call_of(), REQUEST, led_by(address)) is None
    back = Leader()
    back.server.add_insecure_port(address)
    await back.server.start()
    assert await peers.change(call_of(), REQUEST, led_by(address)) == ANSWER.SerializeToString()
    await back.server.stop(None)


@pytest.mark.parametrize("broken", [True, False], ids=["connection-breaks", "no-answer"])
async def test_a_change_that_may_have_been_made_is_tried_again_and_never_said_not_to_be_made(
    leader: Leader, peers: Forwarding, *, broken: bool
) -> None:
    leader.hangs = True
    call = call_of(left=None if broken else 0.3)
    changing = asyncio.create_task(peers.change(call, REQUEST, led_by(leader.address)))
    await leader.came.wait()
    assert call.unsure, "if the call is ended now, its change may have been made"
    if broken:
        await leader.server.stop(None)
    assert await changing is None
    assert call.unsure
    found = call.of_all_attempts(led_by(leader.address), REQUEST.request_id, unsure=call.unsure)
    assert (found.kind, found.reason) == (Kind.DEADLINE_EXCEEDED, Reason.OUTCOME_UNKNOWN)
    assert found.metadata == {"request_id": REQUEST.request_id}


async def test_each_change_of_a_batch_has_the_leaders_result_and_those_that_were_not_made_can_be_tried_again(
    leader: Leader, peers: Forwarding
) -> None:
    ids = [f"{number:032x}" for number in range(3)]
    changes = [batched(index, request_id) for index, request_id in enumerate(ids)]
    done = messages.ChangeResult(version="0")
    busy = PolicyError(Kind.RESOURCE_EXHAUSTED, Reason.LIMIT_REACHED, "Later.")
    failed = [messages.PolicyChangeResult(error=errors.status(error)) for error in (led_by("elsewhere:1"), busy)]
    leader.batch = [messages.PolicyChangeResult(success=done), *failed]
    call = call_of("BatchUpdatePolicies")
    first, second, third = await peers.batch(call, leader.address, changes)
    assert (first, second) == (done, None), "1 can be tried again"
    assert isinstance(third, PolicyError) and third.reason is Reason.LIMIT_REACHED
    assert list(messages.BatchUpdatePoliciesRequest.FromString(leader.calls[0][1]).changes) == [each.message for each in changes]
    leader.hangs = True
    leader.came.clear()
    batch = asyncio.create_task(peers.batch(call, leader.address, changes))
    await leader.came.wait()
    assert all(each.unsure for each in changes), "if the call is ended now, its changes may have been made"
    await leader.server.stop(None)
    unknown = await batch
    assert [each.metadata for each in unknown if isinstance(each, PolicyError) and each.reason is Reason.OUTCOME_UNKNOWN] == [
        {"request_id": each} for each in ids
    ]
    assert not any(each.unsure for each in changes)
    async with asyncio.timeout(100):  # until the connection is known to be closed, the changes may have been made
        while await peers.batch(call, leader.address, changes) != [None] * 3:  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.05)


async def test_what_a_newer_leader_answers_in_words_that_are_not_known_here_may_have_been_made(leader: Leader, peers: Forwarding) -> None:
    changes = [batched(0, "0" * 32), batched(1, "1" * 32)]
    done = messages.PolicyChangeResult(success=messages.ChangeResult(version="0"))
    newer, info = errors.status(PolicyError(Kind.RESOURCE_EXHAUSTED, Reason.LIMIT_REACHED, "Later.")), ErrorInfo()
    assert newer.details[0].Unpack(info)
    info.reason = "OF_A_NEWER_VERSION"
    newer.details[0].Pack(info)
    for leader.batch, known in (([done, messages.PolicyChangeResult(error=newer)], 1), ([done], 0)):
        results = await peers.batch(call_of("BatchUpdatePolicies"), leader.address, changes)
        assert results[:known] == [done.success] * known
        assert {each.reason for each in results[known:] if isinstance(each, PolicyError)} == {Reason.OUTCOME_UNKNOWN}, "each has a result"
        assert len(results) == 2


async def test_a_principal_that_metadata_can_not_name_is_not_forwarded(leader: Leader, peers: Forwarding) -> None:
    call = call_of()
    call.caller = Caller("zoë", Way.TOKEN)
    assert await peers.change(call, REQUEST, led_by(leader.address)) is None
    assert not leader.calls


@pytest.fixture
def tls(tmp_path: Path) -> tuple[Tls, grpc.ServerCredentials]:
    """The TLS of this sidecar, and that of a leader which demands certificates of the same authority."""
    authority = Authority(tmp_path, "authority")
    one, two = authority.identity("one", "127.0.0.1"), authority.identity("two", "127.0.0.1")
    pair, trusted = (one.key.read_bytes(), one.certificate.read_bytes()), authority.certificate
    own = Tls(certificate_file=two.certificate, key_file=two.key, ca_file=trusted)
    return own, grpc.ssl_server_credentials([pair], trusted.read_bytes(), require_client_auth=True)


async def test_a_leader_with_tls_knows_this_sidecar_by_its_certificate(tls: tuple[Tls, grpc.ServerCredentials]) -> None:
    own, of_leader = tls
    leader = Leader(of_leader)
    await leader.server.start()
    peers = Forwarding(5.0, tls=own, token=str)
    assert await peers.change(call_of(), REQUEST, led_by(leader.address)) == ANSWER.SerializeToString()
    assert "authorization" not in leader.calls[0][2]
    await peers.close()
    await leader.server.stop(None)

"""Whether both clients repeat a call: their loops of attempts, with a stub that fails as the examples of retries.json specify."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import grpc
import pytest
from grpc import aio

import topicpolicies as tp
from tests.client.clocks import FakeClock
from tests.client.statuses import Refusal
from tests.client.vectors import examples, name
from topicpolicies.v1 import policies_pb2, service_pb2

HERE = "127.0.0.1:6680"
TOPIC = "persistent://t/n/a"
DOCUMENT = policies_pb2.PolicyDocument(topic=TOPIC, scope=policies_pb2.SCOPE_LOCAL)
SYNCED = service_pb2.WatchEvent(namespace="t/n", bookmark=service_pb2.Bookmark(kind=service_pb2.BOOKMARK_KIND_SYNCED))


class _Failed(grpc.RpcError):
    """The error that the synchronous API raises for a failed call."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal

    def code(self) -> grpc.StatusCode:
        return self._refusal.code

    def details(self) -> str:
        return self._refusal.message

    def trailing_metadata(self) -> Any:
        return self._refusal.trailing_metadata


def _refusal(failure: dict[str, Any]) -> Refusal:
    message = "failed to connect to all addresses" if failure.get("neverSent") else "It does not work."
    domain = "topicpolicies" if failure["service"] else "somebody.else"
    return Refusal(grpc.StatusCode[failure["code"]], message, failure["reason"], failure.get("metadata", {}), domain=domain)


class _Stub:
    """The service at all addresses: fails with the failures of the example in turn, then succeeds."""

    def __init__(self, example: dict[str, Any]) -> None:
        self._failures = [_refusal(failure) for failure in example["failures"]]
        self.requests: list[tuple[str, Any]] = []
        """The address and the request of each call."""

    def at(self, address: str) -> Any:
        return _At(self, address)

    def next(self, address: str, request: Any) -> Refusal | None:
        self.requests.append((address, request))
        turn = len(self.requests) - 1
        return self._failures[turn] if turn < len(self._failures) else None


class _Method:
    """A unary method of the synchronous stub."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def with_call(self, request: Any, timeout: float) -> tuple[Any, _Method]:
        return self._answer(request), self

    def trailing_metadata(self) -> Any:
        return ()


class _Call:
    """A call of the asyncio stub."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        try:
            return self._answer()
        except _Failed as failed:
            raise _aio_error(failed._refusal) from None

    async def trailing_metadata(self) -> Any:
        return aio.Metadata()


class _At:
    """The synchronous stub of one address."""

    def __init__(self, stub: _Stub, address: str) -> None:
        self._stub = stub
        self._address = address

    def _answer(self, request: Any, response: Any) -> Any:
        refusal = self._stub.next(self._address, request)
        if refusal is not None:
            raise _Failed(refusal)
        return response

    @property
    def GetPolicy(self) -> Any:  # noqa: N802
        return self._method(lambda request: service_pb2.GetPolicyResponse(documents=[DOCUMENT]))

    @property
    def UpdatePolicy(self) -> Any:  # noqa: N802
        return self._method(lambda request: service_pb2.UpdatePolicyResponse(request_id=request.request_id))

    def _method(self, made: Callable[[Any], Any]) -> Any:
        return _Method(lambda request: self._answer(request, made(request)))

    def WatchPolicies(self, request: Any) -> Any:  # noqa: N802
        return _Stream(self._stub.next(self._address, request))


class _Stream:
    """The stream of one watch: fails at once, or is synced."""

    def __init__(self, refusal: Refusal | None) -> None:
        self._refusal = refusal

    def __next__(self) -> service_pb2.WatchPoliciesResponse:
        if self._refusal is not None:
            raise _Failed(self._refusal)
        return service_pb2.WatchPoliciesResponse(events=[SYNCED])

    async def read(self) -> service_pb2.WatchPoliciesResponse:
        if self._refusal is not None:
            raise _aio_error(self._refusal)
        return next(self)

    def add_callback(self, callback: Callable[[], object]) -> bool:
        del callback
        return False

    def cancel(self) -> None:
        pass


class _AsyncAt(_At):
    """The asyncio stub of one address."""

    def _method(self, made: Callable[[Any], Any]) -> Any:
        return lambda request, timeout: _Call(lambda: self._answer(request, made(request)))


def _aio_error(refusal: Refusal) -> aio.AioRpcError:
    return aio.AioRpcError(refusal.code, aio.Metadata(), aio.Metadata(*refusal.trailing_metadata), details=refusal.message)


def _judge(example: dict[str, Any], stub: _Stub, clock: FakeClock, error: tp.TopicPoliciesError | None) -> None:
    again = example["then"].startswith("repeat")
    assert len(stub.requests) == len(example["failures"]) + again
    if again:
        assert error is None
        assert bool(clock.waits) == (example["then"] == "repeat"), clock.waits
        assert stub.requests[-1][0] == example.get("at", HERE)
    elif example["then"] == "give up":
        assert error is not None
        assert not isinstance(error, tp.OutcomeUnknown)
        assert error.code is grpc.StatusCode[example["code"]]
    else:
        assert example["then"] == "outcome unknown"
        assert isinstance(error, tp.OutcomeUnknown)
        assert error.request_id == stub.requests[0][1].request_id != ""
    if example["call"] == "change":
        assert len({request.request_id for _, request in stub.requests}) == 1


@pytest.mark.parametrize("example", examples("retries.json"), ids=name)
def test_the_synchronous_client_repeats_a_call_as_the_example_specifies(example: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stub, clock, failure = _Stub(example), FakeClock(), None
    with tp.Client(HERE, clock=clock) as client:
        monkeypatch.setattr(client._connections, "stub", stub.at)
        try:
            if example["call"] == "read":
                client.get(TOPIC)
            elif example["call"] == "change":
                client.update(TOPIC, max_producer_per_topic=1)
            else:
                _until_synced(client.watch(namespaces=["t/n"]))
        except tp.TopicPoliciesError as error:
            failure = error
    _judge(example, stub, clock, failure)


@pytest.mark.parametrize("example", examples("retries.json"), ids=name)
async def test_the_asyncio_client_repeats_a_call_as_the_example_specifies(example: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stub, clock, failure = _Stub(example), FakeClock(), None
    async with tp.AsyncClient(HERE, clock=clock) as client:
        monkeypatch.setattr(client._connections, "stub", lambda address: _AsyncAt(stub, address))
        try:
            if example["call"] == "read":
                await client.get(TOPIC)
            elif example["call"] == "change":
                await client.update(TOPIC, max_producer_per_topic=1)
            else:
                await _until_synced_async(client.watch(namespaces=["t/n"]))
        except tp.TopicPoliciesError as error:
            failure = error
    _judge(example, stub, clock, failure)


def _until_synced(watch: Iterator[tp.WatchEvent]) -> None:
    while not isinstance(next(watch), tp.Synced):
        pass


async def _until_synced_async(watch: AsyncIterator[tp.WatchEvent]) -> None:
    while not isinstance(await anext(watch), tp.Synced):
        pass

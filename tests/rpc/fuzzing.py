"""Sends mutated requests to a server, and counts their outcomes."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse

from topicpolicies.v1 import history_pb2, service_pb2
from topicpolicies_server.rpc.handlers import HISTORY_SERVICE, SERVICE

from .conftest import Refusal
from .fuzzed_callers import FUZZER, Callers, bearer
from .mutations import REFLECTION, WATCH, Mutations, decoded

_HISTORY = {"ListHistory", "GetPolicyAsOf", "WatchHistory"}
_ANSWER_STREAMS = {"WatchPolicies", "WatchHistory", WATCH}
"""Methods with a stream of answers."""
_BOTH_STREAMS = {REFLECTION}
"""Methods with streams of both requests and answers."""
_ANSWERS = {
    method.name: GetMessageClass(method.output_type)
    for file in (service_pb2, history_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""The classes of answers, by method."""
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS, grpc.StatusCode.UNIMPLEMENTED}
"""Statuses that only a fault of the server causes."""
_CLIENTS_OWN = "Internal error from Core"
"""The message of gRPC's own client, with the status INTERNAL, when it writes to a call that the server has ended. No server sends it."""
_OVER = {grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
"""Statuses that may have no reason: the caller went away, or its deadline passed before the server could send its own status."""
_AT_ONCE = 24
_ONE_SECONDS, _STREAM_SECONDS = 20.0, 2.0
"""Watches stay open until the timeouts of their callers, so that these are short."""
_MOST_MESSAGES = 3


class Fuzz:
    """Sends requests to all methods in turn, several at once."""

    def __init__(self, channel: grpc.aio.Channel, seed: int) -> None:
        self.sent = 0
        self.accepted: collections.Counter[str] = collections.Counter()
        """By method: the requests that had an answer, and the changes that were made."""
        self.refused: collections.Counter[str] = collections.Counter()
        """By method: the requests, and the changes of a batch, that were refused."""
        self.statuses: collections.Counter[tuple[str, str, str]] = collections.Counter()
        """The number of outcomes by method, status and reason."""
        self.faults: list[str] = []
        """Descriptions of outcomes that must not occur."""
        self._channel: Any = channel
        self._made = Mutations(seed)
        self._callers = Callers(self._made.random)
        self._seed = seed

    async def send(self, count: int) -> None:
        """Sends so many requests, and waits for their outcomes."""
        left, calls = iter(range(count)), self._made.calls

        async def caller() -> None:
            for number in left:
                await self._one(calls[number % len(calls)])
                self.sent += 1

        await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))

    async def crowd(self, count: int) -> None:
        """Opens so many health watches of one caller at once, because ``send`` reaches the limit only by chance."""
        watch = self._channel.unary_stream(f"/{WATCH}")
        calls = [watch(b"", timeout=_ONE_SECONDS, metadata=[bearer(FUZZER)]) for _ in range(count)]
        for call in calls:
            status, reason = grpc.StatusCode.OK, ""
            try:
                await call.read()
            except grpc.aio.AioRpcError as error:
                status, reason = error.code(), Refusal(error).info.reason
                self._judge(WATCH, status, reason, f"{error.details()}")
            self.statuses[WATCH, status.name, reason] += 1
        for call in calls:
            call.cancel()

    async def _one(self, name: str) -> None:
        requests = [self._made.request(name) for _ in range(self._made.random.randint(1, 3) if name in _BOTH_STREAMS else 1)]
        try:
            status, reason = await self._call(name, requests), ""
        except grpc.aio.AioRpcError as error:
            status, reason = error.code(), Refusal(error).info.reason
            if error.details() == _CLIENTS_OWN:
                status = grpc.StatusCode.CANCELLED
            else:
                self._judge(name, status, reason, f"{error.details()} of {[each[:500] for each in requests]}")
        self.statuses[name, status.name, reason] += 1

    async def _call(self, name: str, requests: list[bytes]) -> grpc.StatusCode:
        path = f"/{name}" if "/" in name else f"/{HISTORY_SERVICE if name in _HISTORY else SERVICE}/{name}"
        metadata = [*self._callers.metadata(), *self._made.metadata()]
        if name not in _ANSWER_STREAMS | _BOTH_STREAMS:
            answer = await self._channel.unary_unary(path)(requests[0], timeout=self._made.seconds(_ONE_SECONDS), metadata=metadata)
            self._answered(name, answer)
            return grpc.StatusCode.OK
        seconds = self._made.seconds(_STREAM_SECONDS)
        if name in _ANSWER_STREAMS:
            call = self._channel.unary_stream(path)(requests[0], timeout=seconds, metadata=metadata)
        else:
            call = self._channel.stream_stream(path)(timeout=seconds, metadata=metadata)
            with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.InternalError):  # an earlier request has ended the call
                for each in requests:
                    await call.write(each)
                await call.done_writing()
        most = 1 if name == WATCH and self._made.random.random() < 0.9 else _MOST_MESSAGES
        for _ in range(most):
            answer = await call.read()
            if answer is grpc.aio.EOF:
                return await self._ended(call)
            self._answered(name, answer)
        call.cancel()
        return grpc.StatusCode.CANCELLED

    async def _ended(self, call: Any) -> grpc.StatusCode:
        status: grpc.StatusCode = await call.code()
        if status is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(status, await call.initial_metadata(), await call.trailing_metadata(), await call.details())
        return status

    def _answered(self, name: str, answer: bytes) -> None:
        if name == "BatchUpdatePolicies":
            self._settled(service_pb2.BatchUpdatePoliciesResponse.FromString(answer))
        elif name == REFLECTION and ServerReflectionResponse.FromString(answer).HasField("error_response"):
            self.refused[name] += 1
        else:
            self.accepted[name] += 1
        kind = _ANSWERS.get(name)
        if kind is not None and (message := decoded(kind(), answer)) is not None:
            self._made.learn(message)

    def _settled(self, answer: service_pb2.BatchUpdatePoliciesResponse) -> None:
        """Counts the results of a batch's changes; each may be refused on its own."""
        for result in answer.results:
            if not result.HasField("error"):
                self.accepted["BatchUpdatePolicies"] += 1
                continue
            status = next(each for each in grpc.StatusCode if each.value[0] == result.error.code)
            reason = reason_of(result.error)
            self.statuses["a change of BatchUpdatePolicies", status.name, reason] += 1
            self._judge("BatchUpdatePolicies", status, reason, result.error.message)

    def _judge(self, name: str, status: grpc.StatusCode, reason: str, message: str) -> None:
        """Counts a refusal; one without a reason, or with a status of ``FAULTS``, is recorded as a fault."""
        if status in _OVER and not reason:
            return
        self.refused[name] += 1
        if status in FAULTS or not (reason or "/" in name):
            self.faults.append(f"seed {self._seed}, {name}: {status.name} {reason} {message}")


def reason_of(status: Status) -> str:
    """Returns the reason of a status inside an answer; "": it has none."""
    info = ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    return str(info.reason)

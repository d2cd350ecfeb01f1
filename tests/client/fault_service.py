"""A fake service behind real gRPC, with faults on request. Without faults, it keeps the promises of updates and watches."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import grpc
from google.rpc import status_pb2

from tests.client.log_model import LogModel
from tests.client.statuses import BROKEN, Code, Refusal
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceServicer, add_TopicPoliciesServiceServicer_to_server
from topicpolicies_server.core.changes.masks import apply, populated, read

T = TypeVar("T")


class Fault(NamedTuple):
    """A fault of one call."""

    refusal: Refusal | None = BROKEN
    """The status that the call ends with; None: it never ends."""
    after: int = 0
    """Of a stream: how many messages are sent before the fault. Of a unary call: 1 if the change is made before the fault."""


HANGS = Fault(None)


class Refused(Exception):
    """Raised for a change that is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class FaultService(TopicPoliciesServiceServicer):
    """Serves documents by topic, with versions, etags and remembered request ids, and the watch streams of a ``LogModel``."""

    def __init__(self, *namespaces: str) -> None:
        self.model = LogModel(*namespaces)
        self.faults: deque[Fault] = deque()
        """The faults of the next calls, in order."""
        self.met: Counter[str] = Counter()
        """How many faults happened, by the name of the call; ``conflict`` counts conflicts, and ``refused`` refused unary changes."""
        self.documents: dict[str, tuple[TopicPolicies, int]] = {}
        self.updates: dict[str, service_pb2.UpdatePolicyResponse] = {}
        self.deletions: dict[str, service_pb2.DeletePolicyResponse] = {}
        self.metadata: dict[str, str] = {}
        self.most_unanswered = 0
        self.batches: list[int] = []
        """How many changes each message of ``UpdatePolicies`` had."""
        self.watches = 0
        """How many watches are open."""
        self._written = asyncio.Event()

    def write(self, namespace: str, local: str, value: int | None) -> None:
        """Writes to the model and wakes the watches."""
        self.model.write(namespace, local, value)
        self._written.set()

    def _fault(self) -> Fault | None:
        return self.faults.popleft() if self.faults else None

    async def _happen(self, fault: Fault, context: Any, call: str) -> None:
        self.met[call] += 1
        if fault.refusal is None:
            await asyncio.sleep(3600)
        else:
            context.set_trailing_metadata(fault.refusal.trailing_metadata)
            await context.abort(fault.refusal.code, fault.refusal.message)

    async def _make(self, call: str, change: Callable[[], T], context: Any) -> T:
        """Makes a change; the fault happens before or after it."""
        fault = self._fault()
        if fault is not None and not fault.after:
            await self._happen(fault, context, call)
        try:
            response = change()
        except Refused as refused:
            await self._happen(Fault(refused.refusal), context, "refused")
            raise
        if fault is not None:
            await self._happen(fault, context, call)
        return response

    async def UpdatePolicy(  # noqa: N802
        self, request: service_pb2.UpdatePolicyRequest, context: Any
    ) -> service_pb2.UpdatePolicyResponse:
        self.metadata = dict(context.invocation_metadata())
        return await self._make("UpdatePolicy", lambda: self._update(request), context)

    def _check(self, topic: str, etag: str) -> None:
        version = self._version(topic)
        if etag not in ("", version):
            self.met["conflict"] += 1
            raise Refused(Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": version}))

    def _version(self, topic: str) -> str:
        return f"v{self.documents[topic][1]}" if topic in self.documents else "v0"

    def _document(self, topic: str, scope: policies_pb2.Scope.ValueType) -> policies_pb2.PolicyDocument:
        policies = self.documents[topic][0] if topic in self.documents else None
        return policies_pb2.PolicyDocument(topic=topic, scope=scope, policies=policies, version=self._version(topic))

    def _update(self, request: service_pb2.UpdatePolicyRequest) -> service_pb2.UpdatePolicyResponse:
        if request.request_id in self.updates:
            again = service_pb2.UpdatePolicyResponse(replayed=True)
            again.MergeFrom(self.updates[request.request_id])
            return again
        self._check(request.topic, request.etag)
        before, version = self.documents.get(request.topic, (TopicPolicies(), 0))
        after = TopicPolicies()
        after.CopyFrom(before)
        mask = read(request.update_mask.paths, after.DESCRIPTOR)[0] if request.update_mask.paths else tuple(populated(request.policies))
        apply(mask, after, request.policies)
        response = service_pb2.UpdatePolicyResponse(
            previous_version=self._version(request.topic),
            outcome=service_pb2.UPDATE_OUTCOME_APPLIED,
            request_id=request.request_id,
        )
        self.documents[request.topic] = (after, version + 1)
        response.document.CopyFrom(self._document(request.topic, request.scope))
        response.version = response.document.version
        self.updates[request.request_id] = response
        return response

    def _delete(self, request: service_pb2.DeletePolicyRequest) -> service_pb2.DeletePolicyResponse:
        if request.request_id in self.deletions:
            again = service_pb2.DeletePolicyResponse(replayed=True)
            again.MergeFrom(self.deletions[request.request_id])
            return again
        self._check(request.topic, request.etag)
        there = request.scope == policies_pb2.SCOPE_LOCAL and request.topic in self.documents
        response = service_pb2.DeletePolicyResponse(previous_version=self._version(request.topic), request_id=request.request_id)
        if there:
            del self.documents[request.topic]
        response.outcome = service_pb2.DELETE_OUTCOME_DELETED if there else service_pb2.DELETE_OUTCOME_ABSENT
        response.document.CopyFrom(self._document(request.topic, request.scope))
        response.version = response.document.version
        self.deletions[request.request_id] = response
        return response

    def _change(self, change: service_pb2.PolicyChangeRequest) -> service_pb2.PolicyChangeResult:
        try:
            if change.HasField("update"):
                return service_pb2.PolicyChangeResult(sequence=change.sequence, updated=self._update(change.update))
            return service_pb2.PolicyChangeResult(sequence=change.sequence, deleted=self._delete(change.delete))
        except Refused as refused:
            refusal = refused.refusal
            error = status_pb2.Status(code=refusal.code.value[0], message=refusal.message, details=refusal.details)
            return service_pb2.PolicyChangeResult(sequence=change.sequence, error=error)

    async def GetPolicy(  # noqa: N802
        self, request: service_pb2.GetPolicyRequest, context: Any
    ) -> service_pb2.GetPolicyResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "GetPolicy")
        return service_pb2.GetPolicyResponse(documents=[self._document(request.topic, scope) for scope in request.scopes])

    async def GetEffectivePolicy(  # noqa: N802
        self, request: service_pb2.GetEffectivePolicyRequest, context: Any
    ) -> service_pb2.GetEffectivePolicyResponse:
        return service_pb2.GetEffectivePolicyResponse(topic=request.topic)

    async def GetServerInfo(  # noqa: N802
        self, request: service_pb2.GetServerInfoRequest, context: Any
    ) -> service_pb2.GetServerInfoResponse:
        return service_pb2.GetServerInfoResponse(version="0")

    async def DeletePolicy(  # noqa: N802
        self, request: service_pb2.DeletePolicyRequest, context: Any
    ) -> service_pb2.DeletePolicyResponse:
        return await self._make("DeletePolicy", lambda: self._delete(request), context)

    async def ListPolicies(  # noqa: N802
        self, request: service_pb2.ListPoliciesRequest, context: Any
    ) -> service_pb2.ListPoliciesResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "ListPolicies")
        topics = sorted(topic for topic in self.documents if f"://{request.namespace}/" in topic and topic > request.page_token)
        page = topics[: request.page_size or 2]
        token = service_pb2.WatchToken(log=request.namespace, positions=["1"]) if not request.page_token else None
        return service_pb2.ListPoliciesResponse(
            documents=[self._document(topic, policies_pb2.SCOPE_LOCAL) for topic in page],
            next_page_token=page[-1] if len(page) < len(topics) else "",
            token=token,
        )

    async def ListHistory(  # noqa: N802
        self, request: service_pb2.ListHistoryRequest, context: Any
    ) -> service_pb2.ListHistoryResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "ListHistory")
        return service_pb2.ListHistoryResponse(following=True)  # there is no history

    async def UpdatePolicies(  # noqa: N802
        self, request_iterator: AsyncIterator[service_pb2.UpdatePoliciesRequest], context: Any
    ) -> AsyncIterator[service_pb2.UpdatePoliciesResponse]:
        fault = self._fault()
        answered = 0
        unanswered: deque[service_pb2.PolicyChangeRequest] = deque()
        async for request in request_iterator:
            self.batches.append(len(request.changes))
            unanswered.extend(request.changes)
            self.most_unanswered = max(self.most_unanswered, len(unanswered))
            results: list[service_pb2.PolicyChangeResult] = []
            while len(unanswered) > 2 or (unanswered and unanswered[0].sequence % 5 == 0):
                if fault is not None and answered == fault.after:
                    self._change(unanswered[0])  # the change is made, but its result is lost
                    yield service_pb2.UpdatePoliciesResponse(results=results)
                    await self._happen(fault, context, "UpdatePolicies")
                answered += 1
                results.append(self._change(unanswered.popleft()))
            yield service_pb2.UpdatePoliciesResponse(results=results)
        yield service_pb2.UpdatePoliciesResponse(results=[self._change(each) for each in unanswered])

    async def WatchPolicies(  # noqa: N802
        self, request: service_pb2.WatchPoliciesRequest, context: Any
    ) -> AsyncIterator[service_pb2.WatchPoliciesResponse]:
        self.watches += 1
        try:
            fault = self._fault()
            sent = 0
            stream = self.model.stream(request, most=3)
            while fault is None or sent < fault.after:
                self._written.clear()
                message = next(stream)
                if message is None:
                    await self._written.wait()
                    continue
                sent += 1
                yield message
            await self._happen(fault, context, "WatchPolicies")
        finally:
            self.watches -= 1


@asynccontextmanager
async def serving(service: FaultService) -> AsyncIterator[str]:
    """Serves on a free loopback port; yields the address."""
    server = grpc.aio.server()
    add_TopicPoliciesServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)

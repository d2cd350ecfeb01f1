"""A service in miniature behind real gRPC, with faults on request: it keeps the promises of updates and watches, and breaks as told."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc

from tests.client.log_model import LogModel, Refused
from tests.client.statuses import Code, Refusal
from topicpolicies.v1 import events_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceServicer, add_TopicPoliciesServiceServicer_to_server
from topicpolicies_server.core.masks import apply, read

BROKEN = Refusal(Code.UNAVAILABLE, "Socket closed")


class Fault(NamedTuple):
    """What goes wrong with one call."""

    refusal: Refusal | None = BROKEN
    """How it ends; None: not at all, it hangs."""
    after: int = 0
    """Messages of a stream that are sent before; of a unary call, 1 means that it is done before."""


class FaultService(TopicPoliciesServiceServicer):
    """Documents by topic, with versions, etags and remembered request ids; and the watch streams of a ``LogModel``."""

    def __init__(self, *namespaces: str) -> None:
        self.model = LogModel(*namespaces)
        self.faults: deque[Fault] = deque()
        """The next calls' faults, in order; None is none."""
        self.met: Counter[str] = Counter()
        """Faults that happened, by the name of the call, and conflicts."""
        self.documents: dict[str, tuple[TopicPolicies, int]] = {}
        self.answers: dict[str, service_pb2.UpdatePolicyResponse] = {}
        self.metadata: dict[str, str] = {}
        self.most_unanswered = 0
        self._written = asyncio.Event()

    def write(self, namespace: str, local: str, value: int | None) -> None:
        """Writes into the model and wakes the watches."""
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

    async def UpdatePolicy(  # noqa: N802
        self, request: service_pb2.UpdatePolicyRequest, context: Any
    ) -> service_pb2.UpdatePolicyResponse:
        self.metadata = dict(context.invocation_metadata())
        fault = self._fault()
        if fault is not None and not fault.after:
            await self._happen(fault, context, "UpdatePolicy")
        try:
            response = self._apply(request)
        except Refused as refused:
            await self._happen(Fault(refused.refusal), context, "refused")
            raise
        if fault is not None:
            await self._happen(fault, context, "UpdatePolicy")
        return response

    def _apply(self, request: service_pb2.UpdatePolicyRequest) -> service_pb2.UpdatePolicyResponse:
        known = self.answers.get(request.request_id)
        if known is not None:
            repeat = service_pb2.UpdatePolicyResponse(repeated=True)
            repeat.MergeFrom(known)
            return repeat
        before, version = self.documents.get(request.topic, (TopicPolicies(), 0))
        if request.etag and request.etag != f"v{version}":
            self.met["conflict"] += 1
            raise Refused(Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": f"v{version}"}))
        after = TopicPolicies()
        after.CopyFrom(before)
        apply(read(request.update_mask.paths, after.DESCRIPTOR)[0], after, request.policies)
        self.documents[request.topic] = (after, version + 1)
        response = service_pb2.UpdatePolicyResponse(
            topic=request.topic,
            scope=request.scope,
            policies=after,
            version=f"v{version + 1}",
            previous_version=f"v{version}",
            outcome=service_pb2.UPDATE_OUTCOME_APPLIED,
            request_id=request.request_id,
        )
        self.answers[request.request_id] = response
        return response

    async def GetPolicy(  # noqa: N802
        self, request: service_pb2.GetPolicyRequest, context: Any
    ) -> service_pb2.GetPolicyResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "GetPolicy")
        policies, version = self.documents.get(request.topic, (None, 0))
        return service_pb2.GetPolicyResponse(
            topic=request.topic, scope=request.scope, exists=policies is not None, policies=policies, version=f"v{version}"
        )

    async def DeletePolicy(  # noqa: N802
        self, request: service_pb2.DeletePolicyRequest, context: Any
    ) -> service_pb2.DeletePolicyResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "DeletePolicy")
        response = service_pb2.DeletePolicyResponse(topic=request.topic, request_id=request.request_id)
        for each in request.deletes:
            _, version = self.documents.get(request.topic, (None, 0))
            result = response.results.add(scope=each.scope, version=f"v{version}")
            if each.etag not in ("", result.version):
                refusal = Refusal(Code.ABORTED, "Changed.", "ETAG_MISMATCH", {"version": result.version})
                result.error.CopyFrom(service_pb2.Status(code=10, message=refusal.message, details=refusal.details))
            elif each.scope == events_pb2.SCOPE_LOCAL and request.topic in self.documents:
                del self.documents[request.topic]
                result.outcome = service_pb2.DELETE_OUTCOME_DELETED
            else:
                result.outcome = service_pb2.DELETE_OUTCOME_ABSENT
        return response

    async def ListPolicies(  # noqa: N802
        self, request: service_pb2.ListPoliciesRequest, context: Any
    ) -> service_pb2.ListPoliciesResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "ListPolicies")
        topics = sorted(topic for topic in self.documents if f"://{request.namespace}/" in topic and topic > request.page_token)
        page = topics[: request.page_size or 2]
        response = service_pb2.ListPoliciesResponse(next_page_token=page[-1] if len(page) < len(topics) else "")
        for topic in page:
            policies, version = self.documents[topic]
            response.entries.add(topic=topic, scope=events_pb2.SCOPE_LOCAL, exists=True, policies=policies, version=f"v{version}")
        return response

    async def ListHistory(  # noqa: N802
        self, request: service_pb2.ListHistoryRequest, context: Any
    ) -> service_pb2.ListHistoryResponse:
        fault = self._fault()
        if fault is not None:
            await self._happen(fault, context, "ListHistory")
        return service_pb2.ListHistoryResponse(following=True)  # it records nothing

    async def UpdatePolicies(  # noqa: N802
        self, request_iterator: AsyncIterator[service_pb2.UpdatePoliciesRequest], context: Any
    ) -> AsyncIterator[service_pb2.UpdatePoliciesResponse]:
        fault = self._fault()
        answered = 0
        unanswered: deque[service_pb2.UpdatePoliciesRequest] = deque()
        async for request in request_iterator:
            unanswered.append(request)
            self.most_unanswered = max(self.most_unanswered, len(unanswered))
            if len(unanswered) > 2 or request.sequence % 5 == 0:
                while unanswered:
                    if fault is not None and answered == fault.after:
                        self._apply(unanswered[0].update)  # done, but the answer is lost
                        await self._happen(fault, context, "UpdatePolicies")
                    each = unanswered.popleft()
                    answered += 1
                    yield service_pb2.UpdatePoliciesResponse(sequence=each.sequence, response=self._apply(each.update))
        while unanswered:
            each = unanswered.popleft()
            yield service_pb2.UpdatePoliciesResponse(sequence=each.sequence, response=self._apply(each.update))

    async def WatchPolicies(  # noqa: N802
        self, request: service_pb2.WatchPoliciesRequest, context: Any
    ) -> AsyncIterator[service_pb2.WatchPoliciesResponse]:
        fault = self._fault()
        sent = 0
        try:
            stream = self.model.stream(request)
            while fault is None or sent < fault.after:
                self._written.clear()
                message = next(stream)
                if message is None:
                    await self._written.wait()
                    continue
                sent += 1
                yield message
            await self._happen(fault, context, "WatchPolicies")
        except Refused as refused:
            if fault is not None:
                self.faults.appendleft(fault)
            await self._happen(Fault(refused.refusal), context, "refused")


@asynccontextmanager
async def serving(service: FaultService) -> AsyncIterator[str]:
    """Serves on a free loopback port; gives the address."""
    server = grpc.aio.server()
    add_TopicPoliciesServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)

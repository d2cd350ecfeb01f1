"""The client for asyncio. What is sent and raised is decided in the modules beside it; this one makes the calls and waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import grpc

from .batching import Outcome, batches
from .cache import AsyncPolicyCache
from .client import BaseClient
from .edits import Edit
from .errors import PreconditionFailed, from_rpc_error
from .requests import (
    ChangeOptions,
    ChangeRequest,
    EditOptions,
    HistoryOptions,
    HistoryWatchOptions,
    Policies,
    Selection,
    UpdateArguments,
    as_of_request,
    complete,
    delete_request,
    history_request,
    update_request,
)
from .v1 import history_pb2, service_pb2
from .v1.policies_pb2 import SCOPE_LOCAL, PolicyDocument, Scope, TopicPolicies
from .watches import AsyncWatch, history_progress, policy_progress

if TYPE_CHECKING:
    from .v1.history_pb2_grpc import PolicyHistoryServiceAsyncStub
    from .v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub

_Response = TypeVar("_Response")
_Page = TypeVar("_Page", service_pb2.ListPoliciesResponse, history_pb2.ListHistoryResponse)


class AsyncClient(BaseClient):
    """Changes, reads and watches topic policies, as ``Client`` does, for one event loop; its methods have the same arguments.

    Make it inside the loop, to which its connection belongs: ``async with AsyncClient(...) as client``.
    """

    _api = grpc.aio
    stub: TopicPoliciesServiceAsyncStub
    history_stub: PolicyHistoryServiceAsyncStub

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See ``Client.close``."""
        for watch in list(self._watches):
            await watch.close()
        await self._channel.close()

    async def update(
        self, topic: str, policies: Policies | None = None, /, *, timeout: float | None = None, **arguments: Unpack[UpdateArguments]
    ) -> service_pb2.ChangeResult:
        """See ``Client.update``."""
        return await self._change(self.stub.UpdatePolicy, update_request(topic, policies, **arguments), timeout)

    async def delete(self, topic: str, /, *, timeout: float | None = None, **options: Unpack[ChangeOptions]) -> service_pb2.ChangeResult:
        """See ``Client.delete``."""
        return await self._change(self.stub.DeletePolicy, delete_request(topic, **options), timeout)

    async def batch(self, changes: Iterable[ChangeRequest], /, *, timeout: float | None = None) -> AsyncIterator[Outcome]:
        """See ``Client.batch``."""
        for batch in batches(changes, self._actor):
            try:
                response = await self.stub.BatchUpdatePolicies(batch.request, timeout=self._limit(timeout))
            except grpc.RpcError as error:
                outcomes = batch.failed(error)
            else:
                outcomes = batch.outcomes(response)
            for outcome in outcomes:
                yield outcome

    async def edit(
        self, topic: str, change: Callable[[TopicPolicies], object], /, *, timeout: float | None = None, **options: Unpack[EditOptions]
    ) -> service_pb2.ChangeResult:
        """See ``Client.edit``."""
        edit = Edit(topic, change, self._limit(timeout), **options)
        while True:
            document = await self.get(topic, scope=edit.scope, at_least_version=edit.at_least_version, timeout=edit.left)
            request = edit.request(document)
            if isinstance(request, service_pb2.ChangeResult):
                return request
            try:
                return await self._change(self.stub.UpdatePolicy, request, edit.left)
            except PreconditionFailed as error:
                await asyncio.sleep(edit.pause(error))

    async def get(
        self, topic: str, /, *, scope: Scope.ValueType = SCOPE_LOCAL, at_least_version: str = "", timeout: float | None = None
    ) -> PolicyDocument:
        """See ``Client.get``."""
        request = service_pb2.GetPolicyRequest(topic=topic, scope=scope, at_least_version=at_least_version)
        return await self._call(self.stub.GetPolicy, request, timeout)

    async def effective(
        self, topic: str, /, *, at_least_local_version: str = "", at_least_global_version: str = "", timeout: float | None = None
    ) -> service_pb2.EffectivePolicy:
        """See ``Client.effective``."""
        request = service_pb2.GetEffectivePolicyRequest(
            topic=topic, at_least_local_version=at_least_local_version, at_least_global_version=at_least_global_version
        )
        return await self._call(self.stub.GetEffectivePolicy, request, timeout)

    async def list(
        self, namespace: str, /, *, scopes: Iterable[Scope.ValueType] = (), page_size: int = 0, timeout: float | None = None
    ) -> AsyncIterator[PolicyDocument]:
        """See ``Client.list``."""
        async for page in self.list_pages(namespace, scopes=scopes, page_size=page_size, timeout=timeout):
            for document in page.documents:
                yield document

    def list_pages(
        self, namespace: str, /, *, scopes: Iterable[Scope.ValueType] = (), page_size: int = 0, timeout: float | None = None
    ) -> AsyncIterator[service_pb2.ListPoliciesResponse]:
        """See ``Client.list_pages``."""
        request = service_pb2.ListPoliciesRequest(namespace=namespace, scopes=scopes, page_size=page_size)
        return self._pages(self.stub.ListPolicies, request, timeout)

    async def server_info(self, *, timeout: float | None = None) -> service_pb2.ServerInfo:
        """See ``Client.server_info``."""
        return await self._call(self.stub.GetServerInfo, service_pb2.GetServerInfoRequest(), timeout)

    def watch(self, **selection: Unpack[Selection]) -> AsyncWatch[service_pb2.WatchEvent]:
        """See ``Client.watch``."""
        return self._opened(AsyncWatch(self.stub.WatchPolicies, policy_progress(**selection)))

    def cache(self, **selection: Unpack[Selection]) -> AsyncPolicyCache:
        """See ``Client.cache``."""
        selection["resume_tokens"] = None
        return AsyncPolicyCache(self.watch(**selection))

    async def history(self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]) -> AsyncIterator[history_pb2.HistoryEntry]:
        """See ``Client.history``."""
        async for page in self.history_pages(timeout=timeout, **options):
            for entry in page.entries:
                yield entry

    def history_pages(
        self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]
    ) -> AsyncIterator[history_pb2.ListHistoryResponse]:
        """See ``Client.history_pages``."""
        return self._pages(self.history_stub.ListHistory, history_request(**options), timeout)

    async def as_of(
        self, topic: str, time_or_version: datetime | str, /, *, scope: Scope.ValueType = SCOPE_LOCAL, timeout: float | None = None
    ) -> PolicyDocument:
        """See ``Client.as_of``."""
        return await self._call(self.history_stub.GetPolicyAsOf, as_of_request(topic, time_or_version, scope), timeout)

    def watch_history(
        self,
        namespaces: Iterable[str],
        /,
        *,
        positions: Mapping[str, str] | None = None,
        **options: Unpack[HistoryWatchOptions],
    ) -> AsyncWatch[history_pb2.WatchHistoryEvent]:
        """See ``Client.watch_history``."""
        return self._opened(AsyncWatch(self.history_stub.WatchHistory, history_progress(namespaces, positions, **options)))

    async def _call(
        self, method: Callable[..., Awaitable[_Response]], request: Any, timeout: float | None, request_id: str = ""
    ) -> _Response:
        try:
            return await method(request, timeout=self._limit(timeout))
        except grpc.RpcError as error:
            raise from_rpc_error(error, request_id) from error

    async def _change(
        self, method: Callable[..., Awaitable[service_pb2.ChangeResult]], request: ChangeRequest, timeout: float | None
    ) -> service_pb2.ChangeResult:
        complete(request, self._actor)
        return await self._call(method, request, timeout, "" if request.validate_only else request.request_id)

    async def _pages(self, method: Callable[..., Awaitable[_Page]], request: Any, timeout: float | None) -> AsyncIterator[_Page]:
        while True:
            page = await self._call(method, request, timeout)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

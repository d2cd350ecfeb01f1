"""``TopicPoliciesService``: reads a request, asks the namespace, writes the answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

import grpc

from topicpolicies.v1 import service_pb2

from ..cluster.admission import Admission, Turns
from ..config import Limits
from ..core import documents, secrets
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.sequencer import Request, Result
from ..logs.change_log import NotLeader
from ..namespaces.registry import Registry
from . import answers, effective, errors, histories, requests
from .gathering import Gathering
from .switches import Switchboard, disabled_among
from .watching import WatchStream

_LOG = logging.getLogger(__name__)
ACTOR_KEY = "topicpolicies-actor"
"""The request metadata that names who asks."""
_MOST_ACTOR = 256
SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].full_name


class Context(Protocol):
    """What is used of ``grpc.aio.ServicerContext``."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """The call's metadata."""

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Any:
        """Ends the call with an error."""


_Message = TypeVar("_Message")
_Unary: TypeAlias = Callable[["Servicer", _Message, Context], Awaitable[bytes]]


def _answering(method: _Unary[_Message]) -> Callable[[Servicer, _Message, Context], Awaitable[bytes]]:
    """Turns the domain's errors of a unary method into gRPC's."""

    async def answering(self: Servicer, message: _Message, context: Context) -> bytes:
        try:
            return await method(self, message, context)
        except PolicyError as error:
            return await _abort(context, error)
        except Exception:  # noqa: BLE001 - the caller is told that it is our fault, the log why
            _LOG.exception("a request failed")
            return await _abort(context, errors.internal())

    return answering


class Servicer:
    """The methods of the service. Answers are serialized messages."""

    def __init__(self, registry: Registry, limits: Limits, *, admission: Admission | None = None, show_secrets: bool = False) -> None:
        """Serves these namespaces.

        Args:
            registry: the namespaces.
            limits: every bound.
            admission: gathers what is known of the cluster; None: nothing is.
            show_secrets: whether answers have the secrets of object storages.
        """
        self._wire: answers.Wire = documents.wire if show_secrets else secrets.wire
        self._registry = registry
        self._limits = limits
        self._admission = admission
        self._switchboard = Switchboard(admission) if admission is not None else None
        self._watches = 0
        self._stopping = asyncio.Event()
        self._gathering = Gathering(asyncio.get_running_loop())

    @property
    def watches(self) -> int:
        """Open watches."""
        return self._watches

    def stop_watches(self) -> None:
        """Ends every watch with UNAVAILABLE, each after a bookmark; new ones are refused."""
        self._stopping.set()

    @_answering
    async def update_policy(self, message: service_pb2.UpdatePolicyRequest, context: Context) -> bytes:
        """UpdatePolicy."""
        async with self._gathering:
            namespace, request = requests.read_update(message, _actor(context))
            if self._admission is not None and not self._admission.at_once(namespace, request):
                await self._admission.admit(namespace, request)
            result = await self._registry.get(namespace).update(request)
            return answers.update_answer(request, result, self._wire)

    async def update_policies(self, stream: AsyncIterator[service_pb2.UpdatePoliciesRequest], context: Context) -> AsyncIterator[bytes]:
        """UpdatePolicies. Requests are taken in the stream's order and answered as they are settled."""
        actor = _actor(context)
        slots = asyncio.Semaphore(self._limits.max_in_flight_per_stream)
        done: asyncio.Queue[bytes | None] = asyncio.Queue()
        order: dict[PolicyKey, list[Request]] = {}
        elsewhere: dict[str, NotLeader] = {}
        """Namespaces of which a request was refused: later ones are too, even if this process leads by then, or they would overtake it."""
        turns = Turns(self._admission) if self._admission is not None else None

        async def one(message: service_pb2.UpdatePoliciesRequest) -> None:
            try:
                answer: bytes | PolicyError
                try:
                    namespace, request = requests.read_update(message.update, actor)
                    request.stream = order
                    if turns is not None:
                        await turns.admit(namespace, request)
                    if namespace in elsewhere:
                        raise elsewhere[namespace]
                    result = await self._registry.get(namespace).update(request)
                    answer = answers.update_answer(request, result, self._wire)
                except NotLeader as error:
                    answer = elsewhere.setdefault(error.metadata["namespace"], error)
                except PolicyError as error:
                    answer = error
                except Exception:  # noqa: BLE001 - as above
                    _LOG.exception("a request of a stream failed")
                    answer = errors.internal()
                done.put_nowait(answers.stream_answer(message.sequence, answer))
            finally:
                slots.release()

        async def every() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    async for message in stream:
                        await slots.acquire()
                        group.create_task(one(message))
            finally:
                done.put_nowait(None)

        reading = asyncio.create_task(every())
        try:
            while (answer := await done.get()) is not None:
                yield answer
            await reading
        finally:
            reading.cancel()

    @_answering
    async def delete_policy(self, message: service_pb2.DeletePolicyRequest, context: Context) -> bytes:
        """DeletePolicy."""
        name, deletes = requests.read_delete(message, _actor(context))
        for request in deletes:
            if self._admission is not None and not self._admission.at_once(name, request):
                await self._admission.admit(name, request)
        namespace = self._registry.get(name)
        settled = await asyncio.gather(*map(namespace.update, deletes), return_exceptions=True)
        for answer in settled:
            if isinstance(answer, NotLeader):
                raise answer  # of all of them; what was done before is told when they are asked for again elsewhere
        results = [answers.delete_result(request, _expected(answer)) for request, answer in zip(deletes, settled, strict=True)]
        return service_pb2.DeletePolicyResponse(
            topic=deletes[0].key.topic,
            results=results,
            request_id=deletes[0].request_id,
        ).SerializeToString()

    @_answering
    async def get_policy(self, message: service_pb2.GetPolicyRequest, _: Context) -> bytes:
        """GetPolicy."""
        name, key = requests.read_get(message)
        if not effective.asks_for_document(message):
            return await effective.answer(self._registry, self._admission, name, key, message, self._wire)
        moment = histories.read_moment(message)
        if moment is not None:
            followed = await self._may_be_read(name, key.topic)
            return await histories.past_document(self._registry, name, key, moment, followed=followed)
        if self._admission is not None and await self._admission.disabled(name, key.topic):
            return effective.disabled(key)
        head = await self._registry.get(name).get(key, message.at_least)
        return answers.get_answer(key, head, self._wire)

    @_answering
    async def list_history(self, message: service_pb2.ListHistoryRequest, _: Context) -> bytes:
        """ListHistory."""
        question = histories.read_question(message)
        followed = await self._may_be_read(question.namespace, question.topic)
        return await histories.list_history(self._registry, message, question, followed=followed)

    async def _may_be_read(self, namespace: str, topic: str = "") -> bool:
        """Whether the log of a namespace may be read for the history: not if its policies are disabled, or if nobody can tell."""
        if self._admission is None:
            return True
        try:
            return not await (self._admission.disabled(namespace, topic) if topic else self._admission.namespace_disabled(namespace))
        except PolicyError:
            return False

    @_answering
    async def list_policies(self, message: service_pb2.ListPoliciesRequest, _: Context) -> bytes:
        """ListPolicies."""
        page = requests.read_list(message)
        if self._admission is not None and await self._admission.namespace_disabled(page.namespace):
            return service_pb2.ListPoliciesResponse().SerializeToString()
        namespace = self._registry.get(page.namespace)
        heads, more, token = await namespace.page(page.scopes, page.after, page.most)
        next_page = requests.page_token(heads[-1].key) if more else ""
        if self._admission is not None:
            off = await disabled_among(self._admission, page.namespace, {head.key.topic for head in heads})
            heads = [head for head in heads if head.key.topic not in off]
        return answers.list_answer(heads, next_page, token, self._wire)

    async def watch_policies(self, message: service_pb2.WatchPoliciesRequest, context: Context) -> AsyncIterator[bytes]:
        """WatchPolicies."""
        try:
            watch = requests.read_watch(message, self._limits.max_selectors_per_watch, self._limits.bookmark_interval_seconds)
            if self._watches >= self._limits.max_watches:
                raise PolicyError(
                    Kind.RESOURCE_EXHAUSTED,
                    "TOO_MANY_WATCHES",
                    f"{self._watches} watches are open, which is the most: share one, or raise the limit.",
                )
        except PolicyError as error:
            await _abort(context, error)
            return
        self._watches += 1
        stream = WatchStream(self._registry, watch, self._stopping, self._wire, self._admission, self._switchboard)
        try:
            async with contextlib.aclosing(stream.messages()) as messages:
                async for answer in messages:
                    yield answer
        except PolicyError as error:
            await _abort(context, error)
        except Exception:  # noqa: BLE001 - the caller is told that it is our fault, the log why
            _LOG.exception("a watch failed")
            await _abort(context, errors.internal())
        finally:
            self._watches -= 1
            await stream.close()


def handlers(servicer: Servicer) -> grpc.GenericRpcHandler:
    """The service for a gRPC server. Answers are serialized already, so that a document is never built twice."""

    def as_it_is(answer: bytes) -> bytes:
        return answer

    def unary(method: Callable[..., Any], message: Any) -> grpc.RpcMethodHandler[Any, bytes]:
        return grpc.unary_unary_rpc_method_handler(method, message.FromString, as_it_is)

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "UpdatePolicy": unary(servicer.update_policy, service_pb2.UpdatePolicyRequest),
            "UpdatePolicies": grpc.stream_stream_rpc_method_handler(
                servicer.update_policies, service_pb2.UpdatePoliciesRequest.FromString, as_it_is
            ),
            "DeletePolicy": unary(servicer.delete_policy, service_pb2.DeletePolicyRequest),
            "GetPolicy": unary(servicer.get_policy, service_pb2.GetPolicyRequest),
            "ListHistory": unary(servicer.list_history, service_pb2.ListHistoryRequest),
            "ListPolicies": unary(servicer.list_policies, service_pb2.ListPoliciesRequest),
            "WatchPolicies": grpc.unary_stream_rpc_method_handler(
                servicer.watch_policies, service_pb2.WatchPoliciesRequest.FromString, as_it_is
            ),
        },
    )


async def _abort(context: Context, error: PolicyError) -> bytes:
    await context.abort(errors.code(error), error.message, errors.trailing_metadata(error))
    raise AssertionError("abort does not return")


def _expected(answer: Result | BaseException) -> Result | PolicyError:
    if isinstance(answer, Result | PolicyError):
        return answer
    if isinstance(answer, Exception):
        _LOG.error("a deletion failed", exc_info=answer)
        return errors.internal()
    raise answer


def _actor(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == ACTOR_KEY:
            return (value if isinstance(value, str) else value.decode(errors="replace"))[:_MOST_ACTOR]
    return ""

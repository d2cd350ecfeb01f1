"""The one way of every call, from its arrival to its status.

gRPC hands over bytes and sends bytes. ``Calls.handler`` wraps a method, and does for each of its calls, in this order:

1. refuses it if the server stops, or if too many calls are in progress;
2. identifies its caller, by its metadata and the certificate of its connection (``access/identification``);
3. charges the caller's quota (``quotas``);
4. decodes the request and runs the method;
5. turns whatever was raised into the status of the call (``Call.fail``), and notifies the observers.

Requests are decoded here because gRPC reports an exception of a deserializer as a failure of the server. Answers of a stream are written
with ``Call.write``, not yielded to gRPC: so when gRPC cancels a call, the cancellation is raised where the method stands, and the method
releases what it holds at once.

A handler returns after it has sent a status, and does not let gRPC's ``AbortError`` pass through its frames: gRPC keeps that error with the
call. So nothing that a refused call has sent is kept in memory.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ..access import NOBODY, Caller, Granted, Permission, Way
from ..access.caller import expired
from ..access.grants import Grants
from ..config import Limits
from ..core.chains.request import Outcome, Request, unknown_outcome
from ..core.errors import Kind, PolicyError, Violation, invalid, stopping, too_much
from ..core.reasons import Reason, ViolationReason
from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, TraceContext, trace_context
from . import errors
from .quotas import Quotas, Usage, principal

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ..namespaces.namespace import Namespace
    from .requests import BatchedChange

CHANGES = frozenset({"UpdatePolicy", "DeletePolicy", "BatchUpdatePolicies"})
PREVIOUS_ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
"""The metadata with which gRPC repeats a call."""
LAST_SECONDS = 1.0
"""Seconds that a call which is ended may take to write what it is writing, and to send its status."""
_ELSEWHERE_SECONDS = 0.5
"""After how many seconds a call that a stopping server refuses may be repeated: by then its connection is closed."""
_QUIET_SECONDS, _MOST_REFUSING_SECONDS = 0.05, 0.45
"""A stopping server refuses calls with a reason until so many seconds pass without one, or at most so many; then gRPC accepts no more.
Calls that it has refused must find no open connection when they are repeated."""
_LOOK_SECONDS = 0.02
_EARLY = 0.1
"""How long before its deadline a call is ended, as a fraction of the caller's timeout: the status still has to reach the caller."""
_LEAST_EARLY, _MOST_EARLY = 0.02, 0.5
_CLOCK_SECONDS = 30.0
"""The longest time between two looks at the system's clock, which can be set, for a stream whose credentials expire."""
_OF_ATTEMPTS = (Kind.UNAVAILABLE, Kind.RESOURCE_EXHAUSTED, Kind.DEADLINE_EXCEEDED)
"""The kinds of errors that say nothing of earlier attempts at a change."""
_T = TypeVar("_T")
_Error = TypeVar("_Error", bound=BaseException)
Parse: TypeAlias = Callable[[bytes], _T]
Method: TypeAlias = Callable[[Any, "Call"], Awaitable[_T]]
"""A method of a service: takes a request and the call."""
Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
Refusal: TypeAlias = Callable[[Request | None, str, bool, str], PolicyError]
"""Returns the error of a call, or of a change of a batch, that certainly was not made. Takes the change (None: it was not read), its
namespace, whether it is known that the caller may act there, and the version that the answer must have reached ("": any)."""
Identify: TypeAlias = "Callable[[Call], Awaitable[Caller]]"
"""Returns the caller of a call. Raises ``PolicyError`` to refuse the call."""


class Call:
    """One call, as the service sees it. Other services receive it in place of gRPC's context."""

    caller: Caller = NOBODY
    usage: Usage | None = None
    """What the caller uses of its quota, this call included; None: it was not charged."""
    target: str = ""
    """The topic or namespace that the call concerns, as the caller names it; of a watch, the first one; "": none is known."""
    namespace: str = ""
    """The namespace that the call concerns; "": none is known."""
    permitted: bool = False
    """Whether the caller has the permission for the call there. Until then errors reveal nothing of the namespace."""
    at_least: str = ""
    """The version that the answer to a read must have reached; "": any."""
    request: Request | None = None
    """The change of an UpdatePolicy or DeletePolicy call, once it has been read; None for other methods."""
    served: Namespace | None = None
    """The namespace that ``request`` was handed to; None: none, or another sidecar leads it."""
    outcome: Outcome | None = None
    """The outcome of ``request``; None: it failed, or has no outcome yet."""
    end_batch: Callable[[Refusal], None] | None = None
    """Ends the batch that is being made (``ChangeBatch.end``)."""
    results: Sequence[BatchedChange] = ()
    """The changes of a batch that were read or refused, once it has ended."""
    unsure: bool = False
    """Whether a leader that the call was forwarded to may have made its change."""
    trace: TraceContext | None = None
    """The trace that the call is part of; None: nobody has looked for one."""
    span: Span | None = None
    """The span of the call, which is sent to a collector; None: the call is not traced."""
    error: PolicyError | None = None
    """The error that the call ended with; None: it has not ended, or ended without an error."""
    timer: asyncio.TimerHandle | None = None
    """Ends the call before its deadline, or with the caller's credentials."""
    given_up: bool = False
    """Whether the caller went away, or did not read, before the end of the call."""
    unread_since: float | None = None
    """Since when, by the event loop's clock, an answer waits for the peer to take it; None: none waits."""
    _ending: PolicyError | None = None

    def __init__(self, method: str, context: Any) -> None:
        """Represents a call that has arrived. The present task is the call's: it is cancelled to end the call, and only gRPC awaits it.

        ``method`` is a name such as ``UpdatePolicy``; of other services with the service's, as ``grpc.health.v1.Health/Check``.
        """
        self.context = context
        self.metadata: tuple[tuple[str, str | bytes], ...] = tuple(context.invocation_metadata() or ())
        """The metadata that the caller sent: pairs of a name in lower case and a value; a name that was sent twice is there twice."""
        self.method = method
        self.started = perf_counter()
        """When the call arrived, by ``time.perf_counter``."""
        task = asyncio.current_task()
        assert task is not None, "gRPC calls handlers in tasks"
        self._task = task

    async def write(self, answer: Any) -> None:
        """Writes one answer of a stream; returns when there is room for the next one.

        Raises:
            PolicyError: what ``end`` was given meanwhile.
            asyncio.CancelledError, grpc.aio.InternalError: the peer has gone.
        """
        self.unread_since = time.monotonic()  # the clock of event loops
        await self.context.write(answer)
        self.unread_since = None
        if self._ending is not None:
            raise self._ending

    def trace_context(self) -> TraceContext:
        """Returns the trace that the call is part of: unless ``trace`` is set, the one that its metadata names (W3C Trace Context).

        More than one ``traceparent`` counts as none; several ``tracestate`` are joined to one list.
        """
        if self.trace is None:
            self.trace = NO_TRACE
            if PARENT_KEY in dict(self.metadata):
                parents, states = ([str(value) for key, value in self.metadata if key == name] for name in (PARENT_KEY, STATE_KEY))
                if len(parents) == 1:
                    self.trace = trace_context(parents[0], ",".join(states))
        return self.trace

    @property
    def status(self) -> tuple[str, str]:
        """The gRPC status with which the call ended, by its name (CANCELLED: the caller went away), and the reason of our error, or ""."""
        if self.error is not None:
            return self.error.kind.value, self.error.reason
        return "CANCELLED" if self.given_up else "OK", ""

    async def permit(self, grants: Grants, namespace: str, *needed: Permission) -> Granted:
        """Returns the permissions of the caller in a namespace; raises as ``Grants.of`` if it lacks one that is needed."""
        self.namespace = namespace
        granted = grants.of(self.caller, namespace, needed)
        if not isinstance(granted, frozenset):
            granted = await granted
        self.permitted = True
        return granted

    def ends_with_credentials(self) -> None:
        """Has the call end when the caller's credentials expire: what they allowed when it began need not be allowed then."""
        left = self.caller.expires_at - time.time()
        if left > 0:
            self.timer = asyncio.get_running_loop().call_later(min(left, _CLOCK_SECONDS), self.ends_with_credentials)
        else:
            self.end(expired("client certificate" if self.caller.way is Way.CERTIFICATE else "token"))

    def end(self, error: PolicyError) -> None:
        """Ends the call with an error, at once or when its peer has taken what is being written.

        A peer that does not take it within ``LAST_SECONDS`` gets no status.
        """
        self._ending = error
        if self.unread_since is None:
            self._task.cancel()
        else:
            asyncio.get_running_loop().call_later(LAST_SECONDS, self._task.cancel)

    def of_all_attempts(self, error: PolicyError, request_id: str, *, unsure: bool = False) -> PolicyError:
        """Returns the error of a change of the call: OUTCOME_UNKNOWN if an earlier attempt may have made it, and this one did not.

        Args:
            error: the error of this attempt.
            request_id: the change's; "": it is not known.
            unsure: whether a leader may have made it.
        """
        if error.kind not in _OF_ATTEMPTS or error.reason == Reason.OUTCOME_UNKNOWN:
            return error
        repeated = self.method in CHANGES and any(key == PREVIOUS_ATTEMPTS_KEY for key, _ in self.metadata)
        return unknown_outcome(request_id, error) if unsure or repeated else error

    async def fail(self, error: BaseException) -> None:
        """Ends the call with the status of what its method, or a check before it, has raised. The call's handler must return then.

        Raises:
            asyncio.CancelledError: no status can be sent: the peer has gone or does not read, or gRPC is sending one.
        """
        if isinstance(error, asyncio.CancelledError):
            error = self._why_cancelled()
        elif isinstance(error, Exception) and not isinstance(error, (PolicyError, grpc.aio.InternalError)):
            errors.log_failure(self.method, error)
            error = errors.internal()
        if isinstance(error, PolicyError):
            error = self.of_all_attempts(error, self.request.request_id if self.request is not None else "", unsure=self.unsure)
            self.error = _without_frames(error)
            try:
                await self.context.abort(*errors.trailer(error))
            except grpc.aio.AbortError as sent:
                _without_frames(sent)
            except grpc.aio.InternalError:
                raise self._gone() from None
        elif isinstance(error, grpc.aio.InternalError):  # a write failed
            raise self._gone() from None
        else:
            raise error

    def _why_cancelled(self) -> PolicyError:
        if not self.given_up:
            if not self._task.cancelling():
                return PolicyError(Kind.INTERNAL, Reason.INTERNAL, "The sidecar gave up what the request waited for.")
            if self._ending is not None and self.unread_since is None and self._task.uncancel() == 0:
                return self._ending
        raise self._gone() from None

    def _gone(self) -> asyncio.CancelledError:
        """Notes that the peer has gone, and returns what to raise: gRPC cancels the call for that."""
        self.given_up = True
        return asyncio.CancelledError()


class Calls:
    """The calls in progress of one server. It belongs to one event loop."""

    def __init__(self, limits: Limits) -> None:
        """Begins without calls, which need no credentials. ``limits``: bound the calls, and what each principal may use."""
        self._most = limits.max_concurrent_calls
        self._most_bytes = limits.max_message_bytes
        self.identify: Identify | None = None
        """Identifies callers; None: they are not authenticated."""
        bounded = limits.max_calls_per_principal or limits.max_watches_per_principal or limits.max_changes_per_second_per_principal
        self.quotas = Quotas(limits) if bounded else None
        """What each principal uses; None: there are no limits for principals."""
        self.began: Callable[[Call], None] | None = None
        self.observers: Sequence[Callable[[Call], None]] = ()
        """Called with each call that has ended: its ``error`` and ``given_up`` say how. They return at once, and do not raise."""
        self.on_deadline: Callable[[Call], None] = lambda _: None
        """Called with a unary call whose deadline is near; it is to end the call."""
        self._calls: dict[Call, None] = {}
        self._stops = False
        self._refused = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls))

    def unread_seconds(self) -> float:
        """Returns the longest time, in seconds, for which any peer has left a message unread; 0: none is unread. Safe from any thread."""
        now = time.monotonic()
        return max((now - since for call in self if (since := call.unread_since) is not None), default=0.0)

    def serve(self, service: ServiceDescriptor, methods: Mapping[str, Method[Any]], *, ours: bool = True) -> grpc.GenericRpcHandler:
        """Returns the handler of a service for a gRPC server.

        ``methods``: by name; each returns, or writes, serialized answers, and takes its request decoded, or a stream of requests undecoded.
        ``ours``: whether it is a service of ours, whose calls have the method's name alone.
        """
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for name, method in methods.items():
            described = service.methods_by_name[name]
            parse = None if described.client_streaming else GetMessageClass(described.input_type).FromString
            full = name if ours else f"{service.full_name}/{name}"
            handle = self.handler(full, parse, method, stream=described.server_streaming)
            if described.client_streaming:
                handlers[name] = grpc.stream_stream_rpc_method_handler(handle)
            elif described.server_streaming:
                handlers[name] = grpc.unary_stream_rpc_method_handler(handle)
            else:
                handlers[name] = grpc.unary_unary_rpc_method_handler(handle)
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def handler(self, name: str, parse: Parse[Any] | None, method: Method[Any], *, stream: bool) -> Handler:
        """Wraps a method for gRPC.

        ``parse`` is None if the method takes a stream of requests, undecoded. ``stream``: whether it writes its answers, and its calls may
        stay open; ``name``: as in ``Call``.
        """

        async def handle(request: Any, context: Any) -> Any:
            call = Call(name, context)
            if self.began is not None:
                self.began(call)
            try:
                if self._stops:
                    self._refused += 1
                    raise stopping(_ELSEWHERE_SECONDS)
                if len(self._calls) >= self._most:
                    problem = f"{self._most:,} calls are in progress, which is the limit: try again later, or raise max_concurrent_calls."
                    raise too_much("max_concurrent_calls", self._most, problem)
                self._calls[call] = None
                if not stream and (left := context.time_remaining()) is not None:
                    early = min(max(_EARLY * left, _LEAST_EARLY), _MOST_EARLY)
                    call.timer = asyncio.get_running_loop().call_later(left - early, self.on_deadline, call)
                if self.identify is not None:
                    call.caller = await self.identify(call)
                    if stream and call.caller.expires_at != math.inf:
                        call.ends_with_credentials()
                if self.quotas is not None:
                    who = principal(call.caller, context.peer())
                    call.usage, seconds = self.quotas.charge(who, name, context.time_remaining())
                    if seconds:
                        await asyncio.sleep(seconds)
                return await method(request if parse is None else self.decode(parse, request), call)
            except BaseException as error:  # noqa: BLE001 (each becomes a status)
                await call.fail(error)
            finally:
                self._calls.pop(call, None)
                if call.timer is not None:
                    call.timer.cancel()
                if self.quotas is not None and call.usage is not None:
                    self.quotas.release(call.usage, name)
                for ended in self.observers:
                    ended(call)
                call.results = ()  # their requests refer to the batch, and so to the call

        return handle

    def decode(self, parse: Parse[_T], raw: bytes) -> _T:
        """Decodes a message.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, there are too many bytes; INVALID_ARGUMENT, they are no such message.
        """
        if len(raw) > self._most_bytes:
            raise PolicyError(
                Kind.RESOURCE_EXHAUSTED,
                Reason.MESSAGE_TOO_LARGE,
                f"The request has {len(raw):,} bytes; at most {self._most_bytes:,} are allowed: send less at once, or raise"
                " max_message_bytes.",
                metadata={"most_bytes": str(self._most_bytes)},
            )
        try:
            return parse(raw)
        except DecodeError:
            problem = "The request can't be decoded: it is not a message of this type, or a text in it is not UTF-8."
            raise invalid(Violation("", ViolationReason.MALFORMED_MESSAGE, problem)) from None

    async def refuse(self) -> None:
        """Refuses new calls from now on; returns when those that had come are refused too.

        gRPC would cancel those without a reason once it accepts no more calls.
        """
        self._stops = True
        over, refused = time.monotonic() + _MOST_REFUSING_SECONDS, -1
        while refused != self._refused and time.monotonic() < over:
            refused = self._refused
            await asyncio.sleep(_QUIET_SECONDS)

    async def until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Returns when a condition on the calls in progress holds, or after so many seconds."""
        over = time.monotonic() + seconds
        while not holds() and time.monotonic() < over:  # noqa: ASYNC110 (a stop waits once; no call pays for it)
            await asyncio.sleep(_LOOK_SECONDS)

    def drained(self) -> bool:
        """Returns whether only calls of libraries' services, and calls whose peers do not read, are in progress."""
        unread = time.monotonic() - LAST_SECONDS
        return all("/" in call.method or (call.unread_since is not None and call.unread_since < unread) for call in self._calls)


def _without_frames(error: _Error) -> _Error:
    """Returns the error that a call ends with, without its traceback and the errors before it.

    A call and gRPC's state of it keep their errors. The frames of a traceback keep the call and its request. Such a cycle would stay in
    memory until a garbage collection finds it.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error

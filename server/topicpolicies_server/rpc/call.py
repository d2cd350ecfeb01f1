"""One call: its caller, its state (``calls`` has the table of states), what observers need to know of it, and how it ends."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import grpc

from ..access import NOBODY, Caller
from ..core.chains.request import Outcome, Request
from ..core.errors import Kind, PolicyError, stopping
from ..core.reasons import Reason
from ..core.traces import TraceContext
from . import errors

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ..access.rations import Bucket


Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
"""The metadata of a call: pairs of a name in lower case and a value; a name that was sent several times is there several times."""


CHANGES = frozenset({"UpdatePolicy", "DeletePolicy", "BatchUpdatePolicies"})
"""The methods that make changes."""
PREVIOUS_ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
"""The metadata with which gRPC repeats a call."""
_OF_ATTEMPTS = (Kind.UNAVAILABLE, Kind.RESOURCE_EXHAUSTED, Kind.DEADLINE_EXCEEDED)
"""The kinds of errors that say nothing of earlier attempts at a change."""


class State(enum.Enum):
    """The state of a call; the table at the top of ``calls`` says what each means."""

    WORKING = enum.auto()
    WRITING = enum.auto()
    ENDING = enum.auto()


class Call:
    """One call, as the service sees it (``errors.Context``). Other services receive it in place of gRPC's context."""

    __slots__ = (
        "_context",
        "_loop",
        "_task",
        "answered",
        "at_least",
        "began",
        "bucket",
        "caller",
        "changes",
        "code",
        "error",
        "expired",
        "given_up",
        "hurry",
        "metadata",
        "method",
        "outcome",
        "request",
        "since",
        "size",
        "span",
        "started",
        "state",
        "target",
        "trace",
        "unsure",
    )

    def __init__(self, method: str, context: Any, size: int = 0, metadata: Metadata = ()) -> None:
        """Represents a call that has arrived. The present task is the call's: it is cancelled to end the call, and only gRPC awaits it.

        Args:
            method: the method's name, such as ``UpdatePolicy``; of other services with the service's, as ``grpc.health.v1.Health/Check``.
            context: gRPC's context (``grpc.aio.ServicerContext``).
            size: bytes of the request; 0 for a stream of requests.
            metadata: the metadata that the caller sent.
        """
        self._context = context
        self.metadata = metadata
        """The metadata that the caller sent."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self.method = method
        self.caller: Caller = NOBODY
        """The caller, once a door has identified it."""
        self.error: PolicyError | None = None
        """The error that the call ended with; None: it has not ended, or ended without one of our errors."""
        self.code = ""
        """The name of the gRPC status code that the call was aborted with, also by another service; "": it was not aborted."""
        self.given_up = False
        """Whether the caller went away, or did not read, before the end of the call."""
        self.size = size
        """Bytes of the request; 0 for a stream of requests."""
        self.answered: Callable[[], None] | None = None
        """Called once, when the first answer of a stream has been written; None: nobody wants to know."""
        self.bucket: Bucket | None = None
        """Limits how fast the changes of a batch are begun; None: no limit."""
        self.target = ""
        """The topic or namespace that the call concerns, as the caller names it; of a watch, the first one; "": none is known."""
        self.at_least = ""
        """The version that the answer to a read must have reached; "": any."""
        self.request: Request | None = None
        """The change of an UpdatePolicy or DeletePolicy call, once it has been read; None for other methods."""
        self.changes = 0
        """How many changes of a batch have their outcome."""
        self.outcome: Outcome | None = None
        """The outcome of ``request``; None: it failed, or has no outcome yet."""
        self.expired: PolicyError | None = None
        """The error that ``expire`` ends the call with; None: it was not called."""
        self.hurry: Callable[[], None] | None = None
        """Called when the deadline is near: has a batch end with what is known of each change. None: the call is ended with an error."""
        self.trace: TraceContext | None = None
        """The trace that the call is part of; None: no observer has looked for one."""
        self.span: Span | None = None
        """The span of the call, which is sent to a collector; None: the call is not traced."""
        self.unsure = False
        """Whether a leader that the call was forwarded to may have made its change."""
        self.state = State.WORKING
        self.started = perf_counter()
        """When the call arrived, by ``time.perf_counter``."""
        self.began = self.since = self._loop.time()
        """When the call arrived, and when its present state began, by the event loop's clock."""

    @property
    def context(self) -> Any:
        """GRPC's context (``grpc.aio.ServicerContext``)."""
        return self._context

    @property
    def seconds(self) -> float:
        """Seconds since the call arrived."""
        return self._loop.time() - self.began

    async def write(self, answer: Any) -> None:
        """Writes one answer of a stream. The call is WRITING until there is room for the next answer.

        Raises:
            asyncio.CancelledError: the peer has gone.
        """
        now = self._loop.time
        self.state, self.since = State.WRITING, now()
        try:
            await self._context.write(answer)
        except grpc.aio.InternalError:
            self.gone()
        self.state, self.since = State.WORKING, now()
        if self.answered is not None:
            self.answered()
            self.answered = None

    def unread_since(self) -> float | None:
        """Returns since when, by the event loop's clock, an answer waits for the peer to take it; None: no answer waits."""
        return self.since if self.state is State.WRITING else None

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Any:
        """Ends the call with a gRPC status. For ``PolicyError`` use ``refuse``.

        Raises:
            grpc.aio.AbortError: the status was sent.
            asyncio.CancelledError: the peer has gone.
        """
        self.code = code.name
        try:
            return await self._context.abort(code, details, trailing_metadata)
        except grpc.aio.InternalError:
            self.gone()

    async def refuse(self, error: PolicyError) -> None:
        """Ends the call with the status of an error, which observers see as ``error``. The call's method must return then.

        Raises:
            asyncio.CancelledError: the peer has gone.
        """
        error = self.of_all_attempts(error, self.request.request_id if self.request is not None else "")
        self.error = without_frames(error)
        message, details = errors.fitting(error)
        try:
            await self.abort(errors.code(error), message, errors.trailing_metadata(error, details))
        except grpc.aio.AbortError as sent:
            without_frames(sent)

    def of_all_attempts(self, error: PolicyError, request_id: str) -> PolicyError:
        """Returns the error of a change of the call: OUTCOME_UNKNOWN if an earlier attempt may have made it, and this one did not.

        Args:
            error: the error of this attempt.
            request_id: the change's; "": it is not known.
        """
        if error.kind not in _OF_ATTEMPTS or error.reason == Reason.OUTCOME_UNKNOWN:
            return error
        repeated = self.method in CHANGES and any(key == PREVIOUS_ATTEMPTS_KEY for key, _ in self.metadata)
        return errors.outcome_unknown(request_id, error) if self.unsure or repeated else error

    def gone(self) -> NoReturn:
        """Ends the call because a write failed: the peer has gone, and gRPC is about to cancel the call for that."""
        self.given_up = True
        raise asyncio.CancelledError from None

    def note(self, key: str, value: str) -> None:
        """Sets the trailing metadata of the answer to one pair."""
        self._context.set_trailing_metadata(((key, value),))

    def time_left(self) -> float | None:
        """Returns the seconds until the caller's deadline; None: the call has none."""
        left: float | None = self._context.time_remaining()
        return left

    def expire(self, error: PolicyError) -> None:
        """Cancels the call and ends it with an error: for example, its deadline is near, or the caller's credentials have expired."""
        self.expired = error
        self.end()

    def goes_to(self, state: State) -> None:
        """Changes the state."""
        self.state, self.since = state, self._loop.time()

    def end(self) -> None:
        """Cancels the call's task."""
        if self._task is not None:
            self._task.cancel()

    def why_cancelled(self) -> PolicyError | None:
        """Returns the error to end the call with after a ``CancelledError``; None: no status can be sent.

        =========================================================  ==================================================================
        the cancellation                                           the status
        =========================================================  ==================================================================
        the peer has gone, or gRPC has cancelled the call          none
        nobody cancelled this task: something that it awaited was  INTERNAL
        ``expire`` was called                                      the error that it was given
        the server stops and the call is ENDING                    SHUTTING_DOWN
        the peer does not read: ``end`` in another state           none
        =========================================================  ==================================================================
        """
        assert self._task is not None, "a call has a task"
        if self.given_up:
            return None
        if not self._task.cancelling():
            return PolicyError(Kind.INTERNAL, Reason.INTERNAL, "The sidecar gave up what the request waited for.")
        if self.expired is not None and self.state is not State.ENDING and self._task.uncancel() == 0:
            return self.expired
        return stopping() if self.state is State.ENDING and self._task.uncancel() == 0 else None


_Error = TypeVar("_Error", bound=BaseException)


def without_frames(error: _Error) -> _Error:
    """Returns the error that a call ends with, without its traceback and the errors before it.

    A call and gRPC's state of it keep their errors. The frames of a traceback keep the call and its request. Such a cycle would stay in
    memory until a garbage collection finds it.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error

"""One call, as the service sees it: who makes it, where it is (``calls`` has the states), and how it ends."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import grpc

from ..access import NOBODY, Caller
from ..core.chains.request import Outcome, Request
from ..core.errors import Kind, PolicyError, stopping
from ..core.reasons import Reason
from ..core.traces import TraceContext

if TYPE_CHECKING:
    from ..telemetry.spans import CallSpan
    from .rationing import Pace


Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
"""What calls say besides their requests: names in lower case, each as often as it was said."""


class State(enum.Enum):
    """Where a call is."""

    WORKING = enum.auto()
    WRITING = enum.auto()
    TOLD = enum.auto()


class Call:
    """One call, as the service sees it (``errors.Context``)."""

    __slots__ = (
        "_context",
        "_loop",
        "_task",
        "at_least",
        "began",
        "caller",
        "changes",
        "code",
        "error",
        "expired",
        "given_up",
        "leave",
        "metadata",
        "method",
        "outcome",
        "pace",
        "request",
        "since",
        "size",
        "span",
        "started",
        "state",
        "target",
        "trace",
    )

    def __init__(self, method: str, context: Any, size: int = 0, metadata: Metadata = ()) -> None:
        """It has come; its task is the present one, which nobody awaits but gRPC.

        Args:
            method: its name, such as ``UpdatePolicy``; for other services with theirs, such as ``grpc.health.v1.Health/Check``.
            context: gRPC's (``grpc.aio.ServicerContext``).
            size: bytes of its request; 0 for a stream of them.
            metadata: what it says besides its request.
        """
        self._context = context
        self.metadata = metadata
        """What it says besides its request."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self.method = method
        self.caller: Caller = NOBODY
        """Who makes it, once a door has found that out."""
        self.error: PolicyError | None = None
        """What it was told at its end; None: nothing went wrong, or it has not ended."""
        self.code = ""
        """gRPC's code of the error that it ended with, also where that is none of ours; "" is none."""
        self.given_up = False
        """Whether its caller went away, or did not read, before its end."""
        self.size = size
        """Bytes of its request; 0 for a stream of them."""
        self.pace: Pace | None = None
        """How fast a stream of changes may go on; None: as fast as it comes."""
        self.target = ""
        """The namespace, or the topic, that it reads, as the caller names it; "" if it names none, or changes something."""
        self.at_least = ""
        """A version that its answer must have reached; "" is any."""
        self.request: Request | None = None
        """The change that it makes, once that is read; None: it makes none, or many."""
        self.changes = 0
        """How many changes of its stream have their outcome."""
        self.outcome: Outcome | None = None
        """What became of the change; None: it failed, or has no outcome yet."""
        self.expired: PolicyError | None = None
        """Why it has no answer, when its caller's deadline is near or its credentials have expired."""
        self.leave: Callable[[PolicyError], None] | None = None
        """Has it read no more, and end with an error once it has told what became of what was read; None: it is ended at once."""
        self.trace: TraceContext | None = None
        """In which trace it is made, or goes on; None: nobody has looked."""
        self.span: CallSpan | None = None
        """What is told of it to a collector; None: nothing."""
        self.state = State.WORKING
        self.started = perf_counter()
        """When it came, by a finer clock."""
        self.began = self.since = self._loop.time()
        """The loop's times at which it came, and at which its state began."""

    @property
    def context(self) -> Any:
        """As gRPC has it."""
        return self._context

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return self._loop.time() - self.began

    async def write(self, answer: Any) -> None:
        """Writes one of a stream's answers; ends the call where its peer has gone. It is WRITING until there is room for the next one."""
        now = self._loop.time
        self.state, self.since = State.WRITING, now()
        try:
            await self._context.write(answer)
        except grpc.aio.InternalError:
            self._gone()
        self.state, self.since = State.WORKING, now()

    def unread_since(self) -> float | None:
        """The loop's time since when what it writes waits for its peer to take it; None: nothing does."""
        return self.since if self.state is State.WRITING else None

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Any:
        """Ends it with an error (``errors.abort``)."""
        self.code = code.name
        try:
            return await self._context.abort(code, details, trailing_metadata)
        except grpc.aio.InternalError:
            self._gone()

    def _gone(self) -> NoReturn:
        """What was written could not be sent: the peer has gone, which gRPC says by cancelling the call a moment later."""
        self.given_up = True
        raise asyncio.CancelledError from None

    def note(self, key: str, value: str) -> None:
        """Says something beside its answer, in the trailing metadata."""
        self._context.set_trailing_metadata(((key, value),))

    def time_left(self) -> float | None:
        """Seconds until its caller's deadline; None: it has none."""
        left: float | None = self._context.time_remaining()
        return left

    def expire(self, error: PolicyError) -> None:
        """Ends it with an error, because its caller's deadline is near, or its credentials have expired."""
        self.expired = error
        self.end()

    def goes_to(self, state: State) -> None:
        """Its state is another one from now on."""
        self.state, self.since = state, self._loop.time()

    def end(self) -> None:
        """Ends it where it stands."""
        if self._task is not None:
            self._task.cancel()

    def why_cancelled(self) -> PolicyError | None:
        """What it is told of a ``CancelledError``; None: its caller has gone, or does not read.

        One that nobody has asked this call's task for is of something that it awaited: a failure like every other.
        """
        assert self._task is not None, "a call has a task"
        if self.given_up:
            return None
        if not self._task.cancelling():
            return PolicyError(Kind.INTERNAL, Reason.INTERNAL, "What the request waited for was given up by the sidecar.")
        if self.expired is not None and self.state is not State.TOLD and self._task.uncancel() == 0:
            return self.expired
        return stopping() if self.state is State.TOLD and self._task.uncancel() == 0 else None

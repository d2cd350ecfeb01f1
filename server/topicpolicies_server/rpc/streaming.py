"""One UpdatePolicies stream: batches of changes in, batches of results out.

A change takes one of the stream's places when it is read, and frees it when its result has been written. So changes in flight and results
that the caller has not read are bounded together: a caller that does not read its results is not read from. All results that are there when
the last message has been written go into the next one, bounded in bytes; a message never waits for more results.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from time import perf_counter
from typing import TypeAlias

from topicpolicies.v1 import service_pb2

from ..cluster.admission import Admits, KeyOrder
from ..core.chains.sequencer import Request, Result
from ..core.errors import PolicyError, Violation, invalid, stopping
from ..core.names import PolicyKey
from ..core.reasons import Reason
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import asked_to_end
from ..telemetry.spans import CallSpan
from . import answers, errors, requests
from .decoding import MOST_CHANGES, Batch, Undecodable
from .failures import Failures
from .pace import Pace
from .permitting import Permitted
from .refused_namespaces import RefusedNamespaces

MESSAGE_BYTES = 256 * 1024
"""Bytes at which a message is complete; its last result may take it beyond that."""
TURN_SECONDS = 0.005
"""Seconds for which a stream begins changes before it yields to the event loop: reading one large change takes tens of milliseconds."""


ChangeEnded: TypeAlias = Callable[[Request | None, Result | PolicyError | None, float], None]
"""Called once for each change with the request (None: it is invalid), the outcome (None: its stream ended first), and the seconds taken."""


class UpdateStream:
    """Reads the changes of one stream, submits them to their namespaces, and yields their results."""

    def __init__(
        self,
        registry: Registry,
        admission: Admits | None,
        wire: answers.Wire,
        author: requests.Author,
        places: int,
        failures: Failures,
        stop: asyncio.Event,
        pace: Pace | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            registry: the namespaces.
            admission: admits changes; None: every change is admitted.
            wire: serializes documents, unless ``admission`` decides that (``Permitted``).
            author: the actor and the reason of changes that name none.
            places: how many changes may be in flight or have a result that is not written yet.
            failures: logs unforeseen failures.
            stop: set when the server stops.
            pace: limits how fast changes are read; None: no limit.
        """
        self._pace = pace
        self._registry = registry
        self._turns = KeyOrder(admission) if admission is not None else None
        self._wire = wire
        self._permitted = admission if isinstance(admission, Permitted) else None
        self._wires: dict[Request, answers.Wire] = admission.wires if isinstance(admission, Permitted) else {}
        """What serializes the documents in the answer to a change, where that is not ``wire``."""
        self._author = author
        self._free = places
        self._failures = failures
        self._stop = stop
        self._reading: asyncio.Task[None] | None = None
        self.observers: Sequence[ChangeEnded] = ()
        """Called for each change that was read."""
        self.span: CallSpan | None = None
        """The span of the stream's call, which selects changes to be traced; None: the call is not traced."""
        self._now = asyncio.get_running_loop().time
        self._freed = asyncio.Event()
        self._results: deque[tuple[int, Request | None, Result | PolicyError]] = deque()
        """Results to be written. They are serialized only then, so that a document which many results share is in memory once."""
        self._ready = asyncio.Event()
        self._under_way = 0
        self._ended = False
        """Whether reading has ended: the caller sends no more, or ``_failure`` says why."""
        self._failure: BaseException | None = None
        """The error that ended reading; the call ends with it once the changes that were read have their results."""
        self._order: dict[PolicyKey, list[Request]] = {}
        self._refused = RefusedNamespaces()
        self._open: dict[Request, Namespace] = {}
        """Changes that were submitted and have no result, with their namespaces."""
        self._waiting: dict[asyncio.Task[None], Request] = {}
        """Changes whose admission waits for a permission, or for facts about the cluster."""
        self._over = False
        """Whether the call has ended: later results are dropped."""

    async def messages(self, stream: AsyncIterator[Batch]) -> AsyncGenerator[bytes, None]:
        """Yields serialized ``UpdatePoliciesResponse`` messages, until the caller sends no more and every change has its result.

        Raises:
            PolicyError: a message has too many changes or bytes, and none of its changes is made; UNAVAILABLE: the server is stopping, and
                changes without a result are not made. Either is raised only after the results of all changes that were read.
        """
        loop = asyncio.get_running_loop()
        reading = self._reading = loop.create_task(self._read(stream), name="update stream")
        reading.add_done_callback(self._reads_no_more)  # a callback also runs if the task is cancelled before it has begun
        stop = loop.create_task(self._stop_reading(), name="end of an update stream")
        try:
            while True:
                self._ready.clear()
                while self._results:
                    batch, size = [], 0
                    while self._results and size < MESSAGE_BYTES:
                        batch.append(self._record(*self._results.popleft()))
                        size += len(batch[-1])
                    yield b"".join(batch)
                    self._free += len(batch)
                    if self._pace is not None:
                        self._pace.answered(len(batch))
                    self._freed.set()
                if self._ended and not self._under_way and not self._results:
                    if self._failure is not None:
                        raise self._failure
                    return
                await self._ready.wait()
        finally:
            self._over, self._failure = True, None
            self._results.clear()
            stop.cancel()
            reading.cancel()
            left = [request for task, request in self._waiting.items() if task.cancel()]
            for request, namespace in self._open.items():
                left.append(request)
                namespace.give_up(request)
            for request in left:
                for tell in self.observers:
                    tell(request, None, self._now() - request.arrived_at)

    def give_up(self) -> None:
        """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
        for task in self._waiting:
            task.cancel()
        for request, namespace in list(self._open.items()):
            namespace.end(request, stopping())

    def leave(self, error: PolicyError) -> None:
        """Stops reading; the call ends with ``error`` once every change that was read has its result."""
        if self._reading is not None and not self._reading.done():
            self._failure = error
            self._reading.cancel()

    async def _stop_reading(self) -> None:
        """Stops reading when the server stops."""
        await self._stop.wait()
        self.leave(stopping())

    async def _read(self, stream: AsyncIterator[Batch]) -> None:
        granted = 0
        try:
            async for message in stream:
                changes = message.changes
                if len(changes) > MOST_CHANGES:
                    problem = f"changes has {len(changes):,} elements; at most {MOST_CHANGES:,} are allowed."
                    raise invalid(Reason.TOO_MANY_ELEMENTS, Violation("changes", Reason.TOO_MANY_ELEMENTS, problem))
                if self._pace is not None:
                    await self._pace.arrived(message)
                begin = 0
                while begin < len(changes):
                    while not self._free:
                        self._freed.clear()
                        await self._freed.wait()
                    count = min(self._free, len(changes) - begin)
                    if self._pace is not None:
                        granted = granted or await self._pace.granted(count)
                        count = min(count, granted)
                    self._free -= count
                    self._under_way += count
                    begun = self._begin(changes[begin : begin + count], begin)
                    begin += begun
                    granted = max(0, granted - begun)
                    if begun < count:
                        self._free += count - begun
                        self._under_way -= count - begun
                        await asyncio.sleep(0)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 (the call ends with it, once what was read has its results)
            if not self._over:
                self._failure = self._failure or error
        if granted and self._pace is not None:
            self._pace.unused(granted)

    def _reads_no_more(self, _: asyncio.Task[None]) -> None:
        self._ended = True
        self._ready.set()

    def _begin(self, changes: Sequence[service_pb2.PolicyChangeRequest | Undecodable], first: int) -> int:
        """Submits changes, consecutive ones of one namespace together, until ``TURN_SECONDS`` are over; returns how many were begun.

        ``first``: the index of the first change in its message.
        """
        namespace, together, begun = "", list[Request](), len(changes)
        wholes: dict[str, answers.Wire | None] = {}
        clock = asyncio.get_running_loop().time
        came, over = self._now(), clock() + TURN_SECONDS
        for index, change in enumerate(changes, first):
            if clock() > over:
                begun = index - first
                break
            if isinstance(change, Undecodable):
                self._add_result(change.sequence, None, change.error)
                continue
            request: Request | None = None
            try:
                where, request = requests.read_change(change, self._author, index)
                request.sequence, request.stream, request.arrived_at = change.sequence, self._order, came
                if self.span is not None:
                    request.stage_times = self.span.follows(perf_counter())
                if self._turns is not None:
                    wire = wholes[where] if where in wholes else wholes.setdefault(where, self._whole(where))
                    if wire is None:
                        if not self._turns.at_once(where, request):
                            self._wait(self._turns, where, request)
                            continue
                    elif wire is not self._wire:
                        self._wires[request] = wire
            except PolicyError as error:
                self._add_result(change.sequence, request, error)
                continue
            except Exception as error:  # noqa: BLE001 (told)
                self._add_failure(change.sequence, request, error)
                continue
            if where != namespace:
                self._submit(namespace, together)
                namespace, together = where, []
            together.append(request)
        self._submit(namespace, together)
        return begun

    def _whole(self, namespace: str) -> answers.Wire | None:
        """Admits all changes of a namespace that are begun in one turn, and returns their ``Wire``; None: each is to be admitted by itself.

        Raises:
            PolicyError: none of the changes is admitted.
        """
        if self._permitted is None or self._turns is None or self._turns.waits():
            return None
        return self._permitted.whole(namespace)

    def _wait(self, turns: KeyOrder, namespace: str, request: Request) -> None:
        """Starts a task in which a change waits for its permission and for facts about the cluster, and then is submitted."""
        task = asyncio.get_running_loop().create_task(self._admit(turns, namespace, request))
        self._waiting[task] = request

        def ended(task: asyncio.Task[None]) -> None:
            del self._waiting[task]
            if turns.leave(request):  # the task was cancelled before it ran
                self._add_result(request.sequence, request, stopping())

        task.add_done_callback(ended)

    async def _admit(self, turns: KeyOrder, namespace: str, request: Request) -> None:
        try:
            await turns.admit(namespace, request)
        except PolicyError as error:
            self._add_result(request.sequence, request, error)
        except asyncio.CancelledError as error:
            if not asked_to_end(error):
                self._add_failure(request.sequence, request, error)
                return
            self._add_result(request.sequence, request, stopping())
            raise
        except Exception as error:  # noqa: BLE001 (told)
            self._add_failure(request.sequence, request, error)
        else:
            self._submit(namespace, [request])

    def _submit(self, namespace: str, together: Sequence[Request]) -> None:
        """Submits admitted changes of one namespace; those that are refused have their result at once."""
        if not together:
            return
        refusal: PolicyError | None = self._refused.refusal(namespace)
        try:
            served = self._registry.get(namespace) if refusal is None else None
        except PolicyError as error:
            refusal, served = error, None
        except Exception as error:  # noqa: BLE001 (told)
            for request in together:
                self._add_failure(request.sequence, request, error)
            return
        if served is None:
            assert refusal is not None, "it was refused"
            for request in together:
                self._add_result(request.sequence, request, refusal)
            return
        self._open.update(dict.fromkeys(together, served))
        try:
            served.submit(together, self._settled)
        except Exception as error:  # noqa: BLE001 (told)
            for request in together:
                if request in self._open:
                    self._let_go(request, error)

    def _let_go(self, request: Request, error: Exception) -> None:
        """Gives a change the result INTERNAL because submitting it failed. The change may have been made all the same."""
        namespace = self._open.pop(request)
        self._add_failure(request.sequence, request, error)
        try:
            namespace.give_up(request)
        except Exception as failure:  # noqa: BLE001 (those behind it have to be told too)
            self._failures.log("Giving up a change of UpdatePolicies", failure)

    def _settled(self, request: Request, answer: Result | PolicyError) -> None:
        """Takes the result of a change that was submitted."""
        namespace = self._open.pop(request).name
        if isinstance(answer, NotLeader):
            answer = self._refused.add(namespace, answer)
            if (full := self._refused.full(namespace)) is not None:
                self.leave(full)
        self._add_result(request.sequence, request, answer)

    def _add_result(self, sequence: int, request: Request | None, answer: Result | PolicyError) -> None:
        if self._over:
            return
        self._under_way -= 1
        if not self._results:
            self._ready.set()
        self._results.append((sequence, request, answer))
        for tell in self.observers:
            tell(request, answer, self._now() - request.arrived_at if request is not None and request.arrived_at else 0.0)

    def _add_failure(self, sequence: int, request: Request | None, error: BaseException) -> None:
        """Gives a change the result INTERNAL because of an unforeseen error, which is logged."""
        self._failures.log("A change of UpdatePolicies", error)
        self._add_result(sequence, request, errors.internal())

    def _record(self, sequence: int, request: Request | None, answer: Result | PolicyError) -> bytes:
        wire = self._wires.pop(request, self._wire) if request is not None else self._wire
        if request is None or isinstance(answer, PolicyError):
            assert isinstance(answer, PolicyError), "who has no request has no result"
            return answers.result_record(sequence, request, answer)
        told = (answers.update_answer if request.change is not None else answers.delete_answer)(request, answer, wire)
        return answers.result_record(sequence, request, told)

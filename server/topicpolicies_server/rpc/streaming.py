"""One UpdatePolicies stream: batches of changes in, batches of results out.

A change takes a place when it is read, and gives it back when its result has been written. So what is under way and what nobody reads is
bounded together: a caller that does not read is not read from. What is settled when the last message was written goes into the next one,
bounded in bytes; it never waits for more.
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
from .elsewhere import LedElsewhere
from .failures import Failures
from .permitting import Permitted
from .rationing import Pace

MESSAGE_BYTES = 256 * 1024
"""A message is sent when it has so many; only one result may make it longer."""
TURN_SECONDS = 0.005
"""When changes have been begun for so long, others have their turn: to look through a large change takes tens of milliseconds."""


Told: TypeAlias = Callable[[Request | None, Result | PolicyError | None, float], None]
"""Told of each change that was read, once: of its outcome, and of how many seconds it took. None: its stream ended before."""


class UpdateStream:
    """The results of one stream."""

    def __init__(
        self,
        registry: Registry,
        admission: Admits | None,
        wire: answers.Wire,
        asker: requests.Asker,
        places: int,
        failures: Failures,
        stop: asyncio.Event,
        pace: Pace | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            registry: the namespaces.
            admission: admits changes; None: nothing has to.
            wire: how documents are shown, unless ``admission`` says otherwise (``Permitted``).
            asker: who asks, unless a change says otherwise.
            places: changes that may be under way, or wait to be told.
            failures: where failures that nobody foresaw are told of.
            stop: set when the server stops.
            pace: how fast it may go on; None: as fast as it comes.
        """
        self._pace = pace
        self._registry = registry
        self._turns = KeyOrder(admission) if admission is not None else None
        self._wire = wire
        self._permitted = admission if isinstance(admission, Permitted) else None
        self._wires: dict[Request, answers.Wire] = admission.wires if isinstance(admission, Permitted) else {}
        """How the answers to single changes show documents, where that is not ``wire``."""
        self._asker = asker
        self._free = places
        self._failures = failures
        self._stop = stop
        self._reading: asyncio.Task[None] | None = None
        self.observers: Sequence[Told] = ()
        """Told of each change."""
        self.span: CallSpan | None = None
        """What is told of its call to a collector; some of its changes are followed then."""
        self._now = asyncio.get_running_loop().time
        self._freed = asyncio.Event()
        self._results: deque[tuple[int, Request | None, Result | PolicyError]] = deque()
        """Made to bytes when they are told: documents that many results share are kept once."""
        self._told = asyncio.Event()
        self._under_way = 0
        self._ended = False
        """Whether the caller sends no more."""
        self._failure: BaseException | None = None
        """Why no more is read."""
        self._order: dict[PolicyKey, list[Request]] = {}
        self._elsewhere = LedElsewhere()
        self._open: dict[Request, Namespace] = {}
        """Changes that were submitted and have no result, and where."""
        self._waiting: dict[asyncio.Task[None], Request] = {}
        """Changes that wait for a permission, or for facts about the cluster."""
        self._over = False
        """Whether nobody is told anything any more."""

    async def messages(self, stream: AsyncIterator[Batch]) -> AsyncGenerator[bytes, None]:
        """Serialized ``UpdatePoliciesResponse`` messages.

        Raises:
            PolicyError: a message has too many changes, or is too large: nothing of it is done; UNAVAILABLE when the server stops: nothing
                of what has no result is done.
        """
        loop = asyncio.get_running_loop()
        reading = self._reading = loop.create_task(self._read(stream), name="update stream")
        reading.add_done_callback(self._reads_no_more)  # also if it is cancelled before it has begun
        stop = loop.create_task(self._stop_reading(), name="end of an update stream")
        try:
            while True:
                self._told.clear()
                while self._results:
                    batch, size = [], 0
                    while self._results and size < MESSAGE_BYTES:
                        batch.append(self._record(*self._results.popleft()))
                        size += len(batch[-1])
                    yield b"".join(batch)
                    self._free += len(batch)
                    if self._pace is not None:
                        self._pace.told(len(batch))
                    self._freed.set()
                if self._ended and not self._under_way and not self._results:
                    if self._failure is not None:
                        raise self._failure
                    return
                await self._told.wait()
        finally:
            self._over = True
            stop.cancel()
            reading.cancel()
            left = [request for task, request in self._waiting.items() if task.cancel()]
            for request, namespace in self._open.items():
                left.append(request)
                namespace.give_up(request)
            for request in left:
                for tell in self.observers:
                    tell(request, None, self._now() - request.came)

    def give_up(self) -> None:
        """Answers every change that has no result: SHUTTING_DOWN if it certainly was not made, else OUTCOME_UNKNOWN."""
        for task in self._waiting:
            task.cancel()
        for request, namespace in list(self._open.items()):
            namespace.end(request, stopping())

    def leave(self, error: PolicyError) -> None:
        """Reads no more; ends with an error once what was read has its results."""
        if self._reading is not None and not self._reading.done():
            self._failure = error
            self._reading.cancel()

    async def _stop_reading(self) -> None:
        """Reads no more once the server stops."""
        await self._stop.wait()
        self.leave(stopping())

    async def _read(self, stream: AsyncIterator[Batch]) -> None:
        granted = 0
        try:
            async for message in stream:
                changes = message.changes
                if len(changes) > MOST_CHANGES:
                    problem = f"changes has {len(changes):,} elements; {MOST_CHANGES:,} is the most."
                    raise invalid(Reason.TOO_MANY_ELEMENTS, Violation("changes", Reason.TOO_MANY_ELEMENTS, problem))
                if self._pace is not None:
                    await self._pace.came(message)
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
            self._failure = self._failure or error
        if granted and self._pace is not None:
            self._pace.unused(granted)

    def _reads_no_more(self, _: asyncio.Task[None]) -> None:
        self._ended = True
        self._told.set()

    def _begin(self, changes: Sequence[service_pb2.PolicyChangeRequest | Undecodable], first: int) -> int:
        """Submits changes that have their places, those of one namespace together, until their turn is over: returns how many.

        ``first``: which of its message the first one is.
        """
        namespace, together, begun = "", list[Request](), len(changes)
        wholes: dict[str, answers.Wire | None] = {}
        came, over = self._now(), perf_counter() + TURN_SECONDS
        for index, change in enumerate(changes, first):
            if perf_counter() > over:
                begun = index - first
                break
            if isinstance(change, Undecodable):
                self._tell(change.sequence, None, change.error)
                continue
            request: Request | None = None
            try:
                where, request = requests.read_change(change, self._asker, index)
                request.sequence, request.stream, request.came = change.sequence, self._order, came
                if self.span is not None:
                    request.trail = self.span.follows(perf_counter())
                if self._turns is not None:
                    wire = wholes[where] if where in wholes else wholes.setdefault(where, self._whole(where))
                    if wire is None:
                        if not self._turns.at_once(where, request):
                            self._wait(self._turns, where, request)
                            continue
                    elif wire is not self._wire:
                        self._wires[request] = wire
            except PolicyError as error:
                self._tell(change.sequence, request, error)
                continue
            except Exception as error:  # noqa: BLE001 (told)
                self._tell_failure(change.sequence, request, error)
                continue
            if where != namespace:
                self._submit(namespace, together)
                namespace, together = where, []
            together.append(request)
        self._submit(namespace, together)
        return begun

    def _whole(self, namespace: str) -> answers.Wire | None:
        """What is found out once for all changes of a namespace that are submitted together (``Permitted.whole``).

        Raises:
            PolicyError: none of them is admitted.
        """
        if self._permitted is None or self._turns is None or self._turns.waits():
            return None
        return self._permitted.whole(namespace)

    def _wait(self, turns: KeyOrder, namespace: str, request: Request) -> None:
        """A change waits for facts about the cluster."""
        task = asyncio.get_running_loop().create_task(self._admit(turns, namespace, request))
        self._waiting[task] = request

        def ended(task: asyncio.Task[None]) -> None:
            del self._waiting[task]
            if turns.leave(request):  # it was cancelled before it ran
                self._tell(request.sequence, request, stopping())

        task.add_done_callback(ended)

    async def _admit(self, turns: KeyOrder, namespace: str, request: Request) -> None:
        try:
            await turns.admit(namespace, request)
        except PolicyError as error:
            self._tell(request.sequence, request, error)
        except asyncio.CancelledError as error:
            if not asked_to_end(error):
                self._tell_failure(request.sequence, request, error)
                return
            self._tell(request.sequence, request, stopping())
            raise
        except Exception as error:  # noqa: BLE001 (told)
            self._tell_failure(request.sequence, request, error)
        else:
            self._submit(namespace, [request])

    def _submit(self, namespace: str, together: Sequence[Request]) -> None:
        """Hands changes of one namespace on."""
        if not together:
            return
        refusal: PolicyError | None = self._elsewhere.refusal(namespace)
        try:
            served = self._registry.get(namespace) if refusal is None else None
        except PolicyError as error:
            refusal, served = error, None
        except Exception as error:  # noqa: BLE001 (told)
            for request in together:
                self._tell_failure(request.sequence, request, error)
            return
        if served is None:
            assert refusal is not None, "it was refused"
            for request in together:
                self._tell(request.sequence, request, refusal)
            return
        self._open.update(dict.fromkeys(together, served))
        try:
            served.submit(together, self._settled)
        except Exception as error:  # noqa: BLE001 (told)
            for request in together:
                if request in self._open:
                    self._let_go(request, error)

    def _let_go(self, request: Request, error: Exception) -> None:
        """A change failed while it was submitted: it has its result now, whatever becomes of it."""
        namespace = self._open.pop(request)
        self._tell_failure(request.sequence, request, error)
        try:
            namespace.give_up(request)
        except Exception as failure:  # noqa: BLE001 (those behind it have to be told too)
            self._failures.tell("Giving up a change of UpdatePolicies", failure)

    def _settled(self, request: Request, answer: Result | PolicyError) -> None:
        """A change that was submitted has its result."""
        namespace = self._open.pop(request).name
        if isinstance(answer, NotLeader):
            answer = self._elsewhere.refused(namespace, answer)
            if (full := self._elsewhere.full(namespace)) is not None:
                self.leave(full)
        self._tell(request.sequence, request, answer)

    def _tell(self, sequence: int, request: Request | None, answer: Result | PolicyError) -> None:
        if self._over:
            return
        self._under_way -= 1
        if not self._results:
            self._told.set()
        self._results.append((sequence, request, answer))
        for tell in self.observers:
            tell(request, answer, self._now() - request.came if request is not None and request.came else 0.0)

    def _tell_failure(self, sequence: int, request: Request | None, error: BaseException) -> None:
        """A change fails in a way that nobody foresaw: the caller is told that it is our fault, the log why."""
        self._failures.tell("A change of UpdatePolicies", error)
        self._tell(sequence, request, errors.internal())

    def _record(self, sequence: int, request: Request | None, answer: Result | PolicyError) -> bytes:
        wire = self._wires.pop(request, self._wire) if request is not None else self._wire
        if request is None or isinstance(answer, PolicyError):
            assert isinstance(answer, PolicyError), "who has no request has no result"
            return answers.result_record(sequence, request, answer)
        told = (answers.update_answer if request.change is not None else answers.delete_answer)(request, answer, wire)
        return answers.result_record(sequence, request, told)

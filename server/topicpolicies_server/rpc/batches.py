"""One BatchUpdatePolicies call: hands its changes to their namespaces, and waits until each has its result.

Changes of one policy key are made in the order of the batch. Permissions are checked by namespace, not by change. What goes wrong with one
change, or with one namespace, concerns no other. At the call's deadline, and when the server stops, every change that has no result gets
the one that is certain by then, so that the others' results are not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2 import ChangeResult

from ..cluster.admission import Admission
from ..core.chains.sequencer import Request, Result
from ..core.errors import PolicyError, Violation, invalid
from ..core.names import PolicyKey
from ..core.policies import secrets
from ..core.reasons import ViolationReason
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import asked_to_end
from . import answers, errors, requests
from .calls import Call
from .forwarding import PAUSE_SECONDS, Forwarding, forwarded_to, result_of

MOST_CHANGES = 1_000
"""The most changes in one batch."""
TURN_SECONDS = 0.005
"""Seconds for which a batch reads changes before it yields to the event loop: reading one large change takes tens of milliseconds."""
_TOGETHER = 256
"""How many changes are handed to a namespace before other tasks have their turn."""

ChangeEnded: TypeAlias = Callable[[Request | None, Result | PolicyError | None, float], None]
"""Called once for each change with the request (None: it is invalid), the outcome (None: the call ended first), and the seconds taken."""
Shown: TypeAlias = Callable[[str], Awaitable[answers.Wire]]
"""Checks the caller's permission to change a namespace, and returns what serializes its documents."""


class Batch:
    """The changes of one call, and their results."""

    def __init__(
        self,
        changes: Sequence[service_pb2.PolicyChangeRequest],
        context: Call,
        registry: Registry,
        admission: Admission | None,
        shown: Shown,
        ended: ChangeEnded,
        forwarding: Forwarding | None = None,
    ) -> None:
        """Begins no change yet.

        Args:
            changes: the changes.
            context: the call.
            registry: the namespaces.
            admission: admits changes; None: every change is admitted.
            shown: checks permissions.
            ended: called for each change.
            forwarding: forwards changes to the leaders of logs; None: logs have no leaders.
        """
        self._changes = changes
        self._context = context
        self._forwarding = forwarding
        self._author = requests.author_of(context)
        self._registry = registry
        self._admission = admission
        self._shown = shown
        self._ended = ended
        self._bucket = context.usage.bucket if context.usage is not None else None
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._requests: list[Request | None] = [None] * len(changes)
        """The changes that were read and are valid."""
        self._indexes: dict[Request, int] = {}
        self._namespaces: dict[Request, str] = {}
        self._answers: list[answers.Answer | None] = [None] * len(changes)
        self._left = len(changes)
        """How many changes have no result."""
        self._wires: dict[str, answers.Wire] = {}
        """What serializes the documents of each namespace that the caller may change."""
        self._open: dict[Request, Namespace] = {}
        """Changes that were submitted and have no result, with their namespaces."""
        self._elsewhere: dict[int, NotLeader] = {}
        """Changes without a result that other sidecars have to make, by index."""
        self._order: dict[PolicyKey, int] = {}
        self._beginning: asyncio.Task[None] | None = None
        self._complete = asyncio.Event()
        """Set when every change has its result, or is to be forwarded."""

    async def run(self) -> bytes:
        """Makes the changes, and returns a serialized ``BatchUpdatePoliciesResponse`` with the result of each.

        Raises:
            PolicyError: INVALID_ARGUMENT, there are too many changes.
        """
        if len(self._changes) > MOST_CHANGES:
            problem = f"changes has more than {MOST_CHANGES:,} elements: send several batches."
            raise invalid(Violation("changes", ViolationReason.TOO_MANY_ELEMENTS, problem))
        if not self._changes:
            return b""
        self._beginning = self._loop.create_task(self._begin(), name="batch")
        try:
            await asyncio.wait({self._beginning})
            if not self._beginning.cancelled():
                self._beginning.result()
            await self._complete.wait()
            return answers.batch_answer(self._results())
        finally:
            self._beginning.cancel()
            self._give_up()
            for kept in (self._requests, self._indexes, self._namespaces):  # each request refers to this batch (``_settled``)
                kept.clear()

    def end(self, refusal: Callable[[Request | None, str | None], PolicyError]) -> None:
        """Gives every change without a result one now: OUTCOME_UNKNOWN if it may be made.

        Args:
            refusal: returns the error of a change that certainly is not made. Its arguments: the change (None: it was not read), and its
                namespace if it is not known yet whether the caller may change that.
        """
        if self._beginning is not None:
            self._beginning.cancel()
        for submitted, namespace in list(self._open.items()):
            namespace.end(submitted, refusal(submitted, None))
        for index, answer in enumerate(self._answers):
            request = self._requests[index]
            if answer is None and request not in self._open:
                name = self._namespaces[request] if request is not None else None
                self._answer(index, refusal(request, None if name in self._wires else name))

    def _results(self) -> list[tuple[Request | None, answers.Answer, answers.Wire]]:
        found = []
        for request, answer in zip(self._requests, self._answers, strict=True):
            assert answer is not None, "the batch is complete"
            wire = self._wires.get(self._namespaces[request]) if request is not None else None
            found.append((request, answer, wire or secrets.wire))
        return found

    async def _begin(self) -> None:
        """Reads the changes and submits them, no faster than the bucket allows."""
        begin = 0
        while begin < len(self._changes):
            end = begin + await self._granted(len(self._changes) - begin)
            await self._submit(range(begin, end))
            begin = end
        if self._forwarding is not None:
            await self._forward(self._forwarding)

    async def _submit(self, indexes: Iterable[int]) -> None:
        """Reads changes and submits them, all namespaces at once."""
        by_namespace: dict[str, list[Request]] = {}
        over = self._loop.time() + TURN_SECONDS
        for index in indexes:
            if (request := self._read(index)) is not None:
                by_namespace.setdefault(self._namespaces[request], []).append(request)
            if self._loop.time() > over:
                await asyncio.sleep(0)
                over = self._loop.time() + TURN_SECONDS
        await asyncio.gather(*(self._make(name, together) for name, together in by_namespace.items()))

    async def _forward(self, forwarding: Forwarding) -> None:
        """Forwards changes to their leaders. Those that leaders certainly did not make are made here, or forwarded, after a pause."""
        until = self._loop.time() + forwarding.seconds
        while True:
            await self._complete.wait()
            refused, self._elsewhere = dict(sorted(self._elsewhere.items())), {}
            if not refused:
                return
            self._complete.clear()
            if self._loop.time() < until:
                changes = {index: self._changes[index] for index in refused}
                for index, answer in (await forwarding.batch(self._context, changes, refused)).items():
                    del refused[index]
                    self._answer(index, answer)
                await asyncio.sleep(PAUSE_SECONDS if refused else 0)
                await self._submit(refused)
            else:
                for index, error in refused.items():
                    self._answer(index, error)

    async def _granted(self, wanted: int) -> int:
        """Waits until some of ``wanted`` changes may be begun, and returns how many: at least one."""
        bucket = self._bucket
        if bucket is None:
            return wanted
        count, seconds = bucket.portion(wanted, self._loop.time())
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            bucket.take(-count)
            raise
        return count

    def _read(self, index: int) -> Request | None:
        change = self._changes[index]
        try:
            namespace, request = requests.read_change(change, self._author, index)
        except PolicyError as error:
            self._answer(index, error)
            return None
        except Exception as error:  # noqa: BLE001 (told)
            self._fail(index, error)
            return None
        request.batch = self._order
        self._requests[index], self._indexes[request], self._namespaces[request] = request, index, namespace
        return request

    async def _make(self, name: str, together: Sequence[Request]) -> None:
        """Submits the changes of one namespace, as far as the caller may make them and they are admitted."""
        try:
            self._wires[name] = await self._shown(name)
            if self._admission is not None:
                await self._admit(self._admission, name, together)
            admitted = [request for request in together if self._answers[self._indexes[request]] is None]
            if not admitted:
                return
            namespace = self._registry.get(name)
            for first in range(0, len(admitted), _TOGETHER):
                if first:
                    await asyncio.sleep(0)
                part = admitted[first : first + _TOGETHER]
                if (led := self._led_elsewhere(name)) is not None:  # a change must not be made before an earlier one that is forwarded
                    for request in part:
                        self._set_aside(request, led)
                    continue
                self._open.update(dict.fromkeys(part, namespace))
                namespace.submit(part, self._settled)
        except PolicyError as error:
            self._refuse(together, error)
        except (Exception, asyncio.CancelledError) as error:  # no change may be left without a result
            if asked_to_end(error):
                raise
            errors.log_failure("A batch of changes", error)
            for request in together:
                if (submitted := self._open.pop(request, None)) is not None:
                    submitted.give_up(request)
            self._refuse(together, errors.internal())

    async def _admit(self, admission: Admission, namespace: str, together: Sequence[Request]) -> None:
        """Admits changes of a namespace, all at once; those that are not admitted have their results."""

        async def admit(request: Request) -> None:
            try:
                await admission.admit(namespace, request)
            except PolicyError as error:
                self._answer(self._indexes[request], error)

        waiting = []
        for request in together:
            try:
                if not admission.at_once(namespace, request):
                    waiting.append(request)
            except PolicyError as error:
                self._answer(self._indexes[request], error)
        await asyncio.gather(*map(admit, waiting))

    def _settled(self, request: Request, answer: Result | PolicyError) -> None:
        """Takes the result of a change that was submitted."""
        if self._open.pop(request, None) is not None:
            if self._forwarding is not None and isinstance(answer, NotLeader) and forwarded_to(answer, self._context):
                self._set_aside(request, answer)
            else:
                self._answer(self._indexes[request], answer)

    def _set_aside(self, request: Request, led: NotLeader) -> None:
        """Has a change forwarded, with its request id, once all others have their results."""
        index = self._indexes[request]
        change = self._changes[index]
        (change.update if change.HasField("update") else change.delete).request_id = request.request_id
        self._elsewhere[index] = led
        self._check()

    def _led_elsewhere(self, name: str) -> NotLeader | None:
        return next((each for each in self._elsewhere.values() if each.metadata["namespace"] == name), None)

    def _refuse(self, together: Sequence[Request], error: PolicyError) -> None:
        for request in together:
            index = self._indexes[request]
            if self._answers[index] is None and request not in self._open and index not in self._elsewhere:
                self._answer(index, error)

    def _fail(self, index: int, error: BaseException) -> None:
        errors.log_failure("A change of a batch", error)
        self._answer(index, errors.internal())

    def _answer(self, index: int, answer: answers.Answer) -> None:
        request = self._requests[index]
        if isinstance(answer, PolicyError) and request is not None:
            answer = self._context.of_all_attempts(answer, request.request_id)
        self._answers[index] = answer
        self._left -= 1
        self._elsewhere.pop(index, None)
        self._ended(request, result_of(answer) if isinstance(answer, ChangeResult) else answer, self._loop.time() - self._began)
        self._check()

    def _check(self) -> None:
        if self._left == len(self._elsewhere):
            self._complete.set()

    def _give_up(self) -> None:
        """Forgets the changes without a result: the call has ended without an answer."""
        left, self._open = self._open, {}
        for submitted, namespace in left.items():
            namespace.give_up(submitted)
        for request, answer in zip(self._requests, self._answers, strict=True):
            if request is not None and answer is None:
                self._ended(request, None, self._loop.time() - self._began)

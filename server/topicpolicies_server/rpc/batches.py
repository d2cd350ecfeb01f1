"""One BatchUpdatePolicies call: hands its changes to their namespaces, and waits until each has its result.

Changes of one policy key are made in the order of the batch. Permissions are checked by namespace, not by change. What goes wrong with one
change, or with one namespace, concerns no other. At the call's deadline, and when the server stops, every change that has no result gets
the one that is certain by then, so that the others' results are not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from topicpolicies.v1 import service_pb2

from ..access import Permission
from ..cluster.cluster import Cluster
from ..core.chains.request import Request, Result
from ..core.errors import PolicyError, Violation, invalid
from ..core.names import PolicyKey
from ..core.reasons import ViolationReason
from ..logs.change_log import NotLeader
from ..namespaces.updates import Updates
from ..tasks import asked_to_end
from . import answers, errors, requests
from .calls import Call
from .forwarding import PAUSE_SECONDS, Forwarding, forwarded_to
from .servicer import Servicer

MOST_CHANGES = 1_000
TURN_SECONDS = 0.005
"""Seconds for which a batch reads changes before it yields to the event loop: reading one large change takes tens of milliseconds."""
_TOGETHER = 256
"""How many changes are handed to a namespace before other tasks have their turn."""


async def batch_update_policies(servicer: Servicer, message: service_pb2.BatchUpdatePoliciesRequest, call: Call) -> bytes:
    """Serves BatchUpdatePolicies."""
    batch = ChangeBatch(message.changes, call, servicer)
    call.end_batch = batch.end
    try:
        return await batch.run()
    finally:
        call.end_batch = None


class ChangeBatch:
    """The changes of one call, and their results."""

    def __init__(self, changes: Sequence[service_pb2.PolicyChangeRequest], call: Call, servicer: Servicer) -> None:
        """Begins no change yet.

        Raises:
            PolicyError: INVALID_ARGUMENT, there are too many changes.
        """
        if len(changes) > MOST_CHANGES:
            problem = f"changes has more than {MOST_CHANGES:,} elements: send several batches."
            raise invalid(Violation("changes", ViolationReason.TOO_MANY_ELEMENTS, problem))
        self._changes = [answers.BatchedChange(index, message) for index, message in enumerate(changes)]
        self._call = call
        self._servicer = servicer
        self._trace = call.trace_context()
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._order: dict[PolicyKey, int] = {}
        self._left = len(changes)
        self._complete = asyncio.Event()
        self._making: asyncio.Task[None] | None = None

    async def run(self) -> bytes:
        """Makes the changes, and returns a serialized ``BatchUpdatePoliciesResponse`` with the result of each.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, the principal may not make changes before the call's deadline.
        """
        if not self._changes:
            return b""
        usage = self._call.usage
        seconds = usage.changes(len(self._changes), self._call.context.time_remaining()) if usage is not None else 0.0
        self._making = making = self._loop.create_task(self._make_all(seconds), name="batch")
        try:
            await asyncio.wait({making})
            if not making.cancelled():
                making.result()
            return answers.batch_answer(self._changes)
        finally:
            making.cancel()
            self._making = None  # the error of a cancelled task refers to this batch
            self._give_up(self._changes)
            for change in self._changes:
                change.seconds = change.seconds or self._loop.time() - self._began
            self._call.results = [each for each in self._changes if each.request is not None or each.answer is not None]
            self._changes = []

    def end(self, refusal: Callable[..., PolicyError]) -> None:
        """Gives every change without a result one now: OUTCOME_UNKNOWN if it may be made.

        Args:
            refusal: returns the error of a change that certainly is not made (``Servicer``). Takes the change (None: it was not read), its
                namespace, and whether it is known that the caller may change that (``permitted``).
        """
        if self._making is not None:
            self._making.cancel()
        for change in self._changes:
            error = refusal(change.request, change.namespace, permitted=change.wire is not None)
            if change.request is not None and (updates := self._updates_of(change)) is not None:
                updates.answer_now(change.request, error)
            elif change.answer is None or self._is_led(change):
                self._conclude(change, error)

    async def _make_all(self, seconds: float) -> None:
        """Makes the changes after some seconds. Those that others lead are forwarded when all others have their results."""
        usage, count = self._call.usage, len(self._changes)
        if seconds and usage is not None:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                usage.changes(-count, None)  # none is made
                raise
        await self._make(self._changes)
        if self._servicer.forwarding is not None:
            await self._forward(self._servicer.forwarding)

    async def _make(self, changes: Iterable[answers.BatchedChange]) -> None:
        """Reads changes and submits them, all namespaces at once; returns when each has its answer."""
        by_namespace: dict[str, list[answers.BatchedChange]] = {}
        over = self._loop.time() + TURN_SECONDS
        for change in changes:
            if self._read(change):
                by_namespace.setdefault(change.namespace, []).append(change)
            if self._loop.time() > over:
                await asyncio.sleep(0)
                over = self._loop.time() + TURN_SECONDS
        await asyncio.gather(*(self._submit(name, together) for name, together in by_namespace.items()))
        await self._complete.wait()

    def _read(self, change: answers.BatchedChange) -> bool:
        which, place = change.message.WhichOneof("change"), f"changes[{change.index}]"
        try:
            if which is None:
                raise invalid(Violation(f"{place}.change", ViolationReason.NOTHING_SELECTED, "Set what to do: update or delete."))
            message = getattr(change.message, which)
            change.namespace, request = requests.read_change(message, self._call.caller, self._trace, f"{place}.{which}.")
        except PolicyError as error:
            self._answer(change, error)
            return False
        except Exception as error:  # noqa: BLE001 (told)
            errors.log_failure("A change of a batch", error)
            self._answer(change, errors.internal())
            return False
        request.batch = self._order
        change.request = request
        return True

    async def _submit(self, name: str, together: Sequence[answers.BatchedChange]) -> None:
        """Submits the changes of one namespace, as far as the caller may make them and they are admitted."""
        try:
            granted = await self._call.permit(self._servicer.grants, name, Permission.CHANGE)
            for change in together:
                change.wire = answers.wire_of(granted)
                if change.request is not None:
                    self._servicer.constrain(change.request, granted)
            if self._servicer.cluster is not None:
                await self._admit(self._servicer.cluster, name, together)
            admitted = [change for change in together if change.answer is None]
            for first in range(0, len(admitted), _TOGETHER):
                if first:
                    await asyncio.sleep(0)
                part = {change.request: change for change in admitted[first : first + _TOGETHER] if change.request is not None}
                led = next((change.answer for change in together if self._is_led(change)), None)
                if led is not None:  # a change must not be made before an earlier one that is forwarded
                    for change in part.values():
                        self._answer(change, led)
                else:
                    self._servicer.registry.get(name).submit(list(part), partial(self._settled, part))
        except PolicyError as error:
            self._refuse(together, error)
        except (Exception, asyncio.CancelledError) as error:  # no change may be left without a result
            if asked_to_end(error):
                raise
            errors.log_failure("A batch of changes", error)
            self._give_up(together)
            self._refuse(together, errors.internal())

    async def _admit(self, cluster: Cluster, namespace: str, together: Sequence[answers.BatchedChange]) -> None:
        """Admits changes of a namespace, all at once; those that are not admitted have their results."""
        waiting: list[answers.BatchedChange] = []
        facts: list[Awaitable[None]] = []
        for change in together:
            assert change.request is not None, "it was read"
            try:
                if (more := cluster.admit(namespace, change.request)) is not None:
                    waiting.append(change)
                    facts.append(more)
            except PolicyError as error:
                self._answer(change, error)
        for change, failed in zip(waiting, await asyncio.gather(*facts, return_exceptions=True), strict=True):
            if isinstance(failed, PolicyError):
                self._answer(change, failed)
            elif failed is not None:
                raise failed

    async def _forward(self, forwarding: Forwarding) -> None:
        """Forwards changes to their leaders. Those that leaders certainly did not make are made here, or forwarded, after a pause."""
        until = self._loop.time() + forwarding.seconds
        while led := [change for change in self._changes if self._is_led(change)]:
            if self._loop.time() >= until:
                for change in led:
                    self._conclude(change, change.answer)
                return
            made = await forwarding.batch(self._call, led)
            for change, answer in made.items():
                self._conclude(change, answer)
            again = [change for change in led if change not in made]
            if not again:
                return
            await asyncio.sleep(PAUSE_SECONDS)
            for change in again:
                change.answer = None
            self._left = len(again)
            self._complete.clear()
            await self._make(again)

    def _updates_of(self, change: answers.BatchedChange) -> Updates | None:
        """Returns the updates that a change is one of; None: it was not submitted, or has its answer."""
        served = self._servicer.registry.find(change.namespace)
        return served.updates if served is not None and change.request in served.updates.open else None

    def _is_led(self, change: answers.BatchedChange) -> bool:
        """Returns whether another sidecar has to make a change."""
        refused = change.answer
        return self._servicer.forwarding is not None and isinstance(refused, NotLeader) and forwarded_to(refused, self._call) != ""

    def _settled(self, submitted: dict[Request, answers.BatchedChange], request: Request, answer: Result | PolicyError) -> None:
        """Takes the result of a change that was submitted."""
        self._answer(submitted.pop(request), answer)

    def _refuse(self, together: Sequence[answers.BatchedChange], error: PolicyError) -> None:
        for change in together:
            if change.answer is None and self._updates_of(change) is None:
                self._answer(change, error)

    def _give_up(self, changes: Iterable[answers.BatchedChange]) -> None:
        for change in changes:
            if change.request is not None and (updates := self._updates_of(change)) is not None:
                updates.give_up(change.request)

    def _answer(self, change: answers.BatchedChange, answer: answers.Answer) -> None:
        """Takes what became of a change that had no answer."""
        self._left -= 1
        if not self._left:
            self._complete.set()
        change.answer = answer
        if not self._is_led(change):
            self._conclude(change, answer)

    def _conclude(self, change: answers.BatchedChange, answer: answers.Answer | None) -> None:
        """Takes what became of a change in the end."""
        if isinstance(answer, PolicyError) and change.request is not None:
            answer = self._call.of_all_attempts(answer, change.request.request_id)
        change.answer, change.seconds = answer, self._loop.time() - self._began

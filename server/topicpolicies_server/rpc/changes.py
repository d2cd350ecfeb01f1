"""UpdatePolicy, DeletePolicy and BatchUpdatePolicies; and why a call has no answer when its deadline is near, or the server stops.

Changes of a batch are made in its order, those of one policy key one after the other. Permissions are checked by namespace, not by change.
What goes wrong with one change, or with one namespace, concerns no other. At the call's deadline, and when the server stops, every change
that has no result gets the one that is certain by then, so that the others' results are not lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from topicpolicies.v1 import service_pb2

from ..access import Permission
from ..cluster.cluster import Cluster
from ..core.chains.request import Request, Result, not_in_time
from ..core.errors import Kind, PolicyError, Violation, invalid, stopping
from ..core.names import PolicyKey
from ..core.reasons import Reason, ViolationReason
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Phase
from ..namespaces.progress import not_reached
from ..namespaces.updates import Updates
from ..tasks import asked_to_end
from . import answers, errors, requests
from .calls import CHANGES, Call, Calls, Refusal
from .dependencies import Dependencies
from .forwarding import PAUSE_SECONDS, forwarded_to
from .requests import Answer, BatchedChange, ChangeMessage

MOST_CHANGES = 1_000
TURN_SECONDS = 0.005
"""Seconds for which a batch is read and submitted before other tasks have their turn: one large change takes tens of milliseconds."""


async def change_policy(dependencies: Dependencies, message: ChangeMessage, call: Call) -> bytes:
    """Serves UpdatePolicy and DeletePolicy: makes the change here, or at the leader of the namespace."""
    call.target = message.topic
    while True:
        name, request = requests.read_change(message, call.caller, call.trace_context())
        granted = await call.permit(dependencies.grants, name, Permission.CHANGE)
        dependencies.constrain(request, granted)
        call.request = request
        if dependencies.cluster is not None and (waiting := dependencies.cluster.admit(name, request)) is not None:
            await waiting
        call.served = namespace = dependencies.registry.get(name)
        dependencies.registry.common.activity.stages["waiting"].count(time.perf_counter() - call.started)
        try:
            result = await namespace.update(request)
        except NotLeader as refused:
            call.served = None
            if dependencies.forwarding is None:
                raise
            answer = await dependencies.forwarding.change(call, message, refused)
            if answer is not None:
                return answer
        else:
            call.outcome = result.outcome
            return answers.change_answer(request, result, answers.wire_of(granted))


async def batch_update_policies(dependencies: Dependencies, message: service_pb2.BatchUpdatePoliciesRequest, call: Call) -> bytes:
    """Serves BatchUpdatePolicies."""
    batch = ChangeBatch(message.changes, call, dependencies)
    call.end_batch = batch.end
    try:
        return await batch.run()
    finally:
        call.end_batch = None


class ChangeBatch:
    """The changes of one call, and their results."""

    def __init__(self, changes: Sequence[service_pb2.PolicyChangeRequest], call: Call, dependencies: Dependencies) -> None:
        """Begins no change yet.

        Raises:
            PolicyError: INVALID_ARGUMENT, there are too many changes.
        """
        if len(changes) > MOST_CHANGES:
            problem = f"changes has more than {MOST_CHANGES:,} elements: send several batches."
            raise invalid(Violation("changes", ViolationReason.TOO_MANY_ELEMENTS, problem))
        self._changes = [BatchedChange(index, message) for index, message in enumerate(changes)]
        self._call = call
        self._dependencies = dependencies
        self._loop = asyncio.get_running_loop()
        self._began = self._turn_began = self._loop.time()
        self._order: dict[PolicyKey, int] = {}
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

    def end(self, refusal: Refusal) -> None:
        """Gives every change without a result one now: OUTCOME_UNKNOWN if it may be made, else the error of ``refusal``."""
        if self._making is not None:
            self._making.cancel()
        for change in self._changes:
            error = refusal(change.request, change.namespace, change.granted is not None, "")
            if change.request is not None and (updates := self._updates_of(change)) is not None:
                updates.answer_now(change.request, error)
            elif change.answer is None or self._leader_of(change):
                self._conclude(change, error)

    async def _make_all(self, seconds: float) -> None:
        """Makes the changes after some seconds, all namespaces at once."""
        usage, count = self._call.usage, len(self._changes)
        if seconds and usage is not None:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                usage.changes(-count, None)  # none is made
                raise
        by_namespace = defaultdict[str, list[BatchedChange]](list)
        for change in self._changes:
            if self._read(change):
                by_namespace[change.namespace].append(change)
            await self._turn()
        await asyncio.gather(*(self._make(name, together) for name, together in by_namespace.items()))

    async def _turn(self) -> None:
        if self._loop.time() > self._turn_began + TURN_SECONDS:
            await asyncio.sleep(0)
            self._turn_began = self._loop.time()

    def _read(self, change: BatchedChange) -> bool:
        which, place = change.message.WhichOneof("change"), f"changes[{change.index}]"
        try:
            if which is None:
                raise invalid(Violation(f"{place}.change", ViolationReason.NOTHING_SELECTED, "Set what to do: update or delete."))
            message = getattr(change.message, which)
            trace = self._call.trace_context()
            change.namespace, request = requests.read_change(message, self._call.caller, trace, f"{place}.{which}.")
        except PolicyError as error:
            self._conclude(change, error)
            return False
        except Exception as error:  # noqa: BLE001 (told)
            errors.log_failure("A change of a batch", error)
            self._conclude(change, errors.internal())
            return False
        request.batch = self._order
        change.request = request
        return True

    async def _make(self, name: str, together: Sequence[BatchedChange]) -> None:
        """Makes the changes of one namespace, here or at its leader; returns when each has its result.

        Those that a leader certainly did not make are made here, or forwarded again, after a pause.
        """
        forwarding = self._dependencies.forwarding
        until = self._loop.time() + (forwarding.seconds if forwarding is not None else 0.0)
        try:
            while together:
                await self._submit(name, together)
                led = [change for change in together if self._leader_of(change)]
                if not led or forwarding is None or self._loop.time() >= until:
                    for change in led:
                        self._conclude(change, change.answer)
                    return
                made = await forwarding.batch(self._call, self._leader_of(led[-1]), led)
                for change, answer in zip(led, made, strict=True):
                    if answer is not None:
                        self._conclude(change, answer)
                together = [change for change in led if self._leader_of(change)]
                if together:
                    await asyncio.sleep(PAUSE_SECONDS)
                for change in together:
                    change.answer = None
                    self._read(change)
        except PolicyError as error:
            self._refuse(together, error)
        except (Exception, asyncio.CancelledError) as error:  # no change may be left without a result
            if asked_to_end(error):
                raise
            errors.log_failure("A batch of changes", error)
            self._give_up(together)
            self._refuse(together, errors.internal())

    async def _submit(self, name: str, together: Sequence[BatchedChange]) -> None:
        """Submits the changes of one namespace, as far as they are permitted and admitted; returns when each has its answer."""
        granted = await self._call.permit(self._dependencies.grants, name, Permission.CHANGE)
        for change in together:
            change.granted = granted
            if change.request is not None:
                self._dependencies.constrain(change.request, granted)
        if self._dependencies.cluster is not None:
            admitted = await asyncio.gather(
                *(self._admit(self._dependencies.cluster, change) for change in together), return_exceptions=True
            )
            for failed in filter(None, admitted):
                raise failed
        open_ = {change.request: change for change in together if change.request is not None and change.answer is None}
        answered = asyncio.Event()

        def settle(request: Request, answer: Result | PolicyError) -> None:
            change = open_.pop(request)
            change.answer = answer
            if not self._leader_of(change):
                self._conclude(change, answer)
            if not open_:
                answered.set()

        led: NotLeader | None = None
        for request, change in list(open_.items()):
            if led is None:
                self._dependencies.registry.get(name).submit(request, settle)
            else:  # it must not be made before an earlier one that is forwarded
                settle(request, led)
            if isinstance(change.answer, NotLeader):
                led = change.answer
            await self._turn()
        if open_:
            await answered.wait()

    async def _admit(self, cluster: Cluster, change: BatchedChange) -> None:
        assert change.request is not None, "it was read"
        try:
            if (waiting := cluster.admit(change.namespace, change.request)) is not None:
                await waiting
        except PolicyError as error:
            self._conclude(change, error)

    def _updates_of(self, change: BatchedChange) -> Updates | None:
        """Returns the updates that a change is one of; None: it was not submitted, or has its answer."""
        served = self._dependencies.registry.find(change.namespace)
        return served.updates if served is not None and change.request in served.updates.open else None

    def _leader_of(self, change: BatchedChange) -> str:
        """Returns the address of the sidecar that has to make a change; "": it is not forwarded."""
        refused = change.answer
        return forwarded_to(refused, self._call) if self._dependencies.forwarding is not None and isinstance(refused, NotLeader) else ""

    def _refuse(self, together: Sequence[BatchedChange], error: PolicyError) -> None:
        for change in together:
            if change.answer is None and self._updates_of(change) is None:
                self._conclude(change, error)

    def _give_up(self, changes: Iterable[BatchedChange]) -> None:
        for change in changes:
            if change.request is not None and (updates := self._updates_of(change)) is not None:
                updates.give_up(change.request)

    def _conclude(self, change: BatchedChange, answer: Answer | None) -> None:
        """Takes what became of a change in the end."""
        if isinstance(answer, PolicyError) and change.request is not None:
            answer = self._call.of_all_attempts(answer, change.request.request_id, unsure=change.unsure)
        change.answer, change.seconds = answer, self._loop.time() - self._began


# --- calls without an answer -----------------------------------------------------------------------------------------


def end_changes(calls: Calls) -> None:
    """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
    for call in calls:
        if call.method in CHANGES:
            _end(call, lambda *_: stopping())


def end_at_deadline(dependencies: Dependencies, call: Call) -> None:
    """Ends a call whose deadline is near with the reason why it has no answer; for a change, also whether it may have been made."""
    _end(call, partial(_not_in_time, dependencies))


def _end(call: Call, refusal: Refusal) -> None:
    """Ends a call; a change that may have been made, with OUTCOME_UNKNOWN."""
    if call.end_batch is not None:
        call.end_batch(refusal)
        return
    request = call.request
    error = refusal(request, call.namespace, call.permitted, call.at_least)
    if request is not None and request.submitted and call.served is not None:
        call.served.updates.answer_now(request, error)  # does nothing if there is an answer, which is about to be sent
    else:
        call.end(error)


def _not_in_time(dependencies: Dependencies, request: Request | None, namespace: str, permitted: bool, at_least: str) -> PolicyError:
    """Returns why a call has no answer when its deadline is near, as far as is known; of a change, if it certainly was not made."""
    if namespace and not permitted:
        return _within(Reason.AUTHORIZATION_UNKNOWN, f"The caller's permissions in {namespace} are not known yet.")
    problem = dependencies.registry.common.readiness.problem
    if problem is not None:
        return _within(problem.reason, problem.message)
    served = dependencies.registry.find(namespace) if namespace else None
    unread = bool(namespace) and (served is None or served.phase is not Phase.READY)
    if request is not None and request.submitted:
        return not_in_time(request, read=not unread)
    if unread:
        why = f" ({served.problem})" if served is not None and served.problem else ""
        return _within(Reason.TIMEOUT, f"{namespace} has not been read yet{why}.", Kind.DEADLINE_EXCEEDED)
    if namespace and at_least:
        return not_reached(namespace, at_least)
    return _within(Reason.TIMEOUT, "What the call waited for has not happened.", Kind.DEADLINE_EXCEEDED)


def _within(reason: Reason, why: str, kind: Kind = Kind.UNAVAILABLE) -> PolicyError:
    return PolicyError(kind, reason, f"There was no answer within the time of this call: {why.rstrip('.')}. Nothing was done: try again.")

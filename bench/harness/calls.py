"""The calls of a worker's clients, each of which becomes a record; of a batch, each of its updates."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc

from tests.simulation.traffic import Traffic, Wish
from tests.validators.records import Key
from topicpolicies.errors import TopicPoliciesError, from_rpc_error, from_status
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .records import Record, edit_text
from .scenarios import Plan

_TIMEOUT = 60.0
_IMPATIENT = (0.0005, 0.004)
"""The range of timeouts of an impatient caller, in seconds: too short to learn the outcome."""
_REPEATS = 20
"""How often a request is repeated before its outcome counts as unsettled."""
_UNKNOWN = ("DEADLINE_EXCEEDED", "UNAVAILABLE")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What all clients and watchers of a worker share."""

    plan: Plan
    worker: int
    channel: grpc.aio.Channel
    records: list[Record] = field(default_factory=list)
    known_versions: dict[str, str] = field(default_factory=dict)
    """The last version of each topic that somebody here was answered."""


class Caller:
    """One client, which makes one call at a time. No two clients write the same values, so all changes can be distinguished."""

    def __init__(self, context: WorkerContext, number: int) -> None:
        plan = context.plan
        self._context = context
        self._stub = TopicPoliciesServiceStub(context.channel)
        self._name = f"{context.worker}.{number}"
        self._chance = random.Random(f"{plan.seed} {self._name}")
        clients = plan.scenario.clients
        self._traffic = Traffic(self._chance, plan.scenario.deletes, context.worker * clients + number, clients * plan.workers)

    async def call(self, operations: Sequence[int], intended: float | None = None) -> None:
        """Makes the next operations, in one call.

        Args:
            operations: their numbers; several only if the plan says so.
            intended: when the call should begin, at a given rate.
        """
        plan = self._context.plan
        phase = plan.phase(operations[0])
        if self._chance.random() < plan.scenario.reads:
            topic = self._topic()
            at_least = self._context.known_versions.get(topic, "") if self._chance.random() < 0.5 else ""
            await self.read(topic, phase, intended, at_least=at_least)
        else:
            await self._change([self._wish() for _ in operations], phase, intended)

    def _topic(self) -> str:
        plan = self._context.plan
        return plan.topic(self._chance.randrange(plan.scenario.topics))

    def _wish(self) -> Wish:
        draft = self._traffic.draft()
        while draft.edit.needs:  # it would be refused where there is nothing to change
            draft = self._traffic.draft()
        return Wish(Key(self._topic()), draft, uuid.uuid4().hex)

    async def _change(self, wishes: Sequence[Wish], phase: str, intended: float | None) -> None:
        """Sends changes, and repeats those whose outcome is not known until an answer says what became of them."""
        impatient = self._chance.random() < self._context.plan.scenario.impatient
        unknown = await self._send(wishes, phase, self._chance.uniform(*_IMPATIENT) if impatient else _TIMEOUT, intended)
        for repeat in range(_REPEATS):
            if not unknown:
                return
            await asyncio.sleep(0.1 if repeat else 0)
            unknown = await self._send(unknown, "settle", _TIMEOUT)

    async def _send(self, wishes: Sequence[Wish], phase: str, timeout: float, intended: float | None = None) -> list[Wish]:
        """Sends changes once, in one call. Returns those whose outcome is not known then."""
        context = self._context
        batch = wishes[0].request_id if len(wishes) > 1 else ""
        start = time.time()
        results: Sequence[service_pb2.ChangeResult | TopicPoliciesError]
        try:
            results = await self._results(wishes, timeout)
        except grpc.aio.AioRpcError as error:
            results = [from_rpc_error(error)] * len(wishes)
        end, unknown = time.time(), []
        for sequence, (wish, result) in enumerate(zip(wishes, results, strict=True)):
            edit, topic = wish.draft.edit, wish.key.topic
            kind = "delete" if edit.delete else "update"
            record = Record(
                kind, phase, context.worker, self._name, start, intended, topic=topic, scope=wish.key.scope, edit=edit_text(edit),
                request_id=wish.request_id, stream=batch, sequence=sequence,
            )  # fmt: skip
            if isinstance(result, TopicPoliciesError):
                record = _refused(record, result, end)
                if record.end is None or record.code in _UNKNOWN:
                    unknown.append(wish)
            else:
                record = record._replace(
                    end=end, version=result.version, previous=result.previous_version, document=policies_of(result.document),
                    outcome=int(result.outcome), repeated=result.replayed,
                )  # fmt: skip
                context.known_versions[topic] = max(context.known_versions.get(topic, ""), result.version)
            context.records.append(record)
        return unknown

    async def _results(self, wishes: Sequence[Wish], timeout: float) -> list[service_pb2.ChangeResult | TopicPoliciesError]:
        first = wishes[0]
        if len(wishes) == 1 and first.draft.edit.delete:
            return [await self._stub.DeletePolicy(first.delete(), timeout=timeout)]
        if len(wishes) == 1:
            return [await self._stub.UpdatePolicy(first.update(), timeout=timeout)]
        request = service_pb2.BatchUpdatePoliciesRequest(changes=[wish.change() for wish in wishes])
        response = await self._stub.BatchUpdatePolicies(request, timeout=timeout)
        return [
            from_status(each.error.code, each.error.message, each.error.details) if each.HasField("error") else each.success
            for each in response.results
        ]

    async def read(self, topic: str, phase: str, intended: float | None = None, *, at_least: str = "", final: bool = False) -> None:
        """Reads a document."""
        context = self._context
        request = service_pb2.GetPolicyRequest(topic=topic, at_least_version=at_least)
        record = Record(
            "read", phase, context.worker, self._name, time.time(), intended, topic=topic, at_least=at_least, final=final
        )  # fmt: skip
        try:
            document = await self._stub.GetPolicy(request, timeout=_TIMEOUT)
            record = record._replace(end=time.time(), version=document.version, document=policies_of(document))
        except grpc.aio.AioRpcError as error:
            record = _refused(record, from_rpc_error(error), time.time())
        context.records.append(record)


def _refused(record: Record, error: TopicPoliciesError, now: float) -> Record:
    """Returns the record of a call that ended with an error; it has no ``end`` if the service did not answer."""
    return record._replace(end=now if error.reason else None, code=error.code.name, reason=error.reason)


def policies_of(document: policies_pb2.PolicyDocument) -> bytes | None:
    """Returns a document's policies as they are recorded; None if it has none."""
    return document.policies.SerializeToString() if document.HasField("policies") else None

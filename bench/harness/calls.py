"""The calls of a worker's clients, each of which becomes a record."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from dataclasses import dataclass, field

import grpc

from tests.simulation.traffic import Traffic, Wish
from tests.validators.records import Key
from topicpolicies.errors import from_rpc_error
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

    async def call(self, operation: int) -> None:
        """Makes the operation with this number."""
        plan = self._context.plan
        phase = plan.phase(operation)
        if self._chance.random() < plan.scenario.reads:
            topic = self._topic()
            at_least = self._context.known_versions.get(topic, "") if self._chance.random() < 0.5 else ""
            await self.read(topic, phase, at_least=at_least)
        else:
            await self._change(self._wish(), phase)

    def _topic(self) -> str:
        plan = self._context.plan
        return plan.topic(self._chance.randrange(plan.scenario.topics))

    def _wish(self) -> Wish:
        draft = self._traffic.draft()
        while draft.edit.needs:  # it would be refused where there is nothing to change
            draft = self._traffic.draft()
        return Wish(Key(self._topic()), draft, uuid.uuid4().hex)

    async def _change(self, wish: Wish, phase: str) -> None:
        """Sends a change, and repeats it until an answer says what became of it."""
        impatient = self._chance.random() < self._context.plan.scenario.impatient
        settled = await self._send(wish, phase, self._chance.uniform(*_IMPATIENT) if impatient else _TIMEOUT)
        for repeat in range(_REPEATS):
            if settled:
                return
            await asyncio.sleep(0.1 if repeat else 0)
            settled = await self._send(wish, "settle", _TIMEOUT)

    async def _send(self, wish: Wish, phase: str, timeout: float) -> bool:
        """Sends a change once. Returns whether its outcome is known then."""
        context, edit, topic = self._context, wish.draft.edit, wish.key.topic
        record = Record(
            "delete" if edit.delete else "update", phase, context.worker, self._name, time.time(), topic=topic, scope=wish.key.scope,
            edit=edit_text(edit), request_id=wish.request_id,
        )  # fmt: skip
        try:
            if edit.delete:
                result = await self._stub.DeletePolicy(wish.delete(), timeout=timeout)
            else:
                result = await self._stub.UpdatePolicy(wish.update(), timeout=timeout)
        except grpc.aio.AioRpcError as error:
            record = _refused(record, error)
        else:
            record = record._replace(
                end=time.time(), version=result.version, previous=result.previous_version, document=policies_of(result.document),
                outcome=int(result.outcome), repeated=result.replayed,
            )  # fmt: skip
            context.known_versions[topic] = max(context.known_versions.get(topic, ""), result.version)
        context.records.append(record)
        return record.end is not None and record.code not in _UNKNOWN

    async def read(self, topic: str, phase: str, *, at_least: str = "", final: bool = False) -> None:
        """Reads a document."""
        context = self._context
        request = service_pb2.GetPolicyRequest(topic=topic, at_least_version=at_least)
        record = Record("read", phase, context.worker, self._name, time.time(), topic=topic, at_least=at_least, final=final)
        try:
            document = await self._stub.GetPolicy(request, timeout=_TIMEOUT)
            record = record._replace(end=time.time(), version=document.version, document=policies_of(document))
        except grpc.aio.AioRpcError as error:
            record = _refused(record, error)
        context.records.append(record)


def _refused(record: Record, error: grpc.aio.AioRpcError) -> Record:
    """Returns the record of a call that ended with an error; it has no ``end`` if the service did not answer."""
    said = from_rpc_error(error)
    return record._replace(end=time.time() if said.reason else None, code=said.code.name, reason=said.reason)


def policies_of(document: policies_pb2.PolicyDocument) -> bytes | None:
    """Returns a document's policies as they are recorded; None if it has none."""
    return document.policies.SerializeToString() if document.HasField("policies") else None

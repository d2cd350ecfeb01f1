"""Single requests of a worker, each of which becomes a record."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc
import httpx

from bench.echo import METHOD as ECHO
from topicpolicies.errors import from_rpc_error
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .plan import Plan
from .records import Record
from .traffic import Draft, Traffic, edit_json

TIMEOUT = 60.0
_IMPATIENT = (0.0005, 0.004)
"""The range of timeouts of an impatient caller, in seconds: too short to learn the outcome."""
_SETTLING = 20
"""How often a request is repeated before its outcome counts as unsettled."""
_REST_NAMES = {
    "max_producer_per_topic": "maxProducers",
    "max_consumer_per_topic": "maxConsumers",
    "max_consumers_per_subscription": "maxConsumersPerSubscription",
    "max_subscriptions_per_topic": "maxSubscriptionsPerTopic",
    "message_ttl_in_seconds": "messageTTL",
    "compaction_threshold": "compactionThreshold",
    "deduplication_snapshot_interval_seconds": "deduplicationSnapshotInterval",
}
"""The names in the admin API of the plain settings that can be compared."""


@dataclass(slots=True)
class WorkerContext:
    """What all of a worker's clients share."""

    plan: Plan
    worker: int
    now: Callable[[], float]
    records: list[Record] = field(default_factory=list)
    known_versions: dict[str, str] = field(default_factory=dict)
    """The last version of each topic that somebody here was answered."""


@dataclass(slots=True)
class Wish:
    """An update, which is sent until its outcome is known."""

    topic: str
    draft: Draft
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def update(self) -> service_pb2.UpdatePolicyRequest:
        """The update as a request."""
        request = service_pb2.UpdatePolicyRequest(topic=self.topic, policies=self.draft.policies, request_id=self.request_id)
        request.update_mask.paths.extend(self.draft.mask)
        return request

    def delete(self) -> service_pb2.DeletePolicyRequest:
        """The request that deletes the LOCAL document."""
        return service_pb2.DeletePolicyRequest(topic=self.topic, request_id=self.request_id)


class Caller:
    """One client, which makes one request at a time."""

    def __init__(self, context: WorkerContext, channel: grpc.aio.Channel, name: str, traffic: Traffic, chance: random.Random) -> None:
        self._context = context
        self._stub = TopicPoliciesServiceStub(channel)
        self._name = name
        self._traffic = traffic
        self._chance = chance

    async def next_operation(self, phase: str) -> None:
        """The next operation, whatever it is."""
        scenario = self._context.plan.scenario
        topic = self._context.plan.topic(self._chance.randrange(scenario.topics))
        if self._chance.random() < scenario.reads:
            await self.read(topic, phase, at_least=self._context.known_versions.get(topic, "") if self._chance.random() < 0.5 else "")
            return
        wish = Wish(topic, self._traffic.draft())
        patience = self._chance.uniform(*_IMPATIENT) if self._chance.random() < scenario.impatient else TIMEOUT
        if not await self.send(wish, phase, patience):
            await self._settle(wish)

    async def _settle(self, wish: Wish) -> None:
        """Repeats an update until an answer says what became of it."""
        for _ in range(_SETTLING):
            if await self.send(wish, "settle", TIMEOUT):
                return
            await asyncio.sleep(0.1)

    async def send(self, wish: Wish, phase: str, patience: float) -> bool:
        """Sends a request once; whether its outcome is known then."""
        context = self._context
        kind = "delete" if wish.draft.edit.delete else "update"
        record = Record(
            kind, phase, context.worker, self._name, context.now(), topic=wish.topic, scope=1,
            mask=wish.draft.mask, edit=edit_json(wish.draft.edit), request_id=wish.request_id,
        )  # fmt: skip
        try:
            if kind == "delete":
                result = await self._stub.DeletePolicy(wish.delete(), timeout=patience)
            else:
                result = await self._stub.UpdatePolicy(wish.update(), timeout=patience)
            record = answered(record, result, context.now())
        except grpc.aio.AioRpcError as error:
            record = refused(record, error, context.now())
        context.records.append(record)
        if record.version:
            context.known_versions[wish.topic] = max(context.known_versions.get(wish.topic, ""), record.version)
        return record.end is not None and record.code not in ("DEADLINE_EXCEEDED", "UNAVAILABLE")

    async def read(self, topic: str, phase: str, *, at_least: str = "", final: bool = False) -> None:
        """Reads a document."""
        context = self._context
        request = service_pb2.GetPolicyRequest(topic=topic)
        if at_least:
            request.at_least_version = at_least
        record = Record(
            "read", phase, context.worker, self._name, context.now(), topic=topic, scope=1, at_least=at_least or None, final=final
        )  # fmt: skip
        try:
            document = await self._stub.GetPolicy(request, timeout=TIMEOUT)
        except grpc.aio.AioRpcError as error:
            context.records.append(refused(record, error, context.now()))
            return
        context.records.append(record._replace(end=context.now(), version=document.version, document=policies_of(document)))


def refused(record: Record, error: grpc.aio.AioRpcError, now: float) -> Record:
    """Returns the record of a call that ended with an error; it has no ``end`` if the service did not answer."""
    said = from_rpc_error(error)
    return record._replace(end=now if said.reason else None, code=error.code().name, reason=said.reason)


def answered(record: Record, result: service_pb2.ChangeResult, now: float) -> Record:
    """Returns the record of a change that was answered."""
    return record._replace(
        end=now,
        version=result.version,
        previous=result.previous_version,
        document=policies_of(result.document),
        outcome=int(result.outcome),
        repeated=result.replayed,
    )


def policies_of(document: policies_pb2.PolicyDocument) -> bytes | None:
    """Returns a document's policies as they are recorded; None if it has none."""
    return document.policies.SerializeToString() if document.HasField("policies") else None


class EchoCaller:
    """A client of the empty echo, which is the limit of every unary call."""

    def __init__(self, context: WorkerContext, channel: grpc.aio.Channel, name: str) -> None:
        self._context = context
        self._echo: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ECHO)
        self._name = name

    async def next_operation(self, phase: str) -> None:
        """One call."""
        start = self._context.now()
        await self._echo(b"")
        self._context.records.append(Record("echo", phase, self._context.worker, self._name, start, self._context.now()))


class RestCaller:
    """A client of a broker's admin REST, which changes one plain setting at a time. Its answers carry no versions."""

    def __init__(self, context: WorkerContext, http: httpx.AsyncClient, name: str, chance: random.Random) -> None:
        self._context = context
        self._http = http
        self._name = name
        self._chance = chance
        self._number = 0

    async def next_operation(self, phase: str) -> None:
        """One change."""
        context = self._context
        topic = context.plan.topic(self._chance.randrange(context.plan.scenario.topics))
        self._number += 1
        path, name = self._chance.choice(list(_REST_NAMES.items()))
        start = context.now()
        answer = await self._http.post(f"/admin/v2/persistent/{topic.removeprefix('persistent://')}/{name}", json=self._number)
        code = "OK" if answer.is_success else str(answer.status_code)
        context.records.append(
            Record("rest", phase, context.worker, self._name, start, context.now(), code, topic=topic, scope=1, mask=(path,))
        )  # fmt: skip

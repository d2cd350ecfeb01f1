"""Clients of the sidecars: each changes its own setting, one request after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence

import grpc

from tests.stubs import AsyncStub, one, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest

from .acknowledged import Acknowledged, Cell
from .settings import ALL, Owned
from .term import Term


async def client(stub: AsyncStub, owned: Owned, topics: Sequence[str], acknowledged: Acknowledged, term: Term, seed: int) -> None:
    """Changes one setting, of one topic after the other, until the term is over."""
    chance = random.Random(seed)
    while not term.over:
        cell = Cell(chance.choice(topics), owned)
        number = acknowledged.next(cell)
        request = UpdatePolicyRequest(topic=cell.topic, policies=owned.policies(number))
        request.update_mask.paths.append(owned.path)
        try:
            answer = await stub.UpdatePolicy(request, timeout=15)
        except grpc.aio.AioRpcError as error:
            acknowledged.errors[f"sidecar {error.code().name} {error.details()}"[:120]] += 1
            continue
        assert answer.outcome == service_pb2.UPDATE_OUTCOME_APPLIED, answer
        acknowledged.acknowledge(cell, number, "sidecars")


async def wrongly_answered(stub: AsyncStub, topics: Sequence[str], acknowledged: Acknowledged) -> dict[Cell, int]:
    """Returns the cells that a sidecar shows wrongly after the cluster has come to rest, with the numbers shown."""
    wrong = {}
    for topic in topics:
        document = one(await stub.GetPolicy(reading(topic), timeout=60))
        for owned in ALL:
            cell = Cell(topic, owned)
            number = owned.read(document.policies)
            if not acknowledged.holds(cell, number):
                wrong[cell] = number
    return wrong

"""Clients of the sidecars: each changes its own setting, one request after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.promises.api import Api, Refused
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .acknowledged import Acknowledged, Cell
from .settings import ALL, Owned
from .term import Term


async def client(api: Api, owned: Owned, topics: Sequence[str], acknowledged: Acknowledged, term: Term, seed: int) -> None:
    """Changes one setting, of one topic after the other, until the term is over."""
    chance = random.Random(seed)
    while not term.over:
        cell = Cell(chance.choice(topics), owned)
        number = acknowledged.next(cell)
        try:
            answer = await api.update(cell.topic, owned.policies(number), mask=[owned.path], timeout=15)
        except Refused as error:
            acknowledged.errors[f"sidecar {error}"[:120]] += 1
            continue
        assert answer.outcome == "APPLIED", answer
        acknowledged.acknowledge(cell, number, "sidecars")


async def wrongly_answered(api: Api, topics: Sequence[str], acknowledged: Acknowledged) -> dict[Cell, int]:
    """Returns the cells that a sidecar shows wrongly after the cluster has come to rest, with the numbers shown."""
    wrong = {}
    for topic in topics:
        document = await api.get(topic, timeout=60)
        for owned in ALL:
            cell = Cell(topic, owned)
            number = owned.read(document.policies or TopicPolicies())
            if not acknowledged.holds(cell, number):
                wrong[cell] = number
    return wrong

"""Clients that send several changes at once."""

from __future__ import annotations

from dataclasses import replace

from tests.validators.records import Answer, Failure, Update
from topicpolicies.v1 import service_pb2

from .calls import Refused, failure_of, leader_in
from .clients import Client, answer_of, grpc_name
from .traffic import Wish


class BatchWriter(Client):
    """Sends batches of changes, and repeats in calls of their own the changes that got no answer because the connection broke."""

    async def run(self, batches: int) -> None:
        """Sends this many batches."""
        for number in range(batches):
            await self.world.pause()
            await self._send(f"{self.name}/{number}")

    async def _send(self, name: str) -> None:
        world, chance = self.world, self.chance
        keys = chance.sample(world.keys, min(len(world.keys), chance.choice((1, 1, 2))))
        wishes = [self._wish(keys) for _ in range(chance.randint(2, 12))]
        sidecar = self.pick()
        begin = len(world.history.updates)
        for sequence, wish in enumerate(wishes):
            attempt = wish.record(self.name, sidecar.name, world.now())
            world.history.updates.append(replace(attempt, batch=name, sequence=sequence))
        world.counts["batches of several updates"] += 1
        request = service_pb2.BatchUpdatePoliciesRequest(changes=[wish.change() for wish in wishes])
        try:
            results = (await sidecar.batch(request)).results
        except Refused as refused:
            self.heed(refused.failure, refused.leader)
            world.counts["batches broken"] += 1
            for wish in wishes:
                await self.insist(wish)
            return
        assert len(results) == len(wishes)
        for index, result in enumerate(results, begin):
            self._note(index, result)

    def _note(self, index: int, result: service_pb2.PolicyChangeResult) -> None:
        updates = self.world.history.updates
        attempt: Update = updates[index]
        answer: Answer | Failure
        if result.HasField("error"):
            answer = failure_of(grpc_name(result.error.code), result.error.details)
            self.heed(answer, leader_in(result.error.details))
        else:
            answer = answer_of(result.success)
        updates[index] = replace(attempt, answered=self.world.now(), answer=answer)
        self._count(updates[index].answer)

    def _wish(self, keys: list) -> Wish:  # type: ignore[type-arg]
        draft = self.world.traffic.draft()
        skip = not draft.edit.delete and self.chance.random() < 0.05
        return Wish(self.chance.choice(keys), draft, self.request_id(), skip_if_absent=skip)

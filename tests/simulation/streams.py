"""Who sends updates on a stream without waiting for answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from tests.validators.records import Failure, Update
from topicpolicies.v1 import service_pb2

from .calls import Refused, failure_of, leader_in
from .clients import Client, Wish, answer_of, grpc_name


class StreamWriter(Client):
    """Sends bursts of updates on streams, and repeats in calls of their own what a broken stream left open."""

    async def run(self, bursts: int) -> None:
        """Opens so many streams."""
        for number in range(bursts):
            await self.world.pause()
            await self._burst(f"{self.name}/{number}")

    async def _burst(self, stream_name: str) -> None:
        world, chance = self.world, self.chance
        keys = chance.sample(world.keys, min(len(world.keys), chance.choice((1, 1, 2))))
        wishes = [self._wish(keys) for _ in range(chance.randint(2, 12))]
        gap = chance.choice((0.0, 0.0, 0.002))
        sidecar = self.pick()
        at: dict[int, int] = {}

        async def requests() -> AsyncIterator[service_pb2.UpdatePoliciesRequest]:
            for sequence, wish in enumerate(wishes):
                if gap:
                    await asyncio.sleep(chance.uniform(0, gap))
                at[sequence] = len(world.history.updates)
                attempt = wish.record(self.name, sidecar.name, world.now())
                world.history.updates.append(replace(attempt, stream=stream_name, sequence=sequence))
                yield service_pb2.UpdatePoliciesRequest(update=wish.update(), sequence=sequence)

        answered: set[int] = set()
        try:
            stream = sidecar.update_stream(requests(), self.name, chance.choice((0, 1)))
            try:
                while (message := await stream.next()) is not None:
                    response = service_pb2.UpdatePoliciesResponse.FromString(message)
                    self._note(at[response.sequence], response)
                    if response.sequence in answered:
                        world.counts["stream answers twice"] += 1
                    answered.add(response.sequence)
            finally:
                await stream.cancel()
        except Refused as refused:
            self.heed(refused.failure, refused.leader)
            world.counts["streams broken"] += 1
        for sequence, wish in enumerate(wishes):
            if sequence in at and sequence not in answered:
                await self.insist(wish)

    def _note(self, index: int, response: service_pb2.UpdatePoliciesResponse) -> None:
        updates = self.world.history.updates
        attempt: Update = updates[index]
        if response.HasField("error"):
            answer: Failure = failure_of(grpc_name(response.error.code), response.error.details)
            self.heed(answer, leader_in(response.error.details))
            updates[index] = replace(attempt, answered=self.world.now(), answer=answer)
        else:
            updates[index] = replace(attempt, answered=self.world.now(), answer=answer_of(response.response))
        self._count(updates[index].answer)

    def _wish(self, keys: list) -> Wish:  # type: ignore[type-arg]
        draft = self.world.traffic.draft()
        while draft.edit.delete:
            draft = self.world.traffic.draft()
        return Wish(self.chance.choice(keys), draft, self.request_id(), skip_if_absent=self.chance.random() < 0.05)

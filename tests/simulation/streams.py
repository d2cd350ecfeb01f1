"""Clients that send updates on a stream without waiting for answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from tests.validators.records import Answer, Failure, Update
from topicpolicies.v1 import service_pb2

from .calls import Refused, failure_of, leader_in
from .clients import Client, Wish, answer_of, deleted_answer, grpc_name


class StreamWriter(Client):
    """Sends bursts of updates on streams, and repeats in unary calls the updates that a broken stream left unanswered."""

    async def run(self, bursts: int) -> None:
        """Sends this many bursts, each on a stream of its own."""
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
            waiting = list(enumerate(wishes))
            while waiting:
                if gap:
                    await asyncio.sleep(chance.uniform(0, gap))
                count = chance.choice((1, 1, 3))
                batch, waiting = waiting[:count], waiting[count:]
                for sequence, wish in batch:
                    at[sequence] = len(world.history.updates)
                    attempt = wish.record(self.name, sidecar.name, world.now())
                    world.history.updates.append(replace(attempt, stream=stream_name, sequence=sequence))
                world.counts["batches of several updates"] += len(batch) > 1
                yield service_pb2.UpdatePoliciesRequest(changes=[wish.change(sequence) for sequence, wish in batch])

        answered: set[int] = set()
        try:
            stream = sidecar.update_stream(requests(), self.name, chance.choice((0, 1)))
            try:
                while (message := await stream.next()) is not None:
                    for result in service_pb2.UpdatePoliciesResponse.FromString(message).results:
                        self._note(at[result.sequence], result)
                        if result.sequence in answered:
                            world.counts["stream answers twice"] += 1
                        answered.add(result.sequence)
            finally:
                await stream.cancel()
        except Refused as refused:
            self.heed(refused.failure, refused.leader)
            world.counts["streams broken"] += 1
        for sequence, wish in enumerate(wishes):
            if sequence in at and sequence not in answered:
                await self.insist(wish)

    def _note(self, index: int, result: service_pb2.PolicyChangeResult) -> None:
        updates = self.world.history.updates
        attempt: Update = updates[index]
        answer: Answer | Failure
        if result.HasField("error"):
            answer = failure_of(grpc_name(result.error.code), result.error.details)
            self.heed(answer, leader_in(result.error.details))
        elif result.HasField("deleted"):
            answer = deleted_answer(result.deleted)
        else:
            answer = answer_of(result.updated)
        updates[index] = replace(attempt, answered=self.world.now(), answer=answer)
        self._count(updates[index].answer)

    def _wish(self, keys: list) -> Wish:  # type: ignore[type-arg]
        draft = self.world.traffic.draft()
        skip = not draft.edit.delete and self.chance.random() < 0.05
        return Wish(self.chance.choice(keys), draft, self.request_id(), skip_if_absent=skip)

"""Clients of newcomers, the sidecars that start in the middle of a run.

A document that a newcomer shows may be a guess, but a change that it acknowledges must be in the log. A newcomer that has seen all events
of a key is held to every promise.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.validators.records import Key, Outcome, Read

from .calls import Refused
from .clients import Client, answer_of
from .sidecar import Sidecar
from .traffic import Wish
from .world import policy_key

_PATIENCE = 10.0
"""How many seconds a passer-by waits for an answer: a newcomer answers when no guess is left, or when its patience has ended."""


class Passerby(Client):
    """Changes settings and reads documents through newcomers. Does not repeat requests."""

    async def run(self, calls: int) -> None:
        """Makes this many calls."""
        for _ in range(calls):
            await self.world.pause()
            running = [sidecar for sidecar in self.world.newcomers if sidecar.running]
            if running:
                sidecar, key = self.chance.choice(running), self.chance.choice(self.world.keys)
                try:
                    async with asyncio.timeout(_PATIENCE):
                        await (self._change if self.chance.random() < 0.5 else self._look)(sidecar, key)
                except (Refused, TimeoutError):
                    self.world.counts["calls of newcomers without an answer"] += 1

    async def _change(self, sidecar: Sidecar, key: Key) -> None:
        world = self.world
        draft = world.traffic.setting()
        while draft.edit.delete:
            draft = world.traffic.setting()
        wish = Wish(key, draft, self.request_id())
        attempt, index = wish.record(self.name, sidecar.name, world.now()), len(world.history.updates)
        world.history.updates.append(attempt)
        world.once.add((key, wish.request_id))
        knew = sidecar.knows(policy_key(key))
        answer = answer_of(await sidecar.update(wish.update()))
        world.counts[f"attempts through newcomers {answer.outcome.name}"] += 1
        if answer.outcome is Outcome.APPLIED:
            world.acknowledged.add((key, wish.request_id))
        if knew and sidecar.knows(policy_key(key)):
            world.counts["attempts through newcomers that knew everything"] += 1
            world.history.updates[index] = replace(attempt, answered=world.now(), answer=answer)

    async def _look(self, sidecar: Sidecar, key: Key) -> None:
        world, invoked = self.world, self.world.now()
        knew = sidecar.knows(policy_key(key))
        version, document = await sidecar.read(key)
        read = Read(
            client=self.name,
            sidecar=sidecar.name,
            invoked=invoked,
            answered=world.now(),
            key=key,
            version=version,
            document=document,
        )
        if knew and sidecar.knows(policy_key(key)):
            world.counts["reads of newcomers that knew everything"] += 1
            world.history.reads.append(read)
            return
        true = next((head for head in reversed(world.journal.heads) if head.key == key and head.version <= read.version), None)
        world.counts["reads of newcomers that may guess"] += 1
        world.counts["reads of newcomers that guessed wrong"] += document != (true.document if true is not None else None)

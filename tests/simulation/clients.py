"""Clients that make one call at a time: writers, which repeat requests that got no answer, also in batches, readers, and passers-by.

A passer-by calls newcomers, the sidecars that start in the middle of a run. A document that a newcomer shows may be a guess, but a change
that it acknowledges must be in the log. A newcomer that has seen all events of a key is held to every promise.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import replace

import grpc

from tests.validators.records import ABSENT, NEVER, Answer, Failure, Key, Outcome, Read, Update
from topicpolicies.v1 import service_pb2
from topicpolicies_server.core.reasons import Reason

from .calls import BROKEN, Refused, failure_of, leader_in
from .sidecar import Sidecar
from .traffic import Wish, flat
from .world import World, policy_key

_ATTEMPTS = 8
"""How often a request is sent before its writer gives up."""
_STATUSES: dict[int, str] = {status.value[0]: status.name for status in grpc.StatusCode}


class Client:
    """A client of sidecars."""

    def __init__(self, world: World, name: str, chance: random.Random) -> None:
        self.world = world
        self.name = name
        self.chance = chance
        self._favourite = chance.choice(world.sidecars)
        self._leader: Sidecar | None = None
        """The leader, as the last refusal named it."""

    def pick(self) -> Sidecar:
        """Returns the sidecar to call: the leader if one is known, otherwise mostly the same one, unless it does not run."""
        if self._leader is not None:
            return self._leader
        running = [sidecar for sidecar in self.world.sidecars if sidecar.running]
        if running and (self._favourite not in running or self.chance.random() < 0.15):
            self._favourite = self.chance.choice(running)
        return self._favourite

    def heed(self, failure: Failure, leader: str) -> None:
        """Remembers the leader that a refusal names; forgets it if a refusal names none, or if the connection broke."""
        if failure.reason == Reason.NOT_LEADER or failure is BROKEN:
            self._leader = next((sidecar for sidecar in self.world.sidecars if sidecar.name == leader), None)

    def request_id(self) -> str:
        """Returns a new request id."""
        return uuid.UUID(int=self.chance.getrandbits(128), version=4).hex

    async def read(self, key: Key, at_least: str = "", *, sidecar: Sidecar | None = None, final: bool = False) -> Read:
        """Reads a document and records the answer."""
        world = self.world
        sidecar = sidecar or self.pick()
        invoked = world.now()
        read = Read(client=self.name, sidecar=sidecar.name, invoked=invoked, answered=invoked, key=key, at_least=at_least, final=final)
        try:
            version, document = await sidecar.read(key, at_least)
            read = replace(read, version=version, document=document)
        except Refused as refused:
            self.heed(refused.failure, refused.leader)
            read = replace(read, failure=refused.failure)
            world.counts[f"reads {refused.failure.reason}"] += 1
        read = replace(read, answered=world.now())
        world.history.reads.append(read)
        return read

    async def send(self, wish: Wish) -> Answer | Failure | None:
        """Sends a request once. Returns None if no answer came in time, or if the connection broke."""
        world, chance = self.world, self.chance
        sidecar = self.pick()
        attempt = wish.record(self.name, sidecar.name, world.now())
        index = len(world.history.updates)
        world.history.updates.append(attempt)
        patience = chance.choice((0.004, 0.05)) if chance.random() < 0.08 else 30.0
        answer: Answer | Failure | None
        try:
            async with asyncio.timeout(patience):
                answer = await self._call(sidecar, wish)
        except Refused as refused:
            self.heed(refused.failure, refused.leader)
            answer = None if refused.failure is BROKEN else refused.failure
        except TimeoutError:
            self._leader = None
            answer = None
            world.counts["attempts given up by their client"] += 1
        world.history.updates[index] = replace(attempt, answer=answer, answered=NEVER if answer is None else world.now())
        self._count(answer)
        return answer

    async def _call(self, sidecar: Sidecar, wish: Wish) -> Answer:
        if wish.draft.edit.delete:
            return answer_of(await sidecar.change(wish.delete()))
        return answer_of(await sidecar.change(wish.update()))

    def _count(self, answer: Answer | Failure | None) -> None:
        counts = self.world.counts
        if answer is None:
            counts["attempts without an answer"] += 1
        elif isinstance(answer, Failure):
            counts[f"attempts {answer.reason}"] += 1
        else:
            counts["attempts replayed" if answer.replayed else f"attempts {answer.outcome.name}"] += 1

    async def insist(self, wish: Wish, *, first: Sidecar | None = None) -> Answer | Failure | None:
        """Sends a request, to ``first`` before all others, until it is answered or refused for certain, or until this client gives up."""
        self._leader = first or self._leader
        for _ in range(_ATTEMPTS):
            answer = await self.send(wish)
            if isinstance(answer, Answer) or (isinstance(answer, Failure) and answer.certain and answer.reason != "NOT_APPENDED"):
                if isinstance(answer, Answer) and self.chance.random() < 0.05:
                    await self.send(wish)  # a needless repeat
                return answer
            if self.chance.random() < 0.1 and not self.world.healed:
                return None
            if not (isinstance(answer, Failure) and answer.reason == Reason.NOT_LEADER and self._leader is not None):
                await self.world.pause(0.1)
        return None


class Writer(Client):
    """Changes documents, one request after the other."""

    async def run(self, updates: int) -> None:
        """Makes this many changes."""
        for _ in range(updates):
            await self.world.pause()
            running = [sidecar for sidecar in self.world.sidecars if sidecar.running]
            if len(running) > 1 and self.world.profile.restating > self.chance.random():
                await self._restate(*self.chance.sample(running, 2))
            else:
                await self.insist(await self._wish())

    async def _restate(self, one: Sidecar, other: Sidecar) -> None:
        """Changes a setting through one sidecar and then sets it, through another one, to what the other shows: mostly the old value."""
        world, chance = self.world, self.chance
        key, draft = chance.choice(world.keys), world.traffic.scalar()
        await self.insist(Wish(key, draft, self.request_id()), first=one)
        read = await self.read(key, sidecar=other)
        shown = world.traffic.restatement(draft.mask[0], read.document)
        dry = chance.random() < 0.1
        world.counts["updates that set what was shown"] += 1
        await self.insist(Wish(key, shown, self.request_id(), skip_if_absent=chance.random() < 0.2, validate_only=dry), first=other)
        self._leader = None

    async def _wish(self) -> Wish:
        chance, world = self.chance, self.world
        key = chance.choice(world.keys)
        draft = world.traffic.draft()
        wish = Wish(key, draft, self.request_id(), skip_if_absent=not draft.edit.delete and chance.random() < 0.08)
        drawn = chance.random()
        if drawn < 0.15:
            read = await self.read(key)
            if read.failure is None:
                return replace(wish, demanded=read.version)
        elif drawn < 0.18:
            return replace(wish, demanded=chance.choice((ABSENT, "11", "1a")))
        elif drawn < 0.2 and not draft.edit.delete:
            return replace(wish, must_be_absent=True, skip_if_absent=False)
        elif drawn < 0.23 and not draft.edit.delete:
            return replace(wish, validate_only=True)
        return wish


class Reader(Client):
    """Reads documents, often at least at a version that some writer was answered."""

    async def run(self, reads: int) -> None:
        """Makes this many reads."""
        world, chance = self.world, self.chance
        for _ in range(reads):
            await world.pause()
            key, at_least = chance.choice(world.keys), ""
            heard = [each for each in world.history.updates if isinstance(each.answer, Answer) and each.answer.version > ABSENT]
            if heard and chance.random() < 0.6:
                update = chance.choice(heard[-6:])
                assert isinstance(update.answer, Answer)
                key, at_least = update.key, update.answer.version
                world.counts["reads at least a version"] += 1
            await self.read(key, at_least)


def answer_of(response: service_pb2.ChangeResult) -> Answer:
    """Returns the answer to a change as it is recorded."""
    document = flat(response.document.policies) if response.document.HasField("policies") else None
    assert response.document.version in ("", response.version)
    return Answer(Outcome(response.outcome), response.version, response.previous_version, document, response.replayed)


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
            answer = failure_of(_STATUSES[result.error.code], result.error.details)
            self.heed(answer, leader_in(result.error.details))
        else:
            answer = answer_of(result.success)
        updates[index] = replace(attempt, answered=self.world.now(), answer=answer)
        self._count(updates[index].answer)

    def _wish(self, keys: list[Key]) -> Wish:
        draft = self.world.traffic.draft()
        skip = not draft.edit.delete and self.chance.random() < 0.05
        return Wish(self.chance.choice(keys), draft, self.request_id(), skip_if_absent=skip)


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
        answer = answer_of(await sidecar.change(wish.update()))
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

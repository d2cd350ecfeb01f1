"""Brokers as writers and readers of a namespace's log: they read it with a delay, show the last document, and write whole documents.

There are two kinds. Brokers of 4.2.4 chain the updates of a topic: each is computed from the document that the broker shows once it has
read the update before. Brokers of 4.0.0 compute every update from what their cache holds at that time (docs/writers.md). A broker of an
older schema leaves out of its documents what it does not know.

A broker before 4.1 also changes the document in its cache in place: until it reads an event, which puts another document there, all calls
change the same one. So an event can have the changes of calls whose own events come after it.
"""

from __future__ import annotations

import asyncio
import random

from tests.memory_log import Channel
from tests.validators.records import Foreign, Key, Read
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.fold.inference import compares
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.documents import Document
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.logs.change_log import LogError

from .traffic import Draft, message_of
from .world import NAMESPACE, World, document_of, policy_key, record_key

_LATE, _COMPUTING = 0.4, 0.03
"""The longest times, in seconds, until a broker has read an entry, and until it has written what it computed."""
MOST_BEHIND = _LATE + _COMPUTING
"""How long after an event, in seconds, a broker may still write a document that it computed from the one before."""
_NEWER = "compaction_threshold"
"""The setting that a broker of an older schema does not know."""
OLDER = frozenset(TopicPolicies.DESCRIPTOR.fields_by_name) - {_NEWER}
"""The fields of the older schema."""


class Broker:
    """One broker and the administrators that call it."""

    def __init__(self, world: World, name: str, chance: random.Random, *, chained: bool, known: frozenset[str] | None = None) -> None:
        """``known``: the fields of its schema; None: all."""
        self.name = name
        self._known = known
        self._world = world
        self._chance = chance
        self._chained = chained
        self._cache: dict[Key, dict[str, bytes]] = {}
        self._read_up_to: dict[int, str] = {}
        self._progress = asyncio.Condition()
        self._turns: dict[tuple[Key, str], asyncio.Lock] = {}
        """By key, or by setting where each is changed by one administrator at a time."""
        loop = asyncio.get_running_loop()
        self._lines = [Channel[Placed](loop, self._read) for _ in range(world.profile.partitions)]
        world.stored.followers.append(self)

    async def run(self, updates: int) -> None:
        """Makes this many changes as administrators, several at once."""
        async with asyncio.TaskGroup() as group:
            for _ in range(updates):
                await self._world.pause()
                group.create_task(self.ask(self._chance.choice(self._world.keys), self._world.traffic.setting()))

    def final(self) -> None:
        """Records the documents that the broker shows at the end."""
        now = self._world.now()
        for key in self._world.keys:
            document = document_of(self._cache.get(key))
            read = Read(client=self.name, sidecar=self.name, invoked=now, answered=now, key=key, document=document, final=True)
            self._world.history.raw.append(read)

    async def ask(self, key: Key, draft: Draft) -> None:
        """Makes one change as an administrator."""
        if self._world.profile.in_place:
            await self._change_in_place(key, draft)
            return
        if not self._chained:
            await self._write(key, draft)
            return
        async with self._turns.setdefault((key, ""), asyncio.Lock()):
            written = await self._write(key, draft)
            if written is not None:
                async with self._progress:
                    await self._progress.wait_for(lambda: self._read_up_to.get(written.partition, "") >= written.position)

    async def _change_in_place(self, key: Key, draft: Draft) -> None:
        """Sets a setting in the cached document, and writes the document as it is a little later. One call of a setting at a time."""
        setting = next(iter(draft.mask), "")
        async with self._turns.setdefault((key, setting), asyncio.Lock()):
            if draft.edit.delete:
                return
            cached = self._cache.get(key, {})  # without a document each call makes one of its own
            cached.update(documents.split(message_of(draft.edit.sets)))
            self._world.calls.append((key, draft.edit))
            await asyncio.sleep(self._chance.uniform(0, 0.003))
            event = Event(policy_key(key), Action.UPDATE, dict(cached))
            await asyncio.sleep(self._chance.uniform(0, 0.003))
            self._world.storage.write(NAMESPACE, event, producer=self.name)
            self._world.counts["broker writes behind the log"] += self._cache.get(key) is cached

    async def _write(self, key: Key, draft: Draft) -> Placed | None:
        """Reads, modifies, and writes; another writer may have written meanwhile."""
        before = self._cache.get(key)
        if (draft.edit.delete and before is None) or (self._known is not None and _NEWER in draft.edit.sets):
            return None
        event = Event(policy_key(key), Action.UPDATE, self._after(before, draft), known=self._known)
        seen = self._read_up_to.get(self._world.history.partitions[key], "")
        await asyncio.sleep(self._chance.uniform(0.001, 0.01 if self._chained else _COMPUTING))
        world = self._world
        last = world.stored.entries[world.history.partitions[key]][-1:]
        placed = world.storage.write(NAMESPACE, event, producer=self.name)
        world.history.foreign.append(Foreign(key, placed.position, draft.edit, seen))
        world.counts["broker writes"] += 1
        world.counts["documents without what an older schema lacks"] += self._known is not None and _NEWER in (before or {})
        if last and last[0].position > self._read_up_to.get(placed.partition, ""):
            world.counts["broker writes behind the log"] += 1
        return placed

    def _after(self, before: Document | None, draft: Draft) -> Document | None:
        if draft.edit.delete:
            return None
        kept = {name: value for name, value in (before or {}).items() if compares(name, self._known)}
        return {**kept, **documents.split(message_of(draft.edit.sets))}

    # --- a follower of the storage ---------------------------------------------------------------------------------

    def show(self, placed: Placed) -> None:
        """Takes an entry, to read it later: a broker looks for new entries every ten milliseconds, and is sometimes late."""
        late = not self._world.healed and self._chance.random() < self._world.profile.late
        self._lines[placed.partition].push(placed, self._chance.uniform(0.0, _LATE if late else 0.012))

    def lose(self, error: LogError) -> None:
        """Does nothing: the broker has a connection of its own."""

    def _read(self, entries: list[Placed]) -> None:
        for placed in entries:
            event = placed.event
            self._read_up_to[placed.partition] = placed.position
            if event is None or event.action is Action.NONE:
                continue
            key = record_key(event.key)
            if event.document is None or event.action is Action.DELETE:
                self._cache.pop(key, None)
            elif event.action is not Action.INSERT or key not in self._cache:
                self._cache[key] = dict(event.document)
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self._progress:
            self._progress.notify_all()

"""Compaction at a bad time, and when it would be too bad."""

from __future__ import annotations

import asyncio
import random

from tests.memory_log import Sent
from tests.memory_log.ledgers import LedgeredNamespace
from tests.validators.records import Answer
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Placed

from .world import NAMESPACE, WINDOW_MS, World, record_key

_MOST_UNTOLD = 0.4
"""Seconds for which it is not told how far a compaction went: less than the Pulsar log waits."""
_KEPT = (None, 200, 2_000)
"""Milliseconds; what is younger is kept by a compaction. None: nothing is."""


class Compaction:
    """Has the log forget what is superseded."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance

    async def strike(self, *, wholly: bool = False) -> None:
        """Compacts the log, ``wholly`` or but for what is young, unless that would break what is promised only without it.

        A repeat that comes after its request was forgotten is among the limits that are stated to users. The others depend on who is there.
        """
        keep = None if wholly else self._chance.choice(_KEPT)
        untimely = self._world.journal.repair_due
        bad = self._nobody_would_know() if self._world.profile.delayed else self._nobody_could_repair(keep, untimely=untimely)
        if not (bad or self._divides() or self._repeats_to_come() or self._comes_again()):
            self._compact(keep)
            if untimely:
                self._world.counts["untimely compactions"] += 1
                if not self._world.profile.delayed:
                    await asyncio.sleep(2 * WINDOW_MS / 1000)  # those who know better live that long

    def would_erase(self) -> bool:
        """Whether a compaction would leave nothing of a key."""
        return any(placed.event is not None and placed.event.document is None for placed in self._newest().values())

    def _nobody_would_know(self) -> bool:
        """Whether the one who has seen everything and lives all along has not seen everything at the moment."""
        return self._world.survivor is not None and not self._world.survivor.ready

    def _nobody_could_repair(self, keep: int | None, *, untimely: bool) -> bool:
        """Whether nobody might be there who could repair what is left.

        All sidecars dead before a repair, and the log compacted meanwhile, that is among the limits that are stated to users too. And
        nowhere between an event that made a repair due and one that, by luck, made it needless: whoever begins there has nobody to put him
        right.
        """
        world = self._world
        alone = world.profile.sole_writer or world.profile.exclusive  # then only what was sent twice is repaired, and one can do it
        alone = alone or world.profile.ledgers  # all of them may be behind, and begin anew
        if untimely and (alone or keep is not None or self._chance.random() < 0.6):
            return True
        if keep is not None and not world.profile.sole_writer and world.journal.repair_was_due(world.loop.milliseconds() - keep):
            return True
        return not any(sidecar.ready for sidecar in world.sidecars)

    def _repeats_to_come(self) -> bool:
        """Whether a request would be forgotten that may yet be repeated: a broker's event is the newest of its key, or a tombstone.

        A tombstone takes its requests along from everybody where there is one sidecar. Of several some would know them and some would not.
        """
        world = self._world
        events = [placed.event for _, placed in world.journal.entries if placed.event is not None]
        newest = {event.key: event for event in events}
        divided = world.profile.forgets_deletions and (len(world.sidecars) > 1 or world.profile.delayed)
        silent = {record_key(key) for key, event in newest.items() if event.stamp is None or (divided and event.document is None)}
        settled = {(update.key, update.request_id) for update in world.history.updates if isinstance(update.answer, Answer)}
        made = {(head.key, head.request_id) for head in world.journal.heads if head.request_id and head.key in silent}
        return not made <= settled | world.once

    def _divides(self) -> bool:
        """Whether it would erase what a trimmed ledger had, though an event of the same key was written without having seen it.

        The ledger may have been trimmed before that event was there: what is left of it divides them no less (``_tell_and_trim``).
        """
        stored = self._world.stored
        divides = isinstance(stored, LedgeredNamespace) and stored.tells_what_was_divided()
        self._world.counts["compactions put off because something overlaps"] += divides
        return divides

    def _comes_again(self) -> bool:
        """Whether an event that is in the log already is on its way once more, because its acknowledgement was lost.

        Where its key is forgotten meanwhile it is taken for a change by whoever starts then: another limit that is stated to users.
        """
        world = self._world
        stored = {placed.event.stamp.event_id for _, placed in world.journal.entries if placed.event is not None and placed.event.stamp}
        open_ones = (sidecar.log.opened(NAMESPACE) for sidecar in world.everybody if sidecar.running and sidecar.log.has_open(NAMESPACE))
        under_way = (message for log in open_ones for channel in log.appends for message in channel.waiting if isinstance(message, Sent))
        again = any(sent.event.stamp is not None and sent.event.stamp.event_id in stored for sent in under_way)
        world.counts["compactions put off for an event on its way again"] += again
        return again

    def _compact(self, keep: int | None) -> None:
        world = self._world
        before, entries = self._newest(), sum(map(len, world.stored.entries))
        world.storage.compact(NAMESPACE, keep_younger_than=keep, deletions_kept=not world.profile.forgets_deletions)
        if isinstance(world.stored, LedgeredNamespace):
            self._tell_and_trim(world.stored)
        gone = entries - sum(map(len, world.stored.entries))
        world.counts["compactions"] += gone > 0
        world.history.compactions.append(world.now())
        self._note_what_is_forgotten(before)
        world.note("log", f"is compacted: {gone} of {entries} entries go")
        world.note_orphans()

    def _tell_and_trim(self, stored: LedgeredNamespace) -> None:
        """How far a compaction went is told a while after it counts, and some of the ledgers that it made needless go.

        Not between two events of a key of which the later one's writer had not seen the earlier one: who starts there may take something
        else for the head until somebody who has seen more has spoken. That is among the limits that are stated to users.
        """
        loop, counts = asyncio.get_running_loop(), self._world.counts

        def trim() -> None:
            divides = stored.divides_what_overlaps()
            counts["trims put off because something overlaps"] += divides
            counts["ledgers trimmed"] += not divides and stored.trim() > 0

        loop.call_later(self._chance.uniform(0, _MOST_UNTOLD), stored.tell)
        if self._chance.random() < 0.5:
            loop.call_later(self._chance.uniform(0, 1.0), trim)

    def _newest(self) -> dict[PolicyKey, Placed]:
        """What the log tells last of each key."""
        stored = self._world.stored.entries
        return {placed.event.key: placed for entries in stored for placed in entries if placed.event is not None}

    def _note_what_is_forgotten(self, before: dict[PolicyKey, Placed]) -> None:
        """``before``: what the log told last of each key before it was compacted."""
        world, history = self._world, self._world.history
        after = self._newest()
        for key, placed in before.items():
            if key not in after:
                history.erased.append((world.now(), record_key(key)))
                world.journal.erased(key, placed)
                world.counts["deleted keys that a compaction erased"] += 1
        remembering = {
            placed.event.key
            for entries in world.stored.entries
            for placed in entries
            if placed.event is not None and placed.event.stamp is not None
        }
        history.forgotten += [(world.now(), record_key(key)) for key in after if key not in remembering]

"""Compaction at a bad time, except where it would exceed a limit that is documented for users."""

from __future__ import annotations

import asyncio
import random

from tests.memory_log import Sent
from tests.memory_log.ledgers import LedgeredNamespace
from tests.validators.records import Answer
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Placed

from .broker import MOST_BEHIND
from .world import NAMESPACE, WINDOW_MS, World, record_key

_MOST_UNTOLD = 0.4
"""The longest time, in seconds, until readers can learn how far a compaction went: less than the Pulsar log waits."""
_KEPT = (None, 200, 2_000)
"""Ages in milliseconds: a compaction keeps younger events. None: it keeps none of the superseded ones."""


class Compaction:
    """Compacts the log."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance

    async def strike(self, *, wholly: bool = False) -> None:
        """Compacts the log, ``wholly`` or except for young events, unless a documented limit of the promises would be exceeded.

        One of these limits is a repeat after its request was forgotten. The others depend on the sidecars that run: those that have read
        what was erased run at least until no broker computes from it any more.
        """
        keep = None if wholly else self._chance.choice(_KEPT)
        untimely = self._world.journal.repair_due
        bad = self._is_survivor_behind() if self._world.profile.delayed else self._might_be_beyond_repair(keep, untimely=untimely)
        if not (bad or self._divides() or self._repeats_to_come() or self._is_sent_again()):
            self._compact(keep)
            profile = self._world.profile
            self._world.counts["untimely compactions"] += untimely
            if untimely and not profile.delayed:
                await asyncio.sleep(2 * WINDOW_MS / 1000)  # the sidecars that have seen more run at least that long
            elif profile.brokers and not profile.delayed:
                await asyncio.sleep(MOST_BEHIND)

    def would_erase(self) -> bool:
        """Whether a compaction would erase all events of a key."""
        return any(placed.event is not None and placed.event.document is None for placed in self._newest().values())

    def _is_survivor_behind(self) -> bool:
        """Whether the survivor, which otherwise has seen all events, has not loaded its namespace at the moment."""
        return self._world.survivor is not None and not self._world.survivor.ready

    def _might_be_beyond_repair(self, keep: int | None, *, untimely: bool) -> bool:
        """Whether there might be no sidecar that could repair what the compaction leaves.

        If all sidecars end before a repair and the log is compacted meanwhile, a documented limit is exceeded. Nor must a compaction end
        between an event that made a repair due and one that happened to make it needless: no repair corrects a sidecar that begins to
        read there.
        """
        world = self._world
        alone = world.profile.sole_writer or world.profile.exclusive  # then one sidecar can repair, and only doubled events
        alone = alone or world.profile.ledgers  # all of them may be behind, and open the log again
        if untimely and (alone or keep is not None or self._chance.random() < 0.6):
            return True
        if keep is not None and not world.profile.sole_writer and world.journal.repair_was_due(world.loop.milliseconds() - keep):
            return True
        return not any(sidecar.ready for sidecar in world.sidecars)

    def _repeats_to_come(self) -> bool:
        """Whether a request may yet be repeated that would be forgotten, because the newest event of its key is a broker's or a tombstone.

        With one sidecar, the requests of an erased tombstone are forgotten altogether. Of several sidecars, some would still know them.
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
        """Whether it would erase an event of a trimmed ledger although the writer of a later event of the same key had not seen it.

        Even if the ledger was trimmed before that later event was written, the two events overlap (``_tell_and_trim``).
        """
        stored = self._world.stored
        divides = isinstance(stored, LedgeredNamespace) and stored.tells_what_was_divided()
        self._world.counts["compactions put off because something overlaps"] += divides
        return divides

    def _is_sent_again(self) -> bool:
        """Whether an event that is in the log already is sent again, because its acknowledgement was lost.

        If its key is forgotten meanwhile, a sidecar that starts then takes the event for a change: another documented limit.
        """
        world = self._world
        stored = {placed.event.stamp.event_id for _, placed in world.journal.entries if placed.event is not None and placed.event.stamp}
        open_ones = (sidecar.log.opened(NAMESPACE) for sidecar in world.all_sidecars if sidecar.running and sidecar.log.has_open(NAMESPACE))
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
        """Lets readers learn of a compaction some time after it took effect, and trims some of the ledgers that it made needless.

        Does not trim between two events of a key if the writer of the later one had not seen the earlier one: a sidecar that starts there
        may take a wrong head until one that has seen more writes. That is a documented limit too. Nor does it trim a deletion of which
        nothing else tells, while such a later event may yet come.
        """
        loop, counts = asyncio.get_running_loop(), self._world.counts

        def trim() -> None:
            divides = stored.divides_what_overlaps() or self._is_deletion_to_be_read(stored)
            counts["trims put off because something overlaps"] += divides
            counts["ledgers trimmed"] += not divides and stored.trim() > 0

        loop.call_later(self._chance.uniform(0, _MOST_UNTOLD), stored.tell)
        if self._chance.random() < 0.5:
            loop.call_later(self._chance.uniform(0, 1.0), trim)

    def _is_deletion_to_be_read(self, stored: LedgeredNamespace) -> bool:
        """Whether a trim would leave nothing of a deletion although a sidecar may yet write an event without knowledge of it."""
        forgotten = stored.forgotten_by_trimming()
        return any(forgotten) and any(each.may_write_what_is_older(NAMESPACE, forgotten) for each in self._world.all_sidecars)

    def _newest(self) -> dict[PolicyKey, Placed]:
        """Returns the newest event of each key in the log."""
        stored = self._world.stored.entries
        return {placed.event.key: placed for entries in stored for placed in entries if placed.event is not None}

    def _note_what_is_forgotten(self, before: dict[PolicyKey, Placed]) -> None:
        """``before``: the newest event of each key before the compaction."""
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

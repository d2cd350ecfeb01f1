"""Whether a reader has missed something, because it was compacted away before it came by, or because nobody handed it over.

Readers read compacted, because most of a log is gone otherwise. So what they see depends on when the broker compacts: a compaction that
overtakes a reader (one that was disconnected, or slow, or is still at the beginning) takes events out of the sequence that the reader
sees, and a fold that misses one event of a key may undo somebody's change for good. Entries are numbered densely, so whatever is missing
leaves a gap, of which the broker is asked two things. Each compaction makes a new compacted ledger: where that is another than the known
one, the gap may be its work. And what is compacted away still stands in the ledgers for a while, as does what the library or the broker
failed to hand over: it is read there (``recall``), and nothing was missed. Where that can't be had, and there is a message in the gap, it
was missed. (What the library can't decode it never hands over: a message that stays away when the log has been opened anew is unreadable,
and reading goes on behind it.) Else the gap is innocent: the end of a ledger, or a marker of the broker's own. A log of which something
was missed has to be opened anew; then the compacted events are its beginning.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ....core.policies.events import Position
from ....core.reasons import Reason
from ...change_log import LogError
from ..admin.topics import Compaction
from ..ids import NOWHERE, MessageId, border_of

_log = logging.getLogger(__name__)

_SETTLING_SECONDS = 0.5
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_UNREADABLE = 64
"""With so many messages in a gap that nobody hands over, the log is not read on without them."""
_T = TypeVar("_T")


class Continuity:
    """What is known of one partition's compaction.

    Attributes:
        whole: up to where nothing was missed, but for what was compacted before the opening.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Compaction]],
        skipped: Callable[[MessageId, MessageId], Awaitable[MessageId | None]],
        known: Compaction,
        not_handed_over: set[MessageId] | None = None,
    ) -> None:
        """Both ask the broker, and may raise ``LogError``.

        Args:
            ask: for its compaction.
            skipped: for a message between two entries.
            known: what it said of its compaction at the opening, before anything was read.
            not_handed_over: messages that this process was not given when it opened the log before; new ones are added.
        """
        self.whole = known.horizon or NOWHERE
        self._ask = ask
        self._skipped = skipped
        self._opening = self._known = known
        self._not_handed_over = set() if not_handed_over is None else not_handed_over

    async def begin(self, end: MessageId, *, whole: bool = False) -> None:
        """The beginning, which ends with this entry, has been read, as far as there is something to read.

        Args:
            end: its last entry.
            whole: whether what was compacted away meanwhile was read all the same, if ``self.whole`` has come to the end.

        Raises:
            LogError: it was compacted meanwhile (``LOG_COMPACTED``).
        """
        read = whole and self._opening.horizon is not None and self.whole >= end
        if not read and await _answer(self._ask) != self._opening:
            raise _missed(end)
        self.whole = max(self.whole, end)

    @property
    def complete_after(self) -> Position | None:
        """Behind which position nothing is compacted away, if the beginning can be read at all; None: it is not known.

        As long as nothing was compacted, the broker's own cursor keeps everything, where it has one.
        """
        if self._opening.horizon is None:
            return None
        return "" if self._opening.ledger == -1 else border_of(self._opening.horizon)

    def goes_on(self, place: MessageId) -> bool:
        """Whether an entry directly follows what was read, or was compacted before: nothing can have been missed."""
        whole = self.whole
        return place <= whole or whole is NOWHERE or (place.ledger == whole.ledger and place.entry <= whole.entry + 1)

    def handed_over(self, place: MessageId) -> None:
        """A message came: that it once did not counts for nothing any more."""
        self._not_handed_over.discard(place)

    async def bridge(self, place: MessageId) -> list[MessageId]:
        """Makes sure of the gap before an entry.

        Returns:
            The messages in it that nobody can read: they were not handed over for the second time, although the log was opened anew.

        Raises:
            LogError: something in it may have been compacted away (``LOG_COMPACTED``), or was not handed over (``LOG_SKIPPED``).
        """
        skipped = await self._messages_before(place)  # first, since ledgers go when they are compacted
        compaction = await _answer(self._ask)
        if compaction.ledger != self._known.ledger:
            compaction = await self._settled(compaction)
            if compaction.horizon is None or compaction.horizon > self.whole:
                raise _missed(place)
            self._known = compaction
        if not self._not_handed_over.issuperset(skipped):
            self._not_handed_over.update(skipped)
            raise _not_handed_over(skipped[0])
        return skipped

    async def _messages_before(self, place: MessageId) -> list[MessageId]:
        found: list[MessageId] = []
        while len(found) < _UNREADABLE:
            skipped = await _answer(functools.partial(self._skipped, found[-1] if found else self.whole, place))
            if skipped is None:
                return found
            found.append(skipped)
        raise _not_handed_over(found[0])

    async def keep_up(self) -> None:
        """Learns of compactions that took away only what was read; the fewer are unknown, the more gaps are innocent.

        Raises:
            LogError: there is no answer.
        """
        whole = self.whole
        if self._known.horizon is not None and self._known.horizon >= whole:
            return  # all is compacted: there is nothing to compact before there is something to read
        compaction = await self._ask()
        if compaction.ledger != self._known.ledger:
            compaction = await self._settled(compaction)
            if compaction.horizon is not None and compaction.horizon <= whole:
                self._known = compaction

    async def _settled(self, compaction: Compaction) -> Compaction:
        """How far a compaction went is told a moment after it counts."""
        while True:
            await asyncio.sleep(_SETTLING_SECONDS)
            again = await _answer(self._ask)
            if again.ledger == compaction.ledger:
                return again
            compaction = again


async def _answer(ask: Callable[[], Awaitable[_T]]) -> _T:
    """The broker's answer, which reading has to wait for."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await ask()
        except LogError as error:
            _log.warning("Reading a change log waits to hear whether something is missing: %s", error.message)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _missed(place: MessageId) -> LogError:
    return LogError(
        Reason.LOG_COMPACTED,
        f"The change log was compacted while it was read, up to {place.ledger}:{place.entry}; it has to be opened anew.",
    )


def _not_handed_over(place: MessageId) -> LogError:
    return LogError(
        Reason.LOG_SKIPPED, f"The entry {place.ledger}:{place.entry} of the change log was not handed over; the log has to be opened anew."
    )

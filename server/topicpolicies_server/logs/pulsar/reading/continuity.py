"""Decides whether a reader missed an entry, because compaction erased it first or because the library did not hand it over.

Readers read compacted, because most of a log is gone otherwise. So what they see depends on when the broker compacts. A compaction that
overtakes a reader (one that was disconnected, or slow, or is still replaying the beginning) removes events from the sequence that the
reader sees. A fold that misses one event of a key may undo another writer's change for good; and of a deleted key, compaction leaves
nothing at all. Entries of a ledger are numbered densely, so a missing entry leaves a gap. Each gap is cleared up before the entry after it
is delivered:

==========  =====================  =====================================================  ============================================
state       what is requested      event                                                  what follows
==========  =====================  =====================================================  ============================================
WHOLE       nothing                an entry that directly follows                         deliver it
                                   an entry after a gap                                   COMPACTION
                                   the first entry after the opening's horizon            COMPACTION
                                   the end of the log, after what was delivered           COMPACTION
COMPACTION  how far the topic is   the compacted ledger that is known                     GAP; if there is no gap: WHOLE
            compacted              another one                                            SETTLING
SETTLING    the same, after a      a ledger other than the last answer's                  SETTLING
            while                  the same; its horizon was delivered                    GAP; if there is no gap: WHOLE
                                   the same; its horizon was not delivered                ERASED
ERASED      the entries up to the  some entries                                           deliver them; ERASED up to the horizon
            horizon                none are left                                          GAP; if there is no gap: WHOLE
                                   they can't be had                                      GAP; if there is no gap: WHOLE
GAP         the entries in it      some entries                                           deliver them; GAP; none left: WHOLE
                                   none                                                   WHOLE
                                   they can't be had; the horizon was not delivered       lost: ``LOG_COMPACTED``
                                   they can't be had; only the opening's answer is known  SETTLING
                                   they can't be had                                      MESSAGES
MESSAGES    for messages in it     any number, or none                                    CONFIRMING
CONFIRMING  how far the topic is   another ledger                                         SETTLING
            compacted              the same; no message was found                         WHOLE
                                   the same; every message was missing once before        deliver them as unreadable; WHOLE
                                   the same; a message is missing for the first time      lost: ``LOG_SKIPPED``
                                   the same; ``UNREADABLE`` messages were found           lost: ``LOG_SKIPPED``
==========  =====================  =====================================================  ============================================

The *horizon* of a compaction is the last entry that it covered. What compaction erased still stands in the ledgers for a while, and so does
an entry that the library or the broker failed to hand over, so it is read from there (``uncompacted``). A gap without a message is
harmless: it is the end of a ledger, or a marker of the broker's own. A message that the library can't decode is never handed over: one that
is still missing after the log was opened again is unreadable.

A log of which something was missed has to be opened again; the replay then begins with the compacted events. A reader that went on without
the missing entries would see a newer event of each key, but not that a key was deleted: only the whole compacted beginning shows which keys
are left. Entries disappear for good with their ledger, which is trimmed once it is compacted and another one was begun: when it is full, at
the earliest after ten minutes (``managedLedgerMinLedgerRolloverTimeMinutes``), or when its broker stops. A reader that needs less than that
for the initial replay opens a log again at most once.

**A compaction during the initial replay.** Up to the opening's horizon the reader sees what a compaction left over: that one, or a later
one. A later one hides the keys of which an event stands after the opening's horizon: they appear where that event stands, and deleted keys
appear nowhere. So as soon as the reader passes the opening's horizon, the broker is asked how far the topic is compacted by now. Up to
there all entries are read from the ledgers as they were; nothing is read twice; and the history of their keys is known no further back
(``complete_after``), as if the log had been opened after that compaction. Compactions that end after the answer took nothing from what was
read before it.
"""

from __future__ import annotations

import enum
from collections.abc import MutableSet, Sequence
from typing import NamedTuple

from ....core.policies.events import Position
from ....core.reasons import Reason
from ...change_log import LogError
from ..admin.topics import Compaction
from ..ids import NOWHERE, MessageId, border_of

UNREADABLE = 64
"""With so many messages in one gap that are not handed over, the log is not read on without them."""


class State(enum.Enum):
    """What has to be found out next, as in the table above."""

    WHOLE = enum.auto()
    COMPACTION = enum.auto()
    SETTLING = enum.auto()
    ERASED = enum.auto()
    GAP = enum.auto()
    MESSAGES = enum.auto()
    CONFIRMING = enum.auto()


class Stretch(NamedTuple):
    """The entries between two places, both exclusive."""

    after: MessageId
    before: MessageId


class Continuity:
    """What is known of one partition's completeness, and what has to be requested next.

    Attributes:
        state: what has to be found out now.
        complete_upto: the place up to which nothing was missed, apart from what was compacted before the opening.
        moved_to: the new end of the initial replay: the horizon of a compaction that had happened by the time reading passed the opening's
            horizon; ``NOWHERE`` if there was none.
    """

    def __init__(
        self,
        opening: Compaction,
        not_handed_over: MutableSet[MessageId] | None = None,
        resumed_at: MessageId = NOWHERE,
        *,
        emptied: bool = False,
    ) -> None:
        """Nothing was read yet.

        Args:
            opening: how far the topic was compacted before anything was read, as the broker said.
            not_handed_over: messages that this process did not get at earlier openings; new ones are added, and those that are of no
                interest any more are removed.
            resumed_at: the place up to which everything was delivered before this opening, at or after the opening's horizon;
                ``NOWHERE`` if there is none.
            emptied: whether the partition lost events other than by compaction.
        """
        self.state = State.WHOLE
        self.complete_upto = max(opening.horizon or NOWHERE, resumed_at)
        self.moved_to = NOWHERE
        self._opening = self._known = self._told = opening
        self._emptied = emptied
        self._not_handed_over: MutableSet[MessageId] = set() if not_handed_over is None else not_handed_over
        for place in [place for place in self._not_handed_over if place <= self.complete_upto]:  # nothing is missed up to there
            self._not_handed_over.discard(place)
        self._doubtful = set(self._not_handed_over)
        """A copy of ``_not_handed_over``, which is faster to search: every entry that is delivered is looked up."""
        self._passed = opening.ledger == -1 or opening.horizon is None or resumed_at != NOWHERE
        """Whether reading has passed the opening's horizon. Before the first compaction nothing stands up to there."""
        self._unsettled = opening.ledger != -1
        """Whether the compaction that was reported at the opening may reach further than its horizon said then."""
        self._gap_end = NOWHERE
        """The entry before which the gap is being cleared up."""
        self._reported_end: MessageId | None = None
        """What ``complete_upto`` becomes when the gap is cleared up; None: it stays as it is."""
        self._erased_upto = NOWHERE
        """The place up to which entries may have been erased that were not delivered."""
        self._messages: Sequence[MessageId] = ()
        self.unreadable: Sequence[MessageId] = ()
        """The messages to be delivered as unreadable before the next entry; the reader that delivers them clears this."""

    @property
    def complete_after(self) -> Position | None:
        """The position after which nothing is compacted away, if the initial replay succeeds at all; None: it is not known.

        As long as nothing was compacted, the broker's own compaction cursor, where there is one, keeps all entries. The position moves
        once, if the log was compacted before reading passed the opening's horizon, and before anything after that is delivered.
        """
        # Later compactions need not move it. An entry after it was delivered, or is requested one by one, because entries are numbered
        # densely and an erased one leaves a gap: so the position stays true of what was read, and answers rest on nothing else.
        if self._opening.horizon is None:
            return None
        if self._opening.ledger == -1 and not self._emptied:
            return ""
        return border_of(max(self._opening.horizon, self.moved_to))

    @property
    def stretch(self) -> Stretch:
        """In ERASED, GAP and MESSAGES: the entries that are requested."""
        return Stretch(self.complete_upto, _behind(self._erased_upto) if self.state is State.ERASED else self._gap_end)

    @property
    def begun(self) -> bool:
        """Whether the initial replay is whole up to its end, which may have moved: something erased there may still be missing."""
        return self.complete_upto >= self.moved_to

    @property
    def wants_news(self) -> bool:
        """Whether to ask for new compactions from time to time; False while all that was read is compacted already."""
        return self._known.horizon is None or self._known.horizon < self.complete_upto

    def goes_on(self, place: MessageId) -> bool:
        """Whether nothing can have been missed before an entry: it follows the last one directly, or was compacted before the opening."""
        whole = self.complete_upto
        if place <= whole:
            return True
        return self._passed and (whole is NOWHERE or (place[0] == whole[0] and place[1] <= whole[1] + 1))

    def delivered(self, place: MessageId, *, readable: bool = True) -> None:
        """Notes that an entry was delivered. If it was readable, an earlier note that it was not handed over is removed."""
        self.complete_upto = max(self.complete_upto, place)
        if readable and self._doubtful and place in self._doubtful:
            self._doubtful.discard(place)
            self._not_handed_over.discard(place)

    def fresh(self, ledger: int) -> None:
        """Notes that nothing was ever written, and that the first entry goes to this ledger."""
        self.complete_upto = MessageId(ledger, -1)

    def come_to(self, place: MessageId) -> None:
        """Notes that an entry is about to be delivered."""
        self._gap_end, self._reported_end = place, None
        self.state = State.WHOLE if self.goes_on(place) else State.COMPACTION

    def ended(self, end: MessageId) -> None:
        """Notes that nothing more comes up to ``end``, and that nothing stands there unless it was missed."""
        self._gap_end, self._reported_end = _behind(max(end, self.complete_upto)), end
        if self.goes_on(self._gap_end) and self.complete_upto is not NOWHERE:
            self._done()
        else:
            self.state = State.COMPACTION

    def compacted(self, compaction: Compaction) -> None:
        """Takes the broker's answer on how far the topic is compacted by now.

        Raises:
            LogError: something may have been compacted away that can't be had (``LOG_COMPACTED``), or was not handed over
                (``LOG_SKIPPED``).
        """
        if self.complete_upto is NOWHERE:  # nothing else tells whether something was compacted meanwhile
            if compaction != self._opening:
                raise _missed(self._gap_end)
            self._done()
        elif self.state is State.SETTLING:
            if compaction.ledger != self._told.ledger:
                self._told = compaction
            else:
                self._settled(compaction)
        elif compaction.ledger != self._known.ledger or not (self._passed or compaction == self._opening):
            self._told, self.state = compaction, State.SETTLING
        elif self.state is State.CONFIRMING:
            self._conclude()
        else:
            self._passed = True
            self._look_into_gap()

    def recalled(self, some: bool) -> None:
        """Notes that the requested entries were delivered, or as many as fit in memory at once; ``some``: whether there were any."""
        if self.state is State.ERASED:
            if not some:
                self.complete_upto = max(self.complete_upto, self._erased_upto)
            if self.complete_upto >= self._erased_upto:
                self._look_into_gap()
        elif some:
            self._look_into_gap()
        else:
            self._done()

    def not_recalled(self) -> None:
        """Notes that the requested entries can't be had.

        Raises:
            LogError: some of them may have been compacted away (``LOG_COMPACTED``).
        """
        if self.state is State.ERASED:  # a marker may stand there, and perhaps nothing was erased around it
            self._look_into_gap()
        elif self.complete_upto < self._erased_upto:
            raise _missed(self._erased_upto)
        elif self._unsettled:
            self._told, self.state = self._known, State.SETTLING
        else:
            self.state = State.MESSAGES

    def messages(self, found: Sequence[MessageId]) -> None:
        """Takes the messages that stand in the gap, in order; the list stops at ``UNREADABLE``."""
        self._messages = found
        self.state = State.CONFIRMING  # compacted ledgers are deleted: nothing would have been found in those

    def learn(self, compaction: Compaction) -> None:
        """Takes a compaction that was reported twice, outside of any state. If it covers only what was read, later gaps are harmless."""
        if compaction.horizon is not None and compaction.horizon <= self.complete_upto:
            self._known = compaction

    def is_news(self, compaction: Compaction) -> bool:
        """Whether a compaction is another one than the newest that is known."""
        return compaction.ledger != self._known.ledger

    def _settled(self, compaction: Compaction) -> None:
        horizon = compaction.horizon
        if horizon is None:
            raise _missed(self._gap_end)
        self._known, self._unsettled = compaction, False
        if not self._passed or self.complete_upto == self._opening.horizon:  # nothing after that was delivered yet
            self._passed = True
            self.moved_to = horizon
        if horizon > self.complete_upto:
            self._erased_upto, self.state = horizon, State.ERASED
        else:
            self._look_into_gap()

    def _look_into_gap(self) -> None:
        if self.goes_on(self._gap_end):
            self._done()
        else:
            self.state = State.GAP

    def _conclude(self) -> None:
        if len(self._messages) >= UNREADABLE:
            raise _not_handed_over(self._messages[0])
        if not self._not_handed_over >= set(self._messages):
            self._not_handed_over |= set(self._messages)
            self._doubtful |= set(self._messages)
            raise _not_handed_over(self._messages[0])
        self.unreadable = self._messages
        self._done()

    def _done(self) -> None:
        self.state = State.WHOLE
        if self._reported_end is not None:
            self.complete_upto = max(self.complete_upto, self._reported_end)


def _behind(place: MessageId) -> MessageId:
    return MessageId(place.ledger, place.entry + 1)


def _missed(place: MessageId) -> LogError:
    return LogError(
        Reason.LOG_UNAVAILABLE,
        f"The change log was compacted while it was read, up to {place.ledger}:{place.entry}; it must be opened again.",
    )


def _not_handed_over(place: MessageId) -> LogError:
    return LogError(
        Reason.LOG_UNAVAILABLE, f"The entry {place.ledger}:{place.entry} of the change log was not delivered; the log must be opened again."
    )

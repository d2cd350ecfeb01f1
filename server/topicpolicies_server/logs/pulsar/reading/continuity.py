"""Whether a reader has missed something, because it was compacted away before it came by, or because nobody handed it over.

Readers read compacted, because most of a log is gone otherwise. So what they see depends on when the broker compacts: a compaction that
overtakes a reader (one that was disconnected, or slow, or is still at the beginning) takes events out of the sequence that the reader
sees, and a fold that misses one event of a key may undo somebody's change for good; a deletion leaves nothing at all. Entries are numbered
densely, so whatever is missing leaves a gap. It is made sure of before the entry behind it is delivered:

==========  =====================  =====================================================  ============================================
state       what is asked          what comes                                             what follows
==========  =====================  =====================================================  ============================================
WHOLE       nothing                an entry that goes on                                  deliver it
                                   an entry behind a gap                                  COMPACTION
                                   the first entry behind the opening's horizon           COMPACTION
                                   the end of the log, behind what was delivered          COMPACTION
COMPACTION  how far the topic is   the ledger that is known                               GAP; none: WHOLE
            compacted              another one                                            SETTLING
SETTLING    the same, after a      another one than before                                SETTLING
            while                  the same, and its horizon was delivered                GAP; none: WHOLE
                                   the same, and its horizon was not                      ERASED
ERASED      the entries up to the  some                                                   deliver them; ERASED up to the horizon
            horizon                none are left                                          GAP; none: WHOLE
                                   they can't be had                                      GAP; none: WHOLE
GAP         the entries in it      some                                                   deliver them; GAP; none left: WHOLE
                                   none                                                   WHOLE
                                   they can't be had, and the horizon was not delivered   lost: ``LOG_COMPACTED``
                                   they can't be had, and only the opening told of it     SETTLING
                                   they can't be had                                      MESSAGES
MESSAGES    for messages in it     any, or none                                           CONFIRMING
CONFIRMING  how far the topic is   another ledger                                         SETTLING
            compacted              the same; there are none                               WHOLE
                                   the same; all of them stayed away once before          deliver them as unreadable; WHOLE
                                   the same; there are others                             lost: ``LOG_SKIPPED``
==========  =====================  =====================================================  ============================================

What is compacted away still stands in the ledgers for a while, as does what the library or the broker failed to hand over, so it is read
there (``uncompacted``). A gap in which no message stands is innocent: the end of a ledger, or a marker of the broker's own. What the
library can't decode it never hands over: a message that stays away when the log has been opened anew is unreadable.

A log of which something was missed has to be opened anew; then the compacted events are its beginning. Whoever went on without what can't
be had any more would see a newer event of each key, but not that a key was deleted: a deletion leaves nothing, and only the whole compacted
beginning tells which keys are left. Entries go for good with their ledger, which is trimmed when it is
compacted and another one was begun: when it is full, at the earliest after ten minutes (``managedLedgerMinLedgerRolloverTimeMinutes``), or
when its broker ends. Whoever needs less than that to read the beginning opens a log anew once at the most.

**A compaction while the beginning is read.** Up to the opening's horizon the reader sees what compaction left over, of this compaction or
of a later one. Of a later one it does not see the keys that an event behind the opening's horizon concerns: they stand where that event
does, and a deleted one stands nowhere. So as soon as reading comes behind that horizon it is asked how far the topic is compacted by now:
up to there all entries are read as they were, nothing is read again, and the history of their keys is known no further back
(``complete_after``), as after an opening behind that compaction. An answer that comes later tells of nothing that was read before.
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
"""With so many messages in a gap that nobody hands over, the log is not read on without them."""


class State(enum.Enum):
    """What is to be made sure of."""

    WHOLE = enum.auto()
    COMPACTION = enum.auto()
    SETTLING = enum.auto()
    ERASED = enum.auto()
    GAP = enum.auto()
    MESSAGES = enum.auto()
    CONFIRMING = enum.auto()


class Stretch(NamedTuple):
    """What stands between two entries."""

    after: MessageId
    before: MessageId


class Continuity:
    """What is known of one partition, and what has to be asked next.

    Attributes:
        state: what is to be made sure of now.
        whole: up to where nothing was missed, but for what was compacted before the opening.
        moved_to: up to where the log was compacted meanwhile as reading came behind the opening's horizon, if it was; the beginning goes
            on to there.
    """

    def __init__(self, opening: Compaction, not_handed_over: MutableSet[MessageId] | None = None, stood: MessageId = NOWHERE) -> None:
        """Nothing was read yet.

        Args:
            opening: what the broker said of its compaction before anything was read.
            not_handed_over: messages that this process was not given when it opened the log before; new ones are added, and those that
                nobody looks for any more are removed.
            stood: up to where everything was delivered before; if anywhere, not before the opening's horizon.
        """
        self.state = State.WHOLE
        self.whole = max(opening.horizon or NOWHERE, stood)
        self.moved_to = NOWHERE
        self._opening = self._known = self._told = opening
        self._not_handed_over: MutableSet[MessageId] = set() if not_handed_over is None else not_handed_over
        for place in [place for place in self._not_handed_over if place <= self.whole]:  # nothing is missed up to there
            self._not_handed_over.discard(place)
        self._doubtful = set(self._not_handed_over)
        """The same, at hand: each entry that is delivered is looked for."""
        self._passed = opening.ledger == -1 or opening.horizon is None or stood != NOWHERE
        """Whether reading has come behind the opening's horizon. Before the first compaction nothing stands up to there."""
        self._unsettled = opening.ledger != -1
        """Whether the compaction that counted at the opening may go further than was told then."""
        self._before = NOWHERE
        """Before which entry it is made sure."""
        self._end: MessageId | None = None
        """What is whole when that is done; None: nothing more."""
        self._erased_upto = NOWHERE
        """Up to where something may have been erased that was not delivered."""
        self._messages: Sequence[MessageId] = ()
        self.unreadable: Sequence[MessageId] = ()
        """The messages that are to be delivered as unreadable before the entry; taken by whoever delivers."""

    @property
    def complete_after(self) -> Position | None:
        """Behind which position nothing is compacted away, if the beginning can be read at all; None: it is not known.

        As long as nothing was compacted, the broker's own cursor keeps everything, where it has one. The position moves on once, when
        reading comes behind the opening's horizon and the log was compacted meanwhile, before anything behind that is delivered.
        """
        # Later compactions need not move it. What stands behind it was delivered, or is asked for entry by entry, for entries are numbered
        # densely there and whatever is erased leaves a gap: so it stays true of what was read, and every answer is made of that.
        if self._opening.horizon is None:
            return None
        return "" if self._opening.ledger == -1 else border_of(max(self._opening.horizon, self.moved_to))

    @property
    def stretch(self) -> Stretch:
        """In ERASED, GAP and MESSAGES: what is asked for."""
        return Stretch(self.whole, _behind(self._erased_upto) if self.state is State.ERASED else self._before)

    @property
    def begun(self) -> bool:
        """Whether the beginning is whole, also where it moved on: what a compaction took there and nobody can have may yet be missing."""
        return self.whole >= self.moved_to

    @property
    def wants_news(self) -> bool:
        """Whether there may have been a compaction of which it is good to know; not if there is nothing to compact."""
        return self._known.horizon is None or self._known.horizon < self.whole

    def goes_on(self, place: MessageId) -> bool:
        """Whether an entry directly follows what was delivered, or was compacted before the opening: nothing can have been missed."""
        whole = self.whole
        if place <= whole:
            return True
        return self._passed and (whole is NOWHERE or (place[0] == whole[0] and place[1] <= whole[1] + 1))

    def delivered(self, place: MessageId, *, readable: bool = True) -> None:
        """An entry was delivered. That it once was not handed over counts for nothing any more, if it was now."""
        self.whole = max(self.whole, place)
        if readable and self._doubtful and place in self._doubtful:
            self._doubtful.discard(place)
            self._not_handed_over.discard(place)

    def fresh(self, ledger: int) -> None:
        """Nothing was ever written: the first entry goes to this ledger."""
        self.whole = MessageId(ledger, -1)

    def come_to(self, place: MessageId) -> None:
        """An entry is to be delivered."""
        self._before, self._end = place, None
        self.state = State.WHOLE if self.goes_on(place) else State.COMPACTION

    def ended(self, end: MessageId) -> None:
        """Nothing more comes up to an entry, and nothing else stands there but what was missed."""
        self._before, self._end = _behind(max(end, self.whole)), end
        if self.goes_on(self._before) and self.whole is not NOWHERE:
            self._done()
        else:
            self.state = State.COMPACTION

    def compacted(self, compaction: Compaction) -> None:
        """How far the topic is compacted by now.

        Raises:
            LogError: something may have been compacted away that can't be had (``LOG_COMPACTED``), or was not handed over
                (``LOG_SKIPPED``).
        """
        if self.whole is NOWHERE:  # nothing else tells whether something was compacted meanwhile
            if compaction != self._opening:
                raise _missed(self._before)
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
        """The entries that were asked for were delivered, or as many as can be had at once; ``some``: whether there were any."""
        if self.state is State.ERASED:
            if not some:
                self.whole = max(self.whole, self._erased_upto)
            if self.whole >= self._erased_upto:
                self._look_into_gap()
        elif some:
            self._look_into_gap()
        else:
            self._done()

    def not_recalled(self) -> None:
        """They can't be had.

        Raises:
            LogError: some of them may have been compacted away (``LOG_COMPACTED``).
        """
        if self.state is State.ERASED:  # a marker may stand there, and perhaps nothing was erased around it
            self._look_into_gap()
        elif self.whole < self._erased_upto:
            raise _missed(self._erased_upto)
        elif self._unsettled:
            self._told, self.state = self._known, State.SETTLING
        else:
            self.state = State.MESSAGES

    def messages(self, found: Sequence[MessageId]) -> None:
        """Which messages stand in the gap, in order; there may be more than ``UNREADABLE``."""
        self._messages = found
        self.state = State.CONFIRMING  # ledgers go when they are compacted: then nothing was found in them

    def learn(self, compaction: Compaction) -> None:
        """A compaction that nothing was asked about, told twice. If it took away only what was read, gaps behind it are innocent."""
        if compaction.horizon is not None and compaction.horizon <= self.whole:
            self._known = compaction

    def is_news(self, compaction: Compaction) -> bool:
        """Whether it is another compaction than the one that is known."""
        return compaction.ledger != self._known.ledger

    def _settled(self, compaction: Compaction) -> None:
        horizon = compaction.horizon
        if horizon is None:
            raise _missed(self._before)
        self._known, self._unsettled = compaction, False
        if not self._passed or self.whole == self._opening.horizon:  # nothing behind that was delivered yet
            self._passed = True
            self.moved_to = horizon
        if horizon > self.whole:
            self._erased_upto, self.state = horizon, State.ERASED
        else:
            self._look_into_gap()

    def _look_into_gap(self) -> None:
        if self.goes_on(self._before):
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
        if self._end is not None:
            self.whole = max(self.whole, self._end)


def _behind(place: MessageId) -> MessageId:
    return MessageId(place.ledger, place.entry + 1)


def _missed(place: MessageId) -> LogError:
    return LogError(
        Reason.LOG_COMPACTED,
        f"The change log was compacted while it was read, up to {place.ledger}:{place.entry}; it has to be opened anew.",
    )


def _not_handed_over(place: MessageId) -> LogError:
    return LogError(
        Reason.LOG_SKIPPED, f"The entry {place.ledger}:{place.entry} of the change log was not handed over; the log has to be opened anew."
    )

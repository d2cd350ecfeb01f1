"""What a broker meant that changes the document in its cache in place, as those before PIP-428 do (4.0's ``AdminResource`` clones nothing).

Until such a broker reads an event, which puts another document into its cache, all its calls change the same one. So what it writes is
some raw document that it had read, with *all* the changes that calls have made to it since, not only the call's own: each of them has an
event of its own, before or after this one, and a document that was encoded early may come into the log late.

So the base is looked for that makes the likeliest story of the difference:

- a setting as a raw document *after* the base has it was **carried**: that change is in the head already;
- any other is **new**: this call's own change, or one whose event is still to come (which is then **owed**);
- a new one that is as a raw document shortly *before* the base had it would be a **return**: possible, but while documents overlap it is
  likelier that this document is older than it looks, much more so where it has another new change too (a call makes one);
- the longer ago the base was superseded, the likelier it is that brokers had read on;
- and something in the difference must be the call's own: a new setting, or a carried one whose event is owed.

A call that changes nothing (it removes what is unset, or sets what is set) writes the document that the broker has: a raw document *as it
was*. That is likelier than a return, if the broker can have had it. A broker has the changes of its own calls in its cache, and loses them
there only by reading, late, a document from before them. So it had not read that document yet when the next change was made: one that
stood for a while was read, and what restores it is a return. That says nothing where there was no document, as then each call makes one
of its own, nor where the next event was ours, as brokers learn of it only by reading. Of no document the time counts from the last
document that a broker made from none: with one setting in it where the one before had others, or with none.

And nobody sets back what he can't have seen: what the newest event changed, in a document that was published when it was, or before.

An example, in which two calls at one broker share its cached document:

=====  =======  ==============================  ==========  ==============================  ====  ======
place  at       a broker's document             changes     head                            owed  repair
=====  =======  ==============================  ==========  ==============================  ====  ======
1      0 ms     {ttl 1}                         ttl         {ttl 1}
2      100 ms   {ttl 1, rate 2, size 3}         rate, size  {ttl 1, rate 2, size 3}         1
3      105 ms   {ttl 1, rate 2}                 nothing     {ttl 1, rate 2, size 3}               due
4      125 ms   {ttl 1, rate 2, size 3, max 4}  max         {ttl 1, rate 2, size 3, max 4}
5      2125 ms  {ttl 1, rate 2, max 4}          size        {ttl 1, rate 2, max 4}
=====  =======  ==============================  ==========  ==============================  ====  ======

- 2 has two new settings, and a call makes one: the other is of a call whose event is still to come, so one is owed.
- 3 is that one's. Its document was encoded before the size was set, and came later. What it has anew against 1 was carried in 2, so it
  changes nothing; but brokers show it now, without the size, and a repair is due.
- 4 was computed from 2, which the broker had. It makes the raw document what the head is, and the repair is not needed any more.
- 5 comes two seconds later without the size. No broker has had a document like that for so long: the size was cleared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..policies.documents import Setting, Settings, differing
from .inference import Inference, compares
from .keystate import Superseded

DEPTH = 64
"""How many raw documents may be the base."""
OWED_MS = 5_000
"""How long an event is waited for whose change another has carried."""

_NEW, _RETURN, _RETURN_BESIDE, _CARRIED, _NOTHING_OWN, _AGAIN = 10, 15, 20, 1, 16, 6
"""How unlikely something is: each new change but one, each return, returns beside another new change, each carried change, nothing of the
call's own in the difference, a raw document as it was."""
_RETURN_AT_ONCE = 30
"""A return of what the newest event changed, in a document that was published when it was, or before."""
_STEP_MS, _LATE = 25, 40
"""Brokers mostly read on within some tens of milliseconds: how long makes an older base less likely by one, and the most (a second)."""
_NONE_MS, _OURS_MS = 25, 50
"""How long makes a raw document as it was less likely by one, if it was none, and if an event of ours came next."""
_AT_ONCE_MS = 2
"""Events that were published within this are of calls that were made at once: neither had been answered."""
_CLOSE = 12
"""Stories that differ by less than this are both likely: which one is true is in doubt."""


class _Raw(NamedTuple):
    document: Settings | None
    late: int
    """How unlikely it is that a broker still had it."""
    again: int
    """How unlikely it is that a broker had it, and wrote it as it was."""

    def has(self, name: Setting, value: bytes | None) -> bool:
        """Whether a setting has a value there; None: whether it is unset."""
        return (self.document or {}).get(name) == value


class _Story(NamedTuple):
    unlikely: int
    new: list[Setting]
    base: Settings | None
    odd: bool
    """Whether it is more than calls that overlap: something else may have happened."""


def infer_overlapping(
    document: Settings,
    newest: Superseded,
    older: Sequence[Superseded],
    head: Settings | None,
    known: frozenset[str] | None,
    since: int,
    owed: int,
) -> Inference:
    """The change that a broker's document makes.

    Args:
        document: what the broker wrote.
        newest: the newest raw document before it, which it supersedes.
        older: the raw documents before that, oldest first, each with the time at which it was superseded.
        head: the head, only to tell whether two explanations come to the same.
        known: the families that the writer's schema knows; None: all that ours knows.
        since: raw documents superseded before this time (milliseconds since 1970) are too old to be a base.
        owed: how many events are still to come whose changes others have carried.
    """
    best: _Story | None = None
    rival = False
    raws = [_Raw(newest.raw, 0, 0), *_recent(older, newest, since)]
    unseen = len(raws) > 1 and newest.at - older[-1].at <= _AT_ONCE_MS
    for story in _stories(document, raws, known, owed, unseen):
        if best is None:
            best = story
        elif story.unlikely < best.unlikely:
            rival = best.unlikely - story.unlikely < _CLOSE and not _alike(story, best, document, head)
            best = story
        elif story.unlikely - best.unlikely < _CLOSE:
            rival = rival or not _alike(story, best, document, head)
    assert best is not None, "the newest raw document is always a candidate"
    return Inference(best.new, best.base, best.odd, rival)


def _recent(older: Sequence[Superseded], newest: Superseded, since: int) -> Iterator[_Raw]:
    """Raw documents before the newest that may be a base, newest first."""
    successor = newest
    from_none = 0
    for number in range(len(older) - 1, max(len(older) - DEPTH, 0) - 1, -1):
        entry = older[number]
        if entry.at < since:
            return
        if not from_none and _made_from_none(successor, entry):
            from_none = entry.at
        had_at = max(entry.at, from_none) if entry.raw is None else entry.at
        late = max(newest.at - had_at, 0)
        unlikely = min(late // _STEP_MS, _LATE)
        if entry.raw is None:
            unread = late // _NONE_MS
        elif successor.event_id:
            unread = late // _OURS_MS
        elif late <= _AT_ONCE_MS:
            unread = 0
        else:
            stood = entry.at - (older[number - 1].at if number else since)
            unread = max(late, stood) // _STEP_MS
        yield _Raw(entry.raw, unlikely, min(_AGAIN + unread, _NOTHING_OWN + unlikely))
        successor = entry


def _made_from_none(entry: Superseded, before: Superseded) -> bool:
    """Whether a broker made a document from none at all: it has one setting, or none, and no call makes it of the document before."""
    if entry.event_id or entry.raw is None or len(entry.raw) > 1 or before.raw is None:
        return False
    return len(differing(before.raw, entry.raw)) > 1


def _stories(document: Settings, raws: Sequence[_Raw], known: frozenset[str] | None, owed: int, unseen: bool) -> Iterator[_Story]:
    """What each raw document, newest first, would tell as the base."""
    for age, (base, late, again) in enumerate(raws):
        new: list[Setting] = []
        unlikely = carried = returns = 0
        for name in differing(base, document):
            if not compares(name, known):
                continue
            value = document.get(name)
            if any(raw.has(name, value) for raw in raws[:age]):
                carried += 1
                continue
            new.append(name)
            if any(raw.late < _LATE and raw.has(name, value) for raw in raws[age + 1 :]):
                returns += 1
                unlikely += _RETURN_AT_ONCE if unseen and age == 0 and raws[1].has(name, value) else _RETURN
            if len(new) > 1:
                unlikely += _NEW
        if returns and len(new) > returns:
            unlikely += _RETURN_BESIDE
        if age and not new and not carried:
            yield _Story(again, new, base, again >= _NOTHING_OWN)
            continue
        nothing_own = not new and owed == 0 and age > 0
        if nothing_own:
            unlikely += _NOTHING_OWN
        yield _Story(unlikely + late + _CARRIED * carried, new, base, nothing_own or (returns > 0 and len(new) > 1))
        if unlikely == 0 and carried == 0:
            return


def _alike(one: _Story, other: _Story, document: Settings, head: Settings | None) -> bool:
    """Whether two stories come to the same head."""
    present: Settings = head or {}

    def effect(story: _Story) -> set[Setting]:
        return {name for name in story.new if document.get(name) != present.get(name)}

    return effect(one) == effect(other)

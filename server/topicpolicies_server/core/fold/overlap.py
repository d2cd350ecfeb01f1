"""Infers the changes of brokers that change cached documents in place, as those before PIP-428 do (4.0's ``AdminResource`` clones nothing).

Until such a broker reads an event, which puts another document into its cache, all its admin calls change the same cached document. So what
the broker writes is some raw document that it had read, with *all* the changes that calls have made to it since, not only the call's own.
Each of these changes has an event of its own, before or after this one, and a document that was encoded early may enter the log late.

So each recent raw document is tried as the base, and the one that gives the likeliest explanation (a *story*) of the difference is taken:

- a setting with the value that a raw document *after* the base has was **carried**: the head has that change already;
- any other setting is **new**: this call's own change, or one whose event is still to come (that event is then **owed**);
- a new setting with the value that a raw document shortly *before* the base had is a **return**: possible, but while documents overlap it
  is likelier that this document is older than it looks, and much likelier if there is another new change besides (a call makes one);
- the longer ago the base was superseded, the likelier it is that brokers had read newer documents;
- and something in the difference must be the call's own: a new setting, or a carried one whose event is owed.

A call that changes nothing (it removes what is unset, or sets what is set) writes the document that the broker has: a raw document *as it
was*. That is likelier than a return, if the broker can have had that document. A broker has the changes of its own calls in its cache, and
loses them there only by reading, late, a document from before them. So the broker had not read that document yet when the next change was
made: a document that stood for a while had been read, and an event that restores it is a return. This argument fails if there was no
document, because then each call makes one of its own, and if the next event was ours, because brokers learn of ours only by reading.
The time for which there was no document counts from the last document that a broker made from none: one with a single setting after a
document with others, or one without settings.

And no call sets back what it can't have seen: a value that was superseded when the document was published, or later.

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

- 2 has two new settings, and a call makes one: the other belongs to a call whose event is still to come, so one event is owed.
- 3 is the owed event. Its document was encoded before the size was set, and came later. Its difference from 1 was carried in 2, so 3
  changes nothing; but brokers show its document now, without the size, and a repair is due.
- 4 was computed from 2, which the broker had. It makes the raw document equal to the head, and the repair is not needed any more.
- 5 comes two seconds later without the size. No broker still has a document like that after so long: the size was cleared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..policies.documents import Document, Setting, differing
from .inference import Inference, compares
from .keystate import Superseded

DEPTH = 64
"""How many raw documents before the newest are tried as the base."""
OWED_MS = 5_000
"""How long an owed event, whose change another event has carried, is expected, in milliseconds."""

_NEW, _RETURN, _RETURN_BESIDE, _CARRIED, _NOTHING_OWN, _AGAIN = 10, 15, 20, 1, 16, 6
"""Penalties, which add up to how unlikely a story is: for each new change but one, each return, returns beside another new change, each
carried change, nothing of the call's own in the difference, and a raw document written as it was."""
_RETURN_AT_ONCE = 30
"""The penalty, instead of ``_RETURN``, for a return to a value that was superseded when the document was published, or later."""
_STEP_MS, _LATE = 25, 40
"""The penalty for an older base: one point for each ``_STEP_MS`` since it was superseded, because brokers mostly read a newer document
within some tens of milliseconds; ``_LATE`` points (a second's) at most."""
_NONE_MS, _OURS_MS = 25, 50
"""The penalty for a raw document written as it was: one point for each so many milliseconds since it was superseded, if it was no document,
and if an event of ours superseded it."""
_AT_ONCE_MS = 2
"""Two events published within so many milliseconds are of concurrent calls: neither call was answered before the other was made."""
_CLOSE = 12
"""Two stories whose penalties differ by less than this are both likely, so that the inference is ambiguous."""


class _Raw(NamedTuple):
    document: Document | None
    late: int
    """The penalty for a broker that still had this document."""
    again: int
    """The penalty for a broker that had this document and wrote it as it was."""
    at_once: bool
    """Whether it was superseded when the broker's document was published, or later: no call there can have seen what superseded it."""

    def has(self, name: Setting, value: bytes | None) -> bool:
        """Returns whether a setting has a value in this document; with None, whether it is unset."""
        return (self.document or {}).get(name) == value


class _Story(NamedTuple):
    unlikely: int
    new: list[Setting]
    base: Document | None
    odd: bool
    """Whether overlapping calls alone do not explain the difference."""


def infer_overlapping(
    document: Document,
    newest: Superseded,
    older: Sequence[Superseded],
    head: Document | None,
    known: frozenset[str] | None,
    since: int,
    owed: int,
) -> Inference:
    """Infers the change that a broker's document makes; the arguments are those of ``infer``.

    ``newest``: the event that the broker's supersedes; ``owed``: how many events are still to come whose changes other events have carried.
    """
    best: _Story | None = None
    rival = False
    raws = [_Raw(newest.raw, 0, 0, True), *_recent(older, newest, since)]
    for story in _stories(document, raws, known, owed):
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
    """Yields the raw documents before the newest that may be a base, newest first, with their penalties."""
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
        at_once = late <= _AT_ONCE_MS
        if entry.raw is None:
            unread = late // _NONE_MS
        elif successor.event_id:
            unread = late // _OURS_MS
        elif at_once:
            unread = 0
        else:
            stood = entry.at - (older[number - 1].at if number else since)
            unread = max(late, stood) // _STEP_MS
        yield _Raw(entry.raw, unlikely, min(_AGAIN + unread, _NOTHING_OWN + unlikely), at_once)
        successor = entry


def _made_from_none(entry: Superseded, before: Superseded) -> bool:
    """Returns whether a broker made a document from none: it has at most one setting, and no single call makes it from the one before."""
    if entry.event_id or entry.raw is None or len(entry.raw) > 1 or before.raw is None:
        return False
    return len(differing(before.raw, entry.raw)) > 1


def _stories(document: Document, raws: Sequence[_Raw], known: frozenset[str] | None, owed: int) -> Iterator[_Story]:
    """Yields the story of each raw document as the base, newest first; stops at one without any penalty but that for its age."""
    for age, (base, late, again, _) in enumerate(raws):
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
            before = next((raw for raw in raws[age + 1 :] if raw.late < _LATE and raw.has(name, value)), None)
            if before is not None:
                returns += 1
                unlikely += _RETURN_AT_ONCE if before.at_once else _RETURN
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


def _alike(one: _Story, other: _Story, document: Document, head: Document | None) -> bool:
    present: Document = head or {}

    def effect(story: _Story) -> set[Setting]:
        return {name for name in story.new if document.get(name) != present.get(name)}

    return effect(one) == effect(other)

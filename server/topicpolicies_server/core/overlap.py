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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .documents import Setting, Settings, differing
from .inference import Inference, compares
from .keystate import Superseded

DEPTH = 64
"""How many raw documents may be the base."""
OWED_MS = 5_000
"""How long an event is waited for whose change another has carried."""

_NEW, _RETURN, _RETURN_BESIDE, _CARRIED, _NOTHING_OWN = 10, 15, 20, 1, 16
"""How unlikely something is: each new change but one, each return, returns beside another new change, each carried change, a call
that changed nothing."""
_STEP_MS, _LATE = 25, 40
"""Brokers mostly read on within some tens of milliseconds: how long makes an older base less likely by one, and the most (a second)."""
_CLOSE = 12
"""Stories that differ by less than this are both likely: which one is true is in doubt."""


class _Raw(NamedTuple):
    document: Settings | None
    late: int
    """How unlikely it is that a broker still had it."""

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
    live: Settings | None,
    older: Sequence[Superseded],
    head: Settings | None,
    known: frozenset[str] | None,
    at: int,
    since: int,
    owed: int,
) -> Inference:
    """The change that a broker's document makes.

    Args:
        document: what the broker wrote.
        live: the newest raw document before it.
        older: the raw documents before that, oldest first, each with the time at which it was superseded.
        head: the head, only to tell whether two explanations come to the same.
        known: the families that the writer's schema knows; None: all that ours knows.
        at: when it was published, in milliseconds since 1970.
        since: raw documents superseded before this time (milliseconds since 1970) are too old to be a base.
        owed: how many events are still to come whose changes others have carried.
    """
    best: _Story | None = None
    rival = False
    raws = [_Raw(live, 0), *_recent(older, at, since)]
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


def _recent(older: Sequence[Superseded], at: int, since: int) -> Iterator[_Raw]:
    """Raw documents that may be a base, newest first."""
    for number in range(len(older) - 1, max(len(older) - DEPTH, 0) - 1, -1):
        if older[number].at < since:
            return
        yield _Raw(older[number].raw, min(max(at - older[number].at, 0) // _STEP_MS, _LATE))


def _stories(document: Settings, raws: Sequence[_Raw], known: frozenset[str] | None, owed: int) -> Iterator[_Story]:
    """What each raw document, newest first, would tell as the base."""
    for age, (base, late) in enumerate(raws):
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
                unlikely += _RETURN
            if len(new) > 1:
                unlikely += _NEW
        if returns and len(new) > returns:
            unlikely += _RETURN_BESIDE
        nothing_own = not new and (carried == 0 or owed == 0) and age > 0
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

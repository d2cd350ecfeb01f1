"""What a broker meant: the change that its document makes, told from the documents that brokers saw before.

A broker writes whole documents, computed from one that it had read some time ago; each admin call changes one setting. So its base is a
recent *raw* document from which it differs in at most one setting, and that setting is the change. Heads are no candidates: brokers never
see them. Where there is no such document, the base is the nearest one, the newest of those if there are several.

Brokers that change the document in their cache in place write otherwise: ``core/fold/overlap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..policies.documents import EXTRA_PREFIX, Setting, Settings, differing, family
from .keystate import RECENT_EVENTS, Superseded

AMBIGUITY_DEPTH = 64
"""How many raw documents before the base are looked at for another explanation. It bounds the work; the outcome is only counted."""


class Inference(NamedTuple):
    """What a broker's document changes."""

    changed: list[Setting]
    base: Settings | None
    """The raw document that it was computed from."""
    unexplained: bool = False
    """No recent raw document explains it by one change; ``changed`` is the difference from the nearest."""
    ambiguous: bool = False
    """Another recent raw document explains it by another change."""
    certain: bool = False
    """Whether older raw documents, had there been any, would have made no difference."""


def compares(setting: Setting, known: frozenset[str] | None) -> bool:
    """Whether a writer's schema knows a setting: what it does not know it drops without meaning to."""
    if known is None:  # it knows what we know
        return not setting.startswith(EXTRA_PREFIX)
    return family(setting) in known


def one_apart(raw: Settings | None, document: Settings, known: frozenset[str] | None) -> list[Setting] | None:
    """The setting in which a document differs from a raw one, or nothing if there is none; None if there are more."""
    base: Settings = raw or {}
    changed: list[Setting] = []
    for name, value in document.items():
        if base.get(name) != value and compares(name, known):
            if changed:
                return None
            changed.append(name)
    for name in base:
        if name not in document and compares(name, known):
            if changed:
                return None
            changed.append(name)
    return changed


def infer(
    document: Settings,
    live: Settings | None,
    older: Sequence[Superseded],
    head: Settings | None,
    known: frozenset[str] | None,
    since: int,
) -> Inference:
    """The change that a broker's document makes.

    Args:
        document: what the broker wrote.
        live: the newest raw document before it.
        older: the raw documents before that, oldest first, each with the time at which it was superseded.
        head: the head, only to tell whether two explanations come to the same.
        known: the families that the writer's schema knows; None: all that ours knows.
        since: raw documents superseded before this time (milliseconds since 1970) are too old to be a base.
    """
    base = live
    depth = len(older)
    first = max(depth - RECENT_EVENTS, 0)
    while (changed := one_apart(base, document, known)) is None:
        depth -= 1
        if depth < first or older[depth].at < since:
            nearest = _nearest(document, [live, *(entry.raw for entry in reversed(older[depth + 1 :]))], known)
            return Inference(*nearest, unexplained=True)
        base = older[depth].raw
    raws = [earlier.raw for earlier in older[max(depth - AMBIGUITY_DEPTH, first) : depth] if earlier.at >= since]
    return Inference(changed, base, ambiguous=_is_explained_otherwise(document, changed, raws, head, known), certain=True)


def _is_explained_otherwise(
    document: Settings, changed: list[Setting], raws: Sequence[Settings | None], head: Settings | None, known: frozenset[str] | None
) -> bool:
    """Whether one of some raw documents explains a document by one change too, and that comes to something else.

    Mostly one setting changes over and over: then all of them are the document but for that setting, which a comparison in C tells.
    """
    if not raws:
        return False
    effect = _effect(changed, document, head)
    setting = changed[0] if changed else ""
    value = document.get(setting)
    alike = dict(document)
    for raw in raws:
        there: Settings = raw or {}
        before = there.get(setting)
        if before is not None:
            alike[setting] = before
        else:
            alike.pop(setting, None)
        if alike == there:
            if effect and before == value:
                return True
            continue
        other = one_apart(raw, document, known)
        if other is not None and _effect(other, document, head) != effect:
            return True
    return False


def _nearest(document: Settings, raws: Sequence[Settings | None], known: frozenset[str] | None) -> tuple[list[Setting], Settings | None]:
    """Of raw documents, newest first, the one from which a document differs in the fewest settings; with those."""
    best, base = _apart(raws[0], document, known), raws[0]
    for raw in raws[1:]:
        if len(best) <= 1:
            break
        changed = _apart(raw, document, known)
        if len(changed) < len(best):
            best, base = changed, raw
    return best, base


def _apart(raw: Settings | None, document: Settings, known: frozenset[str] | None) -> list[Setting]:
    """The settings in which a document differs from a raw one, among those that its writer knows."""
    return [name for name in differing(raw, document) if compares(name, known)]


def _effect(changed: list[Setting], document: Settings, head: Settings | None) -> list[Setting]:
    """Of a change, what it would change in the head."""
    present: Settings = head or {}
    return [name for name in changed if document.get(name) != present.get(name)]

"""Infers which change a broker's document makes, from the raw documents that brokers saw before.

A broker writes whole documents, each computed from one that the broker had read some time ago; each admin call changes one setting. So the
base of a document is a recent *raw* document from which it differs in at most one setting, and that setting is the change. Heads are no
candidates, because brokers never see them. If there is no such raw document, the base is the one that differs in the fewest settings, the
newest of several.

Brokers that change their cached documents in place write other documents: ``core/fold/overlap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..policies.documents import EXTRA_PREFIX, Document, Setting, differing, family
from .keystate import RECENT_EVENTS, Superseded

AMBIGUITY_DEPTH = 64
"""How many raw documents before the base are searched for another explanation. This bounds the work; the outcome is only counted."""


class Inference(NamedTuple):
    """The change that a broker's document is taken to make."""

    changed: list[Setting]
    base: Document | None
    """The raw document that the broker's document was computed from; None: from no document."""
    unexplained: bool = False
    """Whether no recent raw document explains the document by one change; ``changed`` is then the difference from the nearest."""
    ambiguous: bool = False
    """Whether another recent raw document explains the document by another change."""
    certain: bool = False
    """Whether older raw documents that were not seen could not have changed this inference."""


def compares(setting: Setting, known: frozenset[str] | None) -> bool:
    """Returns whether a writer's schema knows a setting: a writer drops settings that it does not know, without meaning to change them."""
    if known is None:  # the writer knows all that our schema knows
        return not setting.startswith(EXTRA_PREFIX)
    return family(setting) in known


def one_apart(raw: Document | None, document: Document, known: frozenset[str] | None) -> list[Setting] | None:
    """Returns the only setting in which a document differs from a raw one, in a list; an empty list: none differs; None: several do."""
    base: Document = raw or {}
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
    document: Document,
    raw: Document | None,
    older: Sequence[Superseded],
    head: Document | None,
    known: frozenset[str] | None,
    since: int,
) -> Inference:
    """Infers the change that a broker's document makes.

    Args:
        document: what the broker wrote.
        raw: the newest raw document before the broker's.
        older: the raw documents before ``raw``, oldest first, each with the time at which it was superseded.
        head: the head, used only to decide whether two explanations have the same effect.
        known: the families that the writer's schema knows; None: all that ours knows.
        since: raw documents superseded before this time (milliseconds since 1970) are too old to be a base.
    """
    base = raw
    depth = len(older)
    first = max(depth - RECENT_EVENTS, 0)
    while (changed := one_apart(base, document, known)) is None:
        depth -= 1
        if depth < first or older[depth].at < since:
            nearest = _nearest(document, [raw, *(entry.raw for entry in reversed(older[depth + 1 :]))], known)
            return Inference(*nearest, unexplained=True)
        base = older[depth].raw
    raws = [earlier.raw for earlier in older[max(depth - AMBIGUITY_DEPTH, first) : depth] if earlier.at >= since]
    return Inference(changed, base, ambiguous=_is_explained_otherwise(document, changed, raws, head, known), certain=True)


def _is_explained_otherwise(
    document: Document, changed: list[Setting], raws: Sequence[Document | None], head: Document | None, known: frozenset[str] | None
) -> bool:
    """Returns whether one of ``raws`` explains the document by one change too, and that change has another effect on the head.

    In the common case one setting changes over and over: then each raw document equals this one in all other settings, which one comparison
    of dicts finds out.
    """
    if not raws:
        return False
    effect = _effect(changed, document, head)
    setting = changed[0] if changed else ""
    value = document.get(setting)
    alike = dict(document)
    for raw in raws:
        there: Document = raw or {}
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


def _nearest(document: Document, raws: Sequence[Document | None], known: frozenset[str] | None) -> tuple[list[Setting], Document | None]:
    """Returns the settings in which a document differs from the nearest of some raw documents (newest first), and that raw document."""
    best, base = _apart(raws[0], document, known), raws[0]
    for raw in raws[1:]:
        if len(best) <= 1:
            break
        changed = _apart(raw, document, known)
        if len(changed) < len(best):
            best, base = changed, raw
    return best, base


def _apart(raw: Document | None, document: Document, known: frozenset[str] | None) -> list[Setting]:
    return [name for name in differing(raw, document) if compares(name, known)]


def _effect(changed: list[Setting], document: Document, head: Document | None) -> list[Setting]:
    present: Document = head or {}
    return [name for name in changed if document.get(name) != present.get(name)]

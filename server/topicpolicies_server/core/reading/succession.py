"""How the heads of a view compare with those of the view that it replaces, of the same log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..policies.events import ABSENT, Position
from .heads import Head


def absence(partition: int, vanished: Head, positions: Sequence[Position]) -> Position:
    """A version for the absence of what vanished: one that is greater than all of its key's before, and smaller than all to come.

    Args:
        partition: in which the key's events stand.
        vanished: the head that there was.
        positions: where the view stands, by partition.
    """
    return max(vanished.version, positions[partition] if partition < len(positions) else ABSENT)


def same(head: Head, other: Head | None) -> bool:
    """Whether two views have the same head of a key: a restatement may change a document, and not its version."""
    if other is None:
        return head.version == ABSENT and head.document is None
    return head.version == other.version and head.document == other.document


def was_forgotten(forgotten: Mapping[int, Position], head: Head) -> bool:
    """Whether a head, of a key that an older view does not know, is an absence that it had told of, and has forgotten.

    Args:
        forgotten: up to where that view had forgotten deletions, by partition.
        head: the head.
    """
    return head.document is None and head.place <= forgotten.get(head.partition, "")

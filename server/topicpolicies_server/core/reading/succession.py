"""Compares the heads of a view with those of the view of the same log that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..policies.events import ABSENT, Position
from .heads import Head


def absence(partition: int, vanished: Head, positions: Sequence[Position]) -> Position:
    """Returns a version for the absence of a key that vanished: greater than all of the key's versions before, less than all to come.

    Args:
        partition: the partition of the key's events.
        vanished: the key's head in the view that is replaced.
        positions: where the new view stands, by partition.
    """
    return max(vanished.version, positions[partition] if partition < len(positions) else ABSENT)


def same(head: Head, other: Head | None) -> bool:
    """Returns whether two views have the same head of a key: a restatement may change a document without changing its version."""
    if other is None:
        return head.version == ABSENT and head.document is None
    return head.version == other.version and head.document == other.document


def was_forgotten(forgotten: Mapping[int, Position], head: Head) -> bool:
    """Returns whether a head is an absence that the older view had, and has forgotten.

    Args:
        forgotten: the position up to which the older view had forgotten deletions, by partition.
        head: the head of a key that the older view does not have.
    """
    return head.document is None and head.place <= forgotten.get(head.partition, "")

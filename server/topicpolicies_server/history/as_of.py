"""The document of a policy key at a past time: derived from the last event before, the first one after, the present head, and the gaps.

A document is returned only if it is certain. If an event may be missing between what is known and the requested time, an error says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import Kind, PolicyError
from ..core.policies import secrets
from ..core.policies.events import ABSENT, Position
from ..core.reading.heads import Head
from ..core.reasons import Reason
from .entries import Entry, Gap

_MISSING = "an event is missing between those that it has"


class Past(NamedTuple):
    """A document as it was at a time or version."""

    document: bytes | None
    """The document's Protobuf form, without secrets; None: there was no document."""
    version: Position


def of_time(at: int, now: int, last: Entry | None, first: Entry | None, head: Head | None, gaps: Sequence[Gap]) -> Past:
    """Returns the document at a time.

    Args:
        at: the time, in milliseconds since 1970.
        now: the present, in milliseconds since 1970.
        last: the key's last entry at that time or before.
        first: the key's first entry after that time.
        head: the key's present head; None: the log knows no event of the key.
        gaps: the times in which events may be missing, newest first.

    Raises:
        PolicyError: OUT_OF_RANGE, reason ``NOT_IN_HISTORY``: the document is not certain; the metadata names the gap, if there is one.
    """
    now = max(now, at + 1)
    # Versions prove that no event stands between two documents. Between absences there may be any number, which compaction forgets.
    if first is not None and not first.timed:
        raise _uncertain(at, None, "the clock was set back since, so the time of the next event is not exact")
    if last is not None:
        if first is not None and first.before_known:
            proven = last.version == first.previous or (last.after is None and first.before is None)
            refuted = not proven
        else:
            proven = first is None and head is not None and head.version == last.version
            refuted = (
                first is None and head is not None and head.version > last.version and not (head.document is None and last.after is None)
            )
        gap = None if proven else _between(gaps, last.at, first.at if first is not None else now)
        if gap is None and not refuted:
            return Past(last.after, last.version)
        raise _uncertain(at, gap, _MISSING if gap is None else "")
    if first is not None and first.before_known:
        gap = _between(gaps, at, first.at)
        # The event that made the document before ``first`` has no entry, so it must have been in a gap, which must have ended by ``at``.
        # An absence of which the log knew nothing (ABSENT) needs no such event; but a key that was deleted in a gap may be forgotten.
        if gap is None and (first.previous == ABSENT or any(each.until <= at for each in gaps)):
            return Past(first.before, first.previous)
        raise _uncertain(at, gap, _MISSING if gap is None else "")
    if first is None and head is not None and _published_by(head, at):
        return Past(secrets.wire(head.document) if head.document is not None else None, head.version)
    gap = _between(gaps, at, first.at if first is not None else now)
    if gap is None and first is None and (head is None or head.document is None):
        return Past(None, ABSENT)
    raise _uncertain(at, gap)


def of_version(entry: Entry | None, version: Position, head: Head | None) -> Past:
    """Returns the document that has a version.

    Raises:
        PolicyError: OUT_OF_RANGE, reason ``NOT_IN_HISTORY``: neither the history nor the log knows the version.
    """
    if entry is not None:
        return Past(entry.after, version)
    if head is not None and head.version == version:
        return Past(secrets.wire(head.document) if head.document is not None else None, version)
    if version == ABSENT:
        return Past(None, ABSENT)
    raise PolicyError(
        Kind.OUT_OF_RANGE,
        Reason.NOT_IN_HISTORY,
        "The history has no such version of this topic and scope: list the history to see its versions.",
        metadata={"version": version},
    )


def _published_by(head: Head, at: int) -> bool:
    """Whether the event that made a head was in its log at a time; a replicated one came there later than it was published."""
    placed = head.placed
    return placed is not None and placed.published_at <= at and not (placed.event is not None and placed.event.replicated)


def _between(gaps: Sequence[Gap], start: int, end: int) -> Gap | None:
    """Returns the first of ``gaps`` that overlaps the time from ``start`` to ``end``; None: there is none."""
    return next((gap for gap in gaps if gap.until > start and (gap.since is None or gap.since < end)), None)


def _uncertain(at: int, gap: Gap | None, why: str = "") -> PolicyError:
    metadata = {"as_of_ms": str(at)}
    why = why or "it begins later"
    if gap is not None:
        metadata |= {"gap_reason": gap.reason.name, "gap_end_ms": str(gap.until)}
        if gap.since is not None:
            metadata["gap_start_ms"] = str(gap.since)
        why = f"it may miss events ({gap.reason.name}) there"
    return PolicyError(
        Kind.OUT_OF_RANGE,
        Reason.NOT_IN_HISTORY,
        f"The history can't tell for certain what was there at that time: {why}. List the history to see what it has.",
        metadata=metadata,
    )

"""Decides where an opening that knows the log up to a position begins to read: after that position, or at the log's beginning.

====================================================================  ==============================================================
condition, for any partition                                          what follows
====================================================================  ==============================================================
the position is not one of a Pulsar log                               the whole log is read
the start knows another number of partitions                          the whole log is read
brokers do not say how far the partition is compacted                 the whole log is read
the partition is compacted further than the position, or emptied      the whole log is read: deletions in between left no trace
the partition ends before the position                                the whole log is read: it is not the log that it was
none of these                                                         reading begins at the position
====================================================================  ==============================================================

Compactions that end later are handled while reading goes on (``continuity``), as after an interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ...change_log import Start
from ..access import Access
from ..admin.topics import Compaction, Layout
from ..ids import NOWHERE, MessageId, place_of
from .entries import ResumePoint


class Beginning(NamedTuple):
    """Where one partition is read from."""

    resume_point: ResumePoint
    compaction: Compaction
    """How far the partition was compacted before its reader was connected."""


async def beginnings(access: Access, layout: Layout, start: Start) -> Sequence[Beginning] | None:
    """Returns where each partition is read from so that reading resumes at a known place; None: the whole log has to be read.

    Args:
        access: the clients for the brokers.
        layout: the log's topics.
        start: a place of this very log.

    Raises:
        LogError: the broker gave no answer.
    """
    try:
        places = [place_of(position) for position in start.positions]
    except ValueError:
        return None
    if len(places) != len(layout.topics) or len(start.anchors) != len(places):
        return None
    resume_point = map(ResumePoint, places, start.anchors)
    asked = zip(layout.topics, resume_point, strict=True)
    found = await asyncio.gather(*(_beginning(access, layout.namespace, topic, where) for topic, where in asked))
    known = [beginning for beginning in found if beginning is not None]
    return known if len(known) == len(found) else None


async def _beginning(access: Access, namespace: str, topic: str, resume_point: ResumePoint) -> Beginning | None:
    compaction = await access.topics.compaction(namespace, topic)
    if compaction.horizon is None or compaction.horizon > resume_point.place:
        return None
    last = (await access.topics.end(namespace, topic)).last
    return Beginning(resume_point, compaction) if resume_point.place <= _end(last, resume_point.place) else None


def _end(last: MessageId | None, place: MessageId) -> MessageId:
    """Returns a partition's end. An empty one ends before every place except the border of a ledger, after which nothing had been read."""
    return last if last is not None else place if place.entry < 0 else NOWHERE

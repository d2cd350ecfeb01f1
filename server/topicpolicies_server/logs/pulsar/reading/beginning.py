"""Where the reading of a log may begin, of whoever knows everything up to a place: there, or at the beginning.

====================================================================  ==============================================================
of any partition                                                      the whole log is read
====================================================================  ==============================================================
the place is none of a log of this kind                               from its beginning
it is not told how far the partition is compacted                     from its beginning
it is compacted further than the place                                from its beginning: of a key that went there nothing is left
it ends before the place                                              from its beginning: it is not what it was
====================================================================  ==============================================================

What is compacted later is asked for as reading goes on (``continuity``), as behind an interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ...change_log import Start
from ..access import Access
from ..admin.topics import Compaction, Layout
from ..ids import NOWHERE, MessageId, place_of
from .entries import Stood


class Beginning(NamedTuple):
    """Where one partition is read from."""

    stood: Stood
    compaction: Compaction
    """How far it is compacted, as was asked before its reader is connected."""


async def beginnings(access: Access, layout: Layout, start: Start) -> Sequence[Beginning] | None:
    """Where each partition is read from, to go on from a place; None: everything has to be read.

    Args:
        access: the ways to the brokers.
        layout: the log's topics.
        start: a place of this very log.

    Raises:
        LogError: there is no answer.
    """
    try:
        places = [place_of(position) for position in start.positions]
    except ValueError:
        return None
    if len(places) != len(layout.topics) or len(start.anchors) != len(places):
        return None
    stood = map(Stood, places, start.anchors)
    asked = zip(layout.topics, stood, strict=True)
    found = await asyncio.gather(*(_beginning(access, layout.namespace, topic, where) for topic, where in asked))
    known = [beginning for beginning in found if beginning is not None]
    return known if len(known) == len(found) else None


async def _beginning(access: Access, namespace: str, topic: str, stood: Stood) -> Beginning | None:
    compaction = await access.topics.compaction(namespace, topic)
    if compaction.horizon is None or (compaction.ledger != -1 and compaction.horizon > stood.place):
        return None
    last = (await access.topics.end(namespace, topic)).last
    return Beginning(stood, compaction) if stood.place <= _end(last, stood.place) else None


def _end(last: MessageId | None, place: MessageId) -> MessageId:
    """The end of a partition; one in which nothing is ends before every place but the border of a ledger, behind which nothing was read."""
    return last if last is not None else place if place.entry < 0 else NOWHERE

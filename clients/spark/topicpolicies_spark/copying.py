"""Copies a part of a sidecar's history: what it recorded behind one position, up to another position or to its present end."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import NamedTuple

from grpc import StatusCode

from topicpolicies import Client, OutOfRange, Unavailable, reason_name
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap
from topicpolicies.v1.service_pb2 import NAMESPACE_STATE_READY

PATIENCE_SECONDS = 60.0
"""How many seconds a sidecar may be out of reach, or unable to read the namespace's log, before the copy fails."""


class Piece(NamedTuple):
    """A piece of a history."""

    position: str
    """The position behind the piece; of a gap that of what comes next."""
    content: HistoryEntry | HistoryGap | None
    """None: nothing more that was requested comes up to this position."""


def copied(client: Client, namespace: str, behind: str = "", until: str = "") -> Generator[Piece, None, None]:
    """Yields the history of a namespace in its order.

    Args:
        client: a client of the sidecar.
        namespace: ``tenant/namespace``.
        behind: the position behind which the copy begins; empty: the beginning of the history.
        until: the position where the copy ends, or before that the present end of the history; empty: there.

    Raises:
        OutOfRange: the sidecar's history does not know the position.
        TopicPoliciesError: the sidecar can't be reached, can't read the log, or keeps no history.
    """
    gaps: list[HistoryGap] = []
    problem, waiting = "", None
    positions = {namespace: behind} if behind else None
    with client.watch_history([namespace], positions=positions, patience=PATIENCE_SECONDS) as watch:
        try:
            for event in watch:
                match event.WhichOneof("content"):
                    case "gap":
                        gaps.append(event.gap)
                    case "entry" | "bookmark" as kind:
                        yield from (Piece(event.position, gap) for gap in gaps)
                        gaps.clear()
                        wanted = kind == "entry" and (not until or event.position <= until)
                        yield Piece(event.position, event.entry if wanted else None)
                        if (until and event.position >= until) or event.bookmark.synced:
                            return
                    case "status":
                        if waiting is not None:
                            waiting.cancel()
                        if event.status.state != NAMESPACE_STATE_READY:
                            problem, waiting = event.status.message, threading.Timer(PATIENCE_SECONDS, watch.close)
                            waiting.daemon = True
                            waiting.start()
                    case "reset":
                        reason = reason_name(event.reset.reason)
                        raise OutOfRange(f"The history was replaced: {event.reset.message}", code=StatusCode.OUT_OF_RANGE, reason=reason)
        finally:
            if waiting is not None:
                waiting.cancel()
    raise Unavailable(problem or "The sidecar ended the stream.", code=StatusCode.UNAVAILABLE)

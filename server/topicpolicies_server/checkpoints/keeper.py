"""The keeper of a view: notes which keys have changed since the last checkpoint, and copies the next checkpoint.

=========  ===================================  =========  =========================================================================
state      event                                next       what is done
=========  ===================================  =========  =========================================================================
RESTING    ``took`` events                      RESTING    their keys are noted as changed
RESTING    ``begin``                            COPYING    the view's present place becomes that of the next checkpoint; every key
                                                           that has changed is to be copied as it is at that place
COPYING    ``before`` an event of a key that    COPYING    the key is copied first
           is to be copied
COPYING    ``took`` events                      COPYING    their keys are noted as changed, for the checkpoint after this one
COPYING    ``next_cells``                       COPYING    some more keys are copied
COPYING    ``done``: the checkpoint is written  RESTING    nothing
COPYING    ``failed``                           RESTING    the keys that were to be copied are noted as changed again
any        ``start_over``                       RESTING    all keys count as changed: the next checkpoint has no base
=========  ===================================  =========  =========================================================================

So a checkpoint has every key as it was at one place of the log, although copying takes many turns of the event loop: it is the view of a
reader that has read exactly up to that place.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..core.policies.events import Placed, Position
from ..core.reading.cell import name_of
from ..core.reading.view import View
from ..logs.change_log import Start, anchor_of
from .cells import row_of
from .file import Row
from .header import CheckpointHeader, maker
from .requests import RequestRow, Rows

_NAMES = 1_000
"""Up to so many names of changed keys are kept, however few keys the view has."""


class KeptView(Protocol):
    """What a keeper needs of an opening of a log and its view (``namespaces/follower``)."""

    @property
    def view(self) -> View:
        """The view that follows the log."""

    @property
    def identity(self) -> str:
        """The log's identity; "" before the log is open."""

    @property
    def positions(self) -> Sequence[Position]:
        """The position up to which the view has read, by partition."""

    @property
    def size(self) -> int:
        """The size of the view's documents in bytes."""

    @property
    def unreadable(self) -> int:
        """How many entries could not be read."""

    @property
    def trusted(self) -> bool:
        """Whether the log never contradicted what the view was built from."""

    def is_confirmed(self, positions: Sequence[Position]) -> bool:
        """Whether the log's reader has read the events up to these positions that were taken by proof."""


class Place(NamedTuple):
    """The place of a view in its log."""

    start: Start
    """The place from which the log is to be read to continue the view."""
    events: tuple[Position, ...]
    """Positions as in ``CheckpointHeader.events``."""


class Copy(NamedTuple):
    """A checkpoint that is being made."""

    header: CheckpointHeader
    base: str
    """The id of the checkpoint before, which this one changes (``CheckpointHeader.id``); "": this one has all keys."""
    names: tuple[str, ...]
    """The names of the keys that have changed since the base; empty if there is no base."""
    events: int
    """How many events came since the checkpoint before."""
    noted: int
    """How many requests the view had noted by the checkpoint before."""
    requests: Sequence[RequestRow]
    """The rows of requests that were applied since the base, or of all that the view remembers."""
    dropped_before: int
    """Rows of requests with a lower number are not kept any more."""

    @property
    def anew(self) -> bool:
        """Whether the checkpoint has all keys, and nothing of the one before is kept."""
        return not self.base


class Keeper:
    """Notes the changes of one view, and copies its checkpoints. Methods are called on the event loop, ``behind_seconds`` on any thread."""

    def __init__(self, namespace: str) -> None:
        """Creates a keeper that knows of no checkpoint. ``namespace``: ``tenant/namespace``."""
        self.namespace = namespace
        self.to_copy: dict[str, None] = {}
        """COPYING: the names of the keys still to be copied. While there are any, ``before`` has to be called before events are folded."""
        self.events = 0
        """How many events came since the last checkpoint."""
        self.written_at = time.monotonic()
        """When the last checkpoint was written or, before the first one, when the keeper was made; in monotonic seconds."""
        self._news_at = self._copied_news_at = self.written_at
        """When the first event came that is in no checkpoint, and the first of those being copied; in monotonic seconds."""
        self.ended = False
        """Whether the keeper writes no more: another keeper may write the namespace's checkpoint (``checkpoints``)."""
        self._kept: KeptView | None = None
        self._base = ""
        """The id of the checkpoint that is in the file, or is being written; "": the next checkpoint has no base, and so has all keys."""
        self._changed: dict[str, None] = {}
        self._copied: list[tuple[str, Row | None]] = []
        self._bytes = 0
        """The size of the cells in ``_copied``."""
        self._copy: Copy | None = None
        self._last: dict[int, Placed] = {}
        """The last entry of each partition."""
        self._events: dict[int, Position] = {}
        """By partition: the position of the last event, or of the last entry that could not be read (``CheckpointHeader.events``)."""
        self._anchors: dict[int, tuple[Position, str]] = {}
        """By partition: position and anchor of the restored checkpoint; used until an entry of the partition comes."""
        self._rows = Rows()
        """The rows of requests that are written."""
        self._noted = 0
        """How many requests the view had noted when they were last copied."""

    @property
    def kept(self) -> KeptView | None:
        """The view that is kept now, as its opening."""
        return self._kept

    @property
    def place(self) -> Place | None:
        """The view's place in its log; None: it has no log."""
        kept = self._kept
        if kept is None or not kept.identity or not kept.positions:
            return None
        positions = tuple(kept.positions)
        anchors = tuple(self._anchor(partition, position) for partition, position in enumerate(positions))
        events = tuple(self._events.get(partition, "") for partition in range(len(positions)))
        return Place(Start(kept.identity, positions, anchors, kept.view.context.in_place), events)

    @property
    def has_news(self) -> bool:
        """Whether there is something that is not in the checkpoint. A log without an entry needs none."""
        return self.events > 0 or not (self._base or self._is_empty)

    def behind_seconds(self, now: float) -> float:
        """Returns for how many seconds something new has been in no checkpoint; 0: nothing is. ``now``: monotonic seconds."""
        if self.copying:
            return now - self._copied_news_at
        return now - self._news_at if self.has_news else 0.0

    @property
    def copying(self) -> bool:
        """Whether a checkpoint is being made."""
        return self._copy is not None

    def keep(self, kept: KeptView) -> None:
        """Keeps a view from now on, or continues with the same one, which another opening of the log has taken over."""
        self._kept = kept
        if kept.view.gone is None and self._base:
            kept.view.gone = {}

    def restored(self, header: CheckpointHeader, rows: Sequence[tuple[int, int]], noted: int) -> None:
        """Notes that the view was restored from a checkpoint, and nothing has changed since.

        Args:
            header: the checkpoint's header.
            rows: the checkpoint's rows of requests: their numbers, and how many are in each.
            noted: how many requests the view has noted so far.
        """
        self._base = header.id
        self._anchors = dict(enumerate(zip(header.positions, header.anchors, strict=True)))
        self._events = dict(enumerate(header.events))
        self._rows = Rows(rows)
        self._noted = noted

    def before(self, events: Sequence[Placed]) -> None:
        """Copies the keys of events that are about to be folded, if they are still to be copied."""
        for placed in events:
            name = name_of(placed.event.key) if placed.event is not None else ""
            if name in self.to_copy:
                del self.to_copy[name]
                self._take(name)

    def took(self, events: Sequence[Placed]) -> None:
        """Notes events that were folded."""
        if not self.events and (self._base or self._is_empty):
            self._news_at = time.monotonic()
        self.events += len(events)
        changed, last, told = self._changed if self._base else None, self._last, self._events
        for placed in events:
            last[placed.partition] = placed
            if placed.event is not None or placed.problem:
                told[placed.partition] = placed.position
            if changed is not None and placed.event is not None:
                changed[name_of(placed.event.key)] = None
        if changed and self._copy is None:
            self._bound()

    def start_over(self) -> None:
        """Drops everything that is known of the checkpoint in the file: the next one has all keys."""
        if not self.has_news:
            self._news_at = time.monotonic()
        self._base = ""
        self._changed, self.to_copy, self._copied, self._bytes, self._copy = {}, {}, [], 0, None
        self._rows.clear()
        if self._kept is not None:
            self._kept.view.gone = None

    # --- the next checkpoint ---------------------------------------------------------------------------------------

    def begin(self) -> Copy | None:
        """Begins the next checkpoint at the view's present place.

        Returns:
            The checkpoint to be written; None: the view has no log, or is not trusted.
        """
        kept, place = self._kept, self.place
        assert self._copy is None, "resting"
        if kept is None or place is None or not kept.trusted:
            return None
        view, start, anew = kept.view, place.start, not self._base
        gone, view.gone = view.gone or {}, {}
        self.to_copy = dict.fromkeys(view.names()) if anew else self._changed | gone
        noted = view.recent.noted
        if anew:
            self._rows.clear()
        requests = self._rows.add(view.recent.all() if anew else view.recent.newest(noted - self._noted))
        header = CheckpointHeader(
            id=uuid.uuid4().hex,
            made_by=maker(),
            identity=start.identity,
            positions=start.positions,
            anchors=start.anchors,
            events=place.events,
            complete=tuple(view.complete),
            forgotten=dict(view.forgotten),
            number=view.number,
            times=view.times,
            context=view.context,
            size=kept.size,
            unreadable=kept.unreadable,
        )
        names = () if anew else tuple(self.to_copy)
        self._copy = Copy(header, self._base, names, self.events, self._noted, requests, self._rows.first(view.recent.most))
        self._base, self._changed, self.events, self._noted = header.id, {}, 0, noted
        self._copied_news_at = self._news_at
        return self._copy

    def next_cells(self, most: int, most_bytes: int) -> list[tuple[str, Row | None]]:
        """Copies some more keys. Returns their names and rows, with None for keys that are gone; an empty list at the end.

        The list ends with the cell that brings it to ``most_bytes``: cells that are not frozen take time to copy.
        """
        names = self.to_copy
        while names and len(self._copied) < most and self._bytes < most_bytes:
            self._take(names.popitem()[0])
        copied, self._copied, self._bytes = self._copied, [], 0
        return copied

    def forgotten(self) -> dict[int, Position]:
        """Returns, by partition, up to where deletions are forgotten by now: such keys may have gone before they were copied."""
        assert self._kept is not None, "kept"
        return dict(self._kept.view.forgotten)

    def done(self) -> None:
        """Notes that the checkpoint is written."""
        self._copy = None

    def failed(self) -> None:
        """Notes that the checkpoint is not written, so the one before is still in the file."""
        copy = self._copy
        if copy is None:
            return
        self._news_at = self._copied_news_at
        if copy.anew:
            self.start_over()
            self._news_at = self._copied_news_at
            return
        self._base, self._copy, self._copied, self._bytes, self.to_copy = copy.base, None, [], 0, {}
        self._changed |= dict.fromkeys(copy.names)
        self.events += copy.events
        self._noted = copy.noted
        self._rows.take_back(copy.requests)
        self._bound()

    @property
    def _is_empty(self) -> bool:
        return not (self._last or self._anchors)

    def _bound(self) -> None:
        """Starts over if there are many more changed names than keys: most are of keys that have gone, so copying all keys costs less."""
        if self._kept is not None and len(self._changed) > max(2 * len(self._kept.view), _NAMES):
            self.start_over()

    def _take(self, name: str) -> None:
        assert self._kept is not None, "kept"
        cell = self._kept.view.key_cell(name)
        row = None if cell is None else row_of(cell)
        self._copied.append((name, row))
        if row is not None:
            self._bytes += len(row.cell)

    def _anchor(self, partition: int, position: Position) -> str:
        """Returns the anchor of the entry at the position up to which a partition was read; "": no known entry stands exactly there."""
        last = self._last.get(partition)
        if last is not None:
            return anchor_of(last) if last.position == position else ""
        known = self._anchors.get(partition)
        return known[1] if known is not None and known[0] == position else ""

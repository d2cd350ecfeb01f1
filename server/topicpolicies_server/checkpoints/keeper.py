"""One view of which a checkpoint is kept: what has changed since it was written last, and the next one as it is copied.

=========  ===================================  =========  =========================================================================
state      event                                next       what is done
=========  ===================================  =========  =========================================================================
RESTING    ``took`` events                      RESTING    their keys have changed
RESTING    ``begin``                            COPYING    the place where the view stands is that of the next checkpoint; every key
                                                           that has changed is to be copied as it is there
COPYING    ``before`` an event of a key that    COPYING    the key is copied first
           is to be copied
COPYING    ``took`` events                      COPYING    their keys have changed again, for the checkpoint after this one
COPYING    ``next_cells``                       COPYING    some more are copied
COPYING    ``done``: it is written              RESTING    nothing
COPYING    ``failed``                           RESTING    what was to be copied has changed still
any        ``start_over``                       RESTING    all keys have changed: nothing that was written is gone on with
=========  ===================================  =========  =========================================================================

So a checkpoint has every key as it was at one place of the log, though copying takes many turns of the loop: what stands there is the view
of whoever has read up to that place and no further.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..core.policies.events import Placed, Position
from ..core.reading.cells import name_of
from ..core.reading.view import View
from ..logs.change_log import Start, anchor_of
from .about import About, maker
from .cells import row_of
from .file import Row
from .requests import Rows, Some

_NAMES = 1_000
"""So many names of keys that have changed are kept however few keys there are."""


class KeptView(Protocol):
    """An opening of a log, and the view that follows it (``namespaces/follower``)."""

    @property
    def view(self) -> View:
        """The view."""

    @property
    def identity(self) -> str:
        """Of the log; "" before it is open."""

    @property
    def positions(self) -> Sequence[Position]:
        """Where the view stands, by partition."""

    @property
    def size(self) -> int:
        """Bytes of the view's documents."""

    @property
    def unreadable(self) -> int:
        """Entries that could not be read."""

    @property
    def unfolds(self) -> bool:
        """Whether something that was read is not in the view yet."""

    @property
    def trusted(self) -> bool:
        """Whether the log never contradicted what the view was built from."""

    def is_confirmed(self, positions: Sequence[Position]) -> bool:
        """Whether the log's reader has come to what was taken up to some positions by proof."""


class Place(NamedTuple):
    """Where a view stands."""

    start: Start
    """From where on its log has to be read to go on with it."""
    events: tuple[Position, ...]
    """As ``About.events``."""


class Copy(NamedTuple):
    """A checkpoint that is being made."""

    about: About
    base: str
    """The checkpoint with which it goes on (``About.id``); "": with none."""
    names: tuple[str, ...]
    """Those that have changed since the checkpoint before; empty if nothing of that is kept."""
    events: int
    """Since the checkpoint before."""
    noted: int
    """How many requests the view had noted by then."""
    requests: Sequence[Some]
    """Those that were applied since the checkpoint before."""
    dropped_before: int
    """Requests with a lower number are not kept any more."""

    @property
    def anew(self) -> bool:
        """Whether nothing of the checkpoint before is kept."""
        return not self.base


class Keeper:
    """What a checkpoint of one view is made of. All methods belong to the loop's thread."""

    def __init__(self, namespace: str) -> None:
        """Nothing is known yet of what is written; ``namespace``: ``tenant/namespace``."""
        self.namespace = namespace
        self.to_copy: dict[str, None] = {}
        """COPYING: the names of the keys that are still to be copied. Whoever folds events calls ``before`` while there are any."""
        self.events = 0
        """Events since the last checkpoint."""
        self.written_at = time.monotonic()
        """When the last checkpoint was written, or, before the first one, when this was made; in monotonic seconds."""
        self._news_at = self._copied_news_at = self.written_at
        """When the first came of what is in no checkpoint; the same of what is being copied."""
        self.ended = False
        """Whether nothing of it is written any more: another keeper may have its namespace's checkpoint (``checkpoints``)."""
        self._kept: KeptView | None = None
        self._base = ""
        """The checkpoint that is in the file, or is to be; "": none with which the next one could go on, so every key has changed."""
        self._changed: dict[str, None] = {}
        self._copied: list[tuple[str, Row | None]] = []
        self._bytes = 0
        """Of those."""
        self._copy: Copy | None = None
        self._last: dict[int, Placed] = {}
        """The last entry of each partition."""
        self._events: dict[int, Position] = {}
        """Where the last event of each partition stands, or the last entry that could not be read."""
        self._anchors: dict[int, tuple[Position, str]] = {}
        """Of those partitions from which no event came since the view was restored."""
        self._rows = Rows()
        """The rows of requests that are written."""
        self._noted = 0
        """How many requests the view had noted when they were copied last."""

    @property
    def kept(self) -> KeptView | None:
        """What is kept now."""
        return self._kept

    @property
    def place(self) -> Place | None:
        """Where the view stands; None: it has no log."""
        kept = self._kept
        if kept is None or not kept.identity or not kept.positions:
            return None
        positions = tuple(kept.positions)
        anchors = tuple(self._anchor(partition, position) for partition, position in enumerate(positions))
        events = tuple(self._events.get(partition, "") for partition in range(len(positions)))
        return Place(Start(kept.identity, positions, anchors, kept.view.context.in_place), events)

    @property
    def has_news(self) -> bool:
        """Whether there is something that is not in the checkpoint."""
        return not self._base or self.events > 0

    def behind_seconds(self, now: float) -> float:
        """For how long something new is in no checkpoint; 0: nothing is. ``now``: monotonic seconds; other threads may ask."""
        if self.copying:
            return now - self._copied_news_at
        return now - self._news_at if self.has_news else 0.0

    @property
    def copying(self) -> bool:
        """Whether a checkpoint is being made."""
        return self._copy is not None

    def keep(self, kept: KeptView) -> None:
        """Keeps a view from now on, or goes on with the same one, which another opening of the log has continued."""
        self._kept = kept
        if kept.view.gone is None and self._base:
            kept.view.gone = {}

    def restored(self, about: About, rows: Sequence[tuple[int, int]], noted: int) -> None:
        """The view is what the checkpoint has.

        Args:
            about: what that holds for.
            rows: its rows of requests: their numbers, and how many are in each.
            noted: how many requests the view has noted so far.
        """
        self._base = about.id
        self._anchors = dict(enumerate(zip(about.positions, about.anchors, strict=True)))
        self._events = dict(enumerate(about.events))
        self._rows = Rows(rows)
        self._noted = noted

    def before(self, events: Sequence[Placed]) -> None:
        """Events are about to be folded: those of their keys that are to be copied are copied first."""
        for placed in events:
            name = name_of(placed.event.key) if placed.event is not None else ""
            if name in self.to_copy:
                del self.to_copy[name]
                self._take(name)

    def took(self, events: Sequence[Placed]) -> None:
        """Events were folded."""
        if not self.events and self._base:
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

    def took_late(self, placed: Placed) -> None:
        """An event was folded, perhaps behind some of its partition that came later (``core/reading/unfolded``)."""
        partition = placed.partition
        last, told = self._last.get(partition), self._events.get(partition, "")
        self.took((placed,))
        if last is not None and last.position > placed.position:
            self._last[partition] = last
        self._events[partition] = max(told, self._events.get(partition, ""))

    def start_over(self) -> None:
        """Nothing that was written can be gone on with."""
        if not self.has_news:
            self._news_at = time.monotonic()
        self._base = ""
        self._changed, self.to_copy, self._copied, self._bytes, self._copy = {}, {}, [], 0, None
        self._rows.clear()
        if self._kept is not None:
            self._kept.view.gone = None

    # --- the next checkpoint ---------------------------------------------------------------------------------------

    def begin(self) -> Copy | None:
        """The place where the view stands now is that of the next checkpoint.

        None: there is no log, or it is not to be relied on, or not all of it is in the view.
        """
        kept, place = self._kept, self.place
        assert self._copy is None, "resting"
        if kept is None or place is None or not kept.trusted or kept.unfolds:
            return None
        view, start, anew = kept.view, place.start, not self._base
        gone, view.gone = view.gone or {}, {}
        self.to_copy = dict.fromkeys(view.names()) if anew else self._changed | gone
        noted = view.recent.noted
        if anew:
            self._rows.clear()
        requests = self._rows.add(view.recent.all() if anew else view.recent.newest(noted - self._noted))
        about = About(
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
        self._copy = Copy(about, self._base, names, self.events, self._noted, requests, self._rows.first(view.recent.most))
        self._base, self._changed, self.events, self._noted = about.id, {}, 0, noted
        self._copied_news_at = self._news_at
        return self._copy

    def next_cells(self, most: int, most_bytes: int) -> list[tuple[str, Row | None]]:
        """Some more cells, None where there is none any more; an empty list at the end.

        It ends with the cell that makes it ``most_bytes`` large: making them of cells that are not frozen takes its time.
        """
        names = self.to_copy
        while names and len(self._copied) < most and self._bytes < most_bytes:
            self._take(names.popitem()[0])
        copied, self._copied, self._bytes = self._copied, [], 0
        return copied

    def forgotten(self) -> dict[int, Position]:
        """Up to where deletions were forgotten by now, by partition: such keys may have gone before they were copied."""
        assert self._kept is not None, "kept"
        return dict(self._kept.view.forgotten)

    def done(self) -> None:
        """The checkpoint is written."""
        self._copy = None

    def failed(self) -> None:
        """It is not; the one before is there still."""
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

    def _bound(self) -> None:
        """More names than twice the view's are of keys that have gone: copying every key that there is costs less than keeping them."""
        if self._kept is not None and len(self._changed) > max(2 * len(self._kept.view), _NAMES):
            self.start_over()

    def _take(self, name: str) -> None:
        assert self._kept is not None, "kept"
        held = self._kept.view.held(name)
        row = None if held is None else row_of(held)
        self._copied.append((name, row))
        if row is not None:
            self._bytes += len(row.cell)

    def _anchor(self, partition: int, position: Position) -> str:
        """What stands where a partition was read up to, if an event does."""
        last = self._last.get(partition)
        if last is not None:
            return anchor_of(last) if last.position == position else ""
        known = self._anchors.get(partition)
        return known[1] if known is not None and known[0] == position else ""

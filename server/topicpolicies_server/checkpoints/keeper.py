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

import json
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..core.names import PolicyKey
from ..core.policies.events import Placed, Position, Remembered
from ..core.reading.cells import key_of, name_of
from ..core.reading.view import View
from ..logs.change_log import anchor_of
from .about import About, maker
from .cells import row_of
from .file import Row

_NAMES = 1_000
"""So many names of keys that have changed are kept however few keys there are."""


class Kept(Protocol):
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
    def trusted(self) -> bool:
        """Whether the log never contradicted what the view was built from."""

    def is_confirmed(self, positions: Sequence[Position]) -> bool:
        """Whether the log's reader has come to what was taken up to some positions by proof."""


class Copy(NamedTuple):
    """A checkpoint that is being made."""

    about: About
    anew: bool
    """Whether nothing of the checkpoint before is kept."""
    names: tuple[str, ...]
    """Those that have changed since the checkpoint before; empty if nothing of that is kept."""
    events: int
    """Since the checkpoint before."""
    noted: int
    """How many requests the view had noted by then."""
    number: int
    """Of its requests."""
    requests: list[tuple[PolicyKey, Remembered]]
    """Those that were applied since the checkpoint before, the oldest first."""
    dropped_before: int
    """Requests with a lower number are not kept any more."""


class Keeper:
    """What a checkpoint of one view is made of. All methods belong to the loop's thread."""

    def __init__(self, namespace: str) -> None:
        """Nothing is known yet of what is written; ``namespace``: ``tenant/namespace``."""
        self.namespace = namespace
        self.to_copy: dict[str, None] = {}
        """COPYING: the names of the keys that are still to be copied. Whoever folds events calls ``before`` while there are any."""
        self.events = 0
        """Events since the last checkpoint."""
        self._kept: Kept | None = None
        self._all = True
        """Whether every key has changed."""
        self._changed: dict[str, None] = {}
        self._copied: list[tuple[str, Row | None]] = []
        self._copy: Copy | None = None
        self._last: dict[int, Placed] = {}
        """The last entry of each partition."""
        self._events: dict[int, Position] = {}
        """Where the last event of each partition stands, or the last entry that could not be read."""
        self._anchors: dict[int, tuple[Position, str]] = {}
        """Of those partitions from which no event came since the view was restored."""
        self._rows: deque[tuple[int, int]] = deque()
        """The rows of requests that are written: their numbers, and how many are in each."""
        self._next_row = 1
        self._noted = 0
        """How many requests the view had noted when they were copied last."""

    @property
    def kept(self) -> Kept | None:
        """What is kept now."""
        return self._kept

    @property
    def has_news(self) -> bool:
        """Whether there is something that is not in the checkpoint."""
        return self._all or self.events > 0

    @property
    def copying(self) -> bool:
        """Whether a checkpoint is being made."""
        return self._copy is not None

    def keep(self, kept: Kept) -> None:
        """Keeps a view from now on, or goes on with the same one, which another opening of the log has continued."""
        self._kept = kept
        if kept.view.gone is None and not self._all:
            kept.view.gone = {}

    def restored(self, about: About, rows: Sequence[tuple[int, int]], noted: int) -> None:
        """The view is what the checkpoint has.

        Args:
            about: what that holds for.
            rows: its rows of requests: their numbers, and how many are in each.
            noted: how many requests the view has noted so far.
        """
        self._all = False
        self._anchors = dict(enumerate(zip(about.positions, about.anchors, strict=True)))
        self._events = dict(enumerate(about.events))
        self._rows = deque(rows)
        self._next_row = rows[-1][0] + 1 if rows else 1
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
        self.events += len(events)
        changed, last, told = None if self._all else self._changed, self._last, self._events
        for placed in events:
            last[placed.partition] = placed
            if placed.event is not None or placed.problem:
                told[placed.partition] = placed.position
            if changed is not None and placed.event is not None:
                changed[name_of(placed.event.key)] = None
        if changed and self._copy is None:
            self._bound()

    def start_over(self) -> None:
        """Nothing that was written can be gone on with."""
        self._all = True
        self._changed, self.to_copy, self._copied, self._copy = {}, {}, [], None
        self._rows.clear()
        if self._kept is not None:
            self._kept.view.gone = None

    # --- the next checkpoint ---------------------------------------------------------------------------------------

    def begin(self) -> Copy | None:
        """The place where the view stands now is that of the next checkpoint; None: there is no log, or it is not to be relied on."""
        kept = self._kept
        assert self._copy is None, "resting"
        if kept is None or not kept.identity or not kept.trusted or not kept.positions:
            return None
        view, positions, anew = kept.view, tuple(kept.positions), self._all
        gone, view.gone = view.gone or {}, {}
        self.to_copy = dict.fromkeys(view.names()) if anew else self._changed | gone
        noted = view.recent.noted
        requests = view.recent.newest(noted if anew else noted - self._noted)
        if anew:
            self._rows.clear()
        if requests:
            self._rows.append((self._next_row, len(requests)))
        about = About(
            made_by=maker(),
            identity=kept.identity,
            positions=positions,
            anchors=tuple(self._anchor(partition, position) for partition, position in enumerate(positions)),
            events=tuple(self._events.get(partition, "") for partition in range(len(positions))),
            complete=tuple(view.complete),
            forgotten=dict(view.forgotten),
            number=view.number,
            times=view.times,
            context=view.context,
            size=kept.size,
            unreadable=kept.unreadable,
        )
        names = () if anew else tuple(self.to_copy)
        self._copy = Copy(about, anew, names, self.events, self._noted, self._next_row, requests, self._first_row(view.recent.most))
        self._all, self._changed, self._copied, self.events, self._noted = False, {}, [], 0, noted
        self._next_row += 1
        return self._copy

    def _first_row(self, most: int) -> int:
        """The first row of requests that is still kept; of those before, a view would not remember any. No row is empty."""
        rows = self._rows
        count = sum(count for _, count in rows)
        while len(rows) > 1 and count - rows[0][1] >= most:
            count -= rows.popleft()[1]
        return rows[0][0] if rows else self._next_row

    def next_cells(self, most: int) -> list[tuple[str, Row | None]]:
        """Some more cells, None where there is none any more; an empty list at the end."""
        names = self.to_copy
        for _ in range(max(min(most - len(self._copied), len(names)), 0)):
            self._take(names.popitem()[0])
        copied, self._copied = self._copied, []
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
        if copy.anew:
            self.start_over()
            return
        self._copy, self._copied, self.to_copy = None, [], {}
        self._changed |= dict.fromkeys(copy.names)
        self.events += copy.events
        self._noted = copy.noted
        if self._rows and self._rows[-1][0] == copy.number:
            self._rows.pop()
        self._bound()

    def _bound(self) -> None:
        """More names than twice the view's are of keys that have gone: copying every key that there is costs less than keeping them."""
        if self._kept is not None and len(self._changed) > max(2 * len(self._kept.view), _NAMES):
            self.start_over()

    def _take(self, name: str) -> None:
        assert self._kept is not None, "kept"
        held = self._kept.view.held(name)
        self._copied.append((name, None if held is None else row_of(held)))

    def _anchor(self, partition: int, position: Position) -> str:
        """What stands where a partition was read up to, if an event does."""
        last = self._last.get(partition)
        if last is not None:
            return anchor_of(last) if last.position == position else ""
        known = self._anchors.get(partition)
        return known[1] if known is not None and known[0] == position else ""


def requests_to_bytes(requests: Sequence[tuple[PolicyKey, Remembered]]) -> bytes:
    """Requests as they stand in the file."""
    return json.dumps([[name_of(key), *request] for key, request in requests], separators=(",", ":")).encode("ascii")


def requests_from_bytes(data: bytes) -> list[tuple[PolicyKey, Remembered]]:
    """Reads them.

    Raises:
        ValueError, TypeError: they are none.
    """
    return [(key_of(name), Remembered(*request)) for name, *request in json.loads(data)]

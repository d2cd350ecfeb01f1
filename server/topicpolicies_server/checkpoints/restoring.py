"""Restores a view from a checkpoint: as it was, at the place where it stood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..core.fold.fold import FoldContext
from ..core.policies.events import Position
from ..core.reading.view import View
from ..logs.change_log import Start
from ..sqlite_file import Damaged
from . import requests
from .header import CheckpointHeader, maker
from .store import Stored


class Restored(NamedTuple):
    """A view that was restored from a checkpoint."""

    header: CheckpointHeader
    view: View
    rows: Sequence[tuple[int, int]]
    """The checkpoint's rows of requests: the number of each, and how many requests it has."""

    @property
    def start(self) -> Start:
        """The place from which the log is to be read."""
        return Start(self.header.identity, self.header.positions, self.header.anchors, self.header.context.in_place)

    @property
    def positions(self) -> tuple[Position, ...]:
        """The position up to which the view has read, by partition."""
        return self.header.positions


def is_usable(header: CheckpointHeader, context: FoldContext) -> bool:
    """Whether this release would fold a log that is opened now as it was folded for the checkpoint.

    Args:
        header: the checkpoint's header.
        context: what the fold knows now, before the log is open.
    """
    then = header.context
    same = then.window_ms == context.window_ms and then.sole_writer == context.sole_writer
    return same and header.made_by == maker()


def restore(stored: Stored) -> Restored:
    """Makes the view of a checkpoint.

    Raises:
        Damaged: the checkpoint is not what was written.
        sqlite3.Error: it can't be read.
    """
    header = stored.header
    try:
        view = View(header.context._replace(joining=False), header.complete)
        view.restore(stored.cells, number=header.number, forgotten=header.forgotten, times=header.times)
        rows = [(number, _remember(view, some)) for number, some in stored.requests]
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"a checkpoint can't be read ({error})") from error
    return Restored(header, view, rows)


def _remember(view: View, some: bytes) -> int:
    found = requests.from_bytes(some)
    view.recent.restore(found)
    return len(found)

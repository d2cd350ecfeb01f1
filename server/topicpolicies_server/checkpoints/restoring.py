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
from .about import About, maker
from .store import Stored


class Restored(NamedTuple):
    """A view that was restored from a checkpoint."""

    about: About
    view: View
    rows: Sequence[tuple[int, int]]
    """The checkpoint's rows of requests: the number of each, and how many requests it has."""

    @property
    def start(self) -> Start:
        """The place from which the log is to be read."""
        return Start(self.about.identity, self.about.positions, self.about.anchors, self.about.context.in_place)

    @property
    def positions(self) -> tuple[Position, ...]:
        """The position up to which the view has read, by partition."""
        return self.about.positions


def is_of_use(about: About, context: FoldContext) -> bool:
    """Whether this release would fold a log that is opened now as it was folded for the checkpoint.

    Args:
        about: the checkpoint's header.
        context: what the fold knows now, before the log is open.
    """
    then = about.context
    same = then.window_ms == context.window_ms and then.sole_writer == context.sole_writer
    return same and about.made_by == maker()


def restore(stored: Stored) -> Restored:
    """Makes the view of a checkpoint.

    Raises:
        Damaged: the checkpoint is not what was written.
        sqlite3.Error: it can't be read.
    """
    about = stored.about
    try:
        view = View(about.context._replace(joining=False), about.complete)
        view.restore(stored.cells, number=about.number, forgotten=about.forgotten, times=about.times)
        rows = [(number, _remember(view, some)) for number, some in stored.requests]
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"a checkpoint can't be read ({error})") from error
    return Restored(about, view, rows)


def _remember(view: View, some: bytes) -> int:
    found = requests.from_bytes(some)
    view.recent.restore(found)
    return len(found)

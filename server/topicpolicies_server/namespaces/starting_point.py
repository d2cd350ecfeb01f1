"""Where an opening of a namespace's log begins: behind what is known of the log already, so that little of it has to be read.

That is behind a view that answered, which is then continued; or, if no view has answered, behind the last checkpoint. Otherwise it is the
log's beginning. The log decides in the end (``NamespaceLog.resumed``).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ..checkpoints import Restored
from ..history.scribe import Scribe
from ..logs.change_log import Start
from .common import Common
from .follower import Follower

_LOG = logging.getLogger(__name__)


class StartingPoint(NamedTuple):
    """Where an opening begins, and with which view."""

    start: Start | None = None
    """The place from which the log is to be read; None: its beginning."""
    restored: Restored | None = None
    """The restored checkpoint with whose view the opening begins; None: it begins with no checkpoint."""

    @property
    def place(self) -> tuple[Start, ...]:
        """``start`` as an argument of ``ChangeLog.open``."""
        return () if self.start is None else (self.start,)


async def starting_point(name: str, common: Common, older: Follower | None, recorder: Scribe | None) -> StartingPoint:
    """Returns where an opening of a namespace's log begins.

    Args:
        name: ``tenant/namespace``.
        common: what all namespaces have in common.
        older: the follower whose view answered last; None: none has.
        recorder: writes down what is folded; it has to know everything up to that place.
    """
    if older is not None:
        place = older.place if older.trusted and common.checkpoints is not None else None
        if place is None or (recorder is not None and not recorder.knows(place.start.identity, place.events)):
            return StartingPoint()
        return StartingPoint(place.start)
    if common.checkpoints is None:
        return StartingPoint()
    restored = await common.checkpoints.restored(name, common.context, seconds=common.limits.load_timeout_seconds)
    if restored is None:
        return StartingPoint()
    if recorder is not None and not recorder.knows(restored.place.start.identity, restored.place.events):
        _LOG.info("%s: the history ends before the checkpoint, so the log is read from its beginning", name)
        return StartingPoint()
    return StartingPoint(restored.place.start, restored)

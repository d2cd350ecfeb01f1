"""Where an opening of a namespace's log begins: behind what is known of the log already, or at its beginning.

=========================================================  ===============================================================================
what there is                                              where the opening begins
=========================================================  ===============================================================================
a view that answered, and may be continued                 behind that view, which is continued (``Follower.continues``)
no view that answered, and a checkpoint that can be used   behind the checkpoint
neither of them, or a doubt                                at the log's starting_point
=========================================================  ===============================================================================

The log decides in the end (``NamespaceLog.resumed``). Most failures have nothing to do with where an opening began. After one that may
have, the next opening begins at the log's beginning:

=======  ===============================================================================  =======
state    what happens                                                                     next
=======  ===============================================================================  =======
TRUSTED  an opening that was to begin behind something fails unexpectedly                 DOUBTED
TRUSTED  an opening that did begin behind something is contradicted by the log, or times  DOUBTED
         out
TRUSTED  an opening fails otherwise                                                       TRUSTED
TRUSTED  the log is lost because its file is damaged: all of it has to be read            DOUBTED
DOUBTED  an opening serves                                                                TRUSTED
=======  ===============================================================================  =======
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ..checkpoints import Restored
from ..core.reasons import LogState, Reason
from ..logs.change_log import LogError, NamespaceLog, Start
from .common import Common
from .follower import Follower
from .listeners import Recorder

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


class StartingPoints:
    """Decides where the openings of one namespace's log begin."""

    def __init__(self, name: str, common: Common) -> None:
        """``name``: ``tenant/namespace``; ``common``: what all namespaces have in common."""
        self._name = name
        self._common = common
        self._doubted = self._begun = self._resumed = False

    async def next(self, older: Follower | None, recorder: Recorder | None) -> StartingPoint:
        """Returns where the next opening begins.

        Args:
            older: the follower whose view answered last; None: none has.
            recorder: writes down what is folded; it has to know everything up to that place.
        """
        starting_point = StartingPoint()
        if not self._doubted:
            starting_point = self._behind(older, recorder) if older is not None else await self._restored(recorder)
        self._begun, self._resumed = starting_point.start is not None, False
        return starting_point

    def opened(self, log: NamespaceLog) -> None:
        """Notes that the log is open, and whether it is read from that place on."""
        self._resumed = log.resumed
        if self._begun and not log.resumed:
            _LOG.info("%s: its log does not go on behind what is known of it, so it is read from its beginning", self._name)

    def served(self) -> None:
        """Notes that the view of the opening answers."""
        self._doubted = False

    def lost(self, error: LogError) -> None:
        """Notes that the log can't be followed any more."""
        if error.reason is Reason.LOG_FILE_UNUSABLE:
            self._doubted = True

    def failed(self, error: BaseException | None, *, trusted: bool) -> None:
        """Notes that the opening has failed.

        Args:
            error: how; None: its log was lost.
            trusted: whether the log never contradicted what the view was built from.
        """
        if not self._begun:
            return
        nothing_came = isinstance(error, LogError) and error.state is LogState.LOAD_TIMEOUT
        unforeseen = isinstance(error, Exception) and not isinstance(error, LogError)
        self._doubted |= unforeseen or (self._resumed and (nothing_came or not trusted))

    async def _restored(self, recorder: Recorder | None) -> StartingPoint:
        """Returns the place behind the last checkpoint, if that can be used; else the log's beginning."""
        checkpoints, common = self._common.checkpoints, self._common
        if checkpoints is None:
            return StartingPoint()
        restored = await checkpoints.restored(self._name, common.context, seconds=common.limits.load_timeout_seconds)
        if restored is None:
            return StartingPoint()
        if recorder is not None and not recorder.knows(restored.place.start.identity, restored.place.events):
            _LOG.info("%s: the history ends before the checkpoint, so the log is read from its beginning", self._name)
            return StartingPoint()
        return StartingPoint(restored.place.start, restored)

    def _behind(self, older: Follower, recorder: Recorder | None) -> StartingPoint:
        place = older.place if older.trusted and self._common.checkpoints is not None else None
        if place is None or (recorder is not None and not recorder.knows(place.start.identity, place.events)):
            return StartingPoint()
        return StartingPoint(place.start)

"""With what an opening of a namespace's log begins: with what is known of the log already, or with nothing.

=========================================================  ===============================================================================
what there is                                              where the opening begins
=========================================================  ===============================================================================
a view that answered, and may be gone on with, and its     behind that view, which goes on (``Follower.continues``)
keeper knows what stands at its place
no view that answered, and a checkpoint that is of use     behind the checkpoint
neither of them, or a doubt                                at the log's beginning
=========================================================  ===============================================================================

The log has the last word (``NamespaceLog.resumed``). Most failures have nothing to do with what an opening began with; where they may, the
next one begins at the beginning:

=======  ===============================================================================  =======
state    what happens                                                                     next
=======  ===============================================================================  =======
TRUSTED  an opening fails in a way that nobody thought of                                 DOUBTED
TRUSTED  an opening that the log let begin there contradicts it, or nothing comes of it   DOUBTED
TRUSTED  an opening fails otherwise                                                       TRUSTED
TRUSTED  the log is lost because what it stands in is damaged: all of it is looked at     DOUBTED
DOUBTED  an opening serves                                                                TRUSTED
=======  ===============================================================================  =======
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ..checkpoints import Restored
from ..core.reasons import Reason
from ..logs.change_log import LogError, NamespaceLog, Start
from .common import Common
from .follower import Follower
from .listeners import Recorder

_LOG = logging.getLogger(__name__)


class Beginning(NamedTuple):
    """With what an opening begins."""

    start: Start | None = None
    """From where on the log is to be read; None: from its beginning."""
    restored: Restored | None = None
    """The view of the checkpoint that it begins with; None: with none."""

    @property
    def place(self) -> tuple[Start, ...]:
        """As the log's ``open`` takes it."""
        return () if self.start is None else (self.start,)


class Beginnings:
    """The beginnings of one namespace's openings."""

    def __init__(self, name: str, common: Common) -> None:
        """``name``: ``tenant/namespace``; ``common``: what all namespaces have in common."""
        self._name = name
        self._common = common
        self._doubted = self._begun = self._resumed = False

    async def next(self, older: Follower | None, recorder: Recorder | None) -> Beginning:
        """With what the next opening begins.

        Args:
            older: the opening whose view answered last; None: none has.
            recorder: writes down what is folded; it has to know everything up to there.
        """
        beginning = Beginning()
        if not self._doubted:
            beginning = _behind(older, recorder) if older is not None else await self._restored(recorder)
        self._begun, self._resumed = beginning.start is not None, False
        return beginning

    def opened(self, log: NamespaceLog) -> None:
        """The log is open, and has said whether it begins there."""
        self._resumed = log.resumed

    def served(self) -> None:
        """The opening answers."""
        self._doubted = False

    def lost(self, error: LogError) -> None:
        """The log can't be followed any more."""
        if error.reason is Reason.LOG_FILE_UNUSABLE:
            self._doubted = True

    def failed(self, error: BaseException | None, *, trusted: bool) -> None:
        """The opening has failed.

        Args:
            error: in what way; None: its log was lost.
            trusted: whether the log never contradicted what the view was built from.
        """
        if not self._begun:
            return
        nothing_came = isinstance(error, LogError) and error.reason is Reason.LOAD_TIMEOUT
        unforeseen = isinstance(error, Exception) and not isinstance(error, LogError)
        self._doubted |= unforeseen or (self._resumed and (nothing_came or not trusted))

    async def _restored(self, recorder: Recorder | None) -> Beginning:
        """The last checkpoint, if it is of use."""
        checkpoints, common = self._common.checkpoints, self._common
        if checkpoints is None:
            return Beginning()
        with common.activity.restoring():
            restored = await checkpoints.restored(self._name, common.context, seconds=common.limits.load_timeout_seconds)
        if restored is None:
            return Beginning()
        if recorder is not None and not recorder.knows(restored.about.identity, restored.about.events):
            _LOG.info("%s: the history does not go as far as the checkpoint, so the log is read from its beginning", self._name)
            return Beginning()
        return Beginning(restored.start, restored)


def _behind(older: Follower, recorder: Recorder | None) -> Beginning:
    place = older.keeper.place if older.keeper is not None and older.trusted and not older.unfolds else None
    if place is None or (recorder is not None and not recorder.knows(place.start.identity, place.events)):
        return Beginning()
    return Beginning(place.start)

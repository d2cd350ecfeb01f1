"""Logs peers that do not read what is written to them. They delay no other call; each is named once, so that operators can find its owner.

=======  ==============================================  ======  ===================================================
state    event                                           next    what is done
=======  ==============================================  ======  ===================================================
READS    the peer has taken nothing for                  UNREAD  a line names the call's method, caller and address
         ``TOLD_SECONDS``
UNREAD   the peer takes something, or its call has       READS   a line says so
         ended
=======  ==============================================  ======  ===================================================

Of the peers that become UNREAD at one look, at most ``MOST`` are named. The others are only counted.
"""

from __future__ import annotations

import asyncio
import logging

from ..tasks import RestartedTask
from .call import Call
from .calls import Calls

_LOG = logging.getLogger(__name__)
TOLD_SECONDS = 60.0
LOOK_SECONDS = 15.0
"""Seconds between two looks at the calls in progress."""
MOST = 20


class Unread:
    """The background task that looks for peers that do not read. It belongs to the event loop that starts it."""

    def __init__(self, calls: Calls) -> None:
        """``calls``: the calls in progress, which are not looked at before ``start``."""
        self._calls = calls
        self._told: dict[Call, str] = {}
        """The UNREAD calls that were named in the log, with their names there."""
        self._task = RestartedTask("peers that do not read", self._run)

    def start(self) -> None:
        """Starts the task."""
        self._task.start()

    async def close(self) -> None:
        """Stops the task."""
        await self._task.stop()

    def look(self) -> None:
        """Logs which peers have stopped reading, or read again, since the last look."""
        unread = dict.fromkeys(self._calls.unread(TOLD_SECONDS))
        for call in [each for each in self._told if each not in unread]:
            _LOG.info("%s reads again, or has disconnected", self._told.pop(call))
        new = [call for call in unread if call not in self._told]
        for call in new[:MOST]:
            self._told[call] = name = _named(call)
            _LOG.warning("%s has read nothing for %.0f s: it delays no other caller", name, self._calls.unread_for(call))
        if len(new) > MOST:
            _LOG.warning("%d others have read nothing for %.0f s", len(new) - MOST, TOLD_SECONDS)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()


def _named(call: Call) -> str:
    caller = call.caller
    who = f' of "{caller.principal}"' if caller.principal else ""
    through = f' for "{caller.speaks_for}"' if caller.speaks_for else ""
    return f"{call.method}{who}{through} from {call.context.peer()}"

"""Peers that read nothing of what is written to them. They delay nobody; the server's log names each once, so that its owner can be asked.

=======  ==============================================  ======  ==========================================
state    event                                           next    what is done
=======  ==============================================  ======  ==========================================
READS    it has taken nothing for ``TOLD_SECONDS``       UNREAD  a line says who it is
UNREAD   it takes something, or its call has ended       READS   a line says so
=======  ==============================================  ======  ==========================================

Of those that become UNREAD at one look ``MOST`` are named, and the others counted.
"""

from __future__ import annotations

import asyncio
import logging

from ..tasks import Kept
from .call import Call
from .calls import Calls

_LOG = logging.getLogger(__name__)
TOLD_SECONDS = 60.0
LOOK_SECONDS = 15.0
"""How often it is looked."""
MOST = 20


class Unread:
    """Looks at the calls in progress. It belongs to the event loop that starts it."""

    def __init__(self, calls: Calls) -> None:
        """Looks at nothing before ``start``."""
        self._calls = calls
        self._told: dict[Call, str] = {}
        """UNREAD: those that were named, and how."""
        self._task = Kept("peers that do not read", self._run)

    def start(self) -> None:
        """Looks from now on."""
        self._task.start()

    async def close(self) -> None:
        """Looks no more."""
        await self._task.stop()

    def look(self) -> None:
        """Tells what has changed."""
        unread = dict.fromkeys(self._calls.unread(TOLD_SECONDS))
        for call in [each for each in self._told if each not in unread]:
            _LOG.info("%s reads again, or has gone", self._told.pop(call))
        new = [call for call in unread if call not in self._told]
        for call in new[:MOST]:
            self._told[call] = name = _named(call)
            _LOG.warning("%s has read nothing for %.0f s: it delays nobody else", name, self._calls.unread_for(call))
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

"""How a server's calls end when it stops, in this order.

1. Watches end, each with a bookmark; streams of updates read no more, and end when all they have read has its result. Calls that come are
   told SHUTTING_DOWN, until there are none, or for two seconds; then gRPC takes no more, and cancels those that come in that moment.
2. What is under way may take its time (``drain_seconds``). Peers that do not read have a second.
3. Changes that have no result are answered: SHUTTING_DOWN where they certainly were not made, OUTCOME_UNKNOWN where they may have been.
4. All other calls are told SHUTTING_DOWN.
5. What is left has no reader: its connections are closed.
"""

from __future__ import annotations

import asyncio

import grpc

from .calls import LAST_SECONDS
from .servicer import Servicer

_MOMENT_SECONDS = 0.1


async def stop_calls(server: grpc.aio.Server, servicer: Servicer, seconds: float) -> None:
    """Ends all calls of a server, and the server; ``seconds``: how long what is under way may take."""
    servicer.stop_watches()
    await servicer.calls.refuse()
    closed = asyncio.get_running_loop().create_task(server.stop(seconds + 3 * LAST_SECONDS), name="no new calls")
    try:
        await servicer.calls.drained(seconds)
        servicer.give_up()
        await servicer.calls.drained(LAST_SECONDS)
        await asyncio.wait({closed}, timeout=_MOMENT_SECONDS)  # for watches of the health, which are told that it stops
        await servicer.calls.ended()
        await asyncio.wait({closed}, timeout=LAST_SECONDS)  # answers are written after their calls have ended
    finally:
        await server.stop(None)
        await closed
        await servicer.closed()

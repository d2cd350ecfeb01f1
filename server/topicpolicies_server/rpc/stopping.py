"""Ends the calls of a server that stops, in this order.

1. Watches end, each with a last bookmark. New calls are refused with SHUTTING_DOWN until none arrives any more, or for two seconds; then
   gRPC accepts no more calls, and cancels those that arrive at that moment.
2. Calls in progress have ``drain_seconds`` to finish. A peer that does not read has one second.
3. Changes without a result are answered: with SHUTTING_DOWN if they certainly were not made, with OUTCOME_UNKNOWN if they may have been.
4. All other calls are ended with SHUTTING_DOWN.
5. The peers of the calls that are left do not read: their connections are closed.
"""

from __future__ import annotations

import asyncio

import grpc

from .calls import LAST_SECONDS
from .servicer import Servicer

_MOMENT_SECONDS = 0.1


async def stop_calls(server: grpc.aio.Server, servicer: Servicer, seconds: float) -> None:
    """Ends all calls of a server, and stops the server. ``seconds``: how long calls in progress may take to finish."""
    servicer.watches.stop()
    await servicer.calls.refuse()
    closed = asyncio.get_running_loop().create_task(server.stop(seconds + 3 * LAST_SECONDS), name="no new calls")
    try:
        await servicer.calls.drained(seconds)
        servicer.give_up()
        await servicer.calls.drained(LAST_SECONDS)
        await asyncio.wait({closed}, timeout=_MOMENT_SECONDS)  # so that health watches can still send NOT_SERVING
        await servicer.calls.end_all()
        await asyncio.wait({closed}, timeout=LAST_SECONDS)  # gRPC sends answers after their methods have returned
    finally:
        await server.stop(None)
        await closed
        await servicer.watches.closed()

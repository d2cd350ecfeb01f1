"""The connections of one client of the admin API, and how many requests may be in flight over them.

The HTTP library has a queue for its connections, too. But it scans all requests that wait whenever one comes or goes: with a thousand of
them the process did nothing else. So requests wait in a queue of their own (``fair_limit``).
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

import httpx

_READ_SECONDS = 5.0
"""How long an attempt may wait for its connection, and for each piece of an answer."""
QUICK = 16
"""How many requests that were begun just now may be in flight."""
QUICK_SECONDS = 1.0
"""How long they count as such."""
SLOW = 48
"""How many requests that take long may be in flight besides."""
_REACHING = 4
"""Separate connections for ``Admin.reached``."""


class HttpConnections(NamedTuple):
    """The connections for requests, and those for testing whether a host can be reached."""

    questions: httpx.AsyncClient
    reaching: httpx.AsyncClient

    @classmethod
    def of(cls, context: ssl.SSLContext) -> HttpConnections:
        """Returns clients that are not connected yet."""
        return cls(_client(context, QUICK + SLOW), _client(context, _REACHING))

    async def close(self) -> None:
        """Closes all connections."""
        await asyncio.gather(self.questions.aclose(), self.reaching.aclose())


def _client(context: ssl.SSLContext, most: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        verify=context,
        timeout=_READ_SECONDS,
        limits=httpx.Limits(max_connections=most, max_keepalive_connections=min(most, QUICK)),
        trust_env=False,  # a proxy or a .netrc of the environment is not meant for brokers
    )

"""Where metrics are shown: a small HTTP server in a thread of its own, so that a slow scrape delays nobody."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from ..config import Address


class Endpoint:
    """``GET /metrics``, without TLS and without asking who asks: numbers only, no names of topics or people."""

    def __init__(self, address: Address, collector: Collector) -> None:
        """Listens at once.

        Args:
            address: where; port 0 lets the system choose.
            collector: what is shown.

        Raises:
            OSError: the address can't be listened on.
        """
        registry = CollectorRegistry()
        registry.register(collector)
        self._server, self._thread = start_http_server(address.port, address.host, registry)
        self.address = address._replace(port=self._server.server_port)

    async def close(self) -> None:
        """Stops listening."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

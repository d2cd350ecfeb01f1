"""The HTTP endpoint for metrics and probes, in threads of its own, so that a slow scrape delays nothing else.

``GET /metrics``, ``/livez`` and ``/readyz``, without TLS and without authentication: the answers have numbers, and whether the log can be
reached, but no names of topics or principals. Every other path is 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ..config import Address
from ..health import Report
from .probes import probe
from .web import App, Web, one_at_a_time, routed

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


class Endpoint:
    """Answers at one address."""

    def __init__(self, address: Address, collector: Collector, health: Callable[[], Report] | None = None) -> None:
        """Listens at once.

        Args:
            address: the address; port 0 lets the system choose.
            collector: collects the metrics.
            health: returns the report for probes, in any thread; None: there are no probes.

        Raises:
            OSError: the address can't be listened on.
        """
        registry = CollectorRegistry()
        registry.register(collector)
        apps: dict[str, App] = {"/metrics": one_at_a_time(_exposition(registry))}  # several would hold up the event loop
        if health is not None:
            apps |= {"/livez": probe("livez", lambda: health().live), "/readyz": probe("readyz", lambda: health().ready)}
        self._web = Web(address.host, address.port, routed(apps))
        self.address = address._replace(port=self._web.port)

    async def close(self) -> None:
        """Stops listening."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._web.close()


def _exposition(registry: CollectorRegistry) -> App:
    """Returns an app that shows all metrics in the requested format, or in plain text if the request's ``Accept`` can't be read.

    The query string is ignored: with one, Prometheus' client would leave out families that were not described, as ours are. It also fails
    for an ``Accept`` with versions that are no numbers.
    """
    shown = make_wsgi_app(registry)

    def app(environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        accepted = environment.get("HTTP_ACCEPT", "")
        try:
            choose_encoder(accepted)
        except (TypeError, ValueError):
            accepted = ""
        answer: Iterable[bytes] = shown({**environment, "QUERY_STRING": "", "HTTP_ACCEPT": accepted}, respond)
        return answer

    return app

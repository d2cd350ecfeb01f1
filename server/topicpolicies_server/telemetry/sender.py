"""Sends spans and metrics to a collector in a thread, so that the event loop never waits for the collector.

=======  ====================================================  ===============================================
state    what waits                                            when a request fails, or succeeds
=======  ====================================================  ===============================================
HEARD    is sent each second                                   fails: it is logged; AWAY
AWAY     is sent after a pause, twice as long each time, at    fails: the pause grows; succeeds: it is logged
         most ``LONGEST_PAUSE``                                with how much was lost; HEARD
=======  ====================================================  ===============================================

The spans of a request that failed are lost, and so are those beyond ``MOST``. Metrics are cumulative: the next request has what was lost.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httpx

from . import encoding
from .spans import Ended, spans_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_LOG = logging.getLogger(__name__)
MOST = 4_096
"""How many calls and changes may wait to be sent."""
TOGETHER = 512
"""How many calls and changes are in one request at most."""
LONGEST_PAUSE = 60.0
_SECONDS = 10.0
"""How long a request may take."""
_CLOSE_SECONDS = 2.0
HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
"""The environment variable with headers for the collector, as in OpenTelemetry: ``name=value,...``, values encoded as in URLs."""
_PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Sender:
    """Sends spans and metrics to one collector."""

    def __init__(
        self,
        endpoint: str,
        families: Callable[[], Iterable[Metric]],
        about: Mapping[str, str],
        *,
        gather_seconds: float = 1.0,
        metrics_seconds: float = 60.0,
    ) -> None:
        """Starts the thread.

        Args:
            endpoint: where the collector takes OTLP over HTTP, without ``/v1/traces``.
            families: returns the metrics as they are now; called in the thread.
            about: the attributes of the OTLP resource: what sends the telemetry.
            gather_seconds: how long spans are gathered.
            metrics_seconds: how often metrics are sent.
        """
        self.lost = 0
        """How many calls and changes have spans that were not sent."""
        self._endpoint = endpoint.rstrip("/")
        self._families = families
        self._resource = encoding.resource(about)
        self._gather_seconds = gather_seconds
        self._metrics_seconds = metrics_seconds
        self._began = time.time()
        self._waiting: deque[Ended] = deque()
        self._ending = threading.Event()
        self._pause = 0.0
        """How long the thread waits after the last failure; 0: the last request succeeded."""
        self._told = 0
        self._client = httpx.Client(timeout=_SECONDS, headers={**headers_of(os.environ.get(HEADERS_VARIABLE, "")), **_PROTOBUF})
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def ended(self, what: Ended) -> None:
        """Queues the spans of a call or change that has ended. Never blocks."""
        if len(self._waiting) >= MOST:
            self.lost += 1
        else:
            self._waiting.append(what)

    def close(self) -> None:
        """Sends what waits, in bounded time. Blocks meanwhile."""
        self._ending.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.wait(self._pause or self._gather_seconds):
            self._send_spans()
            if time.monotonic() >= due:
                due = time.monotonic() + self._metrics_seconds
                self._send_metrics()
        if not self._pause:
            self._send_spans()
            self._send_metrics()
        self._client.close()

    def _send_spans(self) -> None:
        while self._waiting:
            taken = list(self._taken())
            if not self._send("/v1/traces", partial(self._spans, taken)):
                self.lost += len(taken)
                return

    def _spans(self, taken: Sequence[Ended]) -> bytes:
        wall = time.time() - time.perf_counter()
        return encoding.spans((span for each in taken for span in spans_of(each)), self._resource, wall)

    def _taken(self) -> Iterator[Ended]:
        waiting = self._waiting
        for _ in range(min(len(waiting), TOGETHER)):
            yield waiting.popleft()

    def _send_metrics(self) -> None:
        self._send("/v1/metrics", lambda: encoding.metrics(self._families(), self._resource, self._began, time.time()))

    def _send(self, path: str, body: Callable[[], bytes]) -> bool:
        """Sends a request. Returns whether it was answered with success."""
        try:
            self._client.post(self._endpoint + path, content=body()).raise_for_status()
        except httpx.HTTPStatusError as error:
            self._fails(f"it answers {error.response.status_code} to {path}")
        except (httpx.HTTPError, OSError) as error:
            self._fails(str(error) or type(error).__name__)
        except Exception:  # noqa: BLE001 (whatever is wrong with one, the others are sent)
            _LOG.exception("telemetry could not be written")
        else:
            self._succeeds()
            return True
        return False

    def _fails(self, why: str) -> None:
        if not self._pause:
            _LOG.warning("telemetry can't be sent to %s: %s", self._endpoint, why)
        self._pause = min(max(2 * self._pause, self._gather_seconds), LONGEST_PAUSE)

    def _succeeds(self) -> None:
        if self._pause:
            self._pause = 0.0
            _LOG.info("telemetry is sent again; the spans of %d calls and changes are missing", self.lost - self._told)
            self._told = self.lost


def headers_of(text: str) -> dict[str, str]:
    """Parses headers in the form of OpenTelemetry's variable; parts that are no header are left out."""
    pairs = (each.partition("=") for each in text.split(","))
    return {name.strip(): unquote(value.strip()) for name, equals, value in pairs if equals and name.strip()}

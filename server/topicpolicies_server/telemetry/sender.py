"""Sends spans and metrics to a collector in a thread, so that the event loop never waits for the collector.

=======  ====================================================  ===============================================
state    what waits                                            when a request fails, or succeeds
=======  ====================================================  ===============================================
HEARD    is sent each second                                   fails: it is logged; AWAY
AWAY     is sent after a pause, twice as long each time, at    fails: the pause grows; succeeds: it is logged
         most ``LONGEST_PAUSE``                                with how much was lost; HEARD
=======  ====================================================  ===============================================

Spans and metrics have a state each, for some collectors accept only one of them. If both fail for the same cause, that is logged once.

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

from . import encoding
from .collector import HEADERS_VARIABLE, Collector, CollectorError, headers_of
from .spans import Ended, spans_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_LOG = logging.getLogger(__name__)
MOST = 4_096
"""How many calls and changes may wait to be sent."""
TOGETHER = 512
"""How many calls and changes are in one request at most."""
LONGEST_PAUSE = 60.0
_CLOSE_SECONDS = 2.0
_TRACES, _METRICS = "/v1/traces", "/v1/metrics"


class _Away:
    """The state AWAY of what is sent to one path."""

    def __init__(self, status: int) -> None:
        """``status``: that of the answer for which it is away; 0: there was none."""
        self.status = status
        self.pause = 0.0
        """The seconds of the last pause."""
        self.due = 0.0
        """The end of the pause, by ``time.monotonic``."""


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
        self._away: dict[str, _Away] = {}
        """The paths that are AWAY."""
        self._told = 0
        self._collector = Collector(endpoint, headers_of(os.environ.get(HEADERS_VARIABLE, "")))
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
        while not self._ending.wait(self._gather_seconds):
            if self._may_send(_TRACES):
                self._send_spans()
            if time.monotonic() >= due and self._may_send(_METRICS):
                due = time.monotonic() + self._metrics_seconds
                self._send_metrics()
        if _TRACES not in self._away:
            self._send_spans()
        if _METRICS not in self._away:
            self._send_metrics()
        self._collector.close()

    def _may_send(self, path: str) -> bool:
        away = self._away.get(path)
        return away is None or time.monotonic() >= away.due

    def _send_spans(self) -> None:
        while self._waiting:
            taken = list(self._taken())
            if not self._send(_TRACES, partial(self._spans, taken)):
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
        self._send(_METRICS, lambda: encoding.metrics(self._families(), self._resource, self._began, time.time()))

    def _send(self, path: str, body: Callable[[], bytes]) -> bool:
        """Sends a request. Returns whether it was answered with success."""
        try:
            self._collector.post(self._endpoint + path, body())
        except CollectorError as error:
            self._fails(path, error)
        except Exception:  # noqa: BLE001 (whatever is wrong with one, the others are sent)
            _LOG.exception("telemetry could not be written")
        else:
            self._succeeds(path)
            return True
        return False

    def _fails(self, path: str, error: CollectorError) -> None:
        away = self._away.get(path)
        if away is None:
            if all(each.status != error.status for each in self._away.values()):
                where = f" to {path}" if error.status else ""
                _LOG.warning("telemetry can't be sent to %s: %s%s", self._endpoint, error, where)
            away = self._away[path] = _Away(error.status)
        away.pause = min(max(2 * away.pause, self._gather_seconds), LONGEST_PAUSE)
        away.due = time.monotonic() + away.pause

    def _succeeds(self, path: str) -> None:
        was = self._away.pop(path, None)
        if was is None:
            return
        self._away = {other: away for other, away in self._away.items() if away.status != was.status}  # the same outage, which is over
        _LOG.info("telemetry is sent again; the spans of %d calls and changes are missing", self.lost - self._told)
        self._told = self.lost

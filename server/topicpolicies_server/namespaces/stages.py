"""How long changes take, stage by stage.

==============  =========================================================  ==========================================================
stage           it begins                                                  it ends
==============  =========================================================  ==========================================================
``waiting``     a call with one change comes                               the change is admitted and handed to its namespace
``sequencing``  a change is handed to its namespace                        its event is handed to the log for the first time
``log``         an event is handed to the log                              the log has acknowledged it, or its reader was faster
``readback``    the log has acknowledged an event                          the event counts: all before it is known
==============  =========================================================  ==========================================================

An event that is never acknowledged ends no stage. Events under way are bounded: beyond ``MOST`` the oldest are no longer measured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import TypeVar

from ..core.chains.sequencer import Request
from ..core.policies.events import Event, Placed
from ..core.traces import StageTimes
from ..histograms import Histogram

_Noted = TypeVar("_Noted")
MOST = 100_000
"""The most events that may wait for their acknowledgement and still be measured, and the most that may wait to count."""


class Stages:
    """Measures the stages of a server's changes. The methods belong to the event loop; other threads may read the histograms."""

    def __init__(self) -> None:
        self.waiting = Histogram()
        self.sequencing = Histogram()
        self.log = Histogram()
        self.readback = Histogram()
        self._sent: OrderedDict[str, float] = OrderedDict()
        self._acknowledged: OrderedDict[str, float] = OrderedDict()
        self._stage_times: OrderedDict[str, StageTimes] = OrderedDict()
        """By event id: the times of the stages of events that are traced."""

    def by_name(self) -> dict[str, Histogram]:
        """Returns the histograms, by the name of their stage."""
        return {"waiting": self.waiting, "sequencing": self.sequencing, "log": self.log, "readback": self.readback}

    def handed_on(self, requests: Iterable[Request]) -> None:
        """Notes that changes are handed to their namespace."""
        now = perf_counter()
        for request in requests:
            request.began = now

    def appended(self, event: Event, request: Request | None) -> None:
        """Notes that an event is handed to the log; ``request``: the request that it is of, if this is the first time."""
        if event.stamp is not None:
            now = perf_counter()
            if request is not None and request.began:
                self.sequencing.count(now - request.began)
                if (times := request.stage_times) is not None:
                    times.sent = now
                    _keep(self._stage_times, event.stamp.event_id, times)
            _keep(self._sent, event.stamp.event_id, now)

    def refused(self, event: Event) -> None:
        """Forgets an event that the log has not acknowledged."""
        if event.stamp is not None:
            self._sent.pop(event.stamp.event_id, None)
            self._stage_times.pop(event.stamp.event_id, None)

    def acknowledged(self, events: Sequence[Placed]) -> None:
        """Notes that the log has acknowledged events."""
        now, sent = perf_counter(), self._sent
        for placed in events:
            if placed.event is not None and placed.event.stamp is not None:
                event_id = placed.event.stamp.event_id
                began = sent.pop(event_id, None)
                if began is not None:
                    self.log.count(now - began)
                    _keep(self._acknowledged, event_id, now)
                    if self._stage_times and (times := self._stage_times.get(event_id)) is not None:
                        times.acknowledged = now

    def folded(self, event_id: str) -> None:
        """Notes that an event of ours counts."""
        if self._stage_times and (times := self._stage_times.pop(event_id, None)) is not None:
            times.folded = perf_counter()
        acknowledged = self._acknowledged.pop(event_id, None)
        if acknowledged is not None:
            self.readback.count(perf_counter() - acknowledged)
        elif (began := self._sent.pop(event_id, None)) is not None:
            self.log.count(perf_counter() - began)
            self.readback.count(0.0)


def _keep(times: OrderedDict[str, _Noted], event_id: str, now: _Noted) -> None:
    times[event_id] = now
    if len(times) > MOST:
        times.popitem(last=False)

"""How long changes take, stage by stage.

==============  =========================================================  ==========================================================
stage           it begins                                                  it ends
==============  =========================================================  ==========================================================
``waiting``     a call with one change comes                               the change is admitted and handed to its namespace
``sequencing``  a change is handed to its namespace                        its event is handed to the log for the first time
``log``         an event is handed to the log                              the log has acknowledged it, or its reader was faster
``readback``    the log has acknowledged an event                          the event counts: all before it is known
==============  =========================================================  ==========================================================

An event that is never acknowledged ends no stage. Beyond ``MOST`` events under way the oldest are no longer measured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from time import perf_counter

from ..core.chains.sequencer import Request
from ..core.policies.events import Event, Placed
from ..core.traces import StageTimes
from ..histograms import Histogram

MOST = 100_000
"""The most events under way that are measured."""


class _UnderWay:
    """An event that was handed to the log and does not count yet."""

    __slots__ = ("acknowledged", "sent", "times")

    def __init__(self, sent: float, times: StageTimes | None) -> None:
        self.sent = sent
        self.acknowledged = 0.0
        self.times = times
        """Where its times are noted, if it is traced."""


class Stages:
    """Measures the stages of a server's changes. The methods belong to the event loop; other threads may read the histograms."""

    def __init__(self) -> None:
        self.waiting = Histogram()
        self.sequencing = Histogram()
        self.log = Histogram()
        self.readback = Histogram()
        self._under_way: OrderedDict[str, _UnderWay] = OrderedDict()
        """By event id."""

    def by_name(self) -> dict[str, Histogram]:
        """Returns the histograms, by the name of their stage."""
        return {"waiting": self.waiting, "sequencing": self.sequencing, "log": self.log, "readback": self.readback}

    def appended(self, event: Event, request: Request | None) -> None:
        """Notes that an event is handed to the log; ``request``: the request that it is of, if this is the first time."""
        if event.stamp is None:
            return
        now, times = perf_counter(), None
        if request is not None and request.began:
            self.sequencing.count(now - request.began)
            if (times := request.stage_times) is not None:
                times.sent = now
        self._under_way[event.stamp.event_id] = _UnderWay(now, times)
        if len(self._under_way) > MOST:
            self._under_way.popitem(last=False)

    def refused(self, event: Event) -> None:
        """Forgets an event that the log has not acknowledged."""
        if event.stamp is not None:
            self._under_way.pop(event.stamp.event_id, None)

    def acknowledged(self, events: Sequence[Placed]) -> None:
        """Notes that the log has acknowledged events."""
        now = perf_counter()
        for placed in events:
            if placed.event is None or placed.event.stamp is None:
                continue
            known = self._under_way.get(placed.event.stamp.event_id)
            if known is not None and not known.acknowledged:
                known.acknowledged = now
                self.log.count(now - known.sent)
                if known.times is not None:
                    known.times.acknowledged = now

    def folded(self, event_id: str) -> None:
        """Notes that an event of ours counts."""
        known = self._under_way.pop(event_id, None)
        if known is None:
            return
        now = perf_counter()
        if not known.acknowledged:  # its reader was faster
            known.acknowledged = now
            self.log.count(now - known.sent)
        self.readback.count(now - known.acknowledged)
        if known.times is not None:
            known.times.folded = now

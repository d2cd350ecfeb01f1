"""Asks where the partitions of a log end, for requests whose answers would write nothing (``core/chains/sequencer``).

Requests that come while the log is asked about their partition wait for the next question, because its answer may lack what was written
between its beginning and their arrival; all that wait then share the next one. So there is at most one question about a partition at a
time, however many requests wait. A request is confirmed when the view has come to the end that the log answered.

An end that the view does not come to is asked for again from time to time: by then the log may know that there is nothing left to be read
before it (``NamespaceLog.end``). Requests that were given up meanwhile are failed then, so that nothing waits behind them in their chains.
A question without an answer fails the requests that wait for it, and no others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from ..core.chains.sequencer import Request
from ..core.errors import PolicyError
from ..core.policies.events import Position
from ..logs.change_log import NamespaceLog
from ..tasks import TaskSet, asked_to_end

_LOG = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


class Confirmations:
    """Confirms requests of one namespace by asking where its log ends."""

    def __init__(
        self,
        name: str,
        seconds: float,
        confirmed: Callable[[Sequence[Request]], None],
        failed: Callable[[Sequence[Request], str], None],
    ) -> None:
        """Asks nothing before a log serves.

        Args:
            name: ``tenant/namespace``.
            seconds: how long a question may take.
            confirmed: called with requests that had arrived before the log ended where the view is now, or earlier.
            failed: called with requests for which there was no answer, or whose callers have given up, and why.
        """
        self._name = name
        self._seconds = seconds
        self._confirmed = confirmed
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._log: NamespaceLog | None = None
        self._here: Sequence[Position] = ()
        """Where the view stands, by partition."""
        self._unasked: list[Request] = []
        """Requests that came while no log serves."""
        self._waiting: dict[int, list[Request]] = {}
        """By partition: requests that came after the current question about it had begun."""
        self._asking: dict[int, tuple[asyncio.Task[None], list[Request]]] = {}
        """By partition: the question that is under way, and the requests that wait for its answer."""
        self._ends: dict[int, deque[tuple[Position, list[Request]]]] = {}
        """By partition: ends that the view has not come to, the nearest first, and the requests that wait for them."""
        self._again: asyncio.TimerHandle | None = None
        self._tasks = TaskSet(name)

    def confirm(self, request: Request) -> None:
        """Confirms or fails a request later, by asking for the end of its partition from now on."""
        if self._log is None:
            self._unasked.append(request)
            return
        partition = self._log.partition_of(request.key)
        self._waiting.setdefault(partition, []).append(request)
        self._begin(partition)

    def serve(self, log: NamespaceLog, here: Sequence[Position]) -> None:
        """Asks a log that serves from now on, of which the view has come to ``here``. Ends that another opening answered don't count."""
        self.stop()
        self._log, self._here = log, here
        requests, self._unasked = self._unasked, []
        for request in requests:
            self.confirm(request)

    def stop(self) -> None:
        """Asks nothing while no log serves; the requests that wait go on waiting."""
        self._log = None
        for task, requests in self._asking.values():
            task.cancel()
            self._unasked += requests
        for waiting in self._waiting.values():
            self._unasked += waiting
        for ends in self._ends.values():
            for _, requests in ends:
                self._unasked += requests
        self._asking, self._waiting, self._ends = {}, {}, {}
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def moved(self, here: Sequence[Position]) -> None:
        """Confirms the requests that waited for the view to come this far."""
        self._here = here
        confirmed: list[Request] = []
        for partition, ends in list(self._ends.items()):
            while ends and ends[0][0] <= here[partition]:
                confirmed += ends.popleft()[1]
            if not ends:
                del self._ends[partition]
        if confirmed:
            self._confirmed(confirmed)

    def _begin(self, partition: int) -> None:
        if partition not in self._asking and self._log is not None:
            requests: list[Request] = []
            self._asking[partition] = (
                self._tasks.begin(self._ask(self._log, partition, requests), "requesting the end of the log"),
                requests,
            )

    async def _ask(self, log: NamespaceLog, partition: int, requests: list[Request]) -> None:
        # Also those that came in the same turn of the loop as the first one: this runs in the next.
        requests += self._waiting.pop(partition, [])
        why = end = ""
        try:
            async with asyncio.timeout(self._seconds):
                end = await log.end(partition)
        except TimeoutError:
            why = f"the end of the log was not received within {self._seconds:g} s"
        except PolicyError as problem:
            why = problem.message
        except (Exception, asyncio.CancelledError) as problem:  # no request may be left waiting, nor later ones kept from asking
            if asked_to_end(problem):
                raise
            _LOG.exception("%s: requesting the end of the change log failed", self._name)
            why = f"requesting the end of the log failed ({type(problem).__name__})"
        if self._log is not log:
            return  # ``stop`` has kept its requests, to be asked for again
        del self._asking[partition]
        if self._waiting.get(partition):
            self._begin(partition)
        try:
            if not why:
                self._add_end(partition, end, requests)
                self.moved(self._here)
            elif requests:
                self._failed(requests, why)
        finally:
            if self._ends and self._again is None:  # also if there was no answer: others may wait for an end that came before
                self._again = self._loop.call_later(_AGAIN_SECONDS, self._ask_again)

    def _add_end(self, partition: int, end: Position, requests: list[Request]) -> None:
        """Has requests wait for an end, together with all that wait for an end that is not before it."""
        ends = self._ends.setdefault(partition, deque())
        while ends and ends[-1][0] >= end:  # those requests have asked earlier, so this end is late enough for them
            earlier = ends.pop()[1]
            earlier += requests  # few are added to many
            requests = earlier
        ends.append((end, requests))

    def _ask_again(self) -> None:
        self._again = None
        given_up: list[Request] = []
        for partition, ends in list(self._ends.items()):
            given_up += (request for _, requests in ends for request in requests if request.abandoned)
            left = ((end, [request for request in requests if not request.abandoned]) for end, requests in ends)
            if still := deque((end, requests) for end, requests in left if requests):
                self._ends[partition] = still
                self._begin(partition)
            else:
                del self._ends[partition]
        if given_up:
            self._failed(given_up, "no request waits for it any more")

"""How far the view of a namespace has come along its log: who waits for a position, and as of when the view is complete.

**Confirmations** of answers that write nothing (``core/chains/sequencer``): the log is asked where the partition of a request's key ends,
and the answer is confirmed once the view has come to there. Requests of one partition that wait together share a question.

**Freshness**: watchers are sent as of when what they have is complete. A log that other processes can write is asked where it ends, from
time to time while the namespace is watched, also by the process that leads it, which may have a successor and not know it yet. All
namespaces share a rate of these questions (``CONFIRMATIONS_PER_SECOND``).

An end that the view does not come to is asked for again from time to time: the log may know by then that nothing is left to be read before
it (``NamespaceLog.end``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ..core.chains.request import Request
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.policies.events import Position
from ..core.reading.view import View
from ..core.reasons import Reason
from ..logs.change_log import NamespaceLog
from ..tasks import RestartedTask, TaskSet, asked_to_end
from .common import Common

_LOG = logging.getLogger(__name__)
CONFIRMATIONS_PER_SECOND = 50.0
"""The most questions for the ends of watched logs, in all namespaces together."""
AGAIN_SECONDS = 1.0
"""How long the view may take to come to an end, for a confirmation, before the log is asked for it again."""


class Progress:
    """Follows how far the view of one namespace has come."""

    def __init__(self, name: str, common: Common, confirmed: Callable[[Sequence[Request], str], None]) -> None:
        """Asks nothing before a log serves.

        ``confirmed``: called with requests that had arrived before the log ended where the view is now, or earlier; or with those for which
        there was no answer, and why.
        """
        limits = common.limits
        self._name = name
        self._common = common
        self._confirmed = confirmed
        self._patience = limits.update_timeout_seconds
        self._between = limits.bookmark_interval_seconds / 2
        self._log: NamespaceLog | None = None
        self._here: Sequence[Position] = ()
        self.waits: dict[asyncio.Future[None], tuple[int, Position]] = {}
        """The futures of callers, and questions, that end when the view has come to a position of a partition."""
        self._tasks = TaskSet(name)
        self._unasked: list[Request] = []
        """Requests that wait for the next question about their partition."""
        self._asking: dict[int, tuple[asyncio.Task[None], list[Request]]] = {}
        """By partition: what asks, and the requests that wait for the answer, or for the view to come to it."""
        self._complete_as_of_ms = 0
        self._checks: RestartedTask | None = None

    def serve(self, log: NamespaceLog, here: Sequence[Position], as_of: int) -> None:
        """Goes on with a log that serves, and was read to where it ended at ``as_of``; the view has come to ``here``."""
        self.stop()
        self._log = log
        self._complete_as_of_ms = max(self._complete_as_of_ms, as_of)
        self.moved(here)
        for request in self._unasked:
            self._ask(log, log.partition_of(request.key))

    def stop(self) -> None:
        """Asks nothing while no log serves. Requests, and callers that wait for a version, go on waiting."""
        self._log = None
        self.unwatched()
        for task, requests in self._asking.values():
            task.cancel()
            self._unasked += requests
        self._asking = {}

    def moved(self, here: Sequence[Position]) -> None:
        """Ends the waits up to where the view has come, by partition. A log may come back with fewer partitions, or more."""
        self._here = here
        for future, (partition, position) in self.waits.items():
            if partition < len(here) and position <= here[partition] and not future.done():
                future.set_result(None)

    async def reached(self, view: View, key: PolicyKey, version: Position) -> None:
        """Returns once the view, which answers, has come to a version of a key; raises VERSION_NOT_REACHED if it has not in time."""
        assert self._log is not None, "it serves"
        partition = self._log.partition_of(key)
        if self._here[partition] >= version or view.version(key) >= version:
            return
        try:
            await self._until(partition, version, self._patience)
        except TimeoutError:
            raise not_reached(self._name, version) from None

    async def _until(self, partition: int, position: Position, seconds: float) -> None:
        """Returns once the view has come to a position of a partition; raises TimeoutError if it has not within so many seconds."""
        future = asyncio.get_running_loop().create_future()
        self.waits[future] = partition, position
        try:
            async with asyncio.timeout(seconds):
                await future
        finally:
            del self.waits[future]

    # --- the end of the log ---------------------------------------------------------------------------------------

    async def _come_to_end(self, log: NamespaceLog, partition: int, seconds: float, *, paced: bool) -> None:
        """Asks where a partition ends now, and waits until the view has come to there.

        The log is asked again whenever so many seconds are over; ``paced``: within the rate of all namespaces. Raises PolicyError if there
        is no answer.
        """
        end = await self._end(log, partition)
        while self._here[partition] < end:
            try:
                await self._until(partition, end, seconds)
            except TimeoutError:
                if paced:
                    await self._turn()
                end = min(end, await self._end(log, partition))  # a view that is always behind comes to the first one

    async def _end(self, log: NamespaceLog, partition: int) -> Position:
        seconds = self._patience / 2
        try:
            async with asyncio.timeout(seconds):
                return await log.end(partition)
        except TimeoutError:
            sentence = f"the end of the log was not received within {seconds:g} s"
            raise PolicyError(Kind.DEADLINE_EXCEEDED, Reason.LOG_UNAVAILABLE, sentence) from None

    # --- confirmations --------------------------------------------------------------------------------------------

    def confirm(self, request: Request) -> None:
        """Confirms or fails a request later, by asking for the end of its partition from now on."""
        self._unasked.append(request)
        if self._log is not None:
            self._ask(self._log, self._log.partition_of(request.key))

    def _ask(self, log: NamespaceLog, partition: int) -> None:
        if partition not in self._asking:
            requests: list[Request] = []
            self._asking[partition] = self._tasks.begin(self._confirm(log, partition, requests), "requesting the end of the log"), requests

    async def _confirm(self, log: NamespaceLog, partition: int, requests: list[Request]) -> None:
        unasked, self._unasked = self._unasked, []
        for request in unasked:
            (requests if log.partition_of(request.key) == partition else self._unasked).append(request)
        why = ""
        try:
            async with asyncio.timeout(self._patience):
                await self._come_to_end(log, partition, AGAIN_SECONDS, paced=False)
        except TimeoutError:
            why = "the log was not read up to its end in time"
            self._unasked += [request for request in requests if not request.abandoned]  # a repeat waits for it
            requests = [request for request in requests if request.abandoned]
        except PolicyError as problem:
            why = problem.message
        except (Exception, asyncio.CancelledError) as problem:  # no request may be left waiting, nor later ones kept from asking
            if asked_to_end(problem):
                raise
            _LOG.exception("%s: requesting the end of the change log failed", self._name)
            why = f"requesting the end of the log failed ({type(problem).__name__})"
        del self._asking[partition]
        for request in self._unasked:
            self._ask(log, log.partition_of(request.key))
        self._confirmed(requests, why)

    # --- freshness ------------------------------------------------------------------------------------------------

    @property
    def complete_as_of_ms(self) -> int:
        """As of when the view is known to be complete, in milliseconds since 1970; 0: never."""
        if self._log is not None and self._common.context.sole_writer:
            self._complete_as_of_ms = max(self._complete_as_of_ms, self._common.now())
        return self._complete_as_of_ms

    def watched(self) -> None:
        """Begins to ask, for watchers, if a log serves and other processes can write it."""
        if self._checks is None and self._log is not None and not self._common.context.sole_writer:
            log, seconds = self._log, self._between
            self._checks = RestartedTask("requesting the ends of watched change logs", lambda: self._check(log), pause_seconds=seconds)
            self._checks.start()

    def unwatched(self) -> None:
        """Ends to ask: the namespace is not watched any more, or no log serves."""
        if self._checks is not None:
            self._checks.cancel()
            self._checks = None

    async def _check(self, log: NamespaceLog) -> None:
        while True:
            await self._turn(log.partitions)
            asked_at = self._common.now()
            try:
                for partition in range(log.partitions):
                    await self._come_to_end(log, partition, self._between, paced=True)
            except PolicyError as error:
                _LOG.debug("the end of a change log can't be requested: %s", error)
            else:
                self._complete_as_of_ms = max(self._complete_as_of_ms, asked_at)
            await asyncio.sleep(self._between)

    async def _turn(self, questions: int = 1) -> None:
        """Waits until the rate of all namespaces allows so many questions. A wait that is cancelled uses up none of it."""
        async with self._common.asking:
            await asyncio.sleep(questions / CONFIRMATIONS_PER_SECOND)


def not_reached(name: str, position: Position) -> PolicyError:
    """Makes the DEADLINE_EXCEEDED error: the view of the namespace ``name`` has not come to a version in time."""
    return PolicyError(
        Kind.DEADLINE_EXCEEDED,
        Reason.VERSION_NOT_REACHED,
        f"The log of {name} has not been read up to version {position}: try again, or read without at_least.",
        metadata={"at_least_version": position},
    )

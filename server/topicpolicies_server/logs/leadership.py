"""Who writes a log that has one writer at a time (PIP-68), as one process takes part in it.

Brokers let a topic have one exclusive producer. Whoever holds that of partition 0 is the log's *leader*; the other partitions' go with it.
A term of office::

    try       an ``Exclusive`` producer: refused at once if the topic has any other
    wait      then ``WaitForExclusive``, in a loop, because the library waits for some seconds only; meanwhile another process leads
    follow    the other partitions: their producers belong to the last leader, and go as its connections do
    announce  one event of no kind in each partition, which says who leads from here on
    replay    all is read up to the announcements: whatever any earlier leader wrote is known
    lead      until a producer is fenced or loses its connection

**A term is over at once.** The library would connect a lost producer again, and send again what it had not acknowledged. A producer that
once waited would even wait again, behind the next leader, and be let in after it. So a producer that is seen without its connection is
closed, for good, with all others; what has no outcome then has an unknown one; and the next term, if there is one, begins from the
beginning. Brokers store nothing that comes over a connection which they have given up, so nothing of a term is in the log behind the next
one's announcement.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Generic, NoReturn, Protocol, TypeVar

from ..core.policies.events import Position
from ..core.reasons import Reason
from ..tasks import Kept
from .change_log import Leadership, LogError
from .producer_names import leader_name, leader_of, origin_of

_log = logging.getLogger(__name__)

_TAKEN_PAUSE = 0.1
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class ProducerTaken(Exception):
    """Another process has a partition's exclusive producer, or any producer."""


class StillWaiting(Exception):
    """An exclusive producer was waited for as long as one waits at a time; it may be waited for again."""


class Producer(Protocol):
    """A partition's exclusive producer."""

    @property
    def connected(self) -> bool:
        """Whether it has its connection, as far as this process knows."""

    def close(self) -> None:
        """Closes it for good; a second call does nothing."""


P = TypeVar("P", bound=Producer)


class Office(Protocol[P]):
    """What a candidate is a candidate for: the writing of one log."""

    async def open_exclusively(self, partition: int, name: str, *, wait: bool) -> P:
        """Opens a partition's producer under a name.

        Args:
            partition: its number.
            name: what the producer's events carry.
            wait: whether to wait until nobody else has one.

        Raises:
            ProducerTaken: somebody else has one.
            StillWaiting: and still has it.
            LogError: anything else.
        """

    async def announce(self, partition: int, producer: P) -> Position:
        """Says in a partition who leads from now on, and returns where that stands.

        Raises:
            LogError: that was not stored, as far as is known.
        """

    def elected(self, producers: Sequence[P]) -> None:
        """This process leads; one producer for each partition."""

    def deposed(self, error: LogError) -> None:
        """It leads no longer; the producers are closed."""

    def led(self) -> None:
        """Another process leads, or it is known now which."""


class Candidate(Generic[P]):
    """One process's part in who leads one log."""

    def __init__(self, office: Office[P], name: str, partitions: int, cluster: str, address: str) -> None:
        """Stands for nothing yet.

        Args:
            office: whom to tell, and who opens producers.
            name: of the log, for the log.
            partitions: how many the log has.
            cluster: the local one's name.
            address: where clients reach this process.
        """
        self._office = office
        self._name = name
        self._partitions = partitions
        self._cluster = cluster
        self._address = address
        self._announced = ""
        """Where the last leader that the log tells of is reached."""
        self._producers: list[P] = []
        self._leads = False
        self._waiting = False
        self._problem = ""
        self._standing = Kept(f"Standing for the leadership of {name}", self._stand, longest_seconds=_LONGEST_PAUSE)
        self._term: asyncio.Task[None] | None = None
        self._read: list[Position] = [""] * partitions
        self._came = asyncio.Event()

    @property
    def leadership(self) -> Leadership:
        """Who leads. Of another process's address only what the log tells, and only while somebody else is known to lead."""
        if self._leads:
            return Leadership(True, self._address)
        # Our own address is that of an earlier term, or of an earlier life: the one who leads has not said so yet.
        return Leadership(False, self._announced if self._waiting and self._announced != self._address else "", self._problem)

    @property
    def ever_led(self) -> bool:
        """Whether the log tells of a leader, whoever it was."""
        return self._announced != ""

    def contend(self) -> None:
        """Stands for leadership from now on; a second call does nothing."""
        self._standing.start()

    def heard(self, producer: str) -> None:
        """An event of partition 0 was read that the producer of this name had written."""
        address = leader_of(producer)
        if address and address != self._announced and origin_of(producer) == self._cluster:
            self._announced = address
            if self._waiting:
                self._office.led()

    def came_to(self, partition: int, position: Position) -> None:
        """The log was read, and handed on, up to here."""
        self._read[partition] = position
        self._came.set()

    def check_connection(self) -> None:
        """Looks whether the producers have their connections; called often."""
        if any(not producer.connected for producer in self._producers):
            self.step_down(LogError(Reason.LOG_FENCED, f"The exclusive producer of {self._name} has lost its connection."))

    def step_down(self, error: LogError) -> None:
        """Ends the term, if there is one, because of ``error``. When this returns nothing more is sent."""
        if self._term is None or self._term.done():
            return
        self._term.cancel()
        self._close_producers()
        if self._leads:
            self._leads = False
            _log.warning("%s: leads no longer: %s", self._name, error.message)
            self._office.deposed(error)

    def stop(self) -> None:
        """Stands for nothing any more; the office hears nothing afterwards. The producers of a leader are left to whoever writes."""
        self._standing.cancel()
        if self._term is not None:
            self._term.cancel()
        if not self._leads:
            self._close_producers()
        self._leads = False

    async def _stand(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            self._term = asyncio.get_running_loop().create_task(self._serve())
            await asyncio.wait({self._term})
            failure = _failure(self._term)
            self._close_producers()
            if failure is not None:
                self._problem = self._told(failure)
                _log.warning("%s: can't be led: %s", self._name, self._problem)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE) if failure is not None else _FIRST_PAUSE

    async def _serve(self) -> NoReturn:
        """One term."""
        lock, name = await self._lock()
        self._producers.append(lock)
        for partition in range(1, self._partitions):
            self._producers.append((await self._wait_for(partition, name))[0])
        announcements = [self._office.announce(partition, producer) for partition, producer in enumerate(self._producers)]
        places = await asyncio.gather(*announcements)
        while any(read < place for read, place in zip(self._read, places, strict=True)):
            self._came.clear()
            await self._came.wait()
        self._problem = ""
        self._leads = True
        _log.info("%s: leads", self._name)
        self._office.elected(self._producers)
        while True:
            await asyncio.Event().wait()

    async def _lock(self) -> tuple[P, str]:
        """Partition 0's producer, and the name that all of this term have."""
        name = self._new_name()
        try:
            return await self._office.open_exclusively(0, name, wait=False), name
        except ProducerTaken:
            pass
        self._waiting = True
        self._problem = ""
        self._office.led()
        try:
            return await self._wait_for(0)
        finally:
            self._waiting = False

    async def _wait_for(self, partition: int, name: str = "") -> tuple[P, str]:
        while True:
            try:
                chosen = name or self._new_name()
                return await self._office.open_exclusively(partition, chosen, wait=True), chosen
            except ProducerTaken:
                await asyncio.sleep(_TAKEN_PAUSE)
            except StillWaiting:
                pass

    def _new_name(self) -> str:
        return leader_name(self._cluster, self._address)

    def _close_producers(self) -> None:
        producers, self._producers = self._producers, []
        for producer in producers:
            try:
                producer.close()
            except (Exception, asyncio.CancelledError):  # noqa: BLE001 (the others are closed; nothing is awaited, so nobody asked for this)
                _log.exception("%s: closing an exclusive producer failed", self._name)

    def _told(self, failure: BaseException) -> str:
        if not isinstance(failure, LogError):
            _log.error("%s: standing for leadership failed", self._name, exc_info=failure)
        return str(failure)


def _failure(term: asyncio.Task[None]) -> BaseException | None:
    """Why a term has ended; None: it was to end."""
    if term.cancelled():
        return None if term.cancelling() else RuntimeError("what it awaited was cancelled")
    return term.exception()

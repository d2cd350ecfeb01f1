"""Leader election for a log that has one writer at a time (PIP-68), by means of exclusive producers.

Brokers let a topic have one exclusive producer. The process that holds the producer of partition 0 is the log's *leader*; it then takes the
producers of the other partitions too. A candidate goes through the steps of a *term*::

    try       opens an ``Exclusive`` producer of partition 0: refused at once if the topic has any other producer
    wait      if refused: ``WaitForExclusive``, in a loop, because the library waits for some seconds only; another process leads meanwhile
    follow    opens the producers of the other partitions, once the connections of the last leader, which holds them, are gone
    announce  writes one event of no kind in each partition, which says who leads from here on
    replay    waits until the log is read up to the announcements: everything that earlier leaders wrote is known
    lead      until a producer is fenced or loses its connection

**A term ends at once.** The library would reconnect a producer that lost its connection, and resend what was not acknowledged. A producer
that once waited would even wait again, behind the next leader, and be let in after it. So when a producer is seen without its connection,
all producers are closed for good. Events without an outcome then have an unknown one, and the next term, if there is one, starts from the
first step. Brokers store nothing that arrives over a connection which they have given up, so no event of a term stands in the log behind
the announcement of the next term.

A leader chooses the name of its producers, ``topicpolicies/CLUSTER/ID/ADDRESS``. So every event that it writes, and the brokers' statistics
of the topic, contain the address at which clients reach it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Generic, NoReturn, Protocol, TypeVar

from ..core.policies.events import Position
from ..core.reasons import LogState
from ..tasks import RestartedTask
from .change_log import Leadership, LogError

_log = logging.getLogger(__name__)

_TAKEN_PAUSE = 0.1
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_GENERATED = re.compile(r"(.+)-\d+-\d+", re.ASCII)
_LEADER = re.compile(r"topicpolicies/([^/]+)/[0-9a-f]+/(.+)", re.ASCII)


class ProducerTaken(Exception):
    """Another process has a producer of the partition, exclusive or not.

    Attributes:
        holder: the name of the exclusive producer; "" if there is none, so that no process leads; None if it is not known.
    """

    def __init__(self, holder: str | None = None) -> None:
        super().__init__()
        self.holder = holder


class Producer(Protocol):
    """The exclusive producer of one partition."""

    @property
    def connected(self) -> bool:
        """Whether the producer has its connection, as far as this process knows."""

    def close(self) -> None:
        """Closes the producer for good; a second call does nothing."""


P = TypeVar("P", bound=Producer)


class LeadableLog(Protocol[P]):
    """The log that a candidate wants to lead: opens its producers, and is notified of the election's outcome."""

    async def open_exclusively(self, partition: int, name: str, *, wait: bool) -> P:
        """Opens a partition's exclusive producer. ``wait``: whether to wait until no other process has a producer of the partition.

        Raises:
            ProducerTaken: another process has a producer of the partition, or still has one after the longest wait.
            LogError: anything else.
        """

    async def announce(self, partition: int, producer: P) -> Position:
        """Writes to a partition the announcement of who leads from now on, and returns its position.

        Raises:
            LogError: the announcement was not stored, as far as is known.
        """

    def elected(self, producers: Sequence[P]) -> None:
        """Called when this process leads, with one producer for each partition."""

    def deposed(self, error: LogError) -> None:
        """Called when this process leads no longer; its producers are closed."""

    def led(self) -> None:
        """Called when another process leads, and when that process's address becomes known."""


class Candidate(Generic[P]):
    """This process as a candidate for the leadership of one log, or as its leader."""

    def __init__(self, log: LeadableLog[P], name: str, partitions: int, cluster: str, address: str) -> None:
        """Does nothing before ``contend``.

        ``name``: that of the change log, for messages in the server's log; ``address``: where clients reach this process.
        """
        self._leadable = log
        self._name = name
        self._partitions = partitions
        self._cluster = cluster
        self._address = address
        self._announcer = ""
        """The name of the producers of the last leader that is named in the log; "" if there is none."""
        self._over = False
        """Whether that leader's term is known to have ended, though no other leader is known."""
        self._producers: list[P] = []
        self._leads = False
        self._waiting = False
        self._problem = ""
        self._reported = ""
        """The problem that was logged last; "" once this process has led."""
        self._standing = RestartedTask(f"Requesting the leadership of {name}", self._stand)
        self._term: asyncio.Task[None] | None = None
        self._read: list[Position] = [""] * partitions
        self._came = asyncio.Event()

    @property
    def leadership(self) -> Leadership:
        """Who leads. The address of another process is the one that it wrote to the log; it is given only while that process leads."""
        if self._leads:
            return Leadership(True, self._address)
        # If the log names our own address, that is from an earlier term or run of this process: the leader has not announced itself yet.
        announced = leader_of(self._announcer)
        known = self._waiting and not self._over and announced != self._address
        return Leadership(False, announced if known else "", self._problem)

    @property
    def ever_led(self) -> bool:
        """Whether the log has ever had a leader, as far as it was read."""
        return self._announcer != ""

    def contend(self) -> None:
        """Becomes a candidate; a second call does nothing."""
        self._standing.start()

    def note_producer(self, producer: str) -> None:
        """Called for each event of partition 0 that was read, with the name of the producer that wrote it."""
        address = leader_of(producer)
        if address and producer != self._announcer and origin_of(producer) == self._cluster:
            told = address == leader_of(self._announcer) and not self._over
            self._announcer, self._over = producer, False
            if self._waiting and not told:
                self._leadable.led()

    def read_up_to(self, partition: int, position: Position) -> None:
        """Called when a partition was read up to a position, and its events were handed on."""
        self._read[partition] = position
        self._came.set()

    def check_connection(self) -> None:
        """Ends the term if a producer has lost its connection; called often."""
        if any(not producer.connected for producer in self._producers):
            self.step_down(LogError(LogState.FENCED, f"The exclusive producer of {self._name} has lost its connection."))

    def step_down(self, error: LogError) -> None:
        """Ends the current term, if there is one, because of ``error``. Nothing more is sent once this has returned."""
        if self._term is None or self._term.done():
            return
        self._term.cancel()
        self._close_producers()
        if self._leads:
            self._leads = False
            _log.warning("%s: lost the leadership: %s", self._name, error.message)
            self._leadable.deposed(error)

    def stop(self) -> None:
        """Ends the candidacy; the log is not notified any more. A leader's producers are closed by the writers that use them."""
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
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE) if failure is not None else _FIRST_PAUSE

    async def _serve(self) -> NoReturn:
        lock, name = await self._lock()
        self._producers.append(lock)
        for partition in range(1, self._partitions):
            self._producers.append((await self._wait_for(partition, name))[0])
        announcements = [self._leadable.announce(partition, producer) for partition, producer in enumerate(self._producers)]
        places = await asyncio.gather(*announcements)
        while any(read < place for read, place in zip(self._read, places, strict=True)):
            self._came.clear()
            await self._came.wait()
        self._problem = self._reported = ""
        self._leads = True
        _log.info("%s: leads", self._name)
        self._leadable.elected(self._producers)
        while True:
            await asyncio.Event().wait()

    async def _lock(self) -> tuple[P, str]:
        name = leader_name(self._cluster, self._address)
        try:
            return await self._leadable.open_exclusively(0, name, wait=False), name
        except ProducerTaken as taken:
            self._over = taken.holder is not None and taken.holder != self._announcer  # a broker holds it, say
        self._waiting = True
        self._problem = ""
        self._leadable.led()
        try:
            return await self._wait_for(0)
        finally:
            self._waiting = False

    async def _wait_for(self, partition: int, name: str = "") -> tuple[P, str]:
        while True:
            try:
                chosen = name or leader_name(self._cluster, self._address)
                return await self._leadable.open_exclusively(partition, chosen, wait=True), chosen
            except ProducerTaken:
                await asyncio.sleep(_TAKEN_PAUSE)

    def _close_producers(self) -> None:
        producers, self._producers = self._producers, []
        for producer in producers:
            try:
                producer.close()
            except (Exception, asyncio.CancelledError):  # noqa: BLE001 (the others are closed; nothing is awaited, so nobody asked for this)
                _log.exception("%s: closing an exclusive producer failed", self._name)

    def _told(self, failure: BaseException) -> str:
        """Logs why an attempt failed, and returns it in words. The same reason again is not worth a warning."""
        problem = str(failure)
        known, self._reported = self._reported == problem, problem
        if not isinstance(failure, LogError) and not known:
            _log.error("%s: requesting the leadership failed", self._name, exc_info=failure)
        _log.log(logging.DEBUG if known else logging.WARNING, "%s: the leadership can't be acquired: %s", self._name, problem)
        return problem


def _failure(term: asyncio.Task[None]) -> BaseException | None:
    """Why a term has ended; None if it was ended on purpose (``step_down`` or ``stop``)."""
    if term.cancelled():
        return None if term.cancelling() else RuntimeError("what it awaited was cancelled")
    return term.exception()


@lru_cache(4_096)
def origin_of(producer: str) -> str:
    """The cluster in which a producer writes; "" if its name does not tell.

    A producer without a name of its own (those of brokers, and of sidecars that don't lead) gets one from the broker that it connects to:
    the cluster's name and two numbers (``BrokerService.generateUniqueProducerName``). Replicators keep the name in the messages that they
    copy.
    """
    match = _LEADER.fullmatch(producer) or _GENERATED.fullmatch(producer)
    return match[1] if match else ""


def leader_name(cluster: str, address: str) -> str:
    """Makes a new name for the producers of a leader in ``cluster`` that clients reach at ``address``."""
    return f"topicpolicies/{cluster}/{uuid.uuid4().hex}/{address}"


@lru_cache(4_096)
def leader_of(producer: str) -> str:
    """The address at which clients reach the leader with a producer of this name; "" if it is not a leader's name."""
    match = _LEADER.fullmatch(producer)
    return match[2] if match else ""

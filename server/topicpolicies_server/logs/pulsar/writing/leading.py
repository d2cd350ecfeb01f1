"""Leadership of a Pulsar log that has one writer at a time.

It connects the election (``logs/leadership``) with Pulsar's exclusive producers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ....core.policies.events import Placed, Position
from ....core.reasons import LogState
from ...avro import Encoded
from ...change_log import Leadership, LogError
from ...leadership import Candidate, ProducerTaken, StillWaiting
from ...stamps import ANNOUNCEMENT
from ..client import EXCLUSIVE, WAIT_FOR_EXCLUSIVE, PulsarClientError, Result, message_of, send
from ..client.refusals import holder_of, refusal
from ..ids import MessageId, position_of
from .partition import OpenProducer

_TAKEN = frozenset({Result.ProducerFenced, Result.ProducerBusy})
"""Result codes with which a broker refuses an exclusive producer because there is another producer."""
_PRODUCER_FAILED = frozenset({LogState.FENCED, LogState.REFUSED, LogState.UNREACHABLE})
"""Reasons of a failed append after which the producer takes nothing more."""


class LeadershipListener(Protocol):
    """Is notified of changes of leadership: the log."""

    def elected(self, producers: Sequence[OpenProducer]) -> None:
        """Called when this process may append from now on, with one producer for each partition."""

    def deposed(self, error: LogError) -> None:
        """Called when this process may no longer append: events without an outcome have to fail with ``error``."""

    def led(self) -> None:
        """Called when another process leads, or when it has become known which one does."""


class Leading:
    """This process's part in the leadership of one log."""

    def __init__(
        self,
        log: LeadershipListener,
        open_producer: Callable[[int, Any, str], Awaitable[OpenProducer]],
        *,
        namespace: str,
        local: str,
        partitions: int,
        cluster: str,
        address: str,
    ) -> None:
        """Does not stand for leadership yet.

        Args:
            log: is notified of changes of leadership.
            open_producer: opens a partition's producer, with an access mode and under a name; may raise ``PulsarClientError``.
            namespace: ``tenant/namespace``.
            local: the local name of the log's topic.
            partitions: how many partitions the topic has.
            cluster: the name of the local cluster.
            address: where clients reach this process.
        """
        self._log = log
        self._open_producer = open_producer
        self._name = f"persistent://{namespace}/{local}"
        self._cluster = cluster
        self._candidate: Candidate[OpenProducer] = Candidate(self, namespace, partitions, cluster, address)

    @property
    def leadership(self) -> Leadership:
        """Who leads."""
        return self._candidate.leadership

    def contend(self) -> None:
        """Stands for leadership."""
        self._candidate.contend()

    def caught_up(self) -> None:
        """Notes that the initial replay has ended. If the log names an earlier leader, this process stands for leadership by itself."""
        if self._candidate.ever_led:
            self._candidate.contend()

    def check_connection(self) -> None:
        """Looks whether the producers have their connections."""
        self._candidate.check_connection()

    def read(self, events: Sequence[Placed]) -> None:
        """Takes what the log says about its leaders, and how far it was read."""
        for placed in events:
            if placed.partition == 0:
                self._candidate.note_producer(placed.producer)
        self._candidate.read_up_to(events[-1].partition, events[-1].position)

    def append_failed(self, error: LogError) -> None:
        """Gives up leadership if the producer takes nothing more, or if the outcome of the event is unknown."""
        if error.outcome_unknown or error.state in _PRODUCER_FAILED:
            self._candidate.step_down(error)

    def stop(self) -> None:
        """Stops whatever is under way."""
        self._candidate.stop()

    # What a candidate calls (``logs/leadership.LeadableLog``)

    async def open_exclusively(self, partition: int, name: str, *, wait: bool) -> OpenProducer:
        """Opens a producer that is the only one of its partition."""
        try:
            return await self._open_producer(partition, WAIT_FOR_EXCLUSIVE if wait else EXCLUSIVE, name)
        except PulsarClientError as error:
            if error.result in _TAKEN:
                raise ProducerTaken(holder_of(error.message)) from error
            if wait and error.result == Result.Timeout:
                raise StillWaiting from error
            raise refusal("Opening it for writing", error.result, error.message) from error

    async def announce(self, partition: int, producer: OpenProducer) -> Position:
        """Writes an event of no kind, which brokers ignore. Its key is the log's own name, so compaction keeps the newest announcement."""
        del partition
        announcement = Encoded(self._name, producer.codec.nothing(), {ANNOUNCEMENT: producer.handle.producer_name()}, (self._cluster,))
        try:
            ident = await send(producer.handle, message_of(announcement))
        except PulsarClientError as error:
            raise refusal("Announcing its leader", error.result, error.message) from error
        return position_of(MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index()))

    def elected(self, producers: Sequence[OpenProducer]) -> None:
        """Notifies the log that this process may append from now on."""
        self._log.elected(producers)

    def deposed(self, error: LogError) -> None:
        """Notifies the log that this process may no longer append."""
        self._log.deposed(error)

    def led(self) -> None:
        """Notifies the log that another process leads."""
        self._log.led()

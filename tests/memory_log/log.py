"""The memory log with faults: a ``Faults`` object decides what goes wrong between a process and the storage."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs import memory
from topicpolicies_server.logs.change_log import LogError, LogSink, Start
from topicpolicies_server.logs.memory import log

from .faults import NO_FAULTS, Fate, Faults, Outcome
from .seats import Producer
from .storage import MemoryStorage, StoredNamespace


@dataclass(slots=True, eq=False)
class Sent(log.Sent):
    """An event in transit, its fate, and its producer."""

    fate: Fate = Fate()  # noqa: RUF009 - immutable
    producer: Producer | None = None
    """The exclusive producer that sends it; None: the process is one of many writers."""


class MemoryNamespaceLog(log.MemoryNamespaceLog):
    """One namespace's log, as one process has it open."""

    _owner: MemoryLog
    _stored: StoredNamespace

    def show(self, placed: Placed) -> None:
        """Takes an entry that was stored; it is read after the delay that the faults decide."""
        self.reads[placed.partition].push(placed, self._owner.faults.read_delay(self._stored.name, placed))

    def _ask_end(self, partition: int, answer: asyncio.Future[Position]) -> None:
        delay = self._owner.faults.question_delay(self._stored.name)
        if delay is not None:
            self.questions[partition].push(partial(self._tell_end_late, partition, delay, answer), delay)

    def _tell_end_late(self, partition: int, delay: float, answer: asyncio.Future[Position]) -> None:
        end = self._stored.ends[partition]
        self._loop.call_later(delay, lambda: None if answer.done() else answer.set_result(end))

    def _addressed(self, event: Event) -> Sent:
        return Sent(event, self.partition_of(event.key), fate=self._owner.faults.fate(self._stored.name, event))

    def _hand_in(self, sent: log.Sent) -> None:
        self.appends[sent.partition].push(sent, _fated(sent).fate.delay)

    def _send_back(self, sent: log.Sent) -> None:
        self.answers[sent.partition].push(sent, _fated(sent).fate.answer_delay)

    def _store(self, sent: log.Sent) -> None:
        """Stores or fails an event as its fate says, if its producer may write the partition."""
        fate, producer = _fated(sent).fate, _fated(sent).producer
        if self._stored.seats[sent.partition].holder is not producer:
            sent.error = LogError(
                LogState.FENCED,
                "Opening the change log for writing failed, another client holds the exclusive producer.",
                kind=Kind.FAILED_PRECONDITION,
            )
        elif fate.outcome in (Outcome.STORED, Outcome.UNACKNOWLEDGED):
            for _ in range(fate.copies):
                name = producer.name if producer is not None else self._owner.producer
                placed = self._stored.store(sent.partition, sent.event, self._owner.storage.now(), name)
                sent.place = sent.place or placed
        if sent.error is None and fate.outcome is not Outcome.STORED:
            unknown = fate.outcome is not Outcome.REFUSED
            sent.error = LogError(LogState.APPEND_FAILED, "The change log did not acknowledge the event.", outcome_unknown=unknown)


class MemoryLog(log.MemoryLog):
    """The change logs of a storage, as one process has them."""

    storage: MemoryStorage

    def __init__(self, storage: MemoryStorage | None = None, *, faults: Faults = NO_FAULTS, **options: Any) -> None:
        """Opens logs of a storage; None: of a new one with one partition. The options are those of the product's memory log."""
        super().__init__(storage or MemoryStorage(), **options)
        self.faults = faults

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLog.open``). Every namespace exists."""
        opened = await super().open(namespace, sink, start)
        assert isinstance(opened, MemoryNamespaceLog)
        return opened

    def opened(self, namespace: str) -> MemoryNamespaceLog:
        """Returns the opened log of a namespace, for tests that hold back its channels."""
        opened = super().opened(namespace)
        assert isinstance(opened, MemoryNamespaceLog)
        return opened

    def _opening(self, stored: memory.StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        assert isinstance(stored, StoredNamespace)
        return MemoryNamespaceLog(self, stored, sink, start)


def _fated(sent: log.Sent) -> Sent:
    assert isinstance(sent, Sent)
    return sent

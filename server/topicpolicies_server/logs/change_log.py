"""The protocol that every change log implements. ``tests/logs/test_conformance.py`` states the same contract as tests.

A change log holds the ordered events of one namespace, in one or more partitions. It is opened with a *sink*, to which the log reports
everything that happens, always on the event loop's own thread and never from inside a call that the opener made:

- ``read``: events of the log, in order within each partition. First the events that the log held at opening (if it was compacted, only the
  newest event of each key is certain to be among them), then new ones. Events that this process appended are read back like all others.
- ``caught_up``: once, when everything that was in the log at opening has been read.
- ``acknowledged``: an event that this process appended is durable, and this is its position. In order within each partition, before or
  after the same event is ``read``.
- ``append_failed``: an event was not acknowledged; ``error.outcome_unknown`` says whether the event may be in the log all the same.
- ``lost``: the log can't be followed any more. Events in flight have just been reported as failed; nothing is reported afterwards, and the
  opener has to open the log again.

``append`` never waits. Events of one key stand in the log in the order in which they were appended.

A log may have one writer at a time, its *leader* (PIP-68). Then ``leadership`` says whether this process leads, ``contend`` makes it a
candidate, and ``led`` notifies the sink that the answer may have changed. A process leads only after it has read everything that earlier
leaders wrote. Once it has lost leadership, nothing more that it sent gets into the log. Its events without an outcome are reported as
failed before ``led`` is called, except the event whose failure ended the term: that failure is reported after ``led``, so that the event is
not appended again here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.policies.events import Event, Placed, Position
from ..core.reasons import LogState, Reason


class LogError(PolicyError):
    """An operation on a change log failed.

    Attributes:
        outcome_unknown: for a failed append, whether the event may be in the log all the same.
    """

    def __init__(self, why: Reason | LogState, message: str, *, kind: Kind = Kind.UNAVAILABLE, outcome_unknown: bool = False) -> None:
        """``why``: the reason that callers get, or the state of the log that has it."""
        super().__init__(kind, why.reason if isinstance(why, LogState) else why, message)
        self.state = why if isinstance(why, LogState) else None
        self.outcome_unknown = outcome_unknown


class Leadership(NamedTuple):
    """Who may append to a log."""

    leads: bool
    """Whether this process may append."""
    leader: str = ""
    """The address at which others reach the process that may append; "" if it is not known (yet)."""
    problem: str = ""
    """Why the last attempt of this process to become the leader, or to learn who leads, failed; "" if it did not fail."""


ANYBODY = Leadership(True)
"""The leadership of a log to which every process that has it open may append."""


class NotLeader(LogError):
    """An append was rejected, and the event certainly is not in the log, because another process is the log's only writer."""

    def __init__(self, namespace: str, leadership: Leadership) -> None:
        """``namespace``: ``tenant/namespace``; ``leadership``: what is known about the writer of its log."""
        leader, problem = leadership.leader, leadership.problem
        if leader:
            known = f"is written by the sidecar at {leader}, which could not be reached: try again."
        elif problem:
            known = f"has no writer here: {problem} Try again."
        else:
            known = "is written by a broker, or by a sidecar whose address is not known: try again."
        super().__init__(Reason.NOT_LEADER, f"The change log of {namespace} {known} Nothing was changed.")
        self.metadata = {"namespace": namespace, **({"leader": leader} if leader else {})}


def already_open(namespace: str) -> LogError:
    """The error (FAILED_PRECONDITION) for opening a log that is already open."""
    return LogError(Reason.LOG_UNAVAILABLE, f"The change log of {namespace} is already open.", kind=Kind.FAILED_PRECONDITION)


def closed(namespace: str) -> LogError:
    """The error (UNAVAILABLE) for using a log that was closed."""
    return LogError(Reason.LOG_UNAVAILABLE, f"The change log of {namespace} is closed.")


def busy(waiting: int) -> LogError:
    """The error (RESOURCE_EXHAUSTED) for an append while ``waiting`` events, as many as may be in flight, have no outcome yet."""
    problem = f"{waiting} events already wait for the change log: send fewer at once."
    return beyond("max_in_flight_per_namespace", waiting, problem)


def beyond(limit: str, most: int, sentence: str) -> LogError:
    """The error (RESOURCE_EXHAUSTED) of a limit that is reached. The arguments: ``core.errors.too_much``."""
    error = LogError(Reason.LIMIT_REACHED, sentence, kind=Kind.RESOURCE_EXHAUSTED)
    error.metadata = {"limit": limit, "most": str(most)}
    return error


class Start(NamedTuple):
    """The point in a log up to which the opener knows every event, so that reading may begin behind it."""

    identity: str
    """The identity of the log (``NamespaceLog.identity``)."""
    positions: tuple[Position, ...]
    """The last known position of each partition."""
    anchors: tuple[str, ...]
    """The anchor of the entry at each of these positions (``anchor_of``); "" if it is not known."""
    in_place: bool
    """The value of ``NamespaceLog.in_place`` when the log was read up to here."""


def anchor_of(placed: Placed) -> str:
    """A text that identifies the entry at a position; "" if the entry holds no event.

    A log that was restored from a backup and written on has other entries at the same positions; their anchors differ. An event of ours has
    the same anchor when it is acknowledged and when it is read.
    """
    event = placed.event
    if event is None:
        return ""
    if event.stamp is not None:
        return event.stamp.event_id
    return f"{int(event.key.scope)}{event.key.topic} {placed.published_at}"


class LogSink(Protocol):
    """Receives the reports of an opened log. The methods must return soon and must not raise."""

    def read(self, events: Sequence[Placed]) -> None:
        """Takes events that were read from the log, in order within each partition."""

    def caught_up(self) -> None:
        """Called once: everything that was in the log at opening has been read."""

    def acknowledged(self, events: Sequence[Placed]) -> None:
        """Called when events that this process appended are durable, with their positions."""

    def append_failed(self, event: Event, error: LogError) -> None:
        """Called when an event that this process appended was not acknowledged."""

    def lost(self, error: LogError) -> None:
        """Called when the log can't be followed any more; nothing is reported afterwards."""

    def led(self) -> None:
        """Called when ``NamespaceLog.leadership`` may have changed."""


class NamespaceLog(Protocol):
    """The opened change log of one namespace."""

    @property
    def identity(self) -> str:
        """The permanent identity of this log, stable across restarts. Positions of a log with another identity mean nothing here.

        A log that does not exist yet gets its permanent identity when it is created, before its first event has a position. Don't cache
        the value: read the property for each use.
        """

    @property
    def partitions(self) -> int:
        """The number of partitions, at least one."""

    def partition_of(self, key: PolicyKey) -> int:
        """The partition that holds all events of a policy key."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether it is proven that nothing stands between two positions of one partition.

        ``earlier`` is "" for the beginning of the partition. False means unknown, not that something stands there.
        """

    def complete_after(self, partition: int) -> Position | None:
        """The position behind which nothing in a partition was compacted away, as of the opening; None if it is not known.

        Every event that was ever written behind this position is read; of the events up to it, at least the newest of each key. "" is the
        beginning of the partition. If the log is compacted while it is read for the first time, the position may move on once, before any
        event behind the old one is read. Of a key with events on both sides of the old position, those up to it may then be missing.
        """

    @property
    def resumed(self) -> bool:
        """Whether reading began at the ``start`` given to ``open``; if not, at the beginning of the log. Known once the log is open."""

    @property
    def shared(self) -> bool:
        """Whether another writer may have appended events that are not read here yet; False while only this process may append."""

    async def end(self, partition: int) -> Position:
        """Returns where a partition ends: a reader that has come to there has read everything that was written before this call.

        Requests the position from the broker or the file that holds the log, and creates nothing. "" is the beginning. The end need not be
        the position of an event, nor one that the log will report as read; if nothing more can be read before it, later results say so.

        Raises:
            LogError: the end could not be determined.
        """

    @property
    def cluster(self) -> str:
        """The name of the cluster for which the log's LOCAL events are."""

    @property
    def in_place(self) -> bool:
        """Whether brokers that modify the documents in their caches in place, as before PIP-428, write this log (``core/fold/overlap``)."""

    @property
    def leadership(self) -> Leadership:
        """Who may append now; ``ANYBODY`` for a log with any number of writers, and for one that only this process can write."""

    def contend(self) -> None:
        """Makes this process a candidate for leadership, now and whenever the leader loses it. Does nothing for a log without leaders."""

    def append(self, event: Event) -> None:
        """Takes an event for appending; its outcome is reported to the sink.

        Raises:
            LogError: the event was not taken, and certainly is not in the log: too many events are in flight (RESOURCE_EXHAUSTED),
                nothing can be written for now although the log is still followed (UNAVAILABLE, state ``APPEND_FAILED``), the log is closed
                or lost (UNAVAILABLE), another process leads (``NotLeader``), or the log's dialect can't express the event.
        """

    async def close(self) -> None:
        """Finishes pending appends (bounded in time), then stops. Nothing is reported to the sink afterwards."""


class Connections(NamedTuple):
    """How many open logs are connected to their brokers."""

    open: int
    """The number of open logs."""
    connected: int
    """The number of open logs whose readers are all connected."""


class ChangeLogs(Protocol):
    """The change logs of all namespaces."""

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> NamespaceLog:
        """Opens the log of ``tenant/namespace`` and starts reading it.

        Opening creates nothing: a namespace without a log is empty until the first append. A namespace can be open only once at a time.

        Reading begins at ``start`` (``NamespaceLog.resumed``) if ``start`` belongs to this very log and nothing behind it was compacted
        away; otherwise at the beginning of the log, as if ``start`` were None.

        Raises:
            LogError: the log can't be opened; NOT_FOUND if the namespace is known not to exist, otherwise UNAVAILABLE (or
                FAILED_PRECONDITION, if it is open already).
        """

    async def reach(self) -> str | None:
        """Returns when the storage (brokers, or a file) has answered; called every few seconds.

        The answer is a sentence for operators, if there is one.

        Raises:
            LogError: the storage can't be reached or used. ``UNREACHABLE``: nothing can be appended; ``APPEND_FAILED``: nothing can be
                appended, and the log itself rejects appends; any other reason: logs can't be opened, or requests to a cluster fail.
        """

    def cut_off(self, error: LogError) -> None:
        """Fails, with ``error``, the appends that wait and certainly were not sent, because the storage was out of reach for too long."""

    def connections(self) -> Connections | None:
        """The connections at this moment; None: it needs none. Safe to call from other threads."""

    async def close(self) -> None:
        """Closes all open logs and releases connections, files and locks."""

"""The protocol that every change log keeps. ``tests/logs/test_conformance.py`` says in tests what is said here in words.

A change log is the ordered events of one namespace, in one or more partitions. It is opened with a *sink*, to which it reports
everything that happens, always on the event loop's own thread and never from inside a call of the opener's:

- ``read``: the log's events, in order within each partition. After opening, first what is there (possibly compacted: then only the newest
  event of each key is certain), then what comes; the events that were appended here are among them.
- ``caught_up``: once, when everything that was in the log at opening has been read.
- ``appended``: an event that was appended here is durable, and this is its place. In order within each partition, before or after the same
  event is ``read``.
- ``append_failed``: an event was not acknowledged; ``error.outcome_unknown`` says whether it may be in the log all the same.
- ``lost``: the log can't be followed any more. What was in flight has been reported as failed just before; nothing follows, and whoever
  needs the log opens it anew.

``append`` never waits. Events of one key stand in the log in the order in which they were appended.

A log may have one writer at a time, its *leader* (PIP-68). Then ``leadership`` says whether that is this process; ``contend`` asks for it;
``led`` tells that the answer may have changed. A process leads only once it has read all that others had written. When it leads no
longer, nothing of it comes into the log any more, and its events without an outcome are reported as failed before ``led``, but for the one
whose failure ended its term: that follows ``led``, so that nobody repeats it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.policies.events import Event, Placed, Position
from ..core.reading.unfolded import Sealed
from ..core.reasons import Reason


class LogError(PolicyError):
    """A change log could not do what it was asked to.

    Attributes:
        outcome_unknown: for a failed append, whether the event may be in the log all the same.
    """

    def __init__(self, reason: Reason, message: str, *, kind: Kind = Kind.UNAVAILABLE, outcome_unknown: bool = False) -> None:
        super().__init__(kind, reason, message)
        self.outcome_unknown = outcome_unknown


class Leadership(NamedTuple):
    """Who may append to a log."""

    leads: bool
    """Whether this process may."""
    leader: str = ""
    """Where clients reach the process that may; "" if that is not known (yet)."""
    problem: str = ""
    """Why this process could not find out, or could not become it, when it tried last; "" if there is no such reason."""


ANYBODY = Leadership(True)
"""Of a log that whoever has it open may append to."""


class NotLeader(LogError):
    """An event was not taken, and certainly is not in the log, because another process is the log's one writer."""

    def __init__(self, namespace: str, leadership: Leadership) -> None:
        """``namespace``: ``tenant/namespace``; ``leadership``: what is known of its log's writer."""
        leader, problem = leadership.leader, leadership.problem
        if leader:
            known = f"is written by the sidecar at {leader}: ask that one."
        elif problem:
            known = f"has no writer here: {problem} Try again."
        else:
            known = "is being written by somebody else, who has not said where to be found: try again."
        super().__init__(Reason.NOT_LEADER, f"The change log of {namespace} {known} Nothing was changed.")
        self.metadata = {"namespace": namespace, **({"leader": leader} if leader else {})}


def already_open(namespace: str) -> LogError:
    """FAILED_PRECONDITION: a log is opened once at a time."""
    return LogError(Reason.LOG_OPEN, f"The change log of {namespace} is open already.", kind=Kind.FAILED_PRECONDITION)


def closed(namespace: str) -> LogError:
    """UNAVAILABLE: a log that was closed takes nothing, and is asked nothing."""
    return LogError(Reason.LOG_CLOSED, f"The change log of {namespace} is closed.")


def busy(waiting: int) -> LogError:
    """RESOURCE_EXHAUSTED: a log takes no more before others of its events, of which so many wait, have their outcomes."""
    problem = f"{waiting} events wait for the change log already: send fewer at once, or raise max_in_flight_per_namespace."
    return LogError(Reason.LOG_BUSY, problem, kind=Kind.RESOURCE_EXHAUSTED)


class Start(NamedTuple):
    """The place of a log up to which whoever opens it knows everything."""

    identity: str
    """Of the log."""
    positions: tuple[Position, ...]
    """By partition."""
    anchors: tuple[str, ...]
    """What stands at each of these positions (``anchor_of``); "" if that is not known."""
    in_place: bool
    """Whether brokers wrote it then that change documents in place (``NamespaceLog.in_place``)."""


def anchor_of(placed: Placed) -> str:
    """Tells an entry from any other one that could stand in its place: in a log that was restored from a backup, and went on.

    It is the same for an event of ours that is acknowledged and as it is read.
    """
    event = placed.event
    if event is None:
        return ""
    if event.stamp is not None:
        return event.stamp.event_id
    return f"{int(event.key.scope)}{event.key.topic} {placed.published_at}"


class LogSink(Protocol):
    """What an opened log reports to. The methods must return soon and must not raise."""

    def read(self, events: Sequence[Placed]) -> None:
        """Events of the log, in order within each partition."""

    def caught_up(self) -> None:
        """Everything that was there at opening has been read."""

    def appended(self, events: Sequence[Placed]) -> None:
        """Events that were appended here are durable, at these places."""

    def append_failed(self, event: Event, error: LogError) -> None:
        """An event that was appended here was not acknowledged."""

    def lost(self, error: LogError) -> None:
        """The log can't be followed any more."""

    def led(self) -> None:
        """Who may append may have changed (``NamespaceLog.leadership``)."""


@runtime_checkable
class UnopenedSink(LogSink, Protocol):
    """A sink that may be told what was there at the opening before it is decoded; a log may do so."""

    def read_unopened(self, entries: Sequence[Placed | Sealed]) -> None:
        """In place of ``read``, before ``caught_up``: entries of the log, in order within each partition, decoded or not."""


class NamespaceLog(Protocol):
    """One namespace's opened change log."""

    @property
    def identity(self) -> str:
        """Names this log for good, also across restarts: positions of another identity mean nothing here.

        A log that does not exist yet gets its lasting name when it is created, before its first event has a place. Ask anew for each use.
        """

    @property
    def partitions(self) -> int:
        """How many partitions it has, at least one."""

    def partition_of(self, key: PolicyKey) -> int:
        """The partition in which all events of a policy key stand."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether it is proven that nothing stands between two positions of one partition.

        ``earlier`` is "" for the beginning of the partition. False means unknown, not the contrary.
        """

    def complete_after(self, partition: int) -> Position | None:
        """Where the part of a partition begins of which nothing was compacted away, as of the opening.

        Every event that was ever written behind this position is read, and of what stands up to it at least the newest event of each key.
        "" is the beginning. None: it is not known. If the log is compacted while it is read for the first time, the position may move on
        once, before an event behind it is read: of a key that has events on both sides of the earlier one, nothing may be read up to that.
        """

    @property
    def resumed(self) -> bool:
        """Whether it is read from the ``start`` of its opening on; if not, from its beginning. It is known when the log is open."""

    @property
    def shared(self) -> bool:
        """Whether others may have written what was not read here; False where nobody but this process writes, for good or for now."""

    async def end(self, partition: int) -> Position:
        """Where a partition ends: whoever has come to there knows everything that anybody had written to it before this was asked.

        It is asked of whoever keeps the log, and nothing is created by it. "" is the beginning. No event needs to stand at the end, nor
        does it have to be one that is read; where nothing more is to be read before it, later answers say so.

        Raises:
            LogError: there is no answer.
        """

    @property
    def in_place(self) -> bool:
        """Whether brokers write here that change the documents in their caches in place, as before PIP-428 (``core/fold/overlap``)."""

    @property
    def leadership(self) -> Leadership:
        """Who may append now; ``ANYBODY`` for a log that may have any number of writers, and for one that has this process only."""

    def contend(self) -> None:
        """Asks for leadership, now and whenever somebody else loses it. Does nothing where anybody may append."""

    def append(self, event: Event) -> None:
        """Takes an event for appending; its outcome is reported to the sink.

        Raises:
            LogError: the event can't be taken, and certainly is not in the log: too many are in flight (RESOURCE_EXHAUSTED, reason
                ``LOG_BUSY``), nothing can be written for now though the log is followed as ever (UNAVAILABLE, reason ``APPEND_FAILED``),
                it is closed or lost (UNAVAILABLE), somebody else leads (``NotLeader``), or its dialect cannot express the event.
        """

    async def close(self) -> None:
        """Finishes what was appended (bounded in time), then stops. The sink hears nothing afterwards."""


@runtime_checkable
class Reached(Protocol):
    """A change log behind which somebody keeps the events who may be out of reach."""

    async def reach(self) -> None:
        """Returns when whoever keeps the logs has answered; asked every few seconds.

        Raises:
            LogError: it can't be reached, or used. ``LOG_UNREACHABLE``: nothing can be appended; ``APPEND_FAILED``: the same, and the log
                itself says so to whoever appends; others: what has to be opened, or asked of a cluster, can't be.
        """

    def cut_off(self, error: LogError) -> None:
        """It was out of reach for too long: what waits here and certainly was not sent fails now."""


class Connections(NamedTuple):
    """How the logs that are open are connected to those who keep them."""

    open: int
    """Logs that are open."""
    connected: int
    """Those of them of which all readers have their connections."""


@runtime_checkable
class Connected(Protocol):
    """A change log whose logs are read over connections."""

    def connections(self) -> Connections:
        """How many of them there are now. Other threads may ask."""


class ChangeLog(Protocol):
    """The change logs of all namespaces."""

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> NamespaceLog:
        """Opens the log of ``tenant/namespace`` and starts reading it.

        Opening creates nothing: a namespace without a log is empty until the first append. A namespace is opened once at a time.

        It is read from ``start`` on (``NamespaceLog.resumed``) if that is a place of this very log, and nothing behind it was compacted
        away; else from the beginning, as if there were no ``start``.

        Args:
            namespace: ``tenant/namespace``.
            sink: whom to report to.
            start: the place up to which its opener knows everything; None: it knows nothing.

        Raises:
            LogError: it can't be opened; NOT_FOUND if the namespace is known not to exist, otherwise UNAVAILABLE.
        """

    async def close(self) -> None:
        """Closes what is open and gives up what is held."""

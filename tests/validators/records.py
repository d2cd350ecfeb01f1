"""The records of a run: every request with its answer, every message of every watch, and the heads of the log.

Times are in seconds on one clock. The order of versions, as strings, is the log's order, for one policy key.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from .documents import Document, Edit

NEVER = math.inf
"""The time of an event that did not happen."""
ABSENT = "0"
"""The version of a document that the log does not have."""
REPEATS = 16
"""How many applied requests of a policy key are remembered."""


class Key(NamedTuple):
    """A policy key."""

    topic: str
    scope: int = 1

    def __str__(self) -> str:
        return f"{self.topic.rpartition('/')[2]}{'' if self.scope == 1 else ' (global)'}"


class Outcome(enum.Enum):
    """The outcome in the answer to an update."""

    APPLIED = 1
    UNCHANGED = 2
    SKIPPED = 3
    WOULD_APPLY = 4


class Answer(NamedTuple):
    """The answer to an update or a deletion."""

    outcome: Outcome
    version: str
    previous: str
    document: Document | None
    """None: there is no document, or the answer does not have it."""
    replayed: bool = False


class Failure(NamedTuple):
    """An error instead of an answer."""

    code: str
    """The name of the gRPC status code."""
    reason: str
    version: str = ""
    """The present version, which the error of a conflict has."""

    @property
    def certain(self) -> bool:
        """Whether the error promises that nothing was applied."""
        return self.code in _REFUSALS or self.reason in ("NOT_APPENDED", "LOG_UNAVAILABLE", "LIMIT_REACHED")


_REFUSALS = frozenset({"ABORTED", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "RESOURCE_EXHAUSTED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One attempt of an update or a deletion."""

    client: str
    sidecar: str
    invoked: float
    answered: float = NEVER
    key: Key
    request_id: str
    edit: Edit
    demanded: str = ""
    """The version that the document must have; empty: any."""
    must_be_absent: bool = False
    skip_if_absent: bool = False
    validate_only: bool = False
    batch: str = ""
    """The batch in which it was sent; empty if it was a call of its own."""
    sequence: int = 0
    """Its number in that batch."""
    answer: Answer | Failure | None = None
    """None: the client did not wait for the answer, or the connection broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read of a document."""

    client: str
    sidecar: str
    invoked: float
    answered: float
    key: Key
    at_least: str = ""
    version: str = ""
    document: Document | None = None
    failure: Failure | None = None
    final: bool = False
    """Whether it was made at the end, after the cluster had come to rest."""


class Change(NamedTuple):
    """A message of a watch: a document."""

    at: float
    key: Key
    version: str
    previous: str
    document: Document | None
    position: str
    """Where the log states this document last: the position of its event, or of a later repair."""


class Bookmark(NamedTuple):
    """A message of a watch: a place to resume from."""

    at: float
    synced: bool
    log: str
    positions: tuple[str, ...]


class Status(NamedTuple):
    """A message of a watch: the namespace's state has changed."""

    at: float
    failed: bool


Message: TypeAlias = Change | Bookmark | Status


@dataclass(slots=True, kw_only=True)
class Watch:
    """One watch stream of one namespace, until its end or a reset. After a reset, another ``Watch`` records the rest of the stream."""

    client: str
    sidecar: str
    opened: float
    every: bool
    """Whether the mode is EVERY; otherwise it is LATEST."""
    topics: frozenset[str] | None
    """The watched topics; None: all."""
    scopes: frozenset[int]
    token: Bookmark | None
    """The token from which it resumed: the last bookmark of earlier streams, with later changes folded in. None: a snapshot."""
    messages: list[Message] = field(default_factory=list)
    ended: float = NEVER
    failure: Failure | None = None
    """Why the service ended it; None if the client ended it."""
    drained: bool = False
    """Whether it was open until the end of the run, when the cluster had come to rest."""

    def selects(self, key: Key) -> bool:
        """Whether a policy key is watched."""
        return key.scope in self.scopes and (self.topics is None or key.topic in self.topics)


class Head(NamedTuple):
    """The state of a policy key after one event of the log."""

    key: Key
    version: str
    previous: str
    document: Document | None
    at: float
    """When the event was written."""
    request_id: str = ""
    """The id of the request; empty if another writer wrote the event."""
    informed: bool = True
    """Whether the event's writer had seen all events of the key before it; False only if the event says that it had not."""


class Foreign(NamedTuple):
    """Another writer's change: its intended effect, and the version of its event."""

    key: Key
    version: str
    edit: Edit
    seen: str | None = None
    """The position up to which the writer had read the key's partition when it computed its document; None: unknown."""


class ForgottenDeletion(NamedTuple):
    """A deletion that nobody knows any more: compaction erased all events of its key, and every sidecar has opened the log since."""

    key: Key
    deletion: str
    """The position of the last event that was erased."""
    since: str
    """The position of the key's next event, the first one that any sidecar has seen."""


@dataclass(slots=True, kw_only=True)
class History:
    """The records of one namespace in one run."""

    partitions: Mapping[Key, int] = field(default_factory=dict)
    """The partition of the log of each policy key."""
    updates: list[Update] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    """The streams of each client are in the order in which it opened them."""
    heads: Sequence[Head] = ()
    """The heads in the log's order."""
    led: bool = False
    """Whether the log has one writer at a time. A leader answers requests that write nothing from its view, even if it is cut off."""
    in_place: bool = False
    """Whether a broker changes its documents in place: an event can have the changes of other calls, so that only the end shows a loss."""
    compactions: list[float] = field(default_factory=list)
    """The times of compactions."""
    forgotten: list[tuple[float, Key]] = field(default_factory=list)
    """Keys of which a compaction left no event that carries requests, because another writer changed them last."""
    erased: list[tuple[float, Key]] = field(default_factory=list)
    """Deleted keys of which a compaction left no event: the requests that the tombstone carried are lost, and the absence's version."""
    forgotten_deletions: Sequence[ForgottenDeletion] = ()
    """Deletions that every sidecar had forgotten before the key's next event came."""
    foreign: list[Foreign] = field(default_factory=list)
    raw: list[Read] = field(default_factory=list)
    """Reads from brokers, which apply documents as they arrive; without versions."""


class Broken(Exception):
    """A promise that was broken. Each kind of promise has its own subclass."""

    def __init__(self, text: str, *records: object) -> None:
        super().__init__("\n    ".join([text, *map(str, records)]))

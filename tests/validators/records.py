"""What is recorded of a run: every request with its answer, every message of every watch, and what the log came to.

Times are seconds on one clock. Versions are strings whose order is the log's order, for one policy key.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from .documents import Document, Edit

NEVER = math.inf
"""When something happened that did not."""
ABSENT = "0"
"""The version of a document of which the log knows nothing."""
REPEATS = 16
"""Of how many applied requests a policy key remembers the answers."""


class Key(NamedTuple):
    """A policy key."""

    topic: str
    scope: int = 1

    def __str__(self) -> str:
        return f"{self.topic.rpartition('/')[2]}{'' if self.scope == 1 else ' (global)'}"


class Outcome(enum.Enum):
    """What an update's answer says became of it."""

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
    """None: there is none, or it was not told."""
    replayed: bool = False


class Failure(NamedTuple):
    """An error instead of an answer."""

    code: str
    """gRPC's name."""
    reason: str
    version: str = ""
    """The present version, where a conflict tells it."""

    @property
    def certain(self) -> bool:
        """Whether it promises that nothing was applied."""
        return self.code in _REFUSALS or self.reason in ("NOT_APPENDED", "NOT_CONFIRMED", "APPEND_FAILED", "LOG_BUSY")


_REFUSALS = frozenset({"ABORTED", "ALREADY_EXISTS", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "RESOURCE_EXHAUSTED"})


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
    etag: str = ""
    must_not_exist: bool = False
    skip_if_absent: bool = False
    validate_only: bool = False
    stream: str = ""
    """The stream of updates that it was sent on; empty if it was a call of its own."""
    sequence: int = 0
    """Its place on that stream."""
    answer: Answer | Failure | None = None
    """None: the caller did not wait for it, or the connection broke."""


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
    """Whether it was made at the end, long after everything had come to rest."""


class Change(NamedTuple):
    """A message of a watch: a document and the event that made it."""

    at: float
    key: Key
    version: str
    previous: str
    document: Document | None
    partition: int
    position: str


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
    """One watch stream on one namespace, up to its end or to a reset, with which another one begins."""

    client: str
    sidecar: str
    opened: float
    every: bool
    """Whether every change was asked for; otherwise only the newest of each key."""
    topics: frozenset[str] | None
    """None: all."""
    scopes: frozenset[int]
    token: Bookmark | None
    """Where it resumed: the last bookmark of the streams before, with the later changes folded in. None: it began with a snapshot."""
    messages: list[Message] = field(default_factory=list)
    ended: float = NEVER
    failure: Failure | None = None
    """Why the service ended it; None if the client did."""
    drained: bool = False
    """Whether it was open to the end of the run, long after everything had come to rest."""

    def selects(self, key: Key) -> bool:
        """Whether a policy key is watched."""
        return key.scope in self.scopes and (self.topics is None or key.topic in self.topics)


class Head(NamedTuple):
    """What a policy key became with one event of the log."""

    key: Key
    version: str
    previous: str
    document: Document | None
    at: float
    """When it was written."""
    request_id: str = ""
    """Whose request it was; empty if another writer's."""


class Foreign(NamedTuple):
    """Another writer's change: what was asked of it, and the place of its event in the log."""

    key: Key
    version: str
    edit: Edit


@dataclass(slots=True, kw_only=True)
class History:
    """Everything that is recorded of one namespace in one run."""

    partitions: Mapping[Key, int] = field(default_factory=dict)
    """In which partition of the log each policy key stands."""
    updates: list[Update] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    """Each client's streams in the order in which it opened them."""
    heads: Sequence[Head] = ()
    """In the log's order."""
    led: bool = False
    """Whether the log has one writer at a time, which answers what writes nothing from what it knows, even when it is cut off."""
    compactions: list[float] = field(default_factory=list)
    """When the log forgot what was superseded."""
    forgotten: list[tuple[float, Key]] = field(default_factory=list)
    """Keys of which a compaction left nothing that remembers requests, because another writer changed them last."""
    erased: list[tuple[float, Key]] = field(default_factory=list)
    """Deleted keys of which a compaction left nothing at all: with the tombstone goes what it remembered, and the absence's version."""
    foreign: list[Foreign] = field(default_factory=list)
    raw: list[Read] = field(default_factory=list)
    """What brokers show, who apply documents as they come. No versions."""


class Broken(Exception):
    """A promise that was broken. Each kind of promise has its own subclass."""

    def __init__(self, text: str, *records: object) -> None:
        super().__init__("\n    ".join([text, *map(str, records)]))

"""The keyword options of calls, for both clients, as types that editors and type checkers know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias, TypedDict

from google.protobuf.field_mask_pb2 import FieldMask

from .documents import Document, Scope
from .events import WatchMode
from .fields import PolicyFields
from .results import ListOperation
from .tokens import ResumeToken

Mask: TypeAlias = FieldMask | Iterable[str] | str
"""A mask: a message, several paths, or one path."""


class CommonOptions(TypedDict, total=False):
    """The options of every change."""

    scope: Scope
    """The scope of the document; LOCAL by default."""
    actor: str
    """Who makes the change; stored in the log, and shown in watches and the history. Empty: the client's own ``actor``."""
    reason: str
    """Why the change is made; stored and shown like the actor."""
    validate_only: bool
    """Whether the change is only checked: the result says what it would do, and nothing is written."""
    include_previous: bool
    """Whether the result contains the document before the change."""


class EditOptions(CommonOptions, total=False):
    """The options of an edit."""

    skip_if_absent: bool
    """Whether the edit does nothing if there is no document (outcome SKIPPED): its function is not called, a block's edits are dropped."""
    start: Document | None
    """A known document to begin with, such as one of a cache, which saves reading it first; None: the edit reads it."""


class ChangeOptions(CommonOptions, total=False):
    """The options of an update or a deletion."""

    etag: str
    """The version that the document, or its absence, must have, or else the call fails with ``Conflict``; empty: any."""
    request_id: str
    """The request id, a UUID; with the id of an earlier request, the call repeats that request and returns its result. Empty: a new id."""


class UpdateOptions(ChangeOptions, total=False):
    """The options of an update, besides its values."""

    mask: Mask
    """The paths to change; a path that is named here and has no value is cleared. ``*`` alone replaces the whole document. Without a mask,
    the values that are set are changed, leaf by leaf and entry by entry, and nothing else."""
    list_operations: Mapping[str, ListOperation]
    """How list fields are changed, by path; a list that is not named here is replaced."""
    must_not_exist: bool
    """Whether the update fails with ``AlreadyExists`` if there is a document."""
    skip_if_absent: bool
    """Whether the update does nothing if there is no document (outcome SKIPPED)."""


class UpdateArguments(UpdateOptions, PolicyFields, total=False):
    """The options and the values of an update, by keyword."""


class Selection(TypedDict, total=False):
    """The documents that a watch or a cache follows: at least one topic or namespace."""

    topics: Iterable[str]
    """Topics to follow. A snapshot reports also those that have no document."""
    namespaces: Iterable[str]
    """Namespaces, ``tenant/namespace``, of which all topics are followed."""
    scopes: Iterable[Scope]
    """The scopes to follow; none: both."""
    bookmark_interval: float | None
    """Seconds between two ``Bookmark`` events of a namespace, from 1 to 3,600; None: the service's default."""


class WatchOptions(Selection, total=False):
    """The options of a watch."""

    mode: WatchMode
    """Which events are yielded; LATEST by default."""
    token: ResumeToken | None
    """The place to continue from: the ``token`` of an earlier watch or listing; None: each namespace begins with a snapshot."""
    from_beginning: bool
    """Whether namespaces without a token begin with the first event in the server's history, instead of a snapshot. Not with LATEST."""
    end_when_synced: bool
    """Whether the watch ends once everything up to ``Synced`` was yielded for every namespace."""
    include_previous: bool
    """Whether changes contain the document before the change."""
    patience: float | None
    """Seconds that the service may be silent or unreachable before the watch raises the error; None: without limit. They must be more than
    those of ``bookmark_interval``. The time in which nobody waits for an event does not count."""


class HistoryOptions(TypedDict, total=False):
    """The part of the history to read: of one topic or one namespace."""

    topic: str
    """A topic's name; either this or ``namespace``."""
    namespace: str
    """``tenant/namespace``; either this or ``topic``."""
    scopes: Iterable[Scope]
    """The scopes to read; none: both."""
    start: datetime | None
    """Only events at this time or later; None: from the beginning. A time without a zone is local."""
    end: datetime | None
    """Only events before this time; None: up to now. A time without a zone is local."""
    actor: str | None
    """Only events of this actor; empty: only events that name no actor, such as brokers' events; None: all events."""
    oldest_first: bool
    """Whether the oldest event comes first; by default the newest does."""
    page_size: int
    """Entries of one page; 0: the service chooses."""

"""What calls may be told by keyword, so that type checkers and editors know it: the same for both clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias, TypedDict

from google.protobuf.field_mask_pb2 import FieldMask

from .documents import Scope
from .events import WatchMode
from .fields import PolicyFields
from .results import ListOperation
from .tokens import ResumeToken

Mask: TypeAlias = FieldMask | Iterable[str] | str
"""Paths of fields: a message, several paths, or one."""


class EditOptions(TypedDict, total=False):
    """What every change may be told."""

    scope: Scope
    """In which clusters; LOCAL unless it is said."""
    actor: str
    """Who asks; empty: the client's own ``actor``."""
    reason: str
    """Why; kept and told as the actor is."""


class ChangeOptions(EditOptions, total=False):
    """What an update and a deletion may be told."""

    etag: str
    """The version that the document, or its absence, must have; empty: any."""
    validate_only: bool
    """Checks everything and answers what would be, without writing."""
    include_previous: bool
    """Whether the result is to have the document before the change."""
    request_id: str
    """A UUID, to repeat an earlier request and learn what it did; empty: a new one is made."""


class UpdateOptions(ChangeOptions, total=False):
    """What an update may be told besides its values."""

    mask: Mask
    """The paths to change; what is named here and has no value is cleared. ``*`` alone replaces the whole document. Without it, what is set
    is changed, leaf by leaf and entry by entry, and nothing else."""
    list_operations: Mapping[str, ListOperation]
    """What to do with list fields, by path; the others are replaced."""
    must_not_exist: bool
    """Fails with ``AlreadyExists`` when there is a document."""
    skip_if_absent: bool
    """Does nothing when there is no document."""


class UpdateArguments(UpdateOptions, PolicyFields, total=False):
    """Options and values of an update, by keyword."""


class Selection(TypedDict, total=False):
    """What a watch or a cache follows."""

    topics: Iterable[str]
    """Single topics; a watch says so if one has no document."""
    namespaces: Iterable[str]
    """Namespaces of which all topics are followed, ``tenant/namespace``."""
    scopes: Iterable[Scope]
    """Which scopes; none: both."""
    bookmark_interval: float | None
    """Seconds between two confirmations that nothing has changed, from 1 to 3,600; None: as the service likes."""


class WatchOptions(Selection, total=False):
    """What a watch may be told."""

    mode: WatchMode
    """What is told; LATEST unless it is said."""
    token: ResumeToken | None
    """Where to go on, from an earlier watch's or a listing's ``token``; None: at the beginning."""
    from_beginning: bool
    """Whether it begins with the first event that the history has, instead of with a snapshot. Not with LATEST."""
    end_when_synced: bool
    """Whether it ends when everything was told."""
    include_previous: bool
    """Whether changes are to have the document before."""
    patience: float | None
    """Seconds without any message after which a broken watch raises its error; None: it tries for ever."""


class HistoryOptions(TypedDict, total=False):
    """Which part of the history is asked for."""

    topic: str
    """A topic's name; either this or ``namespace``."""
    namespace: str
    """``tenant/namespace``."""
    scopes: Iterable[Scope]
    """Which scopes; none: both."""
    start: datetime | None
    """Only what happened then or later. A time without a zone is local."""
    end: datetime | None
    """Only what happened before."""
    actor: str | None
    """Only events of this actor; empty: only those of which nobody said whose they are, such as brokers'; None: everybody's."""
    oldest_first: bool
    """In which order; the newest first unless it is said."""
    page_size: int
    """Entries of one page; 0: as the service likes."""

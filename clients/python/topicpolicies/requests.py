"""Builds the requests from the callers' arguments, without I/O.

An update carries a mask if its caller gives one. Without a mask the service changes what is set in the message (docs/masks.md). But a
message can't show that None, an empty list or an empty object was given: the mask then names it, and everything else that changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypedDict, Unpack, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from .errors import Violation, invalid
from .fields import PolicyFields
from .masks import Path, PathError, format_path, parse_path, set_paths
from .v1 import history_pb2, service_pb2
from .v1.policies_pb2 import SCOPE_LOCAL, Scope, TopicPolicies
from .values import ValueProblem, assign, locate

__all__ = [
    "ChangeOptions", "EditOptions", "HistoryOptions", "HistoryWatchOptions", "Selection", "UpdateArguments", "WatchOptions",
    "delete_request", "update_request",
]  # fmt: skip

Policies: TypeAlias = TopicPolicies | Mapping[str, Any]
"""New values: a message, or a mapping from paths to values, in which None clears."""
Mask: TypeAlias = FieldMask | Iterable[str] | str
"""A mask: a message, several paths, or one path."""
ChangeRequest: TypeAlias = service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest
"""One change of a batch."""


class CommonOptions(TypedDict, total=False):
    """The options of every change."""

    scope: Scope.ValueType
    """The scope of the document; ``SCOPE_LOCAL`` by default."""
    actor: str
    """Who makes the change; stored in the log, and shown in watches and the history. Empty: the client's own ``actor``."""
    reason: str
    """Why the change is made; stored and shown like the actor."""
    owner: str
    """Whose declaration of the document the change carries out; stored and shown like the actor."""
    validate_only: bool
    """Whether the change is only checked: the result says what it would do, and nothing is written."""
    include_previous: bool
    """Whether the result contains the document before the change."""


class EditOptions(CommonOptions, total=False):
    """The options of an edit."""

    skip_if_absent: bool
    """Whether the edit does nothing if there is no document (outcome SKIPPED): its function is not called."""


class ChangeOptions(CommonOptions, total=False):
    """The options of an update or a deletion."""

    version: str | None
    """The version that the document, or its absence, must have, or else the call fails with ``PreconditionFailed``; None: any."""
    exists: bool | None
    """Whether there must be a document (True) or none (False), or else the call fails with ``PreconditionFailed``; None: either."""
    request_id: str
    """The request id, a UUID; with the id of an earlier request, the call repeats that request and returns its result. Empty: a new id."""


class UpdateOptions(ChangeOptions, total=False):
    """The options of an update, besides its values."""

    mask: Mask | None
    """The paths to change; one without a value is cleared. ``*`` alone replaces the document. None: what is set, leaf by leaf."""
    list_operations: Mapping[str, service_pb2.ListOperation.ValueType] | None
    """How list fields are changed, by path; a list that is not named here is replaced."""
    skip_if_absent: bool
    """Whether the update does nothing if there is no document (outcome SKIPPED)."""


class UpdateArguments(UpdateOptions, PolicyFields, total=False):
    """The options and the values of an update, by keyword."""


class WatchOptions(TypedDict, total=False):
    """The options of every watch."""

    bookmark_interval: float | None
    """Seconds between two bookmarks of a namespace, from 1 to 3,600; None: the service's 10."""
    until_synced: bool
    """Whether the watch ends once every namespace has sent its SYNCED."""
    patience: float | None
    """How many seconds the watch tries to get a stream again before it raises the error; None: without limit."""


class HistoryWatchOptions(WatchOptions, total=False):
    """The options of a watch of the history."""

    bookmark_every: int
    """Behind how many events there is a bookmark, in place of events: to divide a copy, or learn where the record ends. 0: events."""


class Selection(WatchOptions, total=False):
    """The documents that a watch follows: at least one topic or namespace."""

    topics: Iterable[str]
    """Topics to follow. A snapshot has also those without a document."""
    namespaces: Iterable[str]
    """Namespaces, ``tenant/namespace``, of which all topics are followed."""
    scopes: Iterable[Scope.ValueType]
    """The scopes to follow; none: both."""
    mode: service_pb2.WatchMode.ValueType
    """``WATCH_MODE_LATEST`` or ``WATCH_MODE_EVERY``; LATEST by default."""
    resume_tokens: Mapping[str, str] | None
    """Where to continue, by namespace: the ``resume_tokens`` of an earlier watch. Others begin with a snapshot."""
    include_previous: bool
    """Whether changes contain the document before the change."""


class HistoryOptions(TypedDict, total=False):
    """The part of the history to read, of one topic or one namespace. Times without a zone are local times."""

    topic: str
    """The topic whose history is read."""
    namespace: str
    """The namespace whose history is read."""
    scopes: Iterable[Scope.ValueType]
    """The scopes to read; none: both."""
    start: datetime | None
    """Only events at this time or later."""
    end: datetime | None
    """Only events before this time."""
    actor: str | None
    """Only events of this actor; empty: only those without one; None: of all."""
    oldest_first: bool
    """Whether the first event comes first; by default the last one does."""
    page_size: int
    """The most entries of a page; 0: the service's 100."""


def update_request(  # noqa: PLR0913 - options, by keyword
    topic: str,
    policies: Policies | None = None,
    /,
    *,
    mask: Mask | None = None,
    scope: Scope.ValueType = SCOPE_LOCAL,
    list_operations: Mapping[str, service_pb2.ListOperation.ValueType] | None = None,
    version: str | None = None,
    exists: bool | None = None,
    skip_if_absent: bool = False,
    validate_only: bool = False,
    include_previous: bool = False,
    request_id: str = "",
    actor: str = "",
    reason: str = "",
    owner: str = "",
    **fields: Unpack[PolicyFields],
) -> service_pb2.UpdatePolicyRequest:
    """Makes an update, for ``batch``; it takes the same arguments as ``Client.update``.

    Raises:
        InvalidArgument: a path names nothing, a value does not fit its field, or the mask leaves a value out; it has all violations.
        TypeError: an option has the wrong type.
    """
    message, named = _values(policies, fields)
    paths = [mask] if isinstance(mask, str) else list(mask.paths if isinstance(mask, FieldMask) else mask or ())
    if not paths:
        paths = _implied(message, named)
    elif not isinstance(policies, TopicPolicies):
        _check_covered(named, paths)
    return service_pb2.UpdatePolicyRequest(
        topic=topic,
        scope=scope,
        policies=message,
        update_mask=FieldMask(paths=paths) if paths else None,
        list_operations=list_operations,
        precondition=_precondition(version, exists),
        skip_if_absent=skip_if_absent,
        request_id=request_id or new_request_id(),
        validate_only=validate_only,
        include_previous=include_previous,
        actor=actor,
        reason=reason,
        owner=owner,
    )


def delete_request(  # noqa: PLR0913 - options, by keyword
    topic: str,
    /,
    *,
    scope: Scope.ValueType = SCOPE_LOCAL,
    version: str | None = None,
    exists: bool | None = None,
    validate_only: bool = False,
    include_previous: bool = False,
    request_id: str = "",
    actor: str = "",
    reason: str = "",
    owner: str = "",
) -> service_pb2.DeletePolicyRequest:
    """Makes a deletion, for ``batch``; it takes the same arguments as ``Client.delete``.

    Raises:
        InvalidArgument: both ``version`` and ``exists`` are given.
        TypeError: an option has the wrong type.
    """
    return service_pb2.DeletePolicyRequest(
        topic=topic,
        scope=scope,
        precondition=_precondition(version, exists),
        request_id=request_id or new_request_id(),
        validate_only=validate_only,
        include_previous=include_previous,
        actor=actor,
        reason=reason,
        owner=owner,
    )


def history_request(
    *,
    topic: str = "",
    namespace: str = "",
    scopes: Iterable[Scope.ValueType] = (),
    start: datetime | None = None,
    end: datetime | None = None,
    actor: str | None = None,
    oldest_first: bool = False,
    page_size: int = 0,
) -> history_pb2.ListHistoryRequest:
    """Makes the request for the first page of a history; ``HistoryOptions`` documents the arguments."""
    return history_pb2.ListHistoryRequest(
        topic=topic,
        namespace=namespace,
        scopes=scopes,
        start_time=None if start is None else timestamp(start),
        end_time=None if end is None else timestamp(end),
        actor=actor,
        oldest_first=oldest_first,
        page_size=page_size,
    )


def as_of_request(topic: str, as_of: datetime | str, scope: Scope.ValueType) -> history_pb2.GetPolicyAsOfRequest:
    """Makes the request of a read of the past, at a time or of a version."""
    if isinstance(as_of, datetime):
        return history_pb2.GetPolicyAsOfRequest(topic=topic, scope=scope, time=timestamp(as_of))
    return history_pb2.GetPolicyAsOfRequest(topic=topic, scope=scope, version=as_of)


def complete(change: ChangeRequest, actor: str) -> None:
    """Gives a change the client's actor, and a new request id, if it has none."""
    change.actor = change.actor or actor
    change.request_id = change.request_id or new_request_id()


def new_request_id() -> str:
    """Returns a unique request id, in the service's form: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def timestamp(time: datetime) -> Timestamp:
    """Returns a time; one without a zone is a local time."""
    made = Timestamp()
    made.FromDatetime(time.astimezone())
    return made


def duration(seconds: float | None) -> Duration | None:
    """Returns a duration of some seconds."""
    made = Duration()
    made.FromNanoseconds(round((seconds or 0) * 1e9))
    return None if seconds is None else made


def several(values: Iterable[str], argument: str) -> Sequence[str]:
    """Returns the values of an argument. A single text is refused, because its characters would be taken for the values."""
    if isinstance(values, str):
        raise TypeError(f"{argument} takes a list, such as [{values!r}], not {values!r} alone")
    return list(values)


def _precondition(version: str | None, exists: bool | None) -> service_pb2.Precondition | None:
    if version is not None and exists is not None:
        raise invalid(Violation("precondition", "CONTRADICTION", "Give version or exists, not both."))
    if version is not None:
        return service_pb2.Precondition(version=version)
    return None if exists is None else service_pb2.Precondition(exists=exists)


def _values(policies: Policies | None, fields: Mapping[str, Any]) -> tuple[TopicPolicies, list[Path]]:
    """Returns the values as one message, and the paths that were named: by keyword, or in a mapping."""
    message = TopicPolicies()
    named: dict[str, Any] = dict(fields)
    violations: list[Violation] = []
    if isinstance(policies, TopicPolicies):
        message.CopyFrom(policies)
    elif policies is not None:
        twice = [path for path in policies if path in named]
        violations += [Violation(path, "OVERLAPPING_PATHS", f'"{path}" is given twice.') for path in twice]
        named = {**policies, **named}
    seen: list[Path] = []
    for name, value in named.items():
        try:
            target = locate(TopicPolicies.DESCRIPTOR, name)
            if not target.entry and len(target.path) == 1:
                message.ClearField(cast("Any", target.field.name))  # the keyword replaces the value in a message that was given too
            assign(message, target, value)
        except ValueProblem as problem:
            violations.append(Violation(name, problem.reason, str(problem)))
            continue
        if any(_contains(other, target.path) or _contains(target.path, other) for other in seen):
            violations.append(Violation(name, "OVERLAPPING_PATHS", f'"{name}" overlaps another path of the same update.'))
        seen.append(target.path)
    if violations:
        raise invalid(*violations)
    return message, seen


def _implied(message: TopicPolicies, named: list[Path]) -> list[str]:
    """Returns the mask of an update whose caller gave none: empty, unless a path was named whose value sets nothing in the message."""
    if not named:
        return []
    leaves = set_paths(message)
    paths = [parse_path(leaf) for leaf in leaves]
    unset = [format_path(path) for path in named if not any(_contains(path, leaf) for leaf in paths)]
    return [*leaves, *unset] if unset else []


def _check_covered(named: list[Path], mask: list[str]) -> None:
    """Checks that the given mask covers all named values: those that it leaves out would be dropped silently."""
    try:
        masked = [parse_path(path) for path in mask]
    except PathError as error:
        raise invalid(Violation("update_mask", error.reason, f"The mask can't be read: {error}.")) from None
    left_out = [format_path(path) for path in named if not any(_contains(each, path) for each in masked)]
    if left_out:
        problem = '"{}" is given, but the mask leaves it out: add it to the mask, or give no mask.'
        raise invalid(*(Violation(path, "NOT_IN_MASK", problem.format(path)) for path in left_out))


def _contains(outer: Path, inner: Path) -> bool:
    return inner[: len(outer)] == outer

"""Builds the requests from the callers' arguments. Nothing here does I/O.

A change always carries a request id, so that it can be repeated. An update carries a mask if its caller gives one. Without a mask the
service changes what is set in the message; the service alone defines that rule (docs/masks.md). But a message can't show that None, an
empty list or an empty object was given. If one is, the update carries a mask that names it, and everything else that the update changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, Unpack, cast

from google.protobuf.field_mask_pb2 import FieldMask

from .arguments import instance, member, members, moment, optional_text, text, texts, whole
from .documents import Scope
from .effective import EffectiveView
from .errors import Violation, invalid
from .history import timestamp
from .masks import Path, PathError, format_path, parse_path, set_paths
from .message_errors import errors_as_invalid_argument
from .options import ChangeOptions, Mask, UpdateArguments
from .reprs import repr_of
from .results import ListOperation
from .secrets import redacted
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies
from .values import ValueProblem, assign, locate

Policies: TypeAlias = TopicPolicies | Mapping[str, Any]
"""New values: a message, or a mapping from paths to values, in which None clears."""


class Update:
    """An update for ``update_many``; it takes the same arguments as ``Client.update``."""

    __slots__ = ("arguments", "policies", "topic")

    def __init__(self, topic: str, policies: Policies | None = None, /, **arguments: Unpack[UpdateArguments]) -> None:
        self.topic = topic
        self.policies = policies
        self.arguments = arguments

    def __repr__(self) -> str:
        values = () if self.policies is None else (repr_of(redacted(self.policies)),)
        return f"Update({', '.join((repr(self.topic), *values, *_keywords(self.arguments)))})"

    def request(self) -> service_pb2.UpdatePolicyRequest:
        """Returns the update as a request.

        Raises:
            InvalidArgument: the update is wrong; the violations say how.
        """
        return update_request(self.topic, self.policies, **self.arguments)


class Deletion:
    """A deletion for ``update_many``; it takes the same arguments as ``Client.delete``."""

    __slots__ = ("options", "topic")

    def __init__(self, topic: str, /, **options: Unpack[ChangeOptions]) -> None:
        self.topic = topic
        self.options = options

    def __repr__(self) -> str:
        return f"Deletion({', '.join((repr(self.topic), *_keywords(self.options)))})"

    def request(self) -> service_pb2.DeletePolicyRequest:
        """Returns the deletion as a request.

        Raises:
            InvalidArgument: the deletion is wrong; the violations say how.
        """
        return delete_request(self.topic, **self.options)


def _keywords(arguments: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name}={repr_of(redacted(value, (name,)))}" for name, value in arguments.items())


def new_request_id() -> str:
    """Returns a unique request id, in the service's form: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@errors_as_invalid_argument()
def update_request(  # noqa: PLR0913 - options, by keyword
    topic: str,
    policies: Policies | None = None,
    /,
    *,
    mask: Mask | None = None,
    scope: Scope = Scope.LOCAL,
    list_operations: Mapping[str, ListOperation] | None = None,
    etag: str = "",
    must_not_exist: bool = False,
    skip_if_absent: bool = False,
    validate_only: bool = False,
    include_previous: bool = False,
    request_id: str = "",
    actor: str = "",
    reason: str = "",
    **fields: Any,
) -> service_pb2.UpdatePolicyRequest:
    """Makes the request of an update: values as a message or by path, further values by field (``fields``), and ``UpdateOptions``.

    Raises:
        InvalidArgument: a path names nothing, a value does not fit its field, or the mask leaves a value out; it has all violations.
    """
    message, named = _values(policies, fields)
    paths = _mask(mask)
    if not paths:
        paths = _implied(message, named)
    elif not isinstance(policies, TopicPolicies):
        _check_covered(named, paths)
    request = service_pb2.UpdatePolicyRequest(
        topic=text(topic, "topic"),
        scope=member(scope, Scope, "scope").number,
        policies=message,
        update_mask=FieldMask(paths=paths) if paths else None,
        etag=optional_text(etag, "etag"),
        must_not_exist=must_not_exist,
        skip_if_absent=skip_if_absent,
        request_id=optional_text(request_id, "request_id") or new_request_id(),
        validate_only=validate_only,
        actor=optional_text(actor, "actor"),
        reason=optional_text(reason, "reason"),
        include_previous=include_previous,
    )
    for path, operation in instance(list_operations or {}, Mapping, "list_operations").items():
        request.list_operations[path] = member(operation, ListOperation, "list_operations").number
    return request


def delete_request(
    topic: str,
    /,
    *,
    scope: Scope = Scope.LOCAL,
    etag: str = "",
    validate_only: bool = False,
    include_previous: bool = False,
    request_id: str = "",
    actor: str = "",
    reason: str = "",
) -> service_pb2.DeletePolicyRequest:
    """Makes the request of a deletion. ``ChangeOptions`` documents the arguments."""
    with errors_as_invalid_argument():
        return service_pb2.DeletePolicyRequest(
            topic=text(topic, "topic"),
            scope=member(scope, Scope, "scope").number,
            etag=optional_text(etag, "etag"),
            request_id=optional_text(request_id, "request_id") or new_request_id(),
            validate_only=validate_only,
            actor=optional_text(actor, "actor"),
            reason=optional_text(reason, "reason"),
            include_previous=include_previous,
        )


@errors_as_invalid_argument()
def get_request(
    topic: str,
    scopes: Iterable[Scope],
    *,
    at_least_version: str = "",
    as_of_time: datetime | None = None,
    as_of_version: str = "",
) -> service_pb2.GetPolicyRequest:
    """Makes the request of a read of a topic's documents. ``Client.get`` documents the arguments.

    Raises:
        InvalidArgument: more than one of the last three arguments is given.
    """
    if sum((bool(at_least_version), as_of_time is not None, bool(as_of_version))) > 1:
        problem = "Give only one of at_least_version, as_of_time and as_of_version."
        raise invalid("CONTRADICTION", Violation("read_at", "CONTRADICTION", problem))
    request = service_pb2.GetPolicyRequest(topic=text(topic, "topic"), scopes=[scope.number for scope in members(scopes, Scope, "scope")])
    if at_least_version:
        request.at_least_version = text(at_least_version, "at_least_version")
    elif as_of_time is not None:
        request.as_of_time.CopyFrom(timestamp(moment(as_of_time, "as_of_time")))
    elif as_of_version:
        request.as_of_version = text(as_of_version, "as_of_version")
    return request


def effective_request(
    topic: str, view: EffectiveView, at_least_local_version: str, at_least_global_version: str
) -> service_pb2.GetEffectivePolicyRequest:
    """Makes the request of a read of a topic's effective policies. ``Client.effective`` documents the arguments."""
    with errors_as_invalid_argument():
        return service_pb2.GetEffectivePolicyRequest(
            topic=text(topic, "topic"),
            view=member(view, EffectiveView, "view").number,
            at_least_local_version=optional_text(at_least_local_version, "at_least_local_version"),
            at_least_global_version=optional_text(at_least_global_version, "at_least_global_version"),
        )


def list_request(namespace: str, scopes: Iterable[Scope], page_size: int) -> service_pb2.ListPoliciesRequest:
    """Makes the request for the first page of a namespace's documents. ``Client.list`` documents the arguments."""
    with errors_as_invalid_argument():
        chosen = [scope.number for scope in members(scopes, Scope, "scopes")]
        size = whole(page_size, "page_size")
        return service_pb2.ListPoliciesRequest(namespace=text(namespace, "namespace"), page_size=size, scopes=chosen)


def _values(policies: Policies | None, fields: Mapping[str, Any]) -> tuple[TopicPolicies, list[Path]]:
    """Returns the values as one message, and the paths that were named: by keyword, or in a mapping."""
    message = TopicPolicies()
    named: dict[str, Any] = dict(fields)
    violations: list[Violation] = []
    if isinstance(policies, TopicPolicies):
        message.CopyFrom(policies)
    elif policies is not None:
        instance(policies, Mapping, "policies")
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
        raise invalid(violations[0].reason, *violations)
    return message, seen


def _implied(message: TopicPolicies, named: list[Path]) -> list[str]:
    """Returns the mask of an update whose caller gave none: empty, unless a path was named whose value sets nothing in the message."""
    if not named:
        return []
    leaves = set_paths(message)
    paths = [parse_path(leaf) for leaf in leaves]
    unset = [format_path(path) for path in named if not any(_contains(path, leaf) for leaf in paths)]
    return [*leaves, *unset] if unset else []


def _mask(mask: Mask | None) -> list[str]:
    if mask is None:
        return []
    if isinstance(mask, str):
        return [mask]
    return list(mask.paths) if isinstance(mask, FieldMask) else texts(mask, "mask")


def _check_covered(named: list[Path], mask: list[str]) -> None:
    """Checks that the given mask covers all named values: those that it leaves out would be dropped silently."""
    try:
        masked = [parse_path(path) for path in mask]
    except PathError as error:
        raise invalid(error.reason, Violation("update_mask", error.reason, f"The mask can't be read: {error}.")) from None
    left_out = [format_path(path) for path in named if not any(_contains(each, path) for each in masked)]
    if left_out:
        problem = '"{}" is given, but the mask leaves it out: add it to the mask, or give no mask.'
        raise invalid("NOT_IN_MASK", *(Violation(path, "NOT_IN_MASK", problem.format(path)) for path in left_out))


def _contains(outer: Path, inner: Path) -> bool:
    return inner[: len(outer)] == outer

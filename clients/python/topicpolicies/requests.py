"""The requests, built from what callers say. Nothing here sends anything.

An update always carries an explicit mask, and always a request id, so that it may be repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from google.protobuf.field_mask_pb2 import FieldMask

from .errors import Violation, invalid
from .masks import Path, PathError, format_path, parse_path
from .results import ListOperation, Scope
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies
from .values import ValueProblem, assign, locate

Policies: TypeAlias = TopicPolicies | Mapping[str, Any]
"""New values: a message, or a mapping from paths to values, in which None clears."""
Mask: TypeAlias = FieldMask | Iterable[str] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an update may say besides its values."""

    mask: Mask | None = None
    """The paths to change; None: those of the values."""
    scope: Scope = Scope.LOCAL
    etag: str = ""
    """The version that the document must have; empty: any."""
    skip_if_absent: bool = False
    """Does nothing when there is no document."""
    validate_only: bool = False
    """Checks everything and answers what would be, without writing."""
    request_id: str = ""
    """A UUID, to repeat an earlier request; empty: a new one is made."""
    list_operations: Mapping[str, ListOperation] | None = None
    """What to do with list fields, by path; the others are replaced."""


@dataclass(frozen=True, slots=True)
class Update:
    """One of many updates: what ``Client.update`` takes, as a value."""

    topic: str
    policies: Policies
    options: Options = Options()

    def request(self) -> service_pb2.UpdatePolicyRequest:
        """As a request.

        Raises:
            InvalidArgument: it can't be sent; the violations say why.
        """
        return update_request(self.topic, self.policies, {}, self.options)


def new_request_id() -> str:
    """An id that no other request has."""
    return str(uuid.uuid4())


def update_request(topic: str, policies: Policies | None, fields: Mapping[str, Any], options: Options) -> service_pb2.UpdatePolicyRequest:
    """An update.

    Args:
        topic: its name.
        policies: values as a message or by path.
        fields: further values, by field.
        options: everything else.

    Raises:
        InvalidArgument: nothing is to be changed, a path names nothing, a value does not fit; every violation at once.
    """
    message, paths = _values(policies, fields)
    mask = paths if options.mask is None else _mask(options.mask)
    if not mask:
        raise invalid("EMPTY_MASK", Violation("update_mask", "EMPTY_MASK", "There is nothing to change: give at least one value or path."))
    if options.mask is not None and not isinstance(policies, TopicPolicies):
        _check_covered(paths, mask)
    request = service_pb2.UpdatePolicyRequest(
        topic=topic,
        scope=options.scope.number,
        policies=message,
        update_mask=FieldMask(paths=mask),
        skip_if_absent=options.skip_if_absent,
        etag=options.etag,
        request_id=options.request_id or new_request_id(),
        validate_only=options.validate_only,
    )
    for path, operation in (options.list_operations or {}).items():
        request.list_operations[path] = operation.number
    return request


def delete_request(topic: str, scopes: Mapping[Scope, str] | Iterable[Scope] | Scope, request_id: str) -> service_pb2.DeletePolicyRequest:
    """A deletion of the documents in some scopes, each with its etag where a mapping gives one."""
    if isinstance(scopes, Scope):
        scopes = (scopes,)
    etags = scopes if isinstance(scopes, Mapping) else dict.fromkeys(scopes, "")
    if not etags:
        raise invalid("EMPTY_DELETE", Violation("deletes", "EMPTY_DELETE", "There is nothing to delete: name at least one scope."))
    request = service_pb2.DeletePolicyRequest(topic=topic, request_id=request_id or new_request_id())
    for scope, etag in etags.items():
        request.deletes.add(scope=scope.number, etag=etag)
    return request


def list_request(namespace: str, scopes: Iterable[Scope], page_size: int, page_token: str) -> service_pb2.ListPoliciesRequest:
    """One page of a namespace's documents."""
    request = service_pb2.ListPoliciesRequest(namespace=namespace, page_size=page_size, page_token=page_token)
    request.scopes.extend(scope.number for scope in scopes)
    return request


def _values(policies: Policies | None, fields: Mapping[str, Any]) -> tuple[TopicPolicies, list[str]]:
    """The values as one message, and the paths that they are for."""
    message = TopicPolicies()
    paths: list[str] = []
    named: dict[str, Any] = dict(fields)
    violations: list[Violation] = []
    if isinstance(policies, TopicPolicies):
        message.CopyFrom(policies)
        paths = [field.name for field, _ in policies.ListFields() if field.name not in named]
    elif policies is not None:
        twice = [path for path in policies if path in named]
        violations += [Violation(path, "OVERLAPPING_PATHS", f'"{path}" is given twice.') for path in twice]
        named = {**policies, **named}
    seen: list[Path] = []
    for text, value in named.items():
        try:
            target = locate(TopicPolicies.DESCRIPTOR, text)
            if not target.entry and len(target.path) == 1:
                message.ClearField(cast("Any", target.field.name))  # of a message that was given as well
            assign(message, target, value)
        except ValueProblem as problem:
            violations.append(Violation(text, problem.reason, str(problem)))
            continue
        if any(_contains(other, target.path) or _contains(target.path, other) for other in seen):
            violations.append(Violation(text, "OVERLAPPING_PATHS", f'"{text}" overlaps another path of the same update.'))
        seen.append(target.path)
        paths.append(format_path(target.path))
    if violations:
        raise invalid(violations[0].reason, *violations)
    return message, paths


def _mask(mask: Mask) -> list[str]:
    if isinstance(mask, str):
        return [mask]
    return list(mask.paths if isinstance(mask, FieldMask) else mask)


def _check_covered(paths: list[str], mask: list[str]) -> None:
    """Refuses values that the given mask leaves out: they would be dropped without a word."""
    try:
        masked = [parse_path(path) for path in mask]
    except PathError as error:
        raise invalid(error.reason, Violation("update_mask", error.reason, f"The mask can't be read: {error}.")) from None
    left_out = [path for path in paths if not any(_contains(each, parse_path(path)) for each in masked)]
    if left_out:
        problem = '"{}" is given, but the mask leaves it out: add it to the mask, or give no mask.'
        raise invalid("NOT_IN_MASK", *(Violation(path, "NOT_IN_MASK", problem.format(path)) for path in left_out))


def _contains(outer: Path, inner: Path) -> bool:
    return inner[: len(outer)] == outer

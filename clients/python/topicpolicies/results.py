"""The results of changes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .documents import Document, document_or_none
from .enums import OpenEnum
from .errors import TopicPoliciesError
from .v1 import service_pb2


class ListOperation(enum.IntEnum):
    """How an update changes a list field. The numbers are those of ``topicpolicies.v1.ListOperation``."""

    REPLACE = 1
    """The given list replaces the field's."""
    UNION = 2
    """The given elements that the field does not have yet are appended."""
    SUBTRACT = 3
    """The given elements are removed from the field."""

    @property
    def number(self) -> service_pb2.ListOperation.ValueType:
        """The operation as the enum of the generated code."""
        return service_pb2.ListOperation.ValueType(self.value)


class UpdateOutcome(OpenEnum):
    """The outcome of an update. The numbers are those of ``topicpolicies.v1.UpdateOutcome``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    APPLIED = 1
    """The change is in the log."""
    UNCHANGED = 2
    """The document had the requested values already; nothing was written."""
    SKIPPED = 3
    """There was no document and ``skip_if_absent`` was set; nothing was written."""
    WOULD_APPLY = 4
    """``validate_only`` was set, and the change could be applied; nothing was written."""


class DeleteOutcome(OpenEnum):
    """The outcome of a deletion. The numbers are those of ``topicpolicies.v1.DeleteOutcome``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    DELETED = 1
    """The deletion is in the log."""
    ABSENT = 2
    """There was no document; nothing was written."""
    WOULD_DELETE = 3
    """``validate_only`` was set, and there is a document to delete; nothing was written."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The result of an update."""

    document: Document | None
    """The document after the change; with ``validate_only`` as it would be, with its present version. None only if this answers a repeat
    and the document is not known any more, because there were changes since."""
    version: str
    """The version after the change. Empty only if this answers a repeat and the version is not known any more."""
    previous_version: str
    """The version that the change was applied to: along all changes of a document, that of the change before."""
    previous: Document | None
    """The document that the change was applied to. None: not requested (``include_previous``), or not known any more."""
    outcome: UpdateOutcome
    request_id: str
    """The request's id, 32 hexadecimal digits; empty: nothing had to be sent, as after an ``edit`` that changed nothing."""
    replayed: bool = False
    """Whether this is the answer to an earlier request with the same id, given again."""

    @classmethod
    def of(cls, message: service_pb2.UpdatePolicyResponse) -> UpdateResult:
        """Makes a result from its message."""
        return cls(
            document_or_none(message.document),
            message.version,
            message.previous_version,
            document_or_none(message.previous),
            UpdateOutcome(message.outcome),
            message.request_id,
            message.replayed,
        )


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The result of a deletion."""

    document: Document | None
    """The absent document after the deletion. None only if ``version`` is empty."""
    version: str
    """The version after the deletion; with ``validate_only`` the present one. Empty only if this answers a repeat and the version is not
    known any more."""
    previous_version: str
    """The version that was deleted."""
    previous: Document | None
    """The document that was deleted. None: not requested (``include_previous``), or not known any more."""
    outcome: DeleteOutcome
    request_id: str
    """The request's id, 32 hexadecimal digits."""
    replayed: bool = False
    """Whether this is the answer to an earlier request with the same id, given again."""

    @classmethod
    def of(cls, message: service_pb2.DeletePolicyResponse) -> DeleteResult:
        """Makes a result from its message."""
        return cls(
            document_or_none(message.document),
            message.version,
            message.previous_version,
            document_or_none(message.previous),
            DeleteOutcome(message.outcome),
            message.request_id,
            message.replayed,
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """The result or the error of one of the changes of ``update_many``."""

    sequence: int
    """The index of the change, from 0, in the order in which the changes were given."""
    request_id: str
    result: UpdateResult | DeleteResult | None = None
    error: TopicPoliciesError | None = None

    def unwrap(self) -> UpdateResult | DeleteResult:
        """Returns the result.

        Raises:
            TopicPoliciesError: this change failed.
        """
        if self.error is not None:
            raise self.error
        assert self.result is not None  # one of the two is set
        return self.result

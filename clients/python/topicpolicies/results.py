"""What became of changes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .documents import Document, maybe
from .enums import OpenEnum
from .errors import TopicPoliciesError
from .v1 import service_pb2


class ListOperation(enum.IntEnum):
    """What happens to a list field. The numbers are those of ``topicpolicies.v1.ListOperation``."""

    REPLACE = 1
    """The list becomes the given one."""
    UNION = 2
    """The given elements that are not there yet are added at the end."""
    SUBTRACT = 3
    """The given elements are removed."""

    @property
    def number(self) -> service_pb2.ListOperation.ValueType:
        """As messages take it."""
        return service_pb2.ListOperation.ValueType(self.value)


class UpdateOutcome(OpenEnum):
    """What became of an update. The numbers are those of ``topicpolicies.v1.UpdateOutcome``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    APPLIED = 1
    """The change is in the log."""
    UNCHANGED = 2
    """The document already was as asked; nothing was written."""
    SKIPPED = 3
    """There was no document and ``skip_if_absent`` was set; nothing was written."""
    WOULD_APPLY = 4
    """``validate_only`` was set, and the change could be applied; nothing was written."""


class DeleteOutcome(OpenEnum):
    """What became of a deletion. The numbers are those of ``topicpolicies.v1.DeleteOutcome``."""

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
    """What became of an update."""

    document: Document | None
    """The document after the change; with ``validate_only`` as it would be, with the present version. None only if this answers a repeat
    and it is not known any more, because there were changes since."""
    version: str
    """The version after the change. Empty only if this answers a repeat of which it is no longer known."""
    previous_version: str
    """The version that the change was applied to; along all changes of a document, each version is the next one's."""
    previous: Document | None
    """The document that the change was applied to. None: it was not asked for, or is no longer known."""
    outcome: UpdateOutcome
    request_id: str
    """32 hexadecimal digits. Empty if nothing had to be sent."""
    replayed: bool = False
    """Whether this is the answer to an earlier request of the same id, given again."""

    @classmethod
    def of(cls, message: service_pb2.UpdatePolicyResponse) -> UpdateResult:
        """From its message."""
        return cls(
            maybe(message.document),
            message.version,
            message.previous_version,
            maybe(message.previous),
            UpdateOutcome(message.outcome),
            message.request_id,
            message.replayed,
        )


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What became of a deletion."""

    document: Document | None
    """The absence after the deletion. None only where ``version`` is empty."""
    version: str
    """The version after the deletion; with ``validate_only`` the present one. Empty only if this answers a repeat of which it is no longer
    known."""
    previous_version: str
    """The version that was deleted."""
    previous: Document | None
    """The document that was deleted. None: it was not asked for, or is no longer known."""
    outcome: DeleteOutcome
    request_id: str
    """32 hexadecimal digits."""
    replayed: bool = False
    """Whether this is the answer to an earlier request of the same id, given again."""

    @classmethod
    def of(cls, message: service_pb2.DeletePolicyResponse) -> DeleteResult:
        """From its message."""
        return cls(
            maybe(message.document),
            message.version,
            message.previous_version,
            maybe(message.previous),
            DeleteOutcome(message.outcome),
            message.request_id,
            message.replayed,
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one of many changes: a result or an error."""

    sequence: int
    """Which one: counted from 0, in the order in which they were given."""
    request_id: str
    result: UpdateResult | DeleteResult | None = None
    error: TopicPoliciesError | None = None

    def unwrap(self) -> UpdateResult | DeleteResult:
        """The result.

        Raises:
            TopicPoliciesError: this change failed.
        """
        if self.error is not None:
            raise self.error
        assert self.result is not None  # one of the two is set
        return self.result

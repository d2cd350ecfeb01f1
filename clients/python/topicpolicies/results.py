"""What the calls answer: immutable values around the policies' own messages, with enums of Python's instead of numbers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import TopicPoliciesError, from_status
from .v1 import events_pb2, service_pb2
from .v1.policies_pb2 import TopicPolicies


class Scope(enum.IntEnum):
    """In which clusters a document holds. The numbers are those of ``topicpolicies.v1.Scope``."""

    LOCAL = 1
    """This cluster."""
    GLOBAL = 2
    """Every cluster that the namespace is replicated to."""

    @property
    def number(self) -> events_pb2.Scope.ValueType:
        """As messages take it."""
        return events_pb2.Scope.ValueType(self.value)


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


class UpdateOutcome(enum.IntEnum):
    """What became of an update. The numbers are those of ``topicpolicies.v1.UpdateOutcome``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    APPLIED = 1
    """The change is in the log."""
    UNCHANGED = 2
    """The document already was as asked; nothing was written."""
    SKIPPED = 3
    """There was no document and ``skip_if_absent`` was set; nothing was written."""

    @classmethod
    def _missing_(cls, _value: object) -> UpdateOutcome:
        return cls.UNSPECIFIED


class DeleteOutcome(enum.IntEnum):
    """What became of a deletion. The numbers are those of ``topicpolicies.v1.DeleteOutcome``."""

    UNSPECIFIED = 0
    """Not said: see the error."""
    DELETED = 1
    """The document is deleted."""
    ABSENT = 2
    """There was none; nothing was written."""

    @classmethod
    def _missing_(cls, _value: object) -> DeleteOutcome:
        return cls.UNSPECIFIED


class WatchMode(enum.IntEnum):
    """What is owed to a watch that falls behind. The numbers are those of ``topicpolicies.v1.WatchMode``."""

    LATEST = 1
    """Per policy key only the newest state: what a newer change supersedes may be left out."""
    EVERY = 2
    """Every change."""

    @property
    def number(self) -> service_pb2.WatchMode.ValueType:
        """As messages take it."""
        return service_pb2.WatchMode.ValueType(self.value)


@dataclass(frozen=True, slots=True)
class Document:
    """The policies of one topic in one scope."""

    topic: str
    """The topic's full name."""
    scope: Scope
    policies: TopicPolicies | None
    """None: there is no document."""
    version: str
    """Its version, which is its etag. An absent document has one too."""

    @property
    def exists(self) -> bool:
        """Whether there is a document."""
        return self.policies is not None

    @classmethod
    def of(cls, message: service_pb2.GetPolicyResponse) -> Document:
        """From its message."""
        return cls(message.topic, Scope(message.scope), message.policies if message.exists else None, message.version)


class PolicySource(enum.IntEnum):
    """Which level an effective value comes from. The numbers are those of ``topicpolicies.v1.PolicySource``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    TOPIC_LOCAL = 1
    """The topic's LOCAL document."""
    TOPIC_GLOBAL = 2
    """The topic's GLOBAL document."""
    NAMESPACE = 3
    BROKER = 4
    """The brokers' configuration."""

    @classmethod
    def _missing_(cls, _value: object) -> PolicySource:
        return cls.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """What holds for a topic, and why."""

    topic: str
    """The topic's full name."""
    policies: TopicPolicies
    """The values that hold."""
    sources: Mapping[str, PolicySource]
    """Where they come from, by path: a field, an entry of a map, or a leaf of the offload policies."""
    local_version: str
    """The LOCAL document's version."""
    global_version: str
    """The GLOBAL document's version."""
    disabled: bool = False
    """Whether the topic's own policies are disabled, by its property or its namespace's."""

    @classmethod
    def of(cls, message: service_pb2.GetPolicyResponse) -> EffectivePolicies:
        """From its message."""
        sources = {each.path: PolicySource(each.source) for each in message.sources}
        return cls(message.topic, message.policies, sources, message.version, message.global_version, message.disabled)


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What became of an update."""

    topic: str
    """The topic's full name."""
    scope: Scope
    policies: TopicPolicies | None
    """The document after the change; None if there is none, or if this answers a repeat whose document is no longer known."""
    version: str
    """The document's version after the change; with ``validate_only`` the present one."""
    previous_version: str
    """The version that the change was applied to."""
    outcome: UpdateOutcome
    request_id: str
    """Empty if nothing had to be sent."""
    repeated: bool = False
    """Whether this is the answer to an earlier request of the same id, given again."""

    @classmethod
    def of(cls, message: service_pb2.UpdatePolicyResponse) -> UpdateResult:
        """From its message."""
        return cls(
            message.topic,
            Scope(message.scope),
            message.policies if message.HasField("policies") else None,
            message.version,
            message.previous_version,
            UpdateOutcome(message.outcome),
            message.request_id,
            message.repeated,
        )


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What became of one scope of a deletion."""

    scope: Scope
    outcome: DeleteOutcome
    version: str
    """The version of the absence."""
    previous_version: str
    """The version that was deleted."""
    error: TopicPoliciesError | None = None
    """Set if this scope failed; the others are not concerned."""
    repeated: bool = False
    """Whether this is the answer to an earlier request of the same id, given again."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What became of a deletion, scope by scope."""

    topic: str
    """The topic's full name."""
    scopes: Mapping[Scope, DeleteResult]
    """In the order in which they were asked for."""
    request_id: str

    @classmethod
    def of(cls, message: service_pb2.DeletePolicyResponse) -> Deletion:
        """From its message."""
        results = {}
        for each in message.results:
            error = from_status(each.error.code, each.error.message, each.error.details) if each.HasField("error") else None
            outcome = DeleteOutcome(each.outcome)
            result = DeleteResult(Scope(each.scope), outcome, each.version, each.previous_version, error, each.repeated)
            results[result.scope] = result
        return cls(message.topic, results, message.request_id)

    def raise_for_errors(self) -> Deletion:
        """Raises the first scope's error, if there is one; otherwise returns itself."""
        for result in self.scopes.values():
            if result.error is not None:
                raise result.error
        return self


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one of many updates: a result or an error."""

    sequence: int
    """Which one: counted from 0, in the order in which they were given."""
    request_id: str
    result: UpdateResult | None = None
    error: TopicPoliciesError | None = None

    def unwrap(self) -> UpdateResult:
        """The result.

        Raises:
            TopicPoliciesError: this update failed.
        """
        if self.error is not None:
            raise self.error
        assert self.result is not None  # one of the two is set
        return self.result

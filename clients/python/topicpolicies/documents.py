"""Documents: the policies of one topic in one scope."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from .v1 import policies_pb2
from .v1.policies_pb2 import TopicPolicies


class Scope(enum.IntEnum):
    """In which clusters a document holds. The numbers are those of ``topicpolicies.v1.Scope``."""

    LOCAL = 1
    """This cluster."""
    GLOBAL = 2
    """Every cluster that the namespace is replicated to."""

    @property
    def number(self) -> policies_pb2.Scope.ValueType:
        """As messages take it."""
        return policies_pb2.Scope.ValueType(self.value)


@dataclass(frozen=True, slots=True)
class Document:
    """The policies of one topic in one scope, and which version they are."""

    topic: str
    """The topic's full name."""
    scope: Scope
    policies: TopicPolicies | None
    """None: there is no document."""
    version: str
    """Its version, which is its etag. An absent document has one too. Of one topic and scope, string order is the order of the log."""
    disabled: bool = False
    """Whether topic policies are disabled for this topic; its documents are not told of then."""

    @property
    def exists(self) -> bool:
        """Whether there is a document."""
        return self.policies is not None

    @classmethod
    def of(cls, message: policies_pb2.PolicyDocument) -> Document:
        """From its message."""
        policies = message.policies if message.HasField("policies") else None
        return cls(message.topic, Scope(message.scope), policies, message.version, message.disabled)


def known(messages: Iterable[policies_pb2.PolicyDocument]) -> list[Document]:
    """Documents from their messages. Those of a scope that this client does not know, a newer service's, are passed over."""
    return [Document.of(message) for message in messages if message.scope in _SCOPES]


def maybe(message: policies_pb2.PolicyDocument) -> Document | None:
    """A document from its message; None if it is of a scope that this client does not know, or is not set."""
    return next(iter(known([message])), None)


_SCOPES = frozenset(scope.number for scope in Scope)

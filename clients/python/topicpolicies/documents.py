"""Documents: the policies of one topic in one scope."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from .on_demand import OnDemand, setter
from .showing import fields
from .v1 import policies_pb2
from .v1.policies_pb2 import TopicPolicies


class Scope(enum.IntEnum):
    """In which clusters a document holds. The numbers are those of ``topicpolicies.v1.Scope``."""

    LOCAL = 1
    """This cluster."""
    GLOBAL = 2
    """Every cluster that the namespace is replicated to."""

    __hash__ = int.__hash__  # that of enums is slow, and scopes are parts of keys

    @property
    def number(self) -> policies_pb2.Scope.ValueType:
        """As messages take it."""
        return policies_pb2.Scope.ValueType(self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Document(OnDemand):
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
    unconfirmed_since: datetime | None = field(default=None, compare=False)
    """Of a read's answer: since when the server can't reach the change log, so that there may be newer documents; in UTC. None: it can, or
    this did not come from a read. Documents that differ in nothing else are equal."""

    _READ: ClassVar = {
        "policies": lambda message: message.policies if message.HasField("policies") else None,
        "version": lambda message: message.version,
        "disabled": lambda message: message.disabled,
        "unconfirmed_since": lambda _: None,
    }

    def __repr__(self) -> str:
        told = ("topic", "scope", "policies", "version", "disabled")
        return fields(self, told if self.unconfirmed_since is None else (*told, "unconfirmed_since"))

    @property
    def exists(self) -> bool:
        """Whether there is a document."""
        try:
            there: bool = self._message.HasField("policies")
        except AttributeError:  # it was made of its fields
            return self.policies is not None
        return there

    @classmethod
    def of(cls, message: policies_pb2.PolicyDocument, unconfirmed_since: datetime | None = None) -> Document:
        """From its message, which nobody may change any more."""
        document = object.__new__(cls)
        _set_topic(document, message.topic)
        _set_scope(document, _SCOPES[message.scope])
        if message.HasField("policies"):
            _set_message(document, message)
        else:  # a message keeps all that came with it in memory, and absences are many, and long kept
            _set_policies(document, None)
            _set_version(document, message.version)
            _set_disabled(document, message.disabled)
            _set_unconfirmed_since(document, None)
        if unconfirmed_since is not None:
            _set_unconfirmed_since(document, unconfirmed_since)
        return document


_set_message = setter(OnDemand, "_message")
_set_topic = setter(Document, "topic")
_set_scope = setter(Document, "scope")
_set_policies = setter(Document, "policies")
_set_version = setter(Document, "version")
_set_disabled = setter(Document, "disabled")
_set_unconfirmed_since = setter(Document, "unconfirmed_since")


def known(messages: Iterable[policies_pb2.PolicyDocument], unconfirmed_since: datetime | None = None) -> list[Document]:
    """Documents from their messages. Those of a scope that this client does not know, a newer service's, are passed over."""
    return [Document.of(message, unconfirmed_since) for message in messages if is_known(message)]


def maybe(message: policies_pb2.PolicyDocument) -> Document | None:
    """A document from its message; None if it is of a scope that this client does not know, or is not set."""
    return Document.of(message) if is_known(message) else None


def is_known(message: policies_pb2.PolicyDocument) -> bool:
    """Whether a document is set, and of a scope that this client knows."""
    return message.scope in _SCOPES


_SCOPES = {scope.number: scope for scope in Scope}

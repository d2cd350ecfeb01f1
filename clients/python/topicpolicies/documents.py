"""Documents: the policies of one topic in one scope."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from .lazy_fields import LazyFields, setter
from .reprs import repr_with_fields
from .v1 import policies_pb2
from .v1.policies_pb2 import TopicPolicies


class Scope(enum.IntEnum):
    """The clusters in which a document applies. The numbers are those of ``topicpolicies.v1.Scope``."""

    LOCAL = 1
    """This cluster."""
    GLOBAL = 2
    """Every cluster that the namespace is replicated to."""

    __hash__ = int.__hash__  # Enum's own is slow, and scopes are parts of dictionary keys

    @property
    def number(self) -> policies_pb2.Scope.ValueType:
        """The scope as the enum of the generated code."""
        return policies_pb2.Scope.ValueType(self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Document(LazyFields):
    """The policies of one topic in one scope, and their version. An absent document has no ``policies``, but has a version too."""

    topic: str
    """The topic's full name."""
    scope: Scope
    policies: TopicPolicies | None
    """The policies; copy the message before you change it. None: there is no document."""
    version: str
    """The version of the document or of its absence, which is the etag. For one topic and scope, string order is the order of the log."""
    disabled: bool = False
    """Whether topic policies are disabled for this topic; then the server does not report its documents, and ``policies`` is None."""
    unconfirmed_since: datetime | None = field(default=None, compare=False)
    """Since when the server can't reach the change log, so that there may be a newer document; in UTC. None: the document is confirmed, or
    did not come from a read. Equality of documents ignores it."""

    _READERS: ClassVar = {
        "policies": lambda message: message.policies if message.HasField("policies") else None,
        "version": lambda message: message.version,
        "disabled": lambda message: message.disabled,
        "unconfirmed_since": lambda _: None,
    }

    def __repr__(self) -> str:
        shown = ("topic", "scope", "policies", "version", "disabled")
        return repr_with_fields(self, shown if self.unconfirmed_since is None else (*shown, "unconfirmed_since"))

    @property
    def exists(self) -> bool:
        """Whether there is a document."""
        try:
            there: bool = self._message.HasField("policies")
        except AttributeError:  # this document was made from fields, not from a message
            return self.policies is not None
        return there

    @classmethod
    def of(cls, message: policies_pb2.PolicyDocument, unconfirmed_since: datetime | None = None) -> Document:
        """Makes a document from its message, which must not change any more. ``unconfirmed_since``: see the attribute."""
        document = object.__new__(cls)
        _set_topic(document, message.topic)
        _set_scope(document, _SCOPES[message.scope])
        if message.HasField("policies"):
            _set_message(document, message)
        else:  # a message keeps its whole response in memory, and absent documents are many, and kept for long
            _set_policies(document, None)
            _set_version(document, message.version)
            _set_disabled(document, message.disabled)
            _set_unconfirmed_since(document, None)
        if unconfirmed_since is not None:
            _set_unconfirmed_since(document, unconfirmed_since)
        return document


_set_message = setter(LazyFields, "_message")
_set_topic = setter(Document, "topic")
_set_scope = setter(Document, "scope")
_set_policies = setter(Document, "policies")
_set_version = setter(Document, "version")
_set_disabled = setter(Document, "disabled")
_set_unconfirmed_since = setter(Document, "unconfirmed_since")


def known_documents(messages: Iterable[policies_pb2.PolicyDocument], unconfirmed_since: datetime | None = None) -> list[Document]:
    """Makes documents from their messages. Those of a scope that this client does not know, from a newer service, are skipped."""
    return [Document.of(message, unconfirmed_since) for message in messages if is_known(message)]


def document_or_none(message: policies_pb2.PolicyDocument) -> Document | None:
    """Makes a document from its message; None: the message is not set, or of a scope that this client does not know."""
    return Document.of(message) if is_known(message) else None


def is_known(message: policies_pb2.PolicyDocument) -> bool:
    """Returns whether a document's message is set, and of a scope that this client knows."""
    return message.scope in _SCOPES


_SCOPES = {scope.number: scope for scope in Scope}

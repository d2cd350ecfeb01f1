"""Names of topics and namespaces, and the policy key.

The names have Pulsar's own forms (``org.apache.pulsar.common.naming.TopicName``, ``NamespaceName``).
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from .errors import Violation, invalid
from .reasons import ViolationReason

_PARTITION_SUFFIX = "-partition-"
_MOST_PARTITIONS = 2**31
"""The index of a partition is a Java ``int``, below this."""
_PART = re.compile(r"[-=:.\w]+", re.ASCII)
"""What Pulsar allows as the name of a tenant or namespace (``NamedEntity``)."""
DOMAINS = ("persistent", "non-persistent")
"""The domains of topics that have policies here. Pulsar 5 has two more, ``topic`` and ``segment``."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FULL = re.compile(r"(persistent|non-persistent)://([-=:.\w]+)/([-=:.\w]+)/([^/\x00-\x1f\x7f\ud800-\udfff]+)", re.ASCII)
"""Full names without control characters and without lone surrogates, which are not valid Unicode."""
PERSISTENT = "persistent://"
"""The prefix of the full names of persistent topics."""
MAX_NAME_LENGTH = 1024
"""Most characters of the name of a topic or namespace that is accepted."""
CHANGE_EVENTS = "__change_events"
"""The local name of the topic that is the change log of a namespace."""
_SYSTEM_TOPICS = frozenset({CHANGE_EVENTS, *(f"__transaction_buffer_snapshot{kind}" for kind in ("", "_indexes", "_segments"))})
_PENDING_ACKS = "__transaction_pending_ack"
"""How the names of the topics with a subscription's pending acknowledgements end."""
_SYSTEM_NAMESPACE = re.compile(r"pulsar/system|(pulsar|sla-monitor)/[^:]+:\d+")
"""Pulsar's own namespace, and those of single brokers."""
SYSTEM_READER = "__system_reader"
"""The prefix of the subscriptions of readers of system topics (``SystemTopicNames.SYSTEM_READER_PREFIX``)."""


class Scope(enum.IntEnum):
    """Where a document holds: this cluster, or every cluster of the namespace. The numbers are those of ``topicpolicies.v1.Scope``."""

    LOCAL = 1
    GLOBAL = 2


class PolicyKey(NamedTuple):
    """A topic and a scope: updates are put in order, and versions compared, per policy key."""

    topic: str
    """The full name of the base topic: ``persistent://tenant/namespace/topic``."""
    scope: Scope


class TopicName(NamedTuple):
    """A topic's full name in parts. The name of a partition is parsed as that of its base topic."""

    domain: str
    tenant: str
    namespace_part: str
    local: str

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return f"{self.tenant}/{self.namespace_part}"

    @property
    def is_system_topic(self) -> bool:
        """Whether the topic is one of Pulsar's own (``BrokerService.isSystemTopic``), such as a change log or one of transactions."""
        return self.local in _SYSTEM_TOPICS or self.local.endswith(_PENDING_ACKS) or _SYSTEM_NAMESPACE.fullmatch(self.namespace) is not None

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace_part}/{self.local}"


def full_topic(text: str) -> str:
    """Returns a topic's name with its tenant and namespace, as Pulsar's ``TopicName`` does: ``orders`` is one of public/default."""
    return f"persistent://public/default/{text}" if text and "/" not in text else text


def parse_topic(text: str, field: str = "topic") -> TopicName:
    """Reads ``persistent://tenant/namespace/topic``, with or without the domain; a partition's suffix is dropped.

    Raises:
        PolicyError: INVALID_ARGUMENT, the name is malformed (reason ``MALFORMED_NAME``); the violation names the request's ``field``.
    """
    match = _FULL.fullmatch(text) if len(text) <= MAX_NAME_LENGTH else None
    if match is not None:
        domain, tenant, namespace_part, local = match.groups()
        if _PARTITION_SUFFIX not in local or (local := base_name(local)):
            return TopicName(domain, tenant, namespace_part, local)
    return _parse_any(text, field)


def _parse_any(text: str, field: str) -> TopicName:
    domain, separator, rest = text.partition("://")
    if not separator:
        domain, rest = "persistent", text
    parts = rest.split("/", 3)
    problem = None
    if not text:
        problem = "a topic is needed"
    elif len(text) > MAX_NAME_LENGTH:
        problem = f"the name is longer than {MAX_NAME_LENGTH} characters"
    elif domain not in DOMAINS:
        problem = f'topics of the domain "{domain}" are not supported, only those of "persistent" and "non-persistent"'
    elif len(parts) == 4 and all(parts):
        problem = "four parts are a name of Pulsar's old form, with a cluster, which is not supported here"
    elif len(parts) != 3 or not all(parts):
        problem = "three parts are needed"
    elif not (_PART.fullmatch(parts[0]) and _PART.fullmatch(parts[1])):
        problem = "tenant and namespace consist of letters, digits and - = : . _"
    elif _CONTROL.search(parts[2]):
        problem = "control characters are not allowed"
    else:
        try:
            text.encode()
        except UnicodeEncodeError:
            problem = "it is not valid Unicode"
    local = base_name(parts[2]) if len(parts) == 3 else ""
    if problem is None and not local:
        problem = "a topic needs a name before its partition's suffix"
    if problem is not None:
        raise invalid(
            Violation(
                field,
                ViolationReason.MALFORMED_NAME,
                f'"{text[:200]}" is not a topic: {problem}. Write persistent://tenant/namespace/topic.',
            ),
        )
    return TopicName(domain, parts[0], parts[1], local)


def base_name(local: str) -> str:
    """Returns a topic's local name without the suffix of a partition; "" if the name is only a suffix.

    A partition's number is a Java ``int`` without a leading zero: ``orders-partition-01`` and ``orders-partition-99999999999`` are topics
    of their own. Its digits may be of any script, as long as each is one UTF-16 unit, because ``TopicName.getPartitionIndex`` reads the
    number with ``Integer.parseInt``. ``clients/vectors/names.json`` has examples that Pulsar and all clients agree on.
    """
    base, suffix, number = local.rpartition(_PARTITION_SUFFIX)
    if not suffix or not number.isdecimal() or len(number) > 10 or max(number) > "\uffff":
        return local
    index = int(number)
    return base if index < _MOST_PARTITIONS and len(str(index)) == len(number) else local


def parse_namespace(text: str, field: str = "namespace") -> str:
    """Reads ``tenant/namespace``.

    Raises:
        PolicyError: INVALID_ARGUMENT, the name is malformed (reason ``MALFORMED_NAME``).
    """
    parts = text.split("/")
    if len(text) > MAX_NAME_LENGTH or len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        raise invalid(
            Violation(field, ViolationReason.MALFORMED_NAME, f'"{text[:200]}" is not a namespace. Write tenant/namespace.'),
        )
    return text

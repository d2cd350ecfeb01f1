"""Names of topics and namespaces, and the policy key.

The forms are Pulsar's own (``org.apache.pulsar.common.naming.TopicName``, ``NamespaceName``).
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from .errors import Violation, invalid
from .reasons import Reason

_PARTITION_SUFFIX = "-partition-"
_MOST_PARTITIONS = 2**31
"""Partitions are counted by a Java ``int``."""
_PART = re.compile(r"[-=:.\w]+", re.ASCII)
"""What Pulsar allows in tenants and namespaces (``NamedEntity``)."""
_DOMAINS = ("persistent", "non-persistent")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FULL = re.compile(r"(persistent|non-persistent)://([-=:.\w]+)/([-=:.\w]+)/([^/\x00-\x1f\x7f\ud800-\udfff]+)", re.ASCII)
"""Full names without control characters, and without halves of characters, which are not Unicode."""
PERSISTENT = "persistent://"
"""What full names of persistent topics begin with."""
MAX_NAME_LENGTH = 1024
"""Characters of a topic's full name that are accepted."""
CHANGE_EVENTS = "__change_events"
"""The local name of the change log's own topic."""
SYSTEM_READER = "__system_reader"
"""What subscriptions of readers of system topics begin with (``SystemTopicNames.SYSTEM_READER_PREFIX``)."""


class Scope(enum.IntEnum):
    """In which clusters a document holds. The numbers are those of ``topicpolicies.v1.Scope``."""

    LOCAL = 1
    GLOBAL = 2


class PolicyKey(NamedTuple):
    """(topic, scope): the unit of sequencing and of versions."""

    topic: str
    """The full name of the base topic: ``persistent://tenant/namespace/topic``."""
    scope: Scope


class TopicName(NamedTuple):
    """A topic's full name in parts; a partition's name means its base topic."""

    domain: str
    tenant: str
    namespace_part: str
    local: str

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return f"{self.tenant}/{self.namespace_part}"

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace_part}/{self.local}"


def parse_topic(text: str, field: str = "topic") -> TopicName:
    """Reads ``persistent://tenant/namespace/topic``, with or without the domain; a partition's suffix is dropped.

    Raises:
        InvalidArgument: the name is malformed (reason ``MALFORMED_NAME``); ``field`` is the request's field to blame.
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
    elif domain not in _DOMAINS:
        problem = f'the domain "{domain}" is neither "persistent" nor "non-persistent"'
    elif len(parts) == 4 and all(parts):
        problem = "four parts are a name of Pulsar's old form, with a cluster in it, which has no topic policies here"
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
            Reason.MALFORMED_NAME,
            Violation(
                field, Reason.MALFORMED_NAME, f'"{text[:200]}" is not a topic: {problem}. Write persistent://tenant/namespace/topic.'
            ),
        )
    return TopicName(domain, parts[0], parts[1], local)


def base_name(local: str) -> str:
    """A topic's local name without a partition's suffix; also "" if it is nothing else.

    A partition's number is an ``int`` without a leading zero: ``orders-partition-01`` and ``orders-partition-99999999999`` are topics of
    their own. Its digits may be those of every script, as long as each is one UTF-16 unit: ``TopicName.getPartitionIndex`` reads it with
    ``Integer.parseInt``. What all clients and Pulsar itself make of names stands in ``clients/vectors/names.json``.
    """
    base, suffix, number = local.rpartition(_PARTITION_SUFFIX)
    if not suffix or not number.isdecimal() or len(number) > 10 or max(number) > "\uffff":
        return local
    index = int(number)
    return base if index < _MOST_PARTITIONS and len(str(index)) == len(number) else local


def parse_namespace(text: str, field: str = "namespace") -> str:
    """Reads ``tenant/namespace``.

    Raises:
        InvalidArgument: the name is malformed (reason ``MALFORMED_NAME``).
    """
    parts = text.split("/")
    if len(text) > MAX_NAME_LENGTH or len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        raise invalid(
            Reason.MALFORMED_NAME,
            Violation(field, Reason.MALFORMED_NAME, f'"{text[:200]}" is not a namespace. Write tenant/namespace.'),
        )
    return text

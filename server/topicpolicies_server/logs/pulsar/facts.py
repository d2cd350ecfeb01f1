"""What a log must know of its cluster: the cluster's name, its brokers' dialect, and how they lay out new topics.

Brokers are upgraded while logs are open. A log writes its brokers' dialect, and puts a key into the partition where that dialect looks for
it. Both are fixed when the log is opened. So the facts are requested again from time to time (``log``), and when they change, the log is
lost, and its owner opens it again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...core.errors import Kind
from ...core.reasons import LogState, Reason
from ..avro import Dialect
from ..change_log import LogError
from .admin import Admin, names_of, understood

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)", re.ASCII)
_WORD = re.compile(r"[\w.+-]{1,100}", re.ASCII)
"""The form of a version; a proxy's page does not have it."""
_PREFIXED_SINCE: Mapping[tuple[int, int], int] = {(3, 0): 13, (3, 3): 8, (4, 0): 6}
"""By release line: the first patch release with a message key per scope (Pulsar's pull request 24286). All later lines have it."""
_PREFIXED_LINES = (4, 1)
_CLONING_LINES = (4, 1)
"""The first release line whose brokers clone a document before they change it (PIP-428)."""
_PSEUDO_CLUSTER = "global"
_SERVICE, _SYSTEM_TOPICS = "topicPoliciesServiceClassName", "systemTopicEnabled"
_OF_LOGS = "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
_OF_METADATA = "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"
"""Classes of brokers' topic policies service. Any other class, such as our own plug-in's, is taken to use what is in the change logs."""


class PulsarFacts(NamedTuple):
    """The facts about a cluster."""

    name: str
    """The cluster's name, as in the replication clusters of LOCAL policies."""
    dialect: Dialect
    """How its brokers distinguish scopes."""
    default_partitions: int
    """How many partitions brokers give a topic that they create, unless its namespace has its own setting; 0: it is not partitioned."""
    in_place: bool = False
    """Whether brokers change the documents in their caches in place."""
    unread: str = ""
    """Why brokers read no change logs, or only those that exist already: a sentence. "": they read all, as far as this role may know."""
    reads_existing: bool = True
    """Whether brokers read the change logs that exist already."""

    def fits(self, others: PulsarFacts | None) -> bool:
        """Whether a log that was opened for these facts fits others. The default number of partitions matters only to new logs."""
        return others is None or self._replace(default_partitions=0) == others._replace(default_partitions=0)


def unread_logs(settings: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns ``unread`` and ``reads_existing`` of brokers with these settings (``PulsarService.initTopicPoliciesService``).

    With system topics, a service that keeps policies elsewhere is given only the namespaces without a change log
    (``LegacyAwareTopicPoliciesService``).
    """
    service = settings.get(_SERVICE) or _OF_LOGS
    system_topics = str(settings.get(_SYSTEM_TOPICS, "true")).lower() == "true"
    if service == _OF_METADATA:
        which = "only the change logs of namespaces that already have one" if system_topics else "no change logs"
        return (
            f"The brokers keep topic policies in the metadata store ({_SERVICE}), and read {which}: use pulsar-admin, or set "
            f"{_SERVICE}={_OF_LOGS} and {_SYSTEM_TOPICS}=true there."
        ), system_topics
    if service == _OF_LOGS and not system_topics:
        return f"The brokers keep no topic policies, and read no change logs: set {_SYSTEM_TOPICS}=true there.", False
    return "", True


def dialect_of(version: str) -> Dialect:
    """Returns the dialect of a broker, by its version. Releases that were never examined count as unknown."""
    match = _VERSION.match(version.strip())
    if match is None:
        return Dialect.UNKNOWN
    major, minor, patch = int(match[1]), int(match[2]), int(match[3])
    if (major, minor) >= _PREFIXED_LINES:
        return Dialect.PREFIXED
    since = _PREFIXED_SINCE.get((major, minor))
    if since is None:
        return Dialect.UNKNOWN
    return Dialect.PREFIXED if patch >= since else Dialect.SHARED_KEY


def changes_in_place(version: str) -> bool:
    """Whether brokers of a version change the documents in their caches in place; False for a text that is no version."""
    match = _VERSION.match(version.strip())
    return match is not None and (int(match[1]), int(match[2])) < _CLONING_LINES


@understood
async def learn(admin: Admin, service_url: str) -> PulsarFacts:
    """Asks the brokers for the facts. Where they are reached (``service_url``) may show which of several clusters they are.

    Raises:
        LogError: the brokers gave no answer, or the name can't be found out (FAILED_PRECONDITION, ``LEVELS_UNKNOWN``).
    """
    version = await admin.get("brokers", "version")
    if not isinstance(version, str) or _WORD.fullmatch(version.strip()) is None:
        raise ValueError("no version")
    settings = await configuration(admin.get) or {}
    name = await cluster_name(settings, admin, service_url)
    partitioned = settings.get("allowAutoTopicCreationType") == "partitioned"
    unread, reads_existing = unread_logs(settings)
    return PulsarFacts(
        name=name,
        dialect=dialect_of(version),
        default_partitions=int(settings.get("defaultNumPartitions", 1)) if partitioned else 0,
        in_place=changes_in_place(version),
        unread=unread,
        reads_existing=reads_existing,
    )


async def configuration(ask: Callable[..., Awaitable[Any]]) -> Mapping[str, Any] | None:
    """Returns the brokers' configuration; None: they show it only to superusers, and the role with which ``ask`` asks is none.

    Raises:
        LogError: they gave no answer.
        TypeError: the answer is no configuration.
    """
    try:
        found = await ask("brokers", "configuration", "runtime") or {}
    except LogError as error:
        if error.state is not LogState.ADMIN_REFUSED:
            raise
        return None
    if not isinstance(found, dict):
        raise TypeError("no configuration")
    return found


async def cluster_name(settings: Mapping[str, Any], admin: Admin, service_url: str) -> str:
    """Returns the name of the brokers' cluster.

    It is in their settings; else it is that of the only cluster, or of the only one that has a host in common with ``service_url``.

    Raises:
        LogError: as ``learn``.
    """
    if settings.get("clusterName"):
        return str(settings["clusterName"])
    names = [name for name in names_of(await admin.get("clusters")) if name != _PSEUDO_CLUSTER]
    if len(names) == 1:
        return str(names[0])
    hosts = _hosts(service_url)
    reached = []
    for name in names:
        data = await admin.get("clusters", name) or {}
        if any(hosts & _hosts(data.get(url) or "") for url in ("brokerServiceUrl", "brokerServiceUrlTls")):
            reached.append(name)
    if len(reached) == 1:
        return str(reached[0])
    raise LogError(
        Reason.LEVELS_UNKNOWN,
        f"It is not known which of the clusters {', '.join(names) or '(none)'} the brokers are: a superuser's role could ask them.",
        kind=Kind.FAILED_PRECONDITION,
    )


def _hosts(url: str) -> set[str]:
    parts = urlsplit(url)
    return set(parts.netloc.lower().split(",")) - {""}

"""Requests to the admin API about a change log's topic: whether it exists, its partitions, its creation, its end, and its schemas.

A request can create the topic that it is about: one that makes a broker load the namespace, such as ``internalStats`` or the one for the
schema, has the broker's own policies service connect to ``__change_events``, and connecting creates it (measured on 4.0.0 and 4.2.4).
``partitions``, ``internal-info`` and the requests about the namespace only look into the metadata. So ``find``, ``expected`` and
``stored`` change nothing, and all others are for a log that exists.

A topic's schemas are numbered from 0, in order of registration, and each message carries the number of its own. Any client may register any
schema on ``__change_events`` (its compatibility check is off), so a schema that is not one of policy events is skipped.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ...core.errors import Kind
from ...core.names import CHANGE_EVENTS, PERSISTENT
from ...core.reasons import LogState, Reason
from ..avro import PULSAR_4_2_4, Codec, Dialect, UnsupportedSchema
from ..change_log import LogError
from .admin import Admin, segments_of, understood
from .ids import NOWHERE, MessageId, entry_of

_log = logging.getLogger(__name__)

NOT_REGISTERED = -1
"""The version of a schema that the topic does not have, and of messages that carry none."""
_CODECS = 32
"""For how many schemas codecs are cached, for all logs of the process together, with what the codecs cache."""
_SHORT_SECONDS = 5.0
_LOOKED_AT = 64
_MARKER = "X-Pulsar-marker-type"
"""The header that the admin API adds to an entry that is a marker of the brokers' own."""
_ENOUGH = {"RateInMsg": ("messages", 1_000), "RateInByte": ("bytes", 1_000_000)}
"""Rates a second at which the log of ten thousand topics is read in some ten seconds; lower ones are taken to slow a log down."""
_RATES = {"subscriptionDispatchRate": "subscription dispatch rate"}
_OTHER_RATES = {"topicDispatchRate": "dispatch rate", "clusterDispatchRate": "dispatch rate", "publishMaxMessageRate": "publish rate"}
"""Rates of a namespace that brokers before 3.0.8, 3.3.3 and 4.0.1 apply to its change log too (Pulsar's pull request 23589)."""


class Layout(NamedTuple):
    """A change log's topic, existing or not."""

    namespace: str
    partitions: int
    """The number of its partitions; 0: it is not partitioned."""

    @property
    def name(self) -> str:
        """Its full name, as clients use it."""
        return f"{PERSISTENT}{self.namespace}/{CHANGE_EVENTS}"

    @property
    def topics(self) -> list[str]:
        """The full names of the topics that hold the messages."""
        return [f"{self.name}-partition-{number}" for number in range(self.partitions)] or [self.name]


class Stored(NamedTuple):
    """What is stored of one of a log's topics."""

    creation: str
    """Distinguishes this creation of the topic from later ones; "": the topic does not exist."""
    first_ledger: int
    """The oldest ledger that is left; -1: not known."""


class Compaction(NamedTuple):
    """How far a topic is compacted."""

    ledger: int = -1
    """The ledger that the last compaction wrote, another one each time; -1: the topic was never compacted."""
    horizon: MessageId | None = None
    """The last entry that was compacted; brokers may report the beginning of the next ledger instead. None: it is not known."""


class State(NamedTuple):
    """How far one of a log's topics is written and compacted at the time of the request."""

    compaction: Compaction
    last: MessageId
    """The topic's last entry; entry -1: there is none in that ledger; ``NOWHERE``: the topic does not exist.

    Readers may never see that entry: compaction removes it if it is a tombstone."""
    first: MessageId
    """The entry from which on the log is read as it was before compaction; ``NOWHERE``: the topic does not exist."""


class Gap(NamedTuple):
    """What stands between two entries that a reader got one after the other."""

    message: MessageId | None
    """The first message between them that is left; None: there is none, only markers of the brokers' own."""
    trimmed: bool
    """Whether the ledger of the earlier entry was deleted, so that messages may have been deleted with it."""
    compacted_ledger: int
    """The ledger that the last compaction wrote; -1: the topic was never compacted."""


class Topics:
    """The requests about change logs' topics, given by their full names. Each raises ``LogError`` if there is no answer."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.emptied: set[tuple[str, str]] = set()
        """The topics that lost what was read of them here (``namespace_log``): full names, and what ``Stored.creation`` was."""

    @understood
    async def find(self, namespace: str) -> Layout | None:
        """Returns the layout of a namespace's log; None if it has none.

        Raises:
            LogError: the namespace does not exist (NOT_FOUND, ``NAMESPACE_NOT_FOUND``).
        """
        answer = await self._ask(Layout(namespace, 0).name, "partitions")
        if answer is not None:
            return Layout(namespace, int(answer["partitions"]))
        await self._policies(namespace)
        return None

    @understood
    async def expected(self, namespace: str, default_partitions: int) -> Layout:
        """Returns how brokers would lay out the log of a namespace if they created it now.

        Raises:
            LogError: the namespace does not exist (NOT_FOUND).
        """
        override = (await self._policies(namespace)).get("autoTopicCreationOverride") or {}
        kind = override.get("topicType")
        if kind == "partitioned":
            default_partitions = int(override.get("defaultNumPartitions") or default_partitions or 1)
        elif kind is not None:
            default_partitions = 0
        return Layout(namespace, default_partitions)

    @understood
    async def stored(self, layout: Layout) -> tuple[Stored, ...]:
        """Returns, for each of a log's topics, what of it is stored."""
        infos = await asyncio.gather(*(self._ask(topic, "internal-info") for topic in layout.topics))
        return tuple(map(_stored, infos))

    @understood
    async def state(self, topic: str, recalled: int = 0) -> State:
        """Returns how far one of a log's topics is written and compacted.

        ``recalled``: how many entries that were compacted and still stand in the ledgers are read as they were (``State.first``), at most.
        """
        stats = await self._ask(topic, "internalStats") or {}
        compaction, last = _compaction(stats), entry_of(stats.get("lastConfirmedEntry")) or NOWHERE
        return State(compaction, last, _first_uncompacted(_sizes(stats), compaction, last, recalled))

    @understood
    async def last(self, topic: str) -> MessageId:
        """Returns the last message of one of a log's topics, or a place after it; entry -1 if there is no entry up to there.

        Raises:
            LogError: no broker serves the topic at the moment.
        """
        answer = await self._ask(topic, "lastMessageId")
        if not isinstance(answer, dict):
            raise LogError(LogState.NOT_SERVED, f"No broker serves {topic} at the moment.")
        return MessageId(int(answer["ledgerId"]), int(answer["entryId"]), int(answer.get("batchIndex", -1)))

    @understood
    async def sent_up_to(self, topic: str, reader: str, last: MessageId) -> bool:
        """Whether the broker has sent a reader, given by its name, every entry up to ``last``, and the reader waits for more."""
        stats = await self._ask(topic, "stats") or {}
        cursors = (await self._ask(topic, "internalStats") or {}).get("cursors") or {}
        for name, subscription in (stats.get("subscriptions") or {}).items():
            if any(consumer.get("consumerName") == reader for consumer in subscription.get("consumers") or ()):
                cursor = cursors.get(name) or {}
                next_read = entry_of(cursor.get("readPosition"))
                return bool(cursor.get("waitingReadOp")) and next_read is not None and next_read > last
        return False

    @understood
    async def gap(self, topic: str, after: MessageId, before: MessageId) -> Gap:
        """Returns what stands between two entries of one of a log's topics.

        Markers, which brokers do not send to readers, are no messages. After ``_LOOKED_AT`` entries, the next one is taken for a message.
        """
        stats = await self._ask(topic, "internalStats") or {}
        sizes = _sizes(stats)
        message = None
        for number, entry in enumerate(_entries_between(sizes, after, before)):
            if number == _LOOKED_AT or await self._is_message(topic, entry):
                message = entry
                break
        return Gap(message, after.ledger not in sizes, _compaction(stats).ledger)

    async def _is_message(self, topic: str, entry: MessageId) -> bool:
        path = (*segments_of(topic), "ledger", str(entry.ledger), "entry", str(entry.entry))
        try:
            headers = await self._admin.headers(*path, seconds=_SHORT_SECONDS)
        except LogError as error:
            if error.state is not LogState.ADMIN_REFUSED:
                raise
            return True  # taken for a message, because its headers may not be read
        return headers is not None and _MARKER not in headers

    async def throttled(self, namespace: str, dialect: Dialect) -> str:
        """Returns a sentence if a rate of the namespace slows its change log down (``throttling``); "" also if there is no answer."""
        try:
            return throttling(namespace, await self._policies(namespace), dialect)
        except (LogError, ValueError, TypeError, AttributeError):
            return ""

    async def _policies(self, namespace: str) -> Any:
        """Returns a namespace's own policies. One that is being deleted counts as gone, because brokers create no topics in it."""
        policies = await self._admin.get("namespaces", *namespace.split("/"))
        if policies is None or policies.get("deleted"):
            raise LogError(Reason.NAMESPACE_NOT_FOUND, f"The namespace {namespace} does not exist.", kind=Kind.NOT_FOUND)
        return policies

    async def _ask(self, topic: str, question: str) -> Any:
        return await self._admin.get(*segments_of(topic), question, seconds=_SHORT_SECONDS)


class Registered(NamedTuple):
    """A schema's codec and its version."""

    version: int
    codec: Codec


class Schemas:
    """The schemas of one log, each requested once. A request raises ``LogError`` if there is no answer."""

    def __init__(self, admin: Admin, namespace: str, *, cluster: str, dialect: Dialect) -> None:
        self._admin = admin
        self._namespace = namespace
        self._codec = partial(_codec, cluster=cluster, dialect=dialect)
        self._codecs: dict[int, Codec | None] = {}
        self._lock = asyncio.Lock()
        self.newest = Registered(NOT_REGISTERED, self._codec(PULSAR_4_2_4))
        """What to write with, as far as is known: the newest schema, or, as long as the topic has none, that of Pulsar 4.2.4."""

    @understood
    async def refresh(self) -> Registered:
        """Asks the broker for the newest schema, and returns what to write with."""
        answer = await self._ask()
        if answer is not None:
            version = int(answer["version"])
            while (codec := await self.written_with(version)) is None and version > 0:
                version -= 1
            if codec is not None and version != self.newest.version:
                self.newest = Registered(version, codec)
        return self.newest

    def has(self, version: int) -> bool:
        """Whether a schema was requested already."""
        return version == NOT_REGISTERED or version in self._codecs

    def known(self, version: int) -> Codec | None:
        """Returns the codec of a schema that was requested already; None if it is not one of policy events."""
        return self.newest.codec if version == NOT_REGISTERED else self._codecs.get(version)

    @understood
    async def written_with(self, version: int) -> Codec | None:
        """Returns the codec of a schema version; None if that version does not exist, or is not a schema of policy events."""
        if (codec := self.known(version)) is not None:
            return codec
        async with self._lock:
            if version not in self._codecs:
                self._codecs[version] = await self._fetch(version)
            codec = self._codecs[version]
        if codec is not None and version > self.newest.version:
            self.newest = Registered(version, codec)
        return codec

    async def _ask(self, *version: str) -> Any:
        return await self._admin.get("schemas", *self._namespace.split("/"), CHANGE_EVENTS, "schema", *version)

    async def _fetch(self, version: int) -> Codec | None:
        answer = await self._ask(str(version))
        if answer is None:
            _log.warning("The schema %d of the change log of %s is gone.", version, self._namespace)
            return None
        try:
            if answer.get("type") != "AVRO":
                raise UnsupportedSchema(f"its type is {answer.get('type')}")
            return self._codec(str(answer["data"]))
        except UnsupportedSchema as error:
            _log.warning("The schema %d of the change log of %s is not one of policy events: %s", version, self._namespace, error)
            return None


def creation_of(creations: Sequence[str]) -> str:
    """Combines the creations of a log's topics, each of which may be deleted by itself; "" if one of the topics does not exist."""
    if not all(creations):
        return ""
    return creations[0] if len(creations) == 1 else hashlib.sha256("\n".join(creations).encode()).hexdigest()[:16]


def throttling(namespace: str, policies: Mapping[str, Any], dialect: Dialect) -> str:
    """Returns a sentence if a rate of a namespace slows its change log down; "": none does.

    ``policies``: the answer to ``GET /admin/v2/namespaces/{tenant}/{namespace}``.
    """
    for member, name in (_RATES | _OTHER_RATES if dialect is Dialect.SHARED_KEY else _RATES).items():
        for rate in (policies.get(member) or {}).values():
            period = rate.get("ratePeriodInSecond") or 1
            low = [
                f"{value:,} {what.removesuffix('s') if value == 1 else what}"
                for end, (what, enough) in _ENOUGH.items()
                for key, value in rate.items()
                if key.endswith(end) and 0 < value < enough * period
            ]
            if low:
                return (
                    f"The {name} of {namespace} ({' or '.join(low)} in {period} s) applies to its change log too: raise it, or remove it."
                )
    return ""


def _stored(info: Any) -> Stored:
    ledgers = (info or {}).get("ledgers") or ()
    return Stored(str((info or {}).get("creationDate") or ""), min((ledger["ledgerId"] for ledger in ledgers), default=-1))


def _sizes(stats: Any) -> dict[int, int]:
    """Returns the number of entries in each ledger of a topic, oldest first. Of the last ledger brokers report no size yet."""
    return dict(sorted((ledger["ledgerId"], ledger.get("entries") or 0) for ledger in stats.get("ledgers") or ()))


def _entries_between(sizes: Mapping[int, int], after: MessageId, before: MessageId) -> Iterator[MessageId]:
    between = {ledger: size for ledger, size in sizes.items() if after.ledger <= ledger < before.ledger}
    for ledger, size in {**between, before.ledger: before.entry}.items():
        for entry in range(after.entry + 1 if ledger == after.ledger else 0, size):
            yield MessageId(ledger, entry)


def _first_uncompacted(sizes: Mapping[int, int], compaction: Compaction, last: MessageId, recalled: int) -> MessageId:
    """Returns the entry after the horizon, or an earlier one from which on all entries still stand in the ledgers."""
    if compaction.ledger == -1:
        return MessageId(min(sizes), 0) if sizes else NOWHERE
    horizon = last if compaction.horizon is None else compaction.horizon
    first = MessageId(horizon.ledger, horizon.entry + 1)
    for ledger in sorted((ledger for ledger in sizes if ledger <= horizon.ledger), reverse=True):
        size = horizon.entry + 1 if ledger == horizon.ledger else sizes[ledger]
        taken = min(size, recalled)
        if taken > 0:
            first = MessageId(ledger, size - taken)
            recalled -= taken
    return first


def _compaction(stats: Any) -> Compaction:
    cursor = (stats.get("cursors") or {}).get("__compaction") or {}
    return Compaction((stats.get("compactedLedger") or {}).get("ledgerId", -1), entry_of(cursor.get("markDeletePosition")))


@lru_cache(_CODECS)
def _codec(definition: str, cluster: str, dialect: Dialect) -> Codec:
    """Returns the codec of a schema: most logs of a cluster have the same one, and creating it takes two milliseconds.

    Raises:
        UnsupportedSchema: the schema is not one of policy events.
    """
    return Codec(definition, local_cluster=cluster, dialect=dialect)

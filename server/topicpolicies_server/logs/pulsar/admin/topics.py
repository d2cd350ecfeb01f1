"""What the admin API says of a change log's topic: whether it exists, its partitions, which creation of it this is, where it ends.

Questions can create what they ask about: one that makes a broker load the namespace, such as ``internalStats`` or that for the schema, has
its own policies service connect to ``__change_events``, and connecting creates it (measured on 4.0.0 and 4.2.4). ``partitions``,
``internal-info`` and those about the namespace only look into the metadata; so ``find``, ``expected`` and ``creation`` leave things as they
are, and the others are for a log that exists.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ....core.errors import Kind
from ....core.names import PERSISTENT
from ....core.reasons import Reason
from ...change_log import LogError
from ..ids import MessageId, entry_of
from .answer import understood
from .api import Admin

_SHORT_SECONDS = 5.0
_LOOKED_AT = 64
"""How many entries are looked at for a message among them."""
_MARKER = "X-Pulsar-marker-type"
"""The header with which an entry is shown that is a marker of the brokers'."""


class Layout(NamedTuple):
    """A change log's topic, existing or not."""

    namespace: str
    local: str
    partitions: int
    """How many topics it is made of; 0: it is not partitioned."""

    @property
    def topics(self) -> list[str]:
        """The local names of the topics that hold messages."""
        return [f"{self.local}-partition-{number}" for number in range(self.partitions)] or [self.local]

    @property
    def full_names(self) -> list[str]:
        """The same, as clients name them."""
        return [f"{PERSISTENT}{self.namespace}/{topic}" for topic in self.topics]

    def part(self, partition: int) -> Layout:
        """One of them by itself."""
        return Layout(self.namespace, self.topics[partition], 0)


class Compaction(NamedTuple):
    """How far a topic is compacted."""

    ledger: int = -1
    """The ledger with what compaction left over, another one after each compaction; -1: the topic was never compacted."""
    horizon: MessageId | None = None
    """Behind which entry nothing is compacted. It may be told as the beginning of the next ledger."""


class EntryRange(NamedTuple):
    """Entries that follow each other."""

    first: MessageId
    last: MessageId
    entries: int
    """How many there are, markers of the brokers' own included."""


class End(NamedTuple):
    """Where a topic ended when it was asked for."""

    last: MessageId | None
    """Its last entry; None: there is nothing in it. Readers may never get to see it: compaction removes it if it is a tombstone."""
    fresh_ledger: int | None = None
    """If nothing was ever written: the ledger that the first entry goes to, unless it is replaced before."""


class Topics:
    """The questions."""

    def __init__(self, admin: Admin, local: str) -> None:
        """``local`` is the local name that change logs have in every namespace."""
        self._admin = admin
        self._local = local

    @understood
    async def find(self, namespace: str) -> Layout | None:
        """The log of a namespace; None if it has none.

        Raises:
            LogError: the namespace does not exist (NOT_FOUND, ``NAMESPACE_NOT_FOUND``), or there is no answer.
        """
        answer = await self._ask(namespace, self._local, "partitions")
        if answer is not None:
            return Layout(namespace, self._local, int(answer["partitions"]))
        if await self._policies(namespace) is None:
            raise LogError(Reason.NAMESPACE_NOT_FOUND, f"The namespace {namespace} does not exist.", kind=Kind.NOT_FOUND)
        return None

    @understood
    async def expected(self, namespace: str, default_partitions: int) -> Layout:
        """How brokers would lay out the log of a namespace if they created it now.

        Raises:
            LogError: the namespace does not exist (NOT_FOUND), or there is no answer.
        """
        policies = await self._policies(namespace)
        if policies is None:
            raise LogError(Reason.NAMESPACE_NOT_FOUND, f"The namespace {namespace} does not exist.", kind=Kind.NOT_FOUND)
        override = policies.get("autoTopicCreationOverride") or {}
        kind = override.get("topicType")
        if kind == "partitioned":
            default_partitions = int(override.get("defaultNumPartitions") or default_partitions or 1)
        elif kind is not None:
            default_partitions = 0
        return Layout(namespace, self._local, default_partitions)

    @understood
    async def creations(self, layout: Layout) -> tuple[str, ...]:
        """Tells one creation of each of a log's topics from the next after it was deleted; "" where it is not there.

        Raises:
            LogError: there is no answer.
        """
        infos = await asyncio.gather(*(self._ask(layout.namespace, topic, "internal-info") for topic in layout.topics))
        return tuple("" if info is None else str(info.get("creationDate") or "") for info in infos)

    async def creation(self, layout: Layout) -> str:
        """The same of all of them together: any may be deleted by itself. "" if one is not there.

        Raises:
            LogError: there is no answer.
        """
        return creation_of(await self.creations(layout))

    @understood
    async def end(self, namespace: str, topic: str) -> End:
        """Where one of a log's topics ends.

        Raises:
            LogError: there is no answer.
        """
        stats = await self._ask(namespace, topic, "internalStats") or {}
        last = entry_of(stats.get("lastConfirmedEntry"))
        if last is None:
            return End(None)
        if last.entry >= 0 or _compaction(stats).ledger != -1:
            return End(last)
        ledgers = [ledger["ledgerId"] for ledger in stats.get("ledgers") or ()]
        return End(None, last.ledger if ledgers == [last.ledger] else None)

    @understood
    async def last(self, namespace: str, topic: str) -> MessageId:
        """The last message of one of a log's topics, or a place behind it; its entry is -1 if its ledger holds none, nor do those before.

        Raises:
            LogError: there is no answer, or the topic is not served at the moment.
        """
        answer = await self._ask(namespace, topic, "lastMessageId")
        if not isinstance(answer, dict):
            raise LogError(Reason.LOG_NOT_SERVED, f"No broker serves {topic} of {namespace} at the moment.")
        return MessageId(int(answer["ledgerId"]), int(answer["entryId"]), int(answer.get("batchIndex", -1)))

    @understood
    async def compaction(self, namespace: str, topic: str) -> Compaction:
        """How far one of a log's topics is compacted.

        Raises:
            LogError: there is no answer.
        """
        return _compaction(await self._ask(namespace, topic, "internalStats") or {})

    async def uncompacted(self, namespace: str, topic: str, horizon: MessageId, most: int) -> EntryRange:
        """What still stands in the ledgers of one of a log's topics up to an entry: its newest entries, at most about so many.

        Raises:
            LogError: there is no answer.
            Exception: the answer has another form, which the caller tells in its own way.
        """
        stats = await self._ask(namespace, topic, "internalStats") or {}
        sizes = {ledger["ledgerId"]: ledger.get("entries") or 0 for ledger in stats.get("ledgers") or ()}
        first = last = MessageId(horizon.ledger, horizon.entry + 1)
        count = 0
        for ledger in sorted((ledger for ledger in sizes if ledger <= horizon.ledger), reverse=True):
            size = horizon.entry + 1 if ledger == horizon.ledger else sizes[ledger]
            taken = min(size, most - count)
            if taken > 0:
                last = MessageId(ledger, size - 1) if count == 0 else last
                first = MessageId(ledger, size - taken)
                count += taken
        return EntryRange(first, last, count)

    @understood
    async def between(self, namespace: str, topic: str, after: MessageId, before: MessageId, most: int | None = None) -> EntryRange | None:
        """What stands between two entries of one of a log's topics, or its first entries; None if that is not known any more.

        Args:
            namespace: ``tenant/namespace``.
            topic: its local name.
            after: the entry before the first one.
            before: the entry behind the last one.
            most: how many entries are wanted at the most; None: all.

        Raises:
            LogError: there is no answer.
        """
        stats = await self._ask(namespace, topic, "internalStats") or {}
        sizes = {ledger["ledgerId"]: ledger.get("entries") or 0 for ledger in stats.get("ledgers") or ()}
        if after.ledger not in sizes:
            return None  # it was trimmed
        sizes[before.ledger] = before.entry  # of the last ledger the number of entries is not told
        between = sorted((ledger, size) for ledger, size in sizes.items() if after.ledger <= ledger <= before.ledger)
        count = sum(size for _, size in between) - (after.entry + 1)
        if count < 0:
            return None
        first, last = MessageId(after.ledger, after.entry + 1), MessageId(before.ledger, before.entry - 1)
        if most is not None and count > most:
            upto = count = most
            upto += after.entry + 1  # counted from the beginning of the first ledger
            for ledger, size in between:
                if upto <= size:
                    last = MessageId(ledger, upto - 1)
                    break
                upto -= size
        return EntryRange(first, last, count)

    @understood
    async def dispatched(self, namespace: str, topic: str, reader: str, last: MessageId) -> bool:
        """Whether a reader, by its name, has been sent everything up to an entry and waits for more.

        Raises:
            LogError: there is no answer.
        """
        stats = await self._ask(namespace, topic, "stats") or {}
        cursors = (await self._ask(namespace, topic, "internalStats") or {}).get("cursors") or {}
        for name, subscription in (stats.get("subscriptions") or {}).items():
            if any(consumer.get("consumerName") == reader for consumer in subscription.get("consumers") or ()):
                cursor = cursors.get(name) or {}
                next_read = entry_of(cursor.get("readPosition"))
                return bool(cursor.get("waitingReadOp")) and next_read is not None and next_read > last
        return False

    @understood
    async def skipped(self, namespace: str, topic: str, after: MessageId, before: MessageId) -> MessageId | None:
        """A message that stands between two entries of one of a log's topics; None if there is none.

        What brokers keep from readers, markers of their own, is no message. Beyond ``_LOOKED_AT`` entries it is not told what they are.

        Raises:
            LogError: there is no answer.
        """
        stats = await self._ask(namespace, topic, "internalStats") or {}
        entries = _entries_between(stats.get("ledgers") or (), after, before)
        for number, entry in enumerate(entries):
            if number == _LOOKED_AT or await self._is_message(namespace, topic, entry):
                return entry
        return None

    async def _is_message(self, namespace: str, topic: str, entry: MessageId) -> bool:
        path = (*namespace.split("/"), topic, "ledger", str(entry.ledger), "entry", str(entry.entry))
        try:
            headers = await self._admin.headers("persistent", *path, seconds=_SHORT_SECONDS)
        except LogError as error:
            if error.reason != Reason.PULSAR_ADMIN_REFUSED:
                raise
            return True  # for all that we may know
        return headers is not None and _MARKER not in headers

    async def _policies(self, namespace: str) -> Any:
        """A namespace's own policies; None if there is none, or if it is being deleted, when brokers refuse to create topics in it."""
        policies = await self._admin.get("namespaces", *namespace.split("/"))
        return None if policies is None or policies.get("deleted") else policies

    async def _ask(self, namespace: str, topic: str, question: str) -> Any:
        return await self._admin.get("persistent", *namespace.split("/"), topic, question, seconds=_SHORT_SECONDS)


def creation_of(creations: Sequence[str]) -> str:
    """Tells one creation of a log from the others, by those of its topics; "" if one of them is not there."""
    if not all(creations):
        return ""
    return creations[0] if len(creations) == 1 else hashlib.sha256("\n".join(creations).encode()).hexdigest()[:16]


def _entries_between(ledgers: Iterable[Any], after: MessageId, before: MessageId) -> Iterator[MessageId]:
    """The entries between two, of the ledgers that are left. Only the last ledger's number of entries is not known yet."""
    sizes = {ledger["ledgerId"]: ledger.get("entries") or 0 for ledger in ledgers if after.ledger <= ledger["ledgerId"] < before.ledger}
    for ledger, size in sorted({**sizes, before.ledger: before.entry}.items()):
        for entry in range(after.entry + 1 if ledger == after.ledger else 0, size):
            yield MessageId(ledger, entry)


def _compaction(stats: Any) -> Compaction:
    cursor = (stats.get("cursors") or {}).get("__compaction") or {}
    return Compaction((stats.get("compactedLedger") or {}).get("ledgerId", -1), entry_of(cursor.get("markDeletePosition")))

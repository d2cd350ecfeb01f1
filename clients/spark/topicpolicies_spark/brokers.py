"""Reads from the brokers' admin API which change logs there are, where they end, and which ledgers they have.

Requests are made only about logs that exist: a request about another one can create it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from topicpolicies_server.core.names import CHANGE_EVENTS
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.topics import Layout, Topics
from topicpolicies_server.logs.pulsar.ids import MessageId, entry_of

from .options import OptionError, Options

_SECONDS = 30.0
"""How many seconds a request is repeated while the brokers do not answer."""

_T = TypeVar("_T")


class Place(NamedTuple):
    """The place of an entry in a topic: its ledger, and its number there; entry -1 is before the first."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


def place_of(text: object) -> Place | None:
    """Reads a place from ``ledger:entry``; None: the value has another form."""
    entry = entry_of(text)
    return Place(entry.ledger, entry.entry) if entry is not None else None


class Log(NamedTuple):
    """One partition of a namespace's change log, or the whole of a log without partitions."""

    namespace: str
    partition: int
    topic: str
    """The full name of the topic."""

    @property
    def name(self) -> str:
        """The name of the log in offsets."""
        return f"{self.namespace}/{self.partition}"

    @property
    def local(self) -> str:
        """The topic's name in its namespace."""
        return self.topic.rpartition("/")[2]


class Ledgers(NamedTuple):
    """The ledgers of a log, and what compaction has done."""

    end: Place
    """The place of the last entry; entry -1: its ledger is empty."""
    ledgers: list[tuple[int, int]]
    """The ledgers that are left, the oldest first, each with its count of entries; for the ledger of ``end`` it is taken from there. Behind
    that ledger there can be one to which nothing was added yet."""
    compacted: bool
    """Whether the log was ever compacted."""
    horizon: Place | None
    """The place up to which the log was compacted; None: not known."""

    @property
    def first(self) -> Place | None:
        """The place of the first entry that is left in the ledgers; None: there is none."""
        return next((Place(ledger, 0) for ledger, entries in self.ledgers if entries > 0), None)

    def is_before_all(self, end: Place) -> bool:
        """Returns whether all ledgers that are left are newer than a place."""
        return bool(self.ledgers) and end.ledger < self.ledgers[0][0]

    def has_lost(self, start: Place | None, end: Place) -> bool:
        """Returns whether entries behind ``start``, up to and including ``end``, may be gone for good.

        Ledgers are deleted from the oldest on. So entries are gone if the ledger of ``start`` is (that of ``end`` if ``start`` is None),
        and compaction had not come so far. A ledger of which nothing was taken (entry -1) was empty when it was looked at: brokers delete
        such a ledger when they load the topic, and nothing is lost with it.
        """
        if not self.is_before_all(end if start is None else start):
            return False
        needed = end if self.is_before_all(end) and end.entry >= 0 else start
        return needed is not None and needed.entry >= 0 and not self.kept(needed)

    def kept(self, place: Place) -> bool:
        """Returns whether compaction has come as far as a place: what counts of the entries up to there is in the compacted log."""
        return self.compacted and self.horizon is not None and self.horizon >= place

    def settled(self, place: Place) -> Place:
        """Returns the beginning of the next ledger, if a place is at the end of one to which nothing is added any more; else the place.

        Once that ledger is deleted, nothing tells whether it had further entries.
        """
        following = next((ledger for ledger, _ in self.ledgers if ledger > place.ledger), None)
        entries = dict(self.ledgers).get(place.ledger, self.end.entry + 1 if place.ledger == self.end.ledger else None)
        return place if following is None or entries != place.entry + 1 else Place(following, -1)

    def after(self, start: Place | None, rows: int) -> Place:
        """Returns the place where a batch ends that begins behind ``start`` and may have ``rows`` rows.

        The entries that compaction left of deleted ledgers can't be counted here. They come first, in a batch of their own.
        """
        if start is None or (self.ledgers and start.ledger < self.ledgers[0][0] and start < Place(self.ledgers[0][0], -1)):
            return Place(self.ledgers[0][0], -1) if self.compacted and self.ledgers else self._counted(None, rows)
        return self._counted(start, rows)

    def _counted(self, start: Place | None, rows: int) -> Place:
        for ledger, entries in self.ledgers:
            first = 0
            if start is not None:
                if ledger < start.ledger:
                    continue
                first = start.entry + 1 if ledger == start.ledger else 0
            here = max(0, entries - first)
            if here >= rows:
                return min(Place(ledger, first + rows - 1), self.end)
            rows -= here
        return self.end


class Brokers:
    """The brokers' admin API: the sidecar's client (``logs.pulsar.admin``) with blocking calls. For one thread, without an event loop."""

    def __init__(self, options: Options, seconds: float = _SECONDS) -> None:
        """Makes a client that connects on first use.

        Args:
            options: the API's URL, the token, TLS, and which logs to find.
            seconds: how long a request is repeated while the brokers do not answer.

        Raises:
            OptionError: the file with the authorities of brokers can't be used.
        """
        self._options = options
        self._seconds = seconds
        try:
            self._admin = Admin(options.admin_url, token=options.token_source(), tls=options.tls())
        except OSError as error:
            raise OptionError(f"tlsTrustCertsFile can't be used: {options.tls_trust_certs_file}: {error.strerror or error}") from error
        self._topics = Topics(self._admin, CHANGE_EVENTS)
        self._runner = asyncio.Runner()

    def namespaces(self) -> list[str]:
        """Returns the namespaces that the options select.

        Raises:
            LogError: the brokers do not answer.
        """
        options = self._options
        if options.namespaces:
            return sorted(name for name in options.namespaces if options.includes(name))
        tenants = sorted(options.tenants) if options.tenants else self._get(_names, "tenants") or []
        return [name for tenant in tenants for name in self._get(_names, "namespaces", tenant) or []]

    def logs(self) -> list[Log]:
        """Returns the change logs that the options select and that exist.

        Raises:
            LogError: the brokers do not answer.
        """
        found = []
        for namespace in self.namespaces():
            partitions = self._get(_partitions, "persistent", *namespace.split("/"), CHANGE_EVENTS, "partitions")
            if partitions is not None:
                layout = Layout(namespace, CHANGE_EVENTS, partitions)
                found += [Log(namespace, number, topic) for number, topic in enumerate(layout.full_names)]
        return found

    def ledgers(self, log: Log) -> Ledgers | None:
        """Returns the ledgers of a log as they are now; None: there is no such log.

        Raises:
            LogError: the brokers do not answer.
        """
        return self._get(_ledgers, "persistent", *log.namespace.split("/"), log.local, "internalStats")

    def all_sent(self, log: Log, reader: str, end: Place) -> bool:
        """Returns whether the broker has certainly sent a reader, by its name, everything up to a place.

        A reader does not always learn that the messages it waits for were removed by compaction; the broker knows.
        """
        asked = self._topics.sent_up_to(log.namespace, log.local, reader, MessageId(end.ledger, end.entry))
        try:
            return self._runner.run(asked)
        except LogError:
            return False

    def schema(self, namespace: str, version: int) -> str | None:
        """Returns the Avro schema of this version of a namespace's log; None: there is none.

        Raises:
            LogError: the brokers do not answer.
        """
        return self._get(_avro, "schemas", *namespace.split("/"), CHANGE_EVENTS, "schema", str(version))

    def close(self) -> None:
        """Closes the connections."""
        try:
            self._runner.run(self._admin.close())
        finally:
            self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _get(self, read: Callable[[Any], _T], *path: str) -> _T | None:
        """Makes a GET request, and returns what ``read`` makes of the answer; None: the answer is "not found"."""
        answer = self._runner.run(self._admin.get(*path, seconds=self._seconds))
        try:
            return None if answer is None else read(answer)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            problem = f"The admin API of Pulsar answers GET {'/'.join(path)} in an unknown form: {type(error).__name__} {error}."
            raise LogError(Reason.CLUSTER_UNAVAILABLE, problem) from error


def _names(answer: Any) -> list[str]:
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        raise TypeError("no list of names")
    return answer


def _partitions(answer: Any) -> int:
    return int(answer["partitions"])


def _ledgers(stats: Any) -> Ledgers:
    end = place_of(stats.get("lastConfirmedEntry")) or Place(-1, -1)
    ledgers = [(int(each["ledgerId"]), int(each["entries"])) for each in stats.get("ledgers") or ()]
    ledgers = [(ledger, max(entries, end.entry + 1 if ledger == end.ledger else 0)) for ledger, entries in ledgers]
    if end.entry < 0 and (filled := [each for each in ledgers if each[1] > 0 and each[0] <= end.ledger]):
        end = Place(filled[-1][0], filled[-1][1] - 1)
    compacted = int((stats.get("compactedLedger") or {}).get("ledgerId", -1)) != -1
    cursor = (stats.get("cursors") or {}).get("__compaction") or {}
    # A truncation moves the cursor too, but then it no longer names the compacted ledger.
    moved = "CompactedTopicLedger" not in cursor.get("properties", ("CompactedTopicLedger",))
    return Ledgers(end, ledgers, compacted, None if moved else place_of(cursor.get("markDeletePosition")))


def _avro(answer: Any) -> str | None:
    return str(answer["data"]) if answer.get("type") == "AVRO" else None

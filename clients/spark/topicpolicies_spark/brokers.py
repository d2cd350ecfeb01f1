"""What the brokers' admin API says of the change logs: which there are, where they end, and what their ledgers hold.

Only logs that exist are asked about: questions about others can create them.
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
"""How long a question is repeated while brokers do not answer."""

_T = TypeVar("_T")


class Place(NamedTuple):
    """An entry of a topic, by its ledger and its number there; entry -1 is before the first."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


def place_of(text: object) -> Place | None:
    """Reads ``ledger:entry``; None if it is nothing like that."""
    entry = entry_of(text)
    return Place(entry.ledger, entry.entry) if entry is not None else None


class Log(NamedTuple):
    """One partition of a namespace's change log, or all of one that has no partitions."""

    namespace: str
    partition: int
    topic: str
    """The full name of the topic."""

    @property
    def name(self) -> str:
        """What offsets call it."""
        return f"{self.namespace}/{self.partition}"

    @property
    def local(self) -> str:
        """The topic's name in its namespace."""
        return self.topic.rpartition("/")[2]


class Ledgers(NamedTuple):
    """What a log holds."""

    end: Place
    """Its last entry; entry -1 if there is none behind the ledger's beginning."""
    ledgers: list[tuple[int, int]]
    """Its ledgers with the numbers of their entries, oldest first; the last one's is that of ``end``."""
    compacted: bool
    """Whether it was ever compacted."""
    horizon: Place | None
    """What compaction has gone through."""

    def has_lost(self, end: Place) -> bool:
        """Whether nothing up to a place can be had any more: all that is there is newer, and no compaction left anything of it."""
        return not self.compacted and bool(self.ledgers) and self.ledgers[0][0] > end.ledger

    def after(self, start: Place | None, rows: int) -> Place:
        """Where a batch ends that begins behind ``start`` and may take so many rows.

        What compaction left of ledgers that are gone can't be counted from here. It comes first, in a batch of its own.
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
    """The admin API, asked as the sidecar asks it (``logs.pulsar.admin``), but blocking. It is for one thread that runs no event loop."""

    def __init__(self, options: Options, seconds: float = _SECONDS) -> None:
        """Connects on first use.

        Args:
            options: where, as whom, and which logs.
            seconds: how long a question is repeated while brokers do not answer.

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
        """The namespaces that are asked for.

        Raises:
            LogError: there is no answer.
        """
        options = self._options
        if options.namespaces:
            return sorted(name for name in options.namespaces if options.includes(name))
        tenants = sorted(options.tenants) if options.tenants else self._get(_names, "tenants") or []
        return [name for tenant in tenants for name in self._get(_names, "namespaces", tenant) or []]

    def logs(self) -> list[Log]:
        """The change logs that are asked for and exist.

        Raises:
            LogError: there is no answer.
        """
        found = []
        for namespace in self.namespaces():
            partitions = self._get(_partitions, "persistent", *namespace.split("/"), CHANGE_EVENTS, "partitions")
            if partitions is not None:
                layout = Layout(namespace, CHANGE_EVENTS, partitions)
                found += [Log(namespace, number, topic) for number, topic in enumerate(layout.full_names)]
        return found

    def ledgers(self, log: Log) -> Ledgers | None:
        """What a log holds now; None if there is no such log.

        Raises:
            LogError: there is no answer.
        """
        return self._get(_ledgers, "persistent", *log.namespace.split("/"), log.local, "internalStats")

    def all_sent(self, log: Log, reader: str, end: Place) -> bool:
        """Whether a reader, by its name, is known to have been sent everything up to a place, and waits for more.

        A client is not always told that what it waits for was removed by compaction; the broker knows.
        """
        asked = self._topics.sent_up_to(log.namespace, log.local, reader, MessageId(end.ledger, end.entry))
        try:
            return self._runner.run(asked)
        except LogError:
            return False

    def schema(self, namespace: str, version: int) -> str | None:
        """The Avro schema of a log with a number; None if there is none.

        Raises:
            LogError: there is no answer.
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
        """What an answer says; None: it is "not found"."""
        answer = self._runner.run(self._admin.get(*path, seconds=self._seconds))
        try:
            return None if answer is None else read(answer)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            problem = f"The admin API of Pulsar answers GET {'/'.join(path)} in a form that is not known: {type(error).__name__} {error}."
            raise LogError(Reason.PULSAR_ADMIN_UNREACHABLE, problem) from error


def _names(answer: Any) -> list[str]:
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        raise TypeError("no list of names")
    return answer


def _partitions(answer: Any) -> int:
    return int(answer["partitions"])


def _ledgers(stats: Any) -> Ledgers:
    end = place_of(stats.get("lastConfirmedEntry")) or Place(-1, -1)
    ledgers = [(int(each["ledgerId"]), int(each["entries"])) for each in stats.get("ledgers") or ()]
    ledgers = [(ledger, end.entry + 1 if ledger == end.ledger else max(entries, 0)) for ledger, entries in ledgers if ledger <= end.ledger]
    if end.entry < 0 and (filled := [each for each in ledgers if each[1] > 0]):
        end = Place(filled[-1][0], filled[-1][1] - 1)
    compacted = int((stats.get("compactedLedger") or {}).get("ledgerId", -1)) != -1
    horizon = place_of(((stats.get("cursors") or {}).get("__compaction") or {}).get("markDeletePosition"))
    return Ledgers(end, ledgers, compacted, horizon)


def _avro(answer: Any) -> str | None:
    return str(answer["data"]) if answer.get("type") == "AVRO" else None

"""What the brokers' admin API says of the change logs: which there are, where they end, and what their ledgers hold.

Only logs that exist are asked about: questions about others can create them.
"""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import Any, NamedTuple, Self

from topicpolicies_server.core.names import CHANGE_EVENTS
from topicpolicies_server.logs.pulsar.admin import Admin

from .options import OptionError, Options

_SECONDS = 30.0
"""How long a question is repeated while brokers do not answer."""
_PLACE = re.compile(r"(\d+):(-1|\d+)", re.ASCII)


class Place(NamedTuple):
    """An entry of a topic, by its ledger and its number there; entry -1 is before the first."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


def place_of(text: object) -> Place | None:
    """Reads ``ledger:entry``; None if it is nothing like that."""
    match = _PLACE.fullmatch(str(text or ""))
    return Place(int(match[1]), int(match[2])) if match else None


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
        self._runner = asyncio.Runner()

    def namespaces(self) -> list[str]:
        """The namespaces that are asked for.

        Raises:
            LogError: there is no answer.
        """
        options = self._options
        if options.namespaces:
            return sorted(name for name in options.namespaces if options.includes(name))
        tenants = sorted(options.tenants) if options.tenants else self._get("tenants") or []
        return [name for tenant in tenants for name in self._get("namespaces", tenant) or []]

    def logs(self) -> list[Log]:
        """The change logs that are asked for and exist.

        Raises:
            LogError: there is no answer.
        """
        found = []
        for namespace in self.namespaces():
            answer = self._get("persistent", *namespace.split("/"), CHANGE_EVENTS, "partitions")
            if answer is None:
                continue
            partitions = int(answer["partitions"])
            if partitions:
                topics = [f"persistent://{namespace}/{CHANGE_EVENTS}-partition-{number}" for number in range(partitions)]
                found += [Log(namespace, number, topic) for number, topic in enumerate(topics)]
            else:
                found.append(Log(namespace, 0, f"persistent://{namespace}/{CHANGE_EVENTS}"))
        return found

    def ledgers(self, log: Log) -> Ledgers | None:
        """What a log holds now; None if there is no such log.

        Raises:
            LogError: there is no answer.
        """
        stats = self._of(log, "internalStats")
        if stats is None:
            return None
        end = place_of(stats.get("lastConfirmedEntry")) or Place(-1, -1)
        ledgers = [(int(each["ledgerId"]), int(each["entries"])) for each in stats.get("ledgers") or ()]
        ledgers = [
            (ledger, end.entry + 1 if ledger == end.ledger else max(entries, 0)) for ledger, entries in ledgers if ledger <= end.ledger
        ]
        if end.entry < 0 and (filled := [each for each in ledgers if each[1] > 0]):
            end = Place(filled[-1][0], filled[-1][1] - 1)
        compacted = int((stats.get("compactedLedger") or {}).get("ledgerId", -1)) != -1
        horizon = place_of(((stats.get("cursors") or {}).get("__compaction") or {}).get("markDeletePosition"))
        return Ledgers(end, ledgers, compacted, horizon)

    def all_sent(self, log: Log, reader: str, end: Place) -> bool:
        """Whether a reader, by its name, was sent everything up to a place and waits for more.

        A client is not always told that what it waits for was removed by compaction; the broker knows.

        Raises:
            LogError: there is no answer.
        """
        stats = self._of(log, "stats") or {}
        cursors = (self._of(log, "internalStats") or {}).get("cursors") or {}
        for name, subscription in (stats.get("subscriptions") or {}).items():
            if any(consumer.get("consumerName") == reader for consumer in subscription.get("consumers") or ()):
                cursor = cursors.get(name) or {}
                at = place_of(cursor.get("readPosition"))
                return at is not None and at > end and bool(cursor.get("waitingReadOp"))
        return False

    def schema(self, namespace: str, version: int) -> str | None:
        """The Avro schema of a log with a number; None if there is none.

        Raises:
            LogError: there is no answer.
        """
        answer = self._get("schemas", *namespace.split("/"), CHANGE_EVENTS, "schema", str(version))
        return None if answer is None or answer.get("type") != "AVRO" else str(answer["data"])

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

    def _of(self, log: Log, question: str) -> Any:
        return self._get("persistent", *log.namespace.split("/"), log.local, question)

    def _get(self, *path: str) -> Any:
        return self._runner.run(self._admin.get(*path, seconds=self._seconds))

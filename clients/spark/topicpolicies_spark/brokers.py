"""What the brokers' admin API says of the change logs: which there are, where they end, and what their ledgers hold.

Only logs that exist are asked about: questions about others can create them.
"""

from __future__ import annotations

import re
import time
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from .options import Options

LOCAL = "__change_events"
_TRIES = 6
_FIRST_PAUSE_SECONDS = 0.3
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
    """The admin API. Blocking; what fails for a moment is tried again for some seconds."""

    def __init__(self, options: Options) -> None:
        self._options = options
        token = options.token()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=f"{options.admin_url}/admin/v2/", headers=headers, timeout=30, trust_env=False)

    def namespaces(self) -> list[str]:
        """The namespaces that are asked for.

        Raises:
            httpx.HTTPError: there is no answer.
        """
        options = self._options
        if options.namespaces:
            return sorted(name for name in options.namespaces if options.includes(name))
        tenants = sorted(options.tenants) if options.tenants else self._get("tenants") or []
        return [name for tenant in tenants for name in self._get(f"namespaces/{tenant}") or []]

    def logs(self) -> list[Log]:
        """The change logs that are asked for and exist.

        Raises:
            httpx.HTTPError: there is no answer.
        """
        found = []
        for namespace in self.namespaces():
            answer = self._get(f"persistent/{namespace}/{LOCAL}/partitions")
            if answer is None:
                continue
            partitions = int(answer["partitions"])
            if partitions:
                topics = [f"persistent://{namespace}/{LOCAL}-partition-{number}" for number in range(partitions)]
                found += [Log(namespace, number, topic) for number, topic in enumerate(topics)]
            else:
                found.append(Log(namespace, 0, f"persistent://{namespace}/{LOCAL}"))
        return found

    def ledgers(self, log: Log) -> Ledgers:
        """What a log holds now.

        Raises:
            httpx.HTTPError: there is no answer.
        """
        stats = self._get(f"{log.topic.replace('://', '/')}/internalStats") or {}
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
            httpx.HTTPError: there is no answer.
        """
        path = log.topic.replace("://", "/")
        stats = self._get(f"{path}/stats") or {}
        cursors = (self._get(f"{path}/internalStats") or {}).get("cursors") or {}
        for name, subscription in (stats.get("subscriptions") or {}).items():
            if any(consumer.get("consumerName") == reader for consumer in subscription.get("consumers") or ()):
                cursor = cursors.get(name) or {}
                at = place_of(cursor.get("readPosition"))
                return at is not None and at > end and bool(cursor.get("waitingReadOp"))
        return False

    def schema(self, namespace: str, version: int) -> str | None:
        """The Avro schema of a log with a number; None if there is none.

        Raises:
            httpx.HTTPError: there is no answer.
        """
        answer = self._get(f"schemas/{namespace}/{LOCAL}/schema/{version}")
        return None if answer is None or answer.get("type") != "AVRO" else str(answer["data"])

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _get(self, path: str) -> Any:
        pause = _FIRST_PAUSE_SECONDS
        for left in reversed(range(_TRIES)):
            try:
                answer = self._http.get(path)
                if answer.status_code == httpx.codes.NOT_FOUND:
                    return None
                if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR or not left:
                    return answer.raise_for_status().json()
            except httpx.TransportError:
                if not left:
                    raise
            time.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

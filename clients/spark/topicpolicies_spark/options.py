"""The options of the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from topicpolicies.names import topic_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULT_ADDRESS = "127.0.0.1:6680"
EARLIEST, LATEST = "earliest", "latest"
ROWS_PER_TASK = 20_000
"""So many that a task takes some seconds."""
_KNOWN = frozenset(
    {
        "address", "historyfile", "cafile", "tokenfile", "namespaces", "adminurl", "admincafile", "tenants", "topics", "startingoffsets",
        "endingoffsets",
        "startingtimestamp", "endingtimestamp", "maxrowspertrigger", "rowspertask",
    }
)  # fmt: skip


class OptionError(ValueError):
    """The options of a query are wrong; the message names everything that is wrong with them."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query. Times are microseconds since 1970, as Spark has them. docs/spark.md documents the options by name."""

    address: str = DEFAULT_ADDRESS
    """The ``host:port`` of a sidecar, whose history is read."""
    history_file: str = ""
    """The file of a sidecar's history, which is read in place of a sidecar; empty: none is."""
    ca_file: str = ""
    """A PEM file with the certificate authorities for the sidecar's certificate; empty: the client's default."""
    token_file: str = ""
    """A file with the bearer token for the sidecar and the brokers, which is read for each call; empty: no token is sent."""
    namespaces: frozenset[str] = frozenset()
    """The namespaces to read, ``tenant/namespace``; empty: all of a file, or those that the brokers list for the tenants."""
    admin_url: str = ""
    """The brokers' admin API, which lists namespaces."""
    admin_ca_file: str = ""
    """A PEM file with the certificate authorities for the brokers' certificates; empty: the system's."""
    tenants: frozenset[str] = frozenset()
    """The tenants whose namespaces are read; empty: all."""
    topics: frozenset[str] = frozenset()
    """The full names of the topics whose events are read; empty: all."""
    starting: str | Mapping[str, str] = EARLIEST
    """Where a batch or a new stream begins: ``EARLIEST``, ``LATEST``, or by namespace the position behind which it does."""
    ending: str | Mapping[str, str] = LATEST
    """Where a batch ends: ``LATEST``, or by namespace the position of the last event."""
    since: int | None = None
    until: int | None = None
    """Only events at ``since`` or later, and before ``until``, are read; None: no limit."""
    most_rows: int | None = None
    """The most events in one batch of a stream; None: no limit."""
    rows_per_task: int = ROWS_PER_TASK
    """The most events that one task reads."""

    def includes(self, namespace: str) -> bool:
        """Returns whether the options select a namespace. What can't be the name of a namespace, they do not select."""
        if not _is_namespace(namespace) or (self.namespaces and namespace not in self.namespaces):
            return False
        return not self.tenants or namespace.partition("/")[0] in self.tenants

    def covers(self, time: int) -> bool:
        """Returns whether the options select events of a time."""
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)


def read_options(given: Mapping[str, str]) -> Options:
    """Reads the options that Spark passes; their names are case-insensitive.

    Raises:
        OptionError: options are wrong; the message names everything that is wrong.
    """
    values = {name.lower(): value for name, value in given.items()}
    problems = [f"{name} is not an option" for name in sorted(values.keys() - _KNOWN)]
    namespaces = _names(values.get("namespaces", ""))
    if values.get("historyfile"):
        problems += ["historyFile and address exclude each other"] * bool(values.get("address"))
    else:
        problems += ["namespaces is needed, or adminUrl to list them"] * (not namespaces and not values.get("adminurl"))
    problems += [f'"{name}" is not a namespace: write tenant/namespace' for name in sorted(namespaces) if not _is_namespace(name)]
    times: dict[str, int | None] = {}
    for name in ("startingTimestamp", "endingTimestamp"):
        text = values.get(name.lower())
        try:
            times[name] = None if text is None else time_of(text)
        except ValueError:
            problems.append(f"{name} must be milliseconds since 1970, or a time such as 2030-01-31T12:00:00Z, not {text}")
    numbers: dict[str, int | None] = {}
    for name in ("maxRowsPerTrigger", "rowsPerTask"):
        text = values.get(name.lower())
        if text is not None and not (text.isascii() and text.isdigit() and int(text) > 0):
            problems.append(f"{name} must be a positive number, not {text}")
        else:
            numbers[name] = int(text) if text is not None else None
    starting = _offsets("startingOffsets", values.get("startingoffsets", EARLIEST), (EARLIEST, LATEST), problems)
    ending = _offsets("endingOffsets", values.get("endingoffsets", LATEST), (LATEST,), problems)
    if problems:
        raise OptionError("; ".join(problems))
    return Options(
        address=values.get("address") or DEFAULT_ADDRESS,
        history_file=values.get("historyfile", ""),
        ca_file=values.get("cafile", ""),
        token_file=values.get("tokenfile", ""),
        namespaces=namespaces,
        admin_url=values.get("adminurl", "").rstrip("/"),
        admin_ca_file=values.get("admincafile", ""),
        tenants=_names(values.get("tenants", "")),
        topics=frozenset(map(topic_name, _names(values.get("topics", "")))),
        starting=starting,
        ending=ending,
        since=times["startingTimestamp"],
        until=times["endingTimestamp"],
        most_rows=numbers["maxRowsPerTrigger"],
        rows_per_task=numbers["rowsPerTask"] or ROWS_PER_TASK,
    )


def _offsets(name: str, text: str, words: tuple[str, ...], problems: list[str]) -> str | dict[str, str]:
    if text in words:
        return text
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and all(isinstance(position, str) for position in found.values()):
        return found
    problems.append(f'{name} must be {" or ".join(words)}, or a position by namespace, such as {{"acme/orders": "..."}}, not {text}')
    return words[0]


def time_of(text: str) -> int:
    """Returns a time in microseconds since 1970. It is given in milliseconds since 1970, or as an ISO time; without a zone that is UTC.

    Raises:
        ValueError: the text is no time.
    """
    if text.isascii() and text.isdigit():
        return int(text) * 1_000
    time = datetime.fromisoformat(text)
    return ((time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _is_namespace(name: str) -> bool:
    tenant, slash, local = name.partition("/")
    return bool(tenant and slash and local) and "/" not in local


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())

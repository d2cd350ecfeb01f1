"""The options of the data source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from topicpolicies.names import topic_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = "earliest", "latest"


class OptionError(ValueError):
    """The options of a query are wrong; the message names everything that is wrong with them."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query, which docs/spark.md describes: ``history_file`` is ``historyFile``. Those without a value limit nothing."""

    address: str = "127.0.0.1:6680"
    history_file: str = ""
    ca_file: str = ""
    token_file: str = ""
    """It is read for each call."""
    namespaces: frozenset[str] = frozenset()
    admin_url: str = ""
    admin_ca_file: str = ""
    tenants: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    """Full names."""
    starting_offsets: str | Mapping[str, str] = EARLIEST
    """``EARLIEST``, ``LATEST``, or by namespace the position behind which a query begins."""
    ending_offsets: str | Mapping[str, str] = LATEST
    """``LATEST``, or by namespace the position of the last event."""
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    """Microseconds since 1970, as Spark has them. Events at the end are not read."""
    max_rows_per_trigger: int | None = None
    rows_per_task: int = 20_000
    """So many that a task takes some seconds."""

    def includes(self, namespace: str) -> bool:
        """Returns whether the options select a namespace. What can't be the name of a namespace, they do not select."""
        if not _is_namespace(namespace) or (self.namespaces and namespace not in self.namespaces):
            return False
        return not self.tenants or namespace.partition("/")[0] in self.tenants

    def covers(self, time: int) -> bool:
        """Returns whether the options select events of a time."""
        first, end = self.starting_timestamp, self.ending_timestamp
        return (first is None or time >= first) and (end is None or time < end)


def read_options(given: Mapping[str, str]) -> Options:
    """Reads the options that Spark passes; their names are case-insensitive.

    Raises:
        OptionError: options are wrong; the message names everything that is wrong.
    """
    texts = {name.lower(): text for name, text in given.items() if text}  # an empty option is as if it were left out
    values: dict[str, Any] = {}
    wrong = []
    for field, name in _NAMES.items():
        text = texts.pop(name.lower(), "")
        if text:
            read, wanted = _READERS.get(field, (str, ""))
            try:
                values[field] = read(text)
            except ValueError:
                wrong.append(f"{name} must be {wanted}, not {text}")
    options = Options(**values)
    problems = [f"{name} is not an option" for name in sorted(texts)]
    if options.history_file and "address" in values:
        problems.append("historyFile and address exclude each other")
    if not (options.history_file or options.namespaces or options.admin_url):
        problems.append("namespaces is needed, or adminUrl to list them")
    problems += [f'"{name}" is not a namespace: write tenant/namespace' for name in sorted(options.namespaces) if not _is_namespace(name)]
    if problems + wrong:
        raise OptionError("; ".join(problems + wrong))
    return options


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


def _positive(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ValueError(text)


def _offsets(text: str, *words: str) -> str | dict[str, str]:
    if text in words:
        return text
    found = json.loads(text)
    if isinstance(found, dict) and all(isinstance(position, str) for position in found.values()):
        return found
    raise ValueError(text)


_NAMES = {each.name: re.sub("_(.)", lambda found: found[1].upper(), each.name) for each in fields(Options)}
"""The options' names, by field."""
_POSITIONS = 'latest, or a position by namespace, such as {"acme/orders": "..."}'
_TIME = "milliseconds since 1970, or a time such as 2030-01-31T12:00:00Z"
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "namespaces": (_names, ""),
    "tenants": (_names, ""),
    "topics": (lambda text: frozenset(map(topic_name, _names(text))), ""),
    "starting_offsets": (lambda text: _offsets(text, EARLIEST, LATEST), f"earliest or {_POSITIONS}"),
    "ending_offsets": (lambda text: _offsets(text, LATEST), _POSITIONS),
    "starting_timestamp": (time_of, _TIME),
    "ending_timestamp": (time_of, _TIME),
    "max_rows_per_trigger": (_positive, "a positive number"),
    "rows_per_task": (_positive, "a positive number"),
}
"""How options that are not plain texts are read, and what they must be."""

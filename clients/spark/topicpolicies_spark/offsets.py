"""The offsets of a stream over the brokers' logs: for each log the place of the last entry that was taken, as JSON."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from .brokers import Log, Place, place_of

FORMAT = 1


class DataLossError(Exception):
    """A log, or a part of it, is gone before it was read as far as planned, and the option ``failOnDataLoss`` is on."""

    def __init__(self, names: Iterable[str]) -> None:
        """``names``: the names of the logs, as in offsets, or of their parts."""
        super().__init__(
            f"gone before they were read to where the batch ends: {', '.join(names)}. "
            "With the option failOnDataLoss=false the query continues without"
        )


class Range(NamedTuple):
    """A part of a log: the entries behind ``start``, up to and including ``end``."""

    log: Log
    start: Place | None
    """None: the range begins with the log."""
    end: Place
    first: Place | None = None
    """The first entry that the log had when the range was planned, if it begins with the log; None: not known, or there was none."""

    @property
    def described(self) -> str:
        """The log's name, and which of its entries the range has."""
        return f"{self.log.name} ({f'behind {self.start}, ' if self.start is not None else ''}up to {self.end})"


def offset_of(places: Mapping[str, Place]) -> dict[str, Any]:
    """Returns an offset in the form in which Spark stores it."""
    return {"format": FORMAT, "logs": {name: str(place) for name, place in sorted(places.items())}}


def places_of(offset: Mapping[str, Any]) -> dict[str, Place]:
    """Returns the places of an offset.

    Raises:
        ValueError: it is not an offset of a stream over brokers' logs.
    """
    logs = offset.get("logs")
    places = {name: place_of(text) for name, text in logs.items()} if isinstance(logs, Mapping) else {"": None}
    if offset.get("format") != FORMAT or None in places.values():
        raise ValueError(f"not an offset of a stream over brokers' logs, so this query needs another checkpoint: {offset}")
    return {name: place for name, place in places.items() if place is not None}


def missing(there: Container[str], start: Mapping[str, Place], end: Mapping[str, Place]) -> list[str]:
    """Returns the names of the logs that are not in ``there``, and that have entries between two offsets."""
    return [name for name, last in end.items() if name not in there and (name not in start or start[name] < last)]


def ranges(
    logs: Iterable[Log], start: Mapping[str, Place], end: Mapping[str, Place], firsts: Mapping[str, Place | None] | None = None
) -> list[Range]:
    """Returns the ranges of ``logs`` between two offsets. ``firsts``: the first entries of logs, as far as they are known."""
    found = []
    for log in logs:
        first, last = start.get(log.name), end.get(log.name)
        if last is not None and (first is None or first < last):
            found.append(Range(log, first, last, (firsts or {}).get(log.name) if first is None else None))
    return found

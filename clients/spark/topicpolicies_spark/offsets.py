"""How far a stream is: for each log the place of its last entry that was taken, as JSON."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from .brokers import Log, Place, place_of

FORMAT = 1


class DataLossError(Exception):
    """A log is gone before it was read as far as was planned, and ``failOnDataLoss`` was not turned off."""

    def __init__(self, names: Iterable[str]) -> None:
        """``names``: of the logs, as offsets have them."""
        super().__init__(
            f"gone before they were read to where the batch ends: {', '.join(names)}. "
            "With the option failOnDataLoss=false the query continues without"
        )


class Range(NamedTuple):
    """A part of a log: what stands behind ``start``, up to ``end``."""

    log: Log
    start: Place | None
    """None: the log's beginning."""
    end: Place


def offset_of(places: Mapping[str, Place]) -> dict[str, Any]:
    """An offset as Spark keeps it."""
    return {"format": FORMAT, "logs": {name: str(place) for name, place in sorted(places.items())}}


def places_of(offset: Mapping[str, Any]) -> dict[str, Place]:
    """The places of an offset.

    Raises:
        ValueError: it is not one of ours.
    """
    if offset.get("format") != FORMAT:
        raise ValueError(f"not an offset of this data source: {offset}")
    places = {name: place_of(text) for name, text in offset["logs"].items()}
    if None in places.values():
        raise ValueError(f"not an offset of this data source: {offset}")
    return {name: place for name, place in places.items() if place is not None}


def missing(there: Container[str], start: Mapping[str, Place], end: Mapping[str, Place]) -> list[str]:
    """The names of the logs of which something lies between two offsets, and which are not there."""
    return [name for name, last in end.items() if name not in there and (name not in start or start[name] < last)]


def ranges(logs: Iterable[Log], start: Mapping[str, Place], end: Mapping[str, Place]) -> list[Range]:
    """What lies between two offsets."""
    found = []
    for log in logs:
        first, last = start.get(log.name), end.get(log.name)
        if last is not None and (first is None or first < last):
            found.append(Range(log, first, last))
    return found

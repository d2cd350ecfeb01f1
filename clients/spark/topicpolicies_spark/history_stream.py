"""A stream over a sidecar's history.

An offset has for each namespace a watch token, the place up to which its history was taken, and the gaps that were reported. A range
between two offsets has the same content whenever it is read, so a batch that was interrupted when the query was killed is read again
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from grpc import StatusCode
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from topicpolicies import Client, HistoryGap, HistoryGapReason, Unavailable, WatchToken

from . import rows
from .copying import Copy, FoundGap, current_end
from .history import change_of, gap_of, selects_entry, selects_gap
from .options import Options, microseconds
from .rows import Change
from .sidecars import connected, namespaces_of

FORMAT = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ScanResult(NamedTuple):
    """The result of scanning a namespace's history behind a place, to plan a batch."""

    rows: int
    """How many of the scanned events the options select."""
    token: WatchToken | None
    """The place behind the last scanned event; if ``whole``, the present end of the history."""
    gaps: tuple[str, ...]
    """The gaps that the scan met, as offsets have them (``_kept``)."""
    whole: bool
    """Whether the scan reached the present end of the history."""


class HistoryPlace(NamedTuple):
    """How far the history of one namespace was taken: its part of an offset."""

    token: WatchToken | None = None
    """The place behind the events that were taken; None: none were."""
    gaps: tuple[str, ...] = ()
    """The gaps that were reported, of those that the sidecar may send again behind the token."""

    def after(self, found: ScanResult) -> HistoryPlace:
        """Returns the place behind what a scan found. Without rows the token stays, and only gaps are added."""
        together = self.gaps + _unknown(found.gaps, self.gaps)
        if not found.rows:
            return HistoryPlace(self.token, together)
        return HistoryPlace(found.token, found.gaps if found.whole else together)


class HistoryRange(NamedTuple):
    """The events and the gaps of a namespace between two places."""

    namespace: str
    start: WatchToken | None
    end: WatchToken | None
    gaps: tuple[str, ...]
    """The new gaps, which the batch reports."""
    known: tuple[str, ...] = ()
    """The gaps that were reported before."""


class HistoryPartition(InputPartition):
    """One range, which one task reads."""

    def __init__(self, part: HistoryRange) -> None:
        super().__init__(part)
        self.range = part


def offset_of(places: Mapping[str, HistoryPlace]) -> dict[str, Any]:
    """Returns an offset in the form in which Spark stores it."""
    return {"format": FORMAT, "history": {name: _json_of(place) for name, place in sorted(places.items())}}


def _json_of(place: HistoryPlace) -> dict[str, Any]:
    token = {"log": place.token.log, "positions": list(place.token.positions)} if place.token is not None else None
    return {"token": token, "gaps": list(place.gaps)}


def places_of(offset: Mapping[str, Any]) -> dict[str, HistoryPlace]:
    """Returns the places of an offset.

    Raises:
        ValueError: it is not an offset of a stream over a sidecar's history.
    """
    try:
        if offset["format"] == FORMAT:
            return {name: _place_of_json(stored) for name, stored in offset["history"].items()}
    except (AttributeError, LookupError, TypeError):
        pass
    raise ValueError(f"not an offset of a stream over a sidecar's history, so this query needs another checkpoint: {offset}")


def _place_of_json(stored: Mapping[str, Any]) -> HistoryPlace:
    token = stored["token"]
    return HistoryPlace(WatchToken(token["log"], tuple(token["positions"])) if token is not None else None, tuple(stored["gaps"]))


def ranges_between(start: Mapping[str, HistoryPlace], end: Mapping[str, HistoryPlace]) -> list[HistoryRange]:
    """Returns the ranges between two offsets."""
    found = []
    for name, last in end.items():
        first = start.get(name, HistoryPlace())
        if first != last:
            new = _unknown(last.gaps, first.gaps)
            found.append(HistoryRange(name, first.token, last.token, new, first.gaps))
    return found


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the histories of namespaces that a sidecar has, and what it adds to them, as a stream."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._target: dict[str, WatchToken] | None = None
        """The place where the query ends, by namespace; None: it goes on without end."""
        self._ahead: dict[str, tuple[WatchToken | None, WatchToken | None]] = {}
        """By namespace, a place, and the place up to which a scan found no rows behind it, so that the next scan begins there."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where a new stream begins."""
        if not self.options.from_latest:
            return offset_of({})
        return offset_of({name: HistoryPlace(token) for name, token in self._current_ends().items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns the limit of a batch: the option ``maxRowsPerTrigger``."""
        return ReadAllAvailable() if self.options.most_rows is None else ReadMaxRows(self.options.most_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where the next batch ends. Namespaces share its rows equally, and get at least one if they have new events."""
        places = places_of(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        waiting: list[str] = []
        with connected(self.options) as client:
            for name in namespaces_of(self.options):
                if self._target is not None and name not in self._target:
                    continue
                place = places.get(name, HistoryPlace())
                found = self._scan(client, name, place, 1 if most is not None else None)
                if found.rows:
                    waiting.append(name)
                elif found.whole:
                    self._ahead[name] = place.token, found.token
                if most is None or not found.rows:
                    places[name] = place.after(found)
            if most is not None:
                for name in waiting:
                    place = places.get(name, HistoryPlace())
                    places[name] = place.after(self._scan(client, name, place, max(1, most // len(waiting))))
        return offset_of({name: place for name, place in places.items() if place != HistoryPlace()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Makes the present ends of the histories the end of the query."""
        self._target = self._current_ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns one task for each namespace that has something new."""
        return [HistoryPartition(part) for part in ranges_between(places_of(start), places_of(end)) if part.start != part.end or part.gaps]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one range."""
        assert isinstance(partition, HistoryPartition)
        return rows.batches(read_range(self.options, partition.range))

    def _current_ends(self) -> dict[str, WatchToken]:
        with connected(self.options) as client:
            tokens = {name: current_end(client, name) for name in namespaces_of(self.options)}
        return {name: token for name, token in tokens.items() if token is not None}

    def _scan(self, client: Client, name: str, place: HistoryPlace, most: int | None) -> ScanResult:
        """Scans the history behind a place, at most to the query's end. ``most``: stops after so many rows; None: does not stop."""
        start, ahead = self._ahead.get(name, (None, None))
        behind = ahead if start == place.token and ahead is not None else place.token
        with Copy(client, name, behind, (self._target or {}).get(name)) as copy:
            taken = 0
            for entry in copy:
                taken += selects_entry(self.options, entry)
                if taken == most:
                    break
            gaps = tuple(dict.fromkeys(_kept(found) for found in copy.gaps if selects_gap(self.options, found.gap)))
            return ScanResult(taken, copy.place, gaps, copy.synced)


def read_range(options: Options, part: HistoryRange) -> Iterator[Change]:
    """Yields the rows of a range; the rows of gaps come last.

    Raises:
        OutOfRange: the sidecar's history does not know the log of the tokens.
        TopicPoliciesError: the sidecar can't be reached, refuses the call, or has a history that ends before the range does.
    """
    gaps = part.gaps
    if part.start != part.end:
        with connected(options) as client, Copy(client, part.namespace, part.start, part.end) as copy:
            for entry in copy:
                if selects_entry(options, entry):
                    yield change_of(part.namespace, entry, copy.log)
            if not copy.reached:
                problem = f"The sidecar's history of {part.namespace} ends before what was to be read of it."
                raise Unavailable(problem, code=StatusCode.UNAVAILABLE)
            # Events that the history has dropped since the batch was planned are reported as gaps too.
            trimmed = (found for found in copy.gaps if found.gap.reason is HistoryGapReason.TRIMMED)
            dropped = (_kept(found) for found in trimmed if selects_gap(options, found.gap))
            gaps = tuple(dict.fromkeys((*gaps, *(gap for gap in dropped if gap not in part.known))))
    for stored in gaps:
        yield gap_of(part.namespace, *_found(stored))


def _unknown(gaps: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the gaps that are not known. The log that follows does not count: Pulsar's are named in full once they exist."""
    periods = {tuple(gap.split(":", 3)[:3]) for gap in known}
    return tuple(gap for gap in dict.fromkeys(gaps) if tuple(gap.split(":", 3)[:3]) not in periods)


def _kept(found: FoundGap) -> str:
    """Returns a gap as offsets have it: its reason's number, its beginning and end in milliseconds since 1970, and the log that follows."""
    gap, log = found
    begin = _milliseconds(gap.start) if gap.start is not None else ""
    return f"{gap.reason.value}:{begin}:{_milliseconds(gap.end)}{f':{log}' if log else ''}"


def _found(stored: str) -> FoundGap:
    reason, begin, end, *log = stored.split(":", 3)
    start = _EPOCH + timedelta(milliseconds=int(begin)) if begin else None
    return FoundGap(HistoryGap(start, _EPOCH + timedelta(milliseconds=int(end)), HistoryGapReason(int(reason))), "".join(log))


def _milliseconds(time: datetime) -> int:
    return microseconds(time) // 1_000

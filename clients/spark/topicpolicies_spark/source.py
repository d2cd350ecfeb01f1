"""The data source: the classes that Spark calls.

An offset has for each namespace the position up to which its history was taken. The events between two offsets are the same whenever they
are read, so a batch that was interrupted is read again unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from topicpolicies.v1.history_pb2 import HistoryEntry

from . import NAME, rows
from .histories import Content, History, opened
from .options import EARLIEST, LATEST, OptionError, Options, read_options

FORMAT = 1
_PARTS_A_TASK = 16
"""Into how many parts divided what one task reads is told: parts of large namespaces, or small namespaces, which are one part each."""
_ENDLESS = 1_000_000_000
"""A number of events that no namespace has between two bookmarks, so that the only one is its end."""


class HistoryRange(NamedTuple):
    """The history of a namespace between two positions."""

    namespace: str
    start: str
    """Empty: the beginning of the history."""
    end: str


class TopicPolicyChanges(DataSource):
    """The data source ``topic_policy_changes``: the events of namespaces' change logs, one row each."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the data source, for ``format``."""
        return NAME

    def schema(self) -> types.StructType:
        """Returns the columns: see ``rows.Change``."""
        return rows.SPARK_SCHEMA

    def reader(self, schema: types.StructType) -> DataSourceReader:  # noqa: ARG002 - it is always ours
        """Returns the reader of a batch query."""
        return HistoryReader(read_options(self.options))

    def streamReader(self, schema: types.StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Returns the reader of a streaming query."""
        options = read_options(self.options)
        if options.ending_offsets != LATEST:
            raise OptionError("endingOffsets is for batches: a stream has no end")
        return HistoryStreamReader(options)


class _Reader:
    """What both readers do; their tasks are tuples of ranges."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the ranges of a task."""
        return rows.batches(_changes(self.options, partition.value))


class HistoryReader(_Reader, DataSourceReader):
    """Reads the histories of namespaces from one place to another: by default all that they have when the query begins."""

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the tasks: one for so many events, of one namespace or of several."""
        ending = self.options.ending_offsets
        with opened(self.options) as history:
            return _tasks(self.options, history, _beginnings(self.options, history), None if isinstance(ending, str) else ending)


class HistoryStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the histories of namespaces, and what is added to them, as a stream. Namespaces that appear later join it."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._bounded = False
        """Whether the query ends with the events that there are at its first batch."""
        self._target: dict[str, str] | None = None
        """The position where such a query ends, by namespace."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where a new stream begins."""
        with opened(self.options) as history:
            return offset_of({} if self.options.starting_offsets == EARLIEST else _beginnings(self.options, history))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns the limit of a batch: the option ``maxRowsPerTrigger``."""
        return ReadAllAvailable() if self.options.max_rows_per_trigger is None else ReadMaxRows(self.options.max_rows_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where the next batch ends. Namespaces share its rows equally, and get at least one if they have new events."""
        taken = positions_of(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _ENDLESS
        with opened(self.options) as history:
            behind = {name: taken.get(name, "") for name in history.namespaces()}
            if self._bounded:
                self._target = _nearest(history, behind) if self._target is None else self._target
                behind = {name: position for name, position in behind.items() if position < self._target.get(name, "")}
            ends = _nearest(history, behind, most)
            new = {name: behind[name] for name, end in ends.items() if end != behind[name]}
            if len(new) > 1 and most < _ENDLESS:
                ends |= _nearest(history, new, max(1, most // len(new)))
        if self._target is not None:
            ends = {name: min(end, self._target[name]) for name, end in ends.items()}
        return offset_of(taken | ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Makes the ends that the histories have at the first batch the end of the query."""
        self._bounded = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of a batch."""
        first, last = positions_of(start), positions_of(end)
        behind = {name: first.get(name, "") for name, position in last.items() if first.get(name, "") != position}
        if not behind:
            return []
        few = self.options.max_rows_per_trigger is not None and self.options.max_rows_per_trigger <= self.options.rows_per_task
        with opened(self.options) as history:
            return _tasks(self.options, None if few else history, behind, last)


def offset_of(positions: Mapping[str, str]) -> dict[str, Any]:
    """Returns an offset in the form in which Spark stores it."""
    return {"format": FORMAT, "history": dict(sorted(positions.items()))}


def positions_of(offset: Mapping[str, Any]) -> dict[str, str]:
    """Returns the positions of an offset, by namespace.

    Raises:
        ValueError: it is not an offset of this source.
    """
    found = offset.get("history")
    if offset.get("format") == FORMAT and isinstance(found, Mapping) and all(isinstance(each, str) for each in found.values()):
        return dict(found)
    raise ValueError(f"not an offset of {NAME}, so this query needs another checkpoint: {offset}")


def _nearest(history: History, behind: Mapping[str, str], most: int = _ENDLESS) -> dict[str, str]:
    """Returns by namespace the position that is at most so many events behind another one: by default, or if there are fewer, the end."""
    return {name: found[0] for name, found in history.bookmarks(behind, most, first=True).items()}


def _beginnings(options: Options, history: History) -> dict[str, str]:
    """Returns by namespace the position behind which a query begins."""
    begin = dict.fromkeys(history.namespaces(), "")
    if options.starting_offsets == LATEST:
        return _nearest(history, begin)
    return begin if isinstance(options.starting_offsets, str) else {name: options.starting_offsets.get(name, "") for name in begin}


def _tasks(options: Options, history: History | None, behind: Mapping[str, str], until: Mapping[str, str] | None) -> list[InputPartition]:
    """Divides what follows some positions into tasks.

    Args:
        options: how many events a task may have.
        history: tells where to divide; None: nothing is divided.
        behind: by namespace, the position behind which to begin.
        until: by namespace, the position where to end; None: the present ends of the histories.
    """
    count = min(_PARTS_A_TASK, options.rows_per_task)
    marks = history.bookmarks(behind, options.rows_per_task // count) if history is not None else {name: [] for name in behind}
    if until is not None:
        marks = {name: [*(mark for mark in marks[name] if mark < until[name]), until[name]] for name in behind if name in until}
    between = {name: pairwise([behind[name], *found]) for name, found in marks.items()}
    parts = [HistoryRange(name, *ends) for name, pairs in between.items() for ends in pairs if ends[0] != ends[1]]
    return [InputPartition(_joined(parts[first : first + count])) for first in range(0, len(parts), count)]


def _joined(parts: Sequence[HistoryRange]) -> tuple[HistoryRange, ...]:
    """Returns one range for each namespace of some parts in a row."""
    by_name = [list(each) for _, each in groupby(parts, attrgetter("namespace"))]
    return tuple(HistoryRange(each[0].namespace, each[0].start, each[-1].end) for each in by_name)


def _changes(options: Options, ranges: Sequence[HistoryRange]) -> Iterator[rows.Change]:
    with opened(options) as history:
        for each in ranges:
            for position, content in history.copy(*each):
                if not _selects(options, content):
                    continue
                if isinstance(content, HistoryEntry):
                    yield rows.of_entry(each.namespace, position, content)
                else:
                    yield rows.of_gap(each.namespace, position, content)


def _selects(options: Options, content: Content) -> bool:
    """Returns whether the options select an entry, or an entry that they select may be missing in a gap."""
    if isinstance(content, HistoryEntry):
        return options.covers(content.time.ToMicroseconds()) and (not options.topics or content.document.topic in options.topics)
    first, end = options.starting_timestamp, options.ending_timestamp
    if first is not None and content.end_time.ToMicroseconds() <= first:
        return False
    return end is None or not content.HasField("start_time") or content.start_time.ToMicroseconds() < end

"""A stream over a sidecar's history.

An offset has for each namespace the position up to which its history was taken. A range between two offsets has the same events whenever it
is read, so a batch that was interrupted when the query was killed is read again unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from topicpolicies import Client
from topicpolicies.v1.history_pb2 import HistoryEntry

from . import rows
from .copying import copied
from .history import read_history, selects
from .options import Options
from .sidecars import connected, namespaces_of

FORMAT = 1


class HistoryRange(NamedTuple):
    """The history of a namespace between two positions."""

    namespace: str
    start: str
    """Empty: the beginning of the history."""
    end: str


class HistoryPartition(InputPartition):
    """One range, which one task reads."""

    def __init__(self, part: HistoryRange) -> None:
        super().__init__(part)
        self.range = part


def offset_of(positions: Mapping[str, str]) -> dict[str, Any]:
    """Returns an offset in the form in which Spark stores it."""
    return {"format": FORMAT, "history": dict(sorted(positions.items()))}


def positions_of(offset: Mapping[str, Any]) -> dict[str, str]:
    """Returns the positions of an offset, by namespace.

    Raises:
        ValueError: it is not an offset of a stream over a sidecar's history.
    """
    found = offset.get("history")
    if offset.get("format") == FORMAT and isinstance(found, Mapping) and all(isinstance(each, str) for each in found.values()):
        return dict(found)
    raise ValueError(f"not an offset of a stream over a sidecar's history, so this query needs another checkpoint: {offset}")


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the histories of namespaces that a sidecar has, and what it adds to them, as a stream."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._target: dict[str, str] | None = None
        """The position where the query ends, by namespace; None: it goes on without end."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where a new stream begins."""
        return offset_of(self._ends() if self.options.from_latest else {})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns the limit of a batch: the option ``maxRowsPerTrigger``."""
        return ReadAllAvailable() if self.options.most_rows is None else ReadMaxRows(self.options.most_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where the next batch ends. Namespaces share its rows equally, and get at least one if they have new events."""
        positions = positions_of(start)
        waiting = [name for name in namespaces_of(self.options) if self._target is None or name in self._target]
        share = None
        with connected(self.options) as client:
            if isinstance(limit, ReadMaxRows):
                waiting = [name for name in waiting if self._scanned(client, name, positions.get(name, ""), 1)[0]]
                share = max(1, limit.max_rows // max(1, len(waiting)))
            for name in waiting:
                _, positions[name] = self._scanned(client, name, positions.get(name, ""), share)
        return offset_of({name: position for name, position in positions.items() if position})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Makes the present ends of the histories the end of the query."""
        self._target = self._ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns one task for each namespace that has something new."""
        first = positions_of(start)
        last = positions_of(end)
        return [HistoryPartition(HistoryRange(name, first.get(name, ""), at)) for name, at in last.items() if first.get(name, "") != at]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one range."""
        assert isinstance(partition, HistoryPartition)
        return rows.batches(read_history(self.options, *partition.range))

    def _ends(self) -> dict[str, str]:
        with connected(self.options) as client:
            ends = {name: self._scanned(client, name, "", None)[1] for name in namespaces_of(self.options)}
        return {name: end for name, end in ends.items() if end}

    def _scanned(self, client: Client, name: str, behind: str, most: int | None) -> tuple[int, str]:
        """Counts the selected events behind a position, up to ``most`` and the query's end; returns the position behind them, too."""
        until = (self._target or {}).get(name, "")
        taken, reached = 0, behind
        if until and behind >= until:
            return taken, reached
        with closing(copied(client, name, behind, until)) as pieces:
            for position, content in pieces:
                reached = min(position, until) if until else position
                taken += isinstance(content, HistoryEntry) and selects(self.options, content)
                if taken == most:
                    break
        return taken, reached

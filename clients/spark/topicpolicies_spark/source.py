"""The data source: the classes that Spark calls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from . import NAME, rows
from .admission import admit
from .brokers import Brokers, Ledgers, Log, Place
from .offsets import DataLossError, Range, missing, offset_of, places_of, ranges
from .options import NOTHING, Options, microseconds, read_options


class RangePartition(InputPartition):
    """One range, which one task reads."""

    def __init__(self, part: Range) -> None:
        super().__init__(part)
        self.range = part


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
        options = read_options(self.options)
        if options.address:
            return HistoryReader(options)
        return PushingReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: types.StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Returns the reader of a streaming query."""
        options = read_options(self.options)
        if options.address:
            from .history_stream import HistoryStreamReader  # noqa: PLC0415 - what reads is needed where it is read

            return HistoryStreamReader(options)
        return StreamReader(options)


class BatchReader(DataSourceReader):
    """Reads everything that the brokers' logs hold when the query begins."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Returns one task for each log."""
        found = _held(self.options)
        ends = {log.name: ledgers.end for log, ledgers in found.items()}
        firsts = {log.name: ledgers.first for log, ledgers in found.items()}
        return [RangePartition(part) for part in ranges(found, {}, ends, firsts) if part.end.ledger >= 0]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one log."""
        return _read(self.options, partition)


class PushingReader(BatchReader):
    """A batch reader that applies filters: equality and ``IN`` of ``namespace`` and ``topic``, and bounds of ``published``.

    Namespaces that the filters exclude are not read, and events that they exclude are not made into rows.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes over the filters that this reader can apply. Yields the others, which Spark applies."""
        for each in filters:
            narrowed = _narrowed(self.options, each)
            if narrowed is None:
                yield each
            else:
                self.options = narrowed


class HistoryReader(DataSourceReader):
    """Reads the histories of namespaces that a sidecar has when the query begins."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Returns one task for each namespace."""
        from .sidecars import namespaces_of  # noqa: PLC0415 - what reads is needed where it is read

        return [InputPartition(namespace) for namespace in namespaces_of(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one namespace."""
        from .history import read_history  # noqa: PLC0415 - what reads is needed where it is read

        if partition.value is None:  # Spark makes such a task if there is nothing to read
            return iter(())
        return rows.batches(read_history(self.options, partition.value))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the brokers' logs as a stream, from their beginnings or from now on.

    An offset has the place of the last entry that was taken from each log. Namespaces that appear later join the stream, from the
    beginnings of their logs.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._target: dict[str, Place] | None = None
        """The place where the query ends, by log; None: it goes on without end."""
        self._firsts: dict[str, Place | None] = {}
        """The first entry that each log had when it was last looked at."""
        self._ahead: dict[str, tuple[Place, Place]] = {}
        """By log, the place up to which it was taken, at the end of a ledger, and the beginning of the next ledger, which is as good."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where a new stream begins."""
        if not self.options.from_latest:
            return offset_of({})
        held = self._ledgers().items()
        return offset_of({name: ledgers.settled(ledgers.end) for name, ledgers in held if ledgers.end.ledger >= 0})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns the limit of a batch: the option ``maxRowsPerTrigger``."""
        return ReadAllAvailable() if self.options.most_rows is None else ReadMaxRows(self.options.most_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset where the next batch ends.

        Raises:
            DataLossError: a log is gone that was to be read up to the query's end.
        """
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        logs, taken, target = self._ledgers(), places_of(start), self._target
        wanted = logs
        if target is not None:
            self._fail_if_missing(logs, taken, target)
            wanted = {name: each._replace(end=min(each.end, target[name])) for name, each in logs.items() if name in target}
        for name, place in self._begins(taken).items():
            if name in logs:
                self._ahead[name] = taken[name], logs[name].settled(place)
        begins = self._begins(taken)
        ends = admit(begins, wanted, most)
        return offset_of({name: taken[name] if end == begins.get(name) else end for name, end in ends.items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Makes the present ends of the logs the end of the query."""
        self._target = {name: ledgers.end for name, ledgers in self._ledgers().items() if ledgers.end.ledger >= 0}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns one task for each log that has something new.

        Raises:
            DataLossError: a log that has something new is gone.
        """
        first, last = places_of(start), places_of(end)
        if first == last:
            return []
        first = self._begins(first)
        with Brokers(self.options) as brokers:
            logs = brokers.logs()
        self._fail_if_missing({log.name for log in logs}, first, last)
        return [RangePartition(part) for part in ranges(logs, first, last, self._firsts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one range."""
        return _read(self.options, partition)

    def _begins(self, taken: Mapping[str, Place]) -> dict[str, Place]:
        """Returns the places where the next batch begins: those up to which the logs were taken, or what ``_ahead`` has for them."""
        ahead = {name: self._ahead.get(name, (None, place)) for name, place in taken.items()}
        return {name: ahead[name][1] if ahead[name][0] == place else place for name, place in taken.items()}

    def _fail_if_missing(self, there: Container[str], start: Mapping[str, Place], end: Mapping[str, Place]) -> None:
        """Raises DataLossError if a log that has entries between two offsets is not in ``there``, unless ``failOnDataLoss`` is off."""
        if self.options.fail_on_data_loss and (gone := missing(there, start, end)):
            raise DataLossError(gone)

    def _ledgers(self) -> dict[str, Ledgers]:
        found = {log.name: ledgers for log, ledgers in _held(self.options).items()}
        self._firsts = {name: ledgers.first for name, ledgers in found.items()}
        return found


def _held(options: Options) -> dict[Log, Ledgers]:
    """Returns the logs that the options select, and their ledgers as they are now."""
    with Brokers(options) as brokers:
        asked = [(log, brokers.ledgers(log)) for log in brokers.logs()]
    return {log: ledgers for log, ledgers in asked if ledgers is not None}  # None: the log was deleted meanwhile


def _read(options: Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from .reading import read  # noqa: PLC0415 - what reads is needed where it is read

    if not isinstance(partition, RangePartition):  # Spark makes such a task if there is nothing to read
        return iter(())
    return rows.batches(read(options, partition.range))


def _narrowed(options: Options, each: Filter) -> Options | None:
    """Returns the options narrowed by a filter; None: the filter is none of those that can be applied here."""
    attribute = getattr(each, "attribute", ())
    if isinstance(each, EqualTo):
        return _named(options, attribute, [each.value])
    if isinstance(each, In):
        return _named(options, attribute, list(each.value))
    if attribute != ("published",):
        return None
    if isinstance(each, GreaterThanOrEqual):
        return replace(options, since=max(_time(each.value), options.since or 0))
    if isinstance(each, GreaterThan):
        return replace(options, since=max(_time(each.value) + 1, options.since or 0))
    if isinstance(each, LessThan):
        until = _time(each.value)
        return replace(options, until=until if options.until is None else min(until, options.until))
    return None


def _named(options: Options, attribute: tuple[str, ...], values: list[Any]) -> Options | None:
    if attribute not in (("namespace",), ("topic",)) or None in values:
        return None
    wanted = frozenset(map(str, values))
    if attribute == ("namespace",):
        namespaces = wanted & options.namespaces if options.namespaces else wanted
        return replace(options, namespaces=namespaces or frozenset({NOTHING}))  # an empty set would select all
    return replace(options, topics=(wanted & options.topics or frozenset({NOTHING})) if options.topics else wanted)


def _time(value: Any) -> int:
    return microseconds(value) if isinstance(value, datetime) else int(value)

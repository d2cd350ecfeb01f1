"""A stream of what a sidecar records in its history.

An offset says for each namespace up to where the sidecar's record was taken, by a token of the sidecar's, and which gaps were told. Between
two offsets stands the same whenever it is read, so what was under way when a query was killed is read again as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from topicpolicies.v1 import service_pb2

from . import rows
from .history import asked_for, change_of, gap_of
from .options import Options
from .rows import Change
from .sidecars import Sidecar, namespaces_of

FORMAT = 1
_PAGE = 1_000
_ORDER = service_pb2.HISTORY_ORDER_RECORDED


class Place(NamedTuple):
    """How far one namespace was taken."""

    token: str = ""
    """The sidecar's; empty: nothing was."""
    gaps: tuple[str, ...] = ()
    """The gaps that were told, of those that the sidecar still tells of."""


class Stretch(NamedTuple):
    """What lies between two places of a namespace."""

    namespace: str
    start: str
    end: str
    gaps: tuple[str, ...]
    """Those that are new."""


class Part(InputPartition):
    """One stretch, for one task."""

    def __init__(self, stretch: Stretch) -> None:
        super().__init__(stretch)
        self.stretch = stretch


def offset_of(places: Mapping[str, Place]) -> dict[str, Any]:
    """An offset as Spark keeps it."""
    told = {name: {"token": place.token, "gaps": list(place.gaps)} for name, place in sorted(places.items())}
    return {"format": FORMAT, "history": told}


def places_of(offset: Mapping[str, Any]) -> dict[str, Place]:
    """The places of an offset.

    Raises:
        ValueError: it is not one of a stream over a history.
    """
    if offset.get("format") != FORMAT or "history" not in offset:
        raise ValueError(f"not an offset of a stream over a sidecar's history: {offset}")
    return {name: Place(told["token"], tuple(told["gaps"])) for name, told in offset["history"].items()}


def stretches(start: Mapping[str, Place], end: Mapping[str, Place]) -> list[Stretch]:
    """What lies between two offsets."""
    found = []
    for name, last in end.items():
        first = start.get(name, Place())
        if first != last:
            found.append(Stretch(name, first.token, last.token, tuple(gap for gap in last.gaps if gap not in first.gaps)))
    return found


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What a sidecar has recorded of namespaces, and what it records from now on."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._target: dict[str, str] | None = None
        """The tokens at which the query ends; None: it does not."""
        self._ahead: dict[tuple[str, str], str] = {}
        """By namespace and token: up to where nothing was found behind it, so that it is not looked through again."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new stream begins."""
        if not self.options.from_latest:
            return offset_of({})
        with Sidecar(self.options) as sidecar:
            answers = {name: self._probe(sidecar, name, "", "") for name in namespaces_of(self.options)}
        return offset_of({name: Place(answer.end_token, _gaps(answer)) for name, answer in answers.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The option ``maxRowsPerTrigger``."""
        return ReadAllAvailable() if self.options.most_rows is None else ReadMaxRows(self.options.most_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next batch ends. Namespaces share the rows that it may take; at least one of each that has something new is taken."""
        places = places_of(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        waiting: dict[str, str] = {}
        with Sidecar(self.options) as sidecar:
            for name in namespaces_of(self.options):
                if self._target is not None and name not in self._target:
                    continue
                place, until = places.get(name, Place()), (self._target or {}).get(name, "")
                behind = self._ahead.get((name, place.token), place.token)
                answer = self._probe(sidecar, name, behind, until)
                end = until or answer.end_token
                gaps = _gaps(answer)
                if answer.entries or gaps != place.gaps:
                    places[name] = Place(place.token, gaps)
                if answer.entries:
                    waiting[name] = end
                else:
                    self._ahead = {key: token for key, token in self._ahead.items() if key[0] != name} | {(name, place.token): end}
            for name, end in waiting.items():
                token = end if most is None else self._cut(sidecar, name, places[name].token, end, max(1, most // len(waiting)))
                places[name] = places[name]._replace(token=token)
        return offset_of(places)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Takes what there is now as the end of the query."""
        with Sidecar(self.options) as sidecar:
            self._target = {name: self._probe(sidecar, name, "", "").end_token for name in namespaces_of(self.options)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task for each namespace that has something new."""
        return [Part(stretch) for stretch in stretches(places_of(start), places_of(end)) if stretch.start != stretch.end or stretch.gaps]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one stretch."""
        assert isinstance(partition, Part)
        return rows.batches(read_stretch(self.options, partition.stretch))

    def _probe(self, sidecar: Sidecar, namespace: str, behind: str, until: str) -> service_pb2.ListHistoryResponse:
        request = sidecar.question(namespace, _ORDER)
        request.page_size, request.page_token, request.until_token = 1, behind, until
        return sidecar.ask(request)

    def _cut(self, sidecar: Sidecar, namespace: str, start: str, end: str, most: int) -> str:
        """The token behind the last of so many rows."""
        request = sidecar.question(namespace, _ORDER)
        request.page_token, request.until_token = start, end
        taken = 0
        while taken < most:
            request.page_size = min(most - taken, _PAGE)
            answer = sidecar.ask(request)
            taken += sum(asked_for(self.options, entry) for entry in answer.entries)
            if not answer.next_page_token:
                return end
            request.page_token = answer.next_page_token
        return request.page_token


def read_stretch(options: Options, stretch: Stretch) -> Iterator[Change]:
    """The rows of a stretch; the gaps come last.

    Raises:
        grpc.RpcError: the sidecar can't be reached or refuses; OUT_OF_RANGE if its history is another one than the tokens'.
    """
    if stretch.start != stretch.end:
        with Sidecar(options) as sidecar:
            request = sidecar.question(stretch.namespace, _ORDER)
            request.page_size, request.page_token, request.until_token = _PAGE, stretch.start, stretch.end
            while True:
                answer = sidecar.ask(request)
                for entry in answer.entries:
                    if asked_for(options, entry):
                        yield change_of(stretch.namespace, entry)
                if not answer.next_page_token:
                    break
                request.page_token = answer.next_page_token
    for told in stretch.gaps:
        yield gap_of(stretch.namespace, _gap(told))


def _gaps(answer: service_pb2.ListHistoryResponse) -> tuple[str, ...]:
    """The gaps of an answer as an offset keeps them: reason, beginning and end in milliseconds."""
    found = []
    for gap in answer.gaps:
        begin = gap.start_time.ToMilliseconds() if gap.HasField("start_time") else ""
        found.append(f"{gap.reason}:{begin}:{gap.end_time.ToMilliseconds()}")
    return tuple(sorted(found))


def _gap(told: str) -> service_pb2.HistoryGap:
    reason, begin, end = told.split(":")
    gap = service_pb2.HistoryGap(reason=service_pb2.HistoryGapReason.ValueType(int(reason)))
    if begin:
        gap.start_time.FromMilliseconds(int(begin))
    gap.end_time.FromMilliseconds(int(end))
    return gap

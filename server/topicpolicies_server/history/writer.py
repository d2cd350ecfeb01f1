"""What waits to be written to the history, and how it is written: in batches, on the history's one thread. No update waits for it.

What waits is bounded: events beyond the bound are left out, and a gap is recorded in their place. While the file can't be written, a batch
is tried again and again; meanwhile little else grows: of each namespace one gap for each reason, and the last time until which its log was
followed.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..sqlite_file import ERRORS, unusable
from . import file
from .entries import Gap, GapReason, Noted

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

BACKLOG_BYTES = 128 << 20
"""The most that may wait to be written, by estimate: some 200,000 events."""
BATCH = 2_048
"""The most events of one commit."""
BATCH_BYTES = 1 << 20
"""The most bytes of one commit, by estimate: the file and its write-ahead log exceed their bound by what one commit writes."""
AGAIN_SECONDS = 1.0
"""How long requests are answered without another attempt to write after one has failed: it may take seconds, on a locked file."""
_TRIM_SECONDS = 10.0
_TRIMMED = 2 * BATCH
"""The most entries that are dropped at a time: more than a commit adds."""


class Bounds(NamedTuple):
    """What the history keeps: entries that are at most so old, and so many bytes."""

    age_seconds: float
    bytes: int


class WriterFigures(NamedTuple):
    """The figures of a history, for metrics and status."""

    waiting: int
    """Events that wait to be written."""
    waiting_bytes: int
    """Their size in bytes, by estimate."""
    waiting_seconds: float
    """For how many seconds the first of them has waited, at most."""
    failing: bool
    """Whether the file can't be written now."""
    gaps: Mapping[str, int]
    """How many gaps were recorded since the start, by reason."""


class HistoryWriter:
    """What waits, and the file. Any thread may call ``note``, ``tell``, ``followed`` and ``figures``; one thread makes all other calls."""

    def __init__(self, path: Path, bounds: Bounds, backlog_bytes: int = BACKLOG_BYTES) -> None:
        """Opens the file.

        Raises:
            FileError: the file can't be used.
        """
        self.file = file.open_file(path)
        try:
            self.extents = self.file.extents()
            """By namespace: how far the history goes. The recorders keep it up to date."""
        except ERRORS as error:
            self.file.close()
            raise unusable(path, error) from error
        self._path = path
        self._bounds = bounds
        self._backlog_bytes = backlog_bytes
        self._lock = threading.Lock()
        """Guards the following four."""
        self._waiting: list[Noted] = []
        self._bytes = 0
        self._gaps: dict[tuple[str, GapReason], Gap] = {}
        self._followed: dict[str, int] = {}
        """Is written once no event waits: a log counts as followed once its events are written."""
        self._failing = False
        self._failed_at = 0.0
        """When that was found out last."""
        self._complete_at = time.monotonic()
        """When all was written last."""
        self._recorded: Counter[str] = Counter()
        self._trim_at = 0.0
        self._problem = ""

    def note(self, noted: Sequence[Noted]) -> None:
        """Takes events, in order. Those for which there is no room are left out, and a gap is recorded in their place."""
        with self._lock:
            for each in noted:
                if self._bytes + each.weight > self._backlog_bytes:
                    self._merge(each.as_gap)
                else:
                    self._waiting.append(each)
                    self._bytes += each.weight

    def tell(self, gap: Gap) -> None:
        """Takes a gap, however much waits."""
        with self._lock:
            self._merge(gap)

    def followed(self, namespace: str, until: int) -> None:
        """Notes that the log of a namespace was followed until a time (ms)."""
        with self._lock:
            self._followed[namespace] = until

    def _merge(self, gap: Gap) -> None:
        key = gap.namespace, gap.reason
        self._gaps[key] = gap.merged(self._gaps[key]) if key in self._gaps else gap

    def figures(self) -> WriterFigures:
        """Returns the figures for metrics and status."""
        with self._lock:
            waiting, size = len(self._waiting), self._bytes
        return WriterFigures(waiting, size, time.monotonic() - self._complete_at if waiting else 0.0, self._failing, dict(self._recorded))

    # --- on the history's thread --------------------------------------------------------------------------------------

    def answer(self, namespace: str, now: int, question: Callable[[file.HistoryFile, list[Gap]], _T]) -> _T:
        """Writes what waits, then asks the file.

        ``question`` also gets the gap up to ``now`` (ms) if events of the namespace that waited at the call could not be written.
        """
        since: list[int] = []
        just_failed = self._failing and time.monotonic() < self._failed_at + AGAIN_SECONDS
        if just_failed or not self.write():
            with self._lock:
                since += [each.at for each in self._waiting if each.stream.namespace == namespace]
                since += [gap.since or 0 for gap in self._gaps.values() if gap.namespace == namespace]
        return question(self.file, [Gap(namespace, min(since), now, GapReason.OVERRUN)] if since else [])

    def write(self) -> bool:
        """Writes what waits now. Returns whether all of it is in the file; otherwise the file can't be written."""
        began = time.monotonic()
        with self._lock:
            left = len(self._waiting)
        while True:
            with self._lock:
                batch = self._batch(min(left, BATCH))
                gaps, followed = dict(self._gaps), dict(self._followed) if len(batch) == left else {}
            if not (batch or gaps or followed):
                break
            try:
                new = self.file.write(batch, gaps.values(), followed)
            except ERRORS as error:
                if not self._failing:
                    _log.error("the history %s can't be written, and is tried again: %s", self._path, error)
                self._failing, self._failed_at = True, time.monotonic()
                return False
            if self._failing:
                _log.warning("the history %s can be written again", self._path)
            self._failing = False
            self._recorded.update(gap.reason.name for gap in new)
            self._done(batch, gaps, followed)
            left -= len(batch)
            self.trim()
            if not left:
                break
        self._complete_at = began
        return True

    def _batch(self, most: int) -> list[Noted]:
        batch: list[Noted] = []
        size = 0
        for each in self._waiting[:most]:
            batch.append(each)
            size += each.weight
            if size >= BATCH_BYTES:
                break
        return batch

    def _done(self, batch: Sequence[Noted], gaps: Mapping[tuple[str, GapReason], Gap], followed: Mapping[str, int]) -> None:
        """Removes what was written; a gap that became larger meanwhile stays."""
        with self._lock:
            del self._waiting[: len(batch)]
            self._bytes -= sum(each.weight for each in batch)
            self._gaps = {key: gap for key, gap in self._gaps.items() if gap is not gaps.get(key)}
            self._followed = {name: until for name, until in self._followed.items() if until != followed.get(name)}

    def work(self) -> bool:
        """Writes what waits, and trims. Returns whether there may be more to trim."""
        self.write()
        return self.trim()

    def trim(self) -> bool:
        """Drops some entries that are beyond the bounds. Returns whether there may be more."""
        now, problem, more = time.monotonic(), "", False
        try:
            more = self.file.trim_to_size(self._bounds.bytes, _TRIMMED) >= _TRIMMED
            if now >= self._trim_at:
                before = time.time_ns() // 1_000_000 - int(self._bounds.age_seconds * 1000)
                aged = self.file.trim_by_age(before, _TRIMMED) > 0
                more = more or aged
                self._trim_at = now if aged else now + _TRIM_SECONDS
            self.file.shrink(self._bounds.bytes)
        except (sqlite3.Error, OSError) as error:
            problem = str(error)
            self._trim_at = now + _TRIM_SECONDS
            if problem != self._problem:
                _log.warning("the history %s could not be trimmed: %s", self._path, error)
        self._problem = problem
        return more and not problem

    def close(self) -> bool:
        """Writes what waits, and closes the file. Returns whether all was written."""
        try:
            return self.write()
        finally:
            self.file.close()

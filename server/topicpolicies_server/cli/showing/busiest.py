"""Counts what changes most, from the events of a watch of every change. Shows it in lines for people, as JSON for programs.

================  ====================================================================================================
event             effect
================  ====================================================================================================
change            is counted for its namespace and its topic, unless it is of a snapshot
bookmark, synced  the namespace is followed: it does not count as being read any more, and its problem is removed
status            if READY, the namespace's problem is removed; else the status is shown as its problem
reset             is shown until another reset comes, because changes may be missing
================  ====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len, set_cell_size

from topicpolicies.v1.service_pb2 import NamespaceState, NamespaceStatus, PolicyChange, WatchEvent

from ...escaping import printable
from .rates import MOST_NAMES, Last, Rates, Row
from .watch_lines import line_of_status

_PERSISTENT = "persistent://"
_NAMES_SHARE = 0.6
"""The least share of names in the width that is left for names and for actors with reasons."""
_CUT = "..."
_MOST_PROBLEMS = 5


class Busiest:
    """The changes and problems that a watch has reported. ``now`` is in monotonic seconds, ``clock`` is the time of day."""

    def __init__(self, namespaces: Iterable[str], most: int = MOST_NAMES) -> None:
        """Begins without changes.

        Args:
            namespaces: the namespaces that are watched, and those of topics that are.
            most: how many topics are kept.
        """
        self._waited_for = set(namespaces)
        self._watched = len(self._waited_for)
        self._namespaces = Rates(max(most, self._watched))
        self._topics = Rates(most)
        self._since: float | None = None
        self._changes = 0
        self._problems: dict[str, str] = {}
        """What is wrong with each namespace, by name."""
        self._synced: set[str] = set()
        """The namespaces whose snapshot is complete, so that a document is a change."""
        self._remark = ""

    @property
    def settled(self) -> bool:
        """Whether each namespace is followed, or is reported to be unavailable or disabled."""
        return not self._waited_for

    def apply(self, event: WatchEvent, now: float, clock: datetime) -> None:
        """Counts or keeps what an event reports."""
        match event.WhichOneof("content"):
            case "change" if event.namespace in self._synced:
                self._changed(event.namespace, event.change, now, clock)
            case "bookmark" if event.bookmark.synced:
                self._synced.add(event.namespace)
                self._follows(event.namespace, now)
            case "status":
                self._status(event.namespace, event.status, now)
            case "reset":
                self._synced.discard(event.namespace)
                said = printable(event.reset.message) or f"{event.namespace} begins anew"
                self._remark = f"{_time(clock)} changes may be missing: {said}"

    def refused(self, namespace: str, why: str) -> None:
        """Keeps as a problem that a namespace may not be watched."""
        self._problems[namespace] = printable(why)
        self._waited_for.discard(namespace)

    def _follows(self, namespace: str, now: float) -> None:
        self._problems.pop(namespace, None)
        self._waited_for.discard(namespace)
        if self._since is None:
            self._since = now

    def _status(self, namespace: str, status: NamespaceStatus, now: float) -> None:
        if status.state == NamespaceState.NAMESPACE_STATE_READY:
            self._problems.pop(namespace, None)
            return
        self._problems[namespace] = line_of_status(namespace, status)
        if status.state != NamespaceState.NAMESPACE_STATE_LOADING:
            self._waited_for.discard(namespace)
            if self._since is None:
                self._since = now

    def _changed(self, namespace: str, change: PolicyChange, now: float, clock: datetime) -> None:
        if self._since is None:
            self._since = now
        origin = change.origin
        when = origin.publish_time.ToDatetime(UTC) if origin.HasField("publish_time") else clock
        last = Last(when, origin.actor, origin.reason)
        self._changes += 1
        self._namespaces.count(namespace, now, last)
        self._topics.count(change.document.topic, now, last)

    def lines(self, now: float, clock: datetime, *, most: int, width: int | None = None, height: int | None = None) -> list[str]:
        """Returns lines for people.

        Args:
            now: the time, in monotonic seconds.
            clock: the time of day.
            most: how many namespaces are shown at most, and how many topics.
            width: how many columns a line may have; None: any number.
            height: how many lines there may be; None: any number.
        """
        told = [f"{_time(clock)}  {self._summary(now)}", *(f"! {problem}" for problem in self._told_problems())]
        of_namespaces = of_topics = most
        if height is not None:
            room = height - len(told) - 5  # two headings, two empty lines, and the cursor's
            of_namespaces = max(1, min(most, self._watched, room // 3))
            of_topics = max(1, min(most, room - of_namespaces))
        namespaces = self._rows(self._namespaces, now, of_namespaces)
        topics = self._rows(self._topics, now, of_topics)
        for heading, rows in (("NAMESPACE", namespaces), ("TOPIC", topics)):
            if rows:
                told += ["", *_table(heading, rows, width)]
        if not self._changes:
            told += ["", "Nothing has changed yet."]
        return told if width is None else [_cropped(line, width) for line in told]

    def json(self, now: float, clock: datetime, *, most: int) -> dict[str, Any]:
        """Returns a JSON document for programs."""
        return {
            "time": clock.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "seconds": round(self._seconds(now), 3),
            "changes": self._changes,
            "namespaces": [_json(row, "namespace") for row in self._rows(self._namespaces, now, most)],
            "topics": [_json(row, "topic") for row in self._rows(self._topics, now, most)],
            "topics_let_go": self._topics.let_go,
            "loading": sorted(self._waited_for),
            "problems": self._told_problems(),
        }

    def _seconds(self, now: float) -> float:
        return 0.0 if self._since is None else now - self._since

    def _rows(self, rates: Rates, now: float, most: int) -> list[Row]:
        return [] if self._since is None else rates.rows(now, self._since, most)

    def _summary(self, now: float) -> str:
        topics = f"{_count(len(self._topics), 'topic')}{' at least' if self._topics.let_go else ''}"
        told = f"{_count(self._changes, 'change')} of {topics} in {self._seconds(now):,.0f} s"
        waiting = f", {len(self._waited_for):,} being read" if self._waited_for else ""
        return f"{told}; {_count(self._watched, 'namespace')}{waiting}"

    def _told_problems(self) -> list[str]:
        problems = [self._problems[name] for name in sorted(self._problems)]
        if len(problems) > _MOST_PROBLEMS:
            problems[_MOST_PROBLEMS:] = [f"and {_count(len(problems) - _MOST_PROBLEMS, 'other namespace')}"]
        return [*problems, *([self._remark] if self._remark else [])]


def _table(heading: str, rows: list[Row], width: int | None) -> Iterator[str]:
    names = [_short(row.name) for row in rows]
    said = [_said(row.last) for row in rows]
    first = [f"{_rate(row.rate):>9} {row.changes:>9,}  {_time(row.last.time)}  " for row in rows]
    room = max(map(cell_len, (heading, *names)))
    if width is not None:
        left = max(20, width - len(first[0]) - 2)
        longest = max(map(cell_len, said), default=0)
        room = min(room, max(int(left * _NAMES_SHARE), left - longest))
    yield f"{'RATE':>9} {'CHANGES':>9}  {'LAST':<8}  {heading:<{room}}  BY".rstrip()
    for before, name, who in zip(first, names, said, strict=True):
        yield f"{before}{_fitted(name, room)}  {who}".rstrip()


def _fitted(name: str, room: int) -> str:
    """Returns a name in exactly ``room`` columns; a longer name loses its middle."""
    if cell_len(name) <= room:
        return set_cell_size(name, room)
    begin = (room - len(_CUT)) // 3
    end = ""
    for character in reversed(name):
        if cell_len(character + end) > room - begin - len(_CUT):
            break
        end = character + end
    return set_cell_size(set_cell_size(name, begin) + _CUT + end, room)


def _cropped(line: str, width: int) -> str:
    return line if cell_len(line) <= width else set_cell_size(line, width - len(_CUT)).rstrip() + _CUT


def _short(name: str) -> str:
    return printable(name.removeprefix(_PERSISTENT))


def _said(last: Last) -> str:
    return printable(": ".join(filter(None, (last.actor or ("unknown" if last.reason else ""), last.reason))))


def _rate(rate: float) -> str:
    if rate >= 100:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.95 else f"{60 * rate:.1f}/min"


def _time(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _json(row: Row, what: str) -> dict[str, Any]:
    told: dict[str, Any] = {what: row.name, "rate": round(row.rate, 4), "changes": row.changes}
    when = row.last.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {**told, "last_time": when, "actor": row.last.actor, "reason": row.last.reason}

"""Promises about watches.

The streams of a client are judged together: a stream that resumes continues from the state that the streams before it delivered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from .documents import Document
from .records import ABSENT, Bookmark, Broken, Change, History, Key, Watch
from .timeline import Timeline


class NotSyncedOnce(Broken):
    """A stream has more than one SYNCED bookmark, or none although there was time."""


class Missed(Broken):
    """A bookmark or a change passed a position although a change up to it had not been delivered."""


class Repeated(Broken):
    """A stream, or one that resumed it, delivered a version again or an older one."""


class NotCovered(Broken):
    """An acknowledged version is covered neither by a change nor by a bookmark."""


class WatchBehind(Broken):
    """A watch that was opened after an answer was SYNCED without the change of that answer."""


@dataclass(slots=True)
class _Shown:
    """The state that a client has from its streams since its last snapshot began."""

    versions: dict[Key, tuple[str, Document | None]] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    """The positions up to which all changes must have been delivered."""
    synced: bool = False


def one_synced(history: History, timeline: Timeline) -> Iterator[NotSyncedOnce]:
    """A stream has exactly one SYNCED bookmark, and none before it if it began with a snapshot."""
    del timeline
    for watch in history.watches:
        marks = [message for message in watch.messages if isinstance(message, Bookmark)]
        synced = [mark for mark in marks if mark.synced]
        if len(synced) > 1:
            yield NotSyncedOnce(f"{watch.client}: SYNCED more than once", *synced)
        elif watch.drained and not synced:
            yield NotSyncedOnce(f"{watch.client}: never SYNCED", watch)
        elif marks and watch.token is None and marks[0] not in synced:
            yield NotSyncedOnce(f"{watch.client}: a bookmark before the snapshot was complete", marks[0])


def watch_repeats_nothing(history: History, timeline: Timeline) -> Iterator[Repeated]:
    """The versions of each key grow, from the snapshot on and across resumes; positions of bookmarks never decrease.

    One absence may be sent twice (``_absent_still``), and a document again to a stream that resumes (``_repaired``).
    """
    del timeline
    for client, watch, shown in _streams(history):
        positions: tuple[str, ...] = watch.token.positions if watch.token is not None else ()
        resuming = watch.token is not None
        for message in watch.messages:
            if isinstance(message, Change):
                before = shown.versions.get(message.key)
                allowed = before is not None and (_absent_still(message, before) or (resuming and _repaired(message, before)))
                if before is not None and message.version <= before[0] and not allowed:
                    yield Repeated(f"{client}: {message.key} at {message.version} after {before[0]}", message)
            elif isinstance(message, Bookmark):
                if any(now < then for now, then in zip(message.positions, positions, strict=False)):
                    yield Repeated(f"{client}: a bookmark has an older position", positions, message)
                positions = message.positions
                resuming = resuming and not message.synced
            _show(shown, message)


def _repaired(change: Change, before: tuple[str, Document | None]) -> bool:
    """Whether the same document is sent again that a later event, a repair, states too.

    A sidecar that has not seen everything learns from the repair what the document is. It can't know what the watch was sent before by one
    that knew it already.
    """
    return change.position > change.version and before == (change.version, change.document)


def _absent_still(message: Change, before: tuple[str, Document | None]) -> bool:
    """Whether the same absence is sent again: without an event of it in the log, the server can't know whether it was sent."""
    return message.document is None and before == (message.version, None)


def watch_misses_nothing(history: History, timeline: Timeline) -> Iterator[Missed]:
    """At each bookmark the newest state of each key up to it was delivered, and in mode EVERY each change in between."""
    for client, watch, shown in _streams(history):
        for message in watch.messages:
            if isinstance(message, Change) and watch.every:
                yield from _between(client, timeline, shown, history.partitions.get(message.key), message)
            _show(shown, message)
            if isinstance(message, Bookmark):
                for key in timeline.keys:
                    if watch.selects(key):
                        yield from _due(watch, history, timeline, shown, key, message)


def _between(client: str, timeline: Timeline, shown: _Shown, partition: int | None, change: Change) -> Iterator[Missed]:
    """In mode EVERY there is no head between a change and the one that was delivered before it."""
    if not shown.synced:
        return
    version, _ = shown.versions.get(change.key, (ABSENT, None))
    floor = version if partition is None else max(version, shown.passed[partition])
    for head in timeline.between(change.key, floor, change.version):
        yield Missed(f"{client}: {change.key} went from {version} to {change.version} without {head.version}", head, change)


def _due(watch: Watch, history: History, timeline: Timeline, shown: _Shown, key: Key, mark: Bookmark) -> Iterator[Missed]:
    place = mark.positions[history.partitions[key]]
    due = timeline.newest(key, place)
    if due is None:
        return
    version, document = shown.versions.get(key, (ABSENT, None))
    if timeline.stands_for(key, version, document, mark.at) >= due.version:
        return
    if _is_owed(watch, history, timeline, key, mark):
        yield Missed(f"{watch.client}: {key} should be at {due.version}, was shown at {version}", due, mark)


def _is_owed(watch: Watch, history: History, timeline: Timeline, key: Key, mark: Bookmark) -> bool:
    """Whether the state of a key up to a bookmark must have been delivered by then: in mode LATEST not if it was superseded.

    Then a newer state follows. (This matters if a stream resumes from the position of a change, on a sidecar that has read less than the
    one before.)
    """
    place = mark.positions[history.partitions[key]]
    return watch.every or all(head.version <= place or head.at > mark.at for head in timeline.heads[key])


def watch_reads_writes(history: History, timeline: Timeline) -> Iterator[WatchBehind]:
    """A watch that is opened after a sidecar's answer has delivered that version, or a newer one, when it is SYNCED."""
    for _, watch, shown in _streams(history):
        for message in watch.messages:
            _show(shown, message)
            if not (isinstance(message, Bookmark) and message.synced):
                continue
            for update, answer in timeline.acknowledged():
                if update.sidecar != watch.sidecar or update.answered >= watch.opened or not watch.selects(update.key):
                    continue
                version, document = shown.versions.get(update.key, (ABSENT, None))
                if timeline.stands_for(update.key, version, document, message.at) < answer.version and _is_owed(
                    watch, history, timeline, update.key, message
                ):
                    yield WatchBehind(f"{watch.client}: opened after {answer.version} was answered, SYNCED at {version}", update, message)


def acknowledged_is_covered(history: History, timeline: Timeline) -> Iterator[NotCovered]:
    """On every watch that stays open, a change or the position of a bookmark covers each acknowledged version."""
    for client, watch, shown in _streams(history):
        for message in watch.messages:
            _show(shown, message)
        if not watch.drained:
            continue
        marks = [message for message in watch.messages if isinstance(message, Bookmark)]
        for update, answer in timeline.acknowledged():
            if watch.selects(update.key):
                position = marks[-1].positions[history.partitions[update.key]] if marks else ""
                version, document = shown.versions.get(update.key, (ABSENT, None))
                if max(position, timeline.stands_for(update.key, version, document, watch.ended)) < answer.version:
                    yield NotCovered(f"{client}: {update.key} at {answer.version} is not covered", update)


def _streams(history: History) -> Iterator[tuple[str, Watch, _Shown]]:
    """Yields all streams, each with the state of its client before it, which the caller must update with ``_show``."""
    clients: defaultdict[str, list[Watch]] = defaultdict(list)
    for watch in history.watches:
        clients[watch.client].append(watch)
    for client, watches in clients.items():
        shown = _Shown()
        for watch in watches:
            if watch.token is None:
                shown = _Shown()
            else:
                shown.passed, shown.synced = list(watch.token.positions), True
            yield client, watch, shown


def _show(shown: _Shown, message: object) -> None:
    if isinstance(message, Change):
        shown.versions[message.key] = message.version, message.document
    elif isinstance(message, Bookmark):
        shown.passed, shown.synced = list(message.positions), True

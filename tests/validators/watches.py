"""Promises about watches.

A client's streams are judged together: one that resumes goes on where those before it stopped, with what they had delivered.
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
    """A stream passed a place without having delivered what was due there."""


class Repeated(Broken):
    """A stream, or one that resumed it, delivered something again or went back."""


class NotCovered(Broken):
    """An acknowledged version is covered neither by a change nor by a bookmark."""


class WatchBehind(Broken):
    """A watch that was opened after an answer does not begin with what was answered."""


@dataclass(slots=True)
class _Shown:
    """What a client was shown since its last snapshot began."""

    versions: dict[Key, tuple[str, Document | None]] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    """The positions up to which it must have been shown everything."""
    synced: bool = False


def one_synced(history: History, timeline: Timeline) -> Iterator[NotSyncedOnce]:
    """Exactly one SYNCED bookmark, and no other one before it."""
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
    """Per key the versions grow, from the snapshot on and over all resumes; bookmarks never go back.

    One absence may be told twice (``_absent_still``).
    """
    del timeline
    for client, watch, shown in _streams(history):
        positions: tuple[str, ...] = watch.token.positions if watch.token is not None else ()
        for message in watch.messages:
            if isinstance(message, Change):
                before = shown.versions.get(message.key)
                if before is not None and message.version <= before[0] and not _absent_still(message, before):
                    yield Repeated(f"{client}: {message.key} at {message.version} after {before[0]}", message)
            elif isinstance(message, Bookmark):
                if any(now < then for now, then in zip(message.positions, positions, strict=False)):
                    yield Repeated(f"{client}: a bookmark goes back", positions, message)
                positions = message.positions
            _show(shown, message)


def _absent_still(message: Change, before: tuple[str, Document | None]) -> bool:
    """Whether the same absence is told once more, without a place: compaction left no event of it, so nobody knows whether it was told."""
    return not message.position and message.document is None and before == (message.version, None)


def watch_misses_nothing(history: History, timeline: Timeline) -> Iterator[Missed]:
    """At each bookmark everything up to it was shown: its newest state of each key, and in mode EVERY each change between."""
    for client, watch, shown in _streams(history):
        for message in watch.messages:
            if isinstance(message, Change) and watch.every:
                yield from _between(client, timeline, shown, message)
            _show(shown, message)
            if isinstance(message, Bookmark):
                for key in timeline.keys:
                    if watch.selects(key):
                        yield from _due(watch, history, timeline, shown, key, message)


def _between(client: str, timeline: Timeline, shown: _Shown, change: Change) -> Iterator[Missed]:
    """In mode EVERY nothing lies between a change and the one that was shown before it."""
    if not shown.synced or not change.position:
        return
    version, _ = shown.versions.get(change.key, (ABSENT, None))
    floor = max(version, shown.passed[change.partition])
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
    """Whether the state of a key up to a bookmark must have been shown by then: in mode LATEST not if it was superseded.

    A newer one follows then. (That matters where a stream is resumed with the position of a change, on a sidecar that is not as far as the
    one before.)
    """
    place = mark.positions[history.partitions[key]]
    return watch.every or all(head.version <= place or head.at > mark.at for head in timeline.heads[key])


def watch_reads_writes(history: History, timeline: Timeline) -> Iterator[WatchBehind]:
    """A watch that is opened after a sidecar's answer has that, or something newer, when it is SYNCED."""
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
    """Each acknowledged version is covered, on every watch that stays long enough, by a change or by a bookmark's position."""
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
    """All streams, each with what its client was shown before it; whoever iterates notes what is shown on it."""
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

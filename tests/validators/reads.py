"""Promises about documents that clients are shown: by GetPolicy, and in answers to updates that wrote nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from .documents import Document
from .records import Answer, Broken, Change, History, Key, Outcome
from .timeline import Timeline


class TwoTruths(Broken):
    """A client was shown a document that differs from the log's at that version, or a version that does not exist."""


class WriteNotRead(Broken):
    """A sidecar showed an older version than it had shown or acknowledged before."""


class NotReached(Broken):
    """A read did not wait for the version that it named."""


class WentBack(Broken):
    """A client of one sidecar saw a version after a newer one."""


class NotConverged(Broken):
    """Long after the last change, a sidecar or a broker still shows another document than the newest head."""


class Seen(NamedTuple):
    """A head that a client was shown."""

    client: str
    sidecar: str
    invoked: float
    at: float
    key: Key
    version: str
    document: Document | None
    record: object


def one_truth(history: History, timeline: Timeline) -> Iterator[TwoTruths]:
    """All clients that are shown a version are shown the same document, which is the log's at that version."""
    for seen in (*_reads(history), *_changes(history)):
        if seen.document is None:
            continue  # an absence; other validators judge whether it is too old
        head = timeline.at(seen.key, seen.version)
        if head is None:
            yield TwoTruths(f"{seen.key}: there is no version {seen.version}", seen.record)
        elif head.document != seen.document:
            yield TwoTruths(f"{seen.key}: version {seen.version} has another document", seen.record, head)


def read_your_writes(history: History, timeline: Timeline) -> Iterator[WriteNotRead]:
    """A sidecar's answer is as new as every version that it had shown or acknowledged before the request was sent."""
    shown: list[tuple[float, str, Key, str, object]] = [
        (update.answered, update.sidecar, update.key, answer.version, update) for update, answer in timeline.acknowledged()
    ]
    shown += [(seen.at, seen.sidecar, seen.key, seen.version, seen.record) for seen in _reads(history) if seen.document is not None]
    shown.sort(key=lambda each: each[0])
    newest: dict[tuple[str, Key], tuple[str, object]] = {}
    at = 0
    for seen in sorted(_reads(history), key=lambda seen: seen.invoked):
        while at < len(shown) and shown[at][0] < seen.invoked:
            _, sidecar, key, version, record = shown[at]
            if version > newest.get((sidecar, key), ("", None))[0]:
                newest[sidecar, key] = version, record
            at += 1
        version, record = newest.get((seen.sidecar, seen.key), ("", None))
        if timeline.stands_for(seen.key, seen.version, seen.document, seen.at) < version:
            yield WriteNotRead(f"{seen.key}: {seen.sidecar} showed {seen.version} after {version}", record, seen.record)


def at_least(history: History, timeline: Timeline) -> Iterator[NotReached]:
    """A read that names a version is answered with that version or a newer one, by any sidecar."""
    for read in history.reads:
        if (
            read.at_least
            and read.failure is None
            and timeline.stands_for(read.key, read.version, read.document, read.answered) < read.at_least
        ):
            yield NotReached(f"{read.key}: at least {read.at_least} was requested, {read.version} was shown", read)


def versions_only_grow(history: History, timeline: Timeline) -> Iterator[WentBack]:
    """In consecutive reads of a key on one sidecar a client sees growing versions. Only an absence may have an older version."""
    seen_by: defaultdict[tuple[str, str, Key], list[Seen]] = defaultdict(list)
    for seen in _reads(history):
        seen_by[seen.client, seen.sidecar, seen.key].append(seen)
    for (_, _, key), all_seen in seen_by.items():
        all_seen.sort(key=lambda seen: seen.invoked)
        for before, after in pairwise(all_seen):
            if before.at < after.invoked and after.version < before.version and after.document is not None:
                yield WentBack(f"{key}: {after.version} after {before.version}", before.record, after.record)


def converged(history: History, timeline: Timeline) -> Iterator[NotConverged]:
    """When the cluster has come to rest, all sidecars show the newest head, and brokers its document."""
    for read in (*history.reads, *history.raw):
        if not read.final:
            continue
        last = timeline.last(read.key)
        document = last.document if last is not None else None
        if read.failure is not None or read.document != document:
            yield NotConverged(f"{read.key}: {read.sidecar} does not show {document}", read)
        elif last is not None and document is not None and read.version not in (last.version, ""):
            yield NotConverged(f"{read.key}: {read.sidecar} does not show version {last.version}", read)


def _reads(history: History) -> Iterable[Seen]:
    for read in history.reads:
        if read.failure is None:
            yield Seen(read.client, read.sidecar, read.invoked, read.answered, read.key, read.version, read.document, read)
    for update in history.updates:
        answer = update.answer
        if isinstance(answer, Answer) and answer.outcome is not Outcome.APPLIED and not update.validate_only:
            yield Seen(update.client, update.sidecar, update.invoked, update.answered, update.key, answer.version, answer.document, update)


def _changes(history: History) -> Iterable[Seen]:
    for watch in history.watches:
        for message in watch.messages:
            if isinstance(message, Change):
                at = message.at
                yield Seen(watch.client, watch.sidecar, at, at, message.key, message.version, message.document, message)

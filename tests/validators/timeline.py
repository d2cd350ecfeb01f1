"""The true history of every policy key: its heads in the log, and the request of each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .documents import Document, Edit
from .records import ABSENT, NEVER, REPEATS, Answer, Head, History, Key, Outcome, Update


class Timeline:
    """The heads of a history, by key, by version and by request."""

    def __init__(self, history: History) -> None:
        heads: defaultdict[Key, list[Head]] = defaultdict(list)
        self.by_request: defaultdict[tuple[Key, str], list[Head]] = defaultdict(list)
        """The heads that each request made: at most one, if the service is correct."""
        for head in history.heads:
            heads[head.key].append(head)
            if head.request_id:
                self.by_request[head.key, head.request_id].append(head)
        self.heads: dict[Key, Sequence[Head]] = dict(heads)
        """The heads of each key in the log's order."""
        self._versions = {key: [head.version for head in each] for key, each in heads.items()}
        self._forgotten: defaultdict[Key, list[float]] = defaultdict(list)
        for at, key in history.forgotten:
            self._forgotten[key].append(at)
        self._erased: defaultdict[Key, list[float]] = defaultdict(list)
        for at, key in history.erased:
            self._erased[key].append(at)
        self.allowed: Counter[str] = Counter()
        """What was allowed only by a limit that docs/writers.md names, and how often."""
        attempts: defaultdict[tuple[Key, str], list[Update]] = defaultdict(list)
        for update in history.updates:
            if not update.validate_only:
                attempts[update.key, update.request_id].append(update)
        self.attempts: dict[tuple[Key, str], Sequence[Update]] = dict(attempts)
        """All attempts of each request, without dry runs."""
        self._edits: dict[tuple[Key, str], Edit] = {(each.key, each.version): each.edit for each in history.foreign}
        self._seen = {(each.key, each.version): each.seen for each in history.foreign}
        self._forgotten_deletions = history.forgotten_deletions
        for head in history.heads:
            first = attempts.get((head.key, head.request_id))
            if first:
                self._edits[head.key, head.version] = first[0].edit

    @property
    def keys(self) -> Iterable[Key]:
        """The keys that have a head."""
        return self.heads.keys()

    def edit(self, head: Head) -> Edit | None:
        """Returns the update that made a head; None if no record has it."""
        return self._edits.get((head.key, head.version))

    def at(self, key: Key, version: str) -> Head | None:
        """Returns the head with exactly this version; None if there is none."""
        head = self.newest(key, version)
        return head if head is not None and head.version == version else None

    def newest(self, key: Key, version: str) -> Head | None:
        """Returns the newest head up to a version, or up to a position in the key's partition."""
        index = bisect_right(self._versions.get(key, ()), version)
        return self.heads[key][index - 1] if index else None

    def between(self, key: Key, after: str, before: str) -> Sequence[Head]:
        """Returns the heads whose versions are between two others."""
        versions = self._versions.get(key, ())
        return self.heads.get(key, ())[bisect_right(versions, after) : bisect_left(versions, before)]

    def last(self, key: Key) -> Head | None:
        """Returns the newest head of a key."""
        heads = self.heads.get(key)
        return heads[-1] if heads else None

    def stands_for(self, key: Key, version: str, document: Document | None, at: float) -> str:
        """Returns the newest version that a sidecar may have read which showed this at that time.

        For a document this is the version itself. An absence may be shown with an older version than that of its deletion, because
        compaction erases the latter: so it counts as the newest absence at that time.
        """
        if document is not None:
            return version
        for head in reversed(self.heads.get(key, ())):
            if head.document is None and head.at <= at:
                return max(version, head.version)
        return version

    def may_precede(self, head: Head, version: str) -> bool:
        """Whether a head may have been applied to a version: to its own previous one, to one of the same absence, or to "", if unknown."""
        if version in ("", head.previous):
            return True
        before, named = self.newest(head.key, head.previous), self.at(head.key, version)
        return (before is None or before.document is None) and (named is None or named.document is None)

    def remembered(self, head: Head, until: float) -> bool:
        """Whether a repeat of the request that made a head must still be recognized at a time."""
        if any(head.at <= at <= until for at in self._forgotten[head.key]):
            return False
        later = sum(each.version > head.version and each.at <= until and bool(each.request_id) for each in self.heads[head.key])
        return later < REPEATS

    def taken_along(self, what: str, head: Head, until: float) -> bool:
        """Whether the log may have forgotten a head by some time, because the tombstone of a later deletion was compacted away.

        True only if that head or a later one deleted the key, and the tombstone was compacted away after that. To be called last, if a
        promise would be broken otherwise: each true answer is counted as ``what``.
        """
        deleted = next((each.at for each in self.heads[head.key] if each.version >= head.version and each.document is None), NEVER)
        taken = any(deleted <= at <= until for at in self._erased[head.key])
        self.allowed[what] += taken
        return taken

    def had_not_seen_a_forgotten_deletion(self, head: Head) -> bool:
        """Whether another writer computed a head's event without having read a deletion that every sidecar has forgotten.

        Nothing in the log tells of that deletion any more, so what the writer's document had from before counts as its change. To be
        called last, if a promise would be broken otherwise: each true answer is counted, as those of ``taken_along``.
        """
        seen = self._seen.get((head.key, head.version))
        unseen = seen is not None and any(
            each.key == head.key and each.since <= head.version and seen < each.deletion for each in self._forgotten_deletions
        )
        self.allowed["documents from before a deletion that nobody knew"] += unseen
        return unseen

    def was_a_guess(self, head: Head) -> bool:
        """Whether a head's event was computed by a sidecar that had not seen all events of the key, as its event says.

        What it answers may lack other writers' changes, until a sidecar that has seen more repairs the document. To be called last: each
        true answer is counted.
        """
        self.allowed["answers of a sidecar that had not seen everything"] += not head.informed
        return not head.informed

    def acknowledged(self) -> Iterable[tuple[Update, Answer]]:
        """Yields the attempts that were acknowledged with a version in the log, and their answers."""
        for attempts in self.attempts.values():
            for update in attempts:
                if (
                    isinstance(update.answer, Answer)
                    and update.answer.outcome is Outcome.APPLIED
                    and update.answer.version not in ("", ABSENT)
                ):
                    yield update, update.answer

"""The true history of every policy key: what the log came to, and which request made it so."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .documents import Document, Edit
from .records import ABSENT, NEVER, REPEATS, Answer, Head, History, Key, Outcome, Update


class Timeline:
    """A history's heads, by key, by version and by request."""

    def __init__(self, history: History) -> None:
        heads: defaultdict[Key, list[Head]] = defaultdict(list)
        self.by_request: defaultdict[tuple[Key, str], list[Head]] = defaultdict(list)
        """What a request made of its key: at most one head, if the service is right."""
        for head in history.heads:
            heads[head.key].append(head)
            if head.request_id:
                self.by_request[head.key, head.request_id].append(head)
        self.heads: dict[Key, Sequence[Head]] = dict(heads)
        """Each key's heads in order."""
        self._versions = {key: [head.version for head in each] for key, each in heads.items()}
        self._forgotten: defaultdict[Key, list[float]] = defaultdict(list)
        for at, key in history.forgotten:
            self._forgotten[key].append(at)
        self._erased: defaultdict[Key, list[float]] = defaultdict(list)
        for at, key in history.erased:
            self._erased[key].append(at)
        self.allowed: Counter[str] = Counter()
        """How often something was right only because a deletion was compacted away (``taken_along``)."""
        attempts: defaultdict[tuple[Key, str], list[Update]] = defaultdict(list)
        for update in history.updates:
            if not update.validate_only:
                attempts[update.key, update.request_id].append(update)
        self.attempts: dict[tuple[Key, str], Sequence[Update]] = dict(attempts)
        """All attempts of each request."""
        self._edits: dict[tuple[Key, str], Edit] = {(each.key, each.version): each.edit for each in history.foreign}
        for head in history.heads:
            first = attempts.get((head.key, head.request_id))
            if first:
                self._edits[head.key, head.version] = first[0].edit

    @property
    def keys(self) -> Iterable[Key]:
        """The keys of which the log knows anything."""
        return self.heads.keys()

    def edit(self, head: Head) -> Edit | None:
        """What was asked for that made a head; None if nobody knows."""
        return self._edits.get((head.key, head.version))

    def at(self, key: Key, version: str) -> Head | None:
        """The head of exactly this version."""
        head = self.newest(key, version)
        return head if head is not None and head.version == version else None

    def newest(self, key: Key, version: str) -> Head | None:
        """The newest head that is not newer than a version (or a position of the key's partition)."""
        index = bisect_right(self._versions.get(key, ()), version)
        return self.heads[key][index - 1] if index else None

    def between(self, key: Key, after: str, before: str) -> Sequence[Head]:
        """The heads whose versions lie between two others."""
        versions = self._versions.get(key, ())
        return self.heads.get(key, ())[bisect_right(versions, after) : bisect_left(versions, before)]

    def last(self, key: Key) -> Head | None:
        """The newest head of all."""
        heads = self.heads.get(key)
        return heads[-1] if heads else None

    def stands_for(self, key: Key, version: str, document: Document | None, at: float) -> str:
        """The newest version that somebody who showed this at some time may have been at.

        Of a document it is the version itself. An absence need not be told by the version that it began with, because compaction
        forgets that: it stands for the newest absence that there was at the time.
        """
        if document is not None:
            return version
        for head in reversed(self.heads.get(key, ())):
            if head.document is None and head.at <= at:
                return max(version, head.version)
        return version

    def may_precede(self, head: Head, version: str) -> bool:
        """Whether a version is what a head was applied to, or one of the absence that it was applied to; "" tells nothing."""
        if version in ("", head.previous):
            return True
        before, named = self.newest(head.key, head.previous), self.at(head.key, version)
        return (before is None or before.document is None) and (named is None or named.document is None)

    def remembered(self, head: Head, until: float) -> bool:
        """Whether repeats of the request that made a head are still to be recognized at some time."""
        if any(head.at <= at <= until for at in self._forgotten[head.key]):
            return False
        later = sum(each.version > head.version and each.at <= until and bool(each.request_id) for each in self.heads[head.key])
        return later < REPEATS

    def taken_along(self, what: str, head: Head, until: float) -> bool:
        """Whether the log knew nothing of a head any more at some time, because a compaction took along what the deletion behind it kept.

        That is so only if the key was deleted, by that head or a later one, and the tombstone was compacted away since. To be asked last,
        where a promise is broken otherwise: each time that it is so is counted as ``what``.
        """
        deleted = next((each.at for each in self.heads[head.key] if each.version >= head.version and each.document is None), NEVER)
        taken = any(deleted <= at <= until for at in self._erased[head.key])
        self.allowed[what] += taken
        return taken

    def acknowledged(self) -> Iterable[tuple[Update, Answer]]:
        """The attempts that were answered with a place in the log."""
        for attempts in self.attempts.values():
            for update in attempts:
                if (
                    isinstance(update.answer, Answer)
                    and update.answer.outcome is Outcome.APPLIED
                    and update.answer.version not in ("", ABSENT)
                ):
                    yield update, update.answer

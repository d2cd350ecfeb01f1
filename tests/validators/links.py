"""The proof that acknowledged updates are complete: each version is the previous version of the next one, along a key's whole history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Link(NamedTuple):
    """One acknowledged update of a policy key."""

    request_id: str
    previous: str
    """Empty in the answer to a repeat if the log no longer has the previous version, because it was compacted."""
    version: str
    """Empty in the answer to a repeat whose own event was compacted away: it was applied, but its position is not known."""


class Chain(NamedTuple):
    """The whole history of a key, from its first absence on."""

    links: list[Link]
    forks: list[tuple[Link, Link]]
    """Pairs of updates that were applied to the same version: one of them was lost."""
    loose: list[Link]
    """Updates that no sequence of acknowledged updates leads to."""
    twice: list[str]
    """Requests that were acknowledged with two versions."""

    @property
    def broken(self) -> bool:
        """Whether an update was lost or applied twice."""
        return bool(self.forks or self.loose or self.twice)


def chain(links: Iterable[Link], start: str = "0") -> Chain:
    """Orders the acknowledged updates of one key. A request that was answered several times counts once.

    An update whose previous version is not known any more is placed by its own version, into a gap of the chain; one of which neither is
    known, into any gap that is left. Versions are compared as strings.
    """
    following: dict[str, Link] = {}
    unplaced: list[Link] = []
    forks: list[tuple[Link, Link]] = []
    versions: dict[str, str] = {}
    twice: list[str] = []
    nowhere: set[str] = set()
    for link in links:
        if not link.version:
            nowhere.add(link.request_id)
            continue
        if link.request_id in versions:
            if versions[link.request_id] != link.version:
                twice.append(link.request_id)
            continue
        versions[link.request_id] = link.version
        if not link.previous:
            unplaced.append(link)
            continue
        other = following.setdefault(link.previous, link)
        if other.request_id != link.request_id:
            forks.append((other, link))
    nowhere -= versions.keys()
    ordered: list[Link] = []
    version = start
    unplaced.sort(key=lambda link: link.version, reverse=True)
    while following or unplaced:
        if version in following:
            ordered.append(following.pop(version))
        elif unplaced and unplaced[-1].version > version:
            ordered.append(unplaced.pop())
        elif nowhere and (later := min((each for each in following if each > version), default="")):
            nowhere.pop()
            ordered.append(following.pop(later))
        else:
            break
        version = ordered[-1].version
    return Chain(ordered, forks, [*following.values(), *unplaced], twice)

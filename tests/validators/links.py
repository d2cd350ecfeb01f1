"""What acknowledged updates prove about themselves: each version is the next one's previous version, along the whole history of a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Link(NamedTuple):
    """One acknowledged update of a policy key."""

    request_id: str
    previous: str
    """Empty in the answer to a repeat, if the log was compacted and no longer tells."""
    version: str
    """Empty in the answer to a repeat whose own event was compacted away: it was applied, but nothing tells where."""


class Chain(NamedTuple):
    """All of a key's history, from its absence on."""

    links: list[Link]
    forks: list[tuple[Link, Link]]
    """Two updates that were applied to the same version: one of them was lost."""
    loose: list[Link]
    """Updates that do not follow from the absence by acknowledged updates."""
    twice: list[str]
    """Requests that were acknowledged with two versions."""

    @property
    def broken(self) -> bool:
        """Whether anything was lost or applied twice."""
        return bool(self.forks or self.loose or self.twice)


def chain(links: Iterable[Link], start: str = "0") -> Chain:
    """Puts acknowledged updates of one key in their order. A request that was answered several times counts once.

    An update whose previous version is not known any more has its place by its own version, where the chain has a gap; one of which neither
    is known, in any gap that is left. Versions are compared as strings.
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

"""Who declared what: the owners of declarations, as the events of the history name them.

A change that carries out a declaration names its owner. A path belongs to the owner of the newest such change of it; a change without an
owner takes it from nobody. A deletion ends all ownership of a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topicpolicies.masks import Path, parse_path


class Declaring(NamedTuple):
    """What an event says about owners."""

    owner: str
    """Whose declaration it carried out; empty: none."""
    mask: Sequence[str]
    """The paths that it changed; empty: it deleted the document."""


def declaring(owner: str, mask: Sequence[str], *, there: bool) -> Declaring:
    """Returns what an event that changed a document says. ``mask``: empty if it changed all; ``there``: whether it left a document."""
    return Declaring(owner, (mask or ("*",)) if there else ())


def owned_by_others(paths: Iterable[str], owner: str, events: Iterable[Declaring]) -> dict[str, str]:
    """Returns the paths that belong to another owner, and to whom.

    Args:
        paths: the paths of one document that are to be changed.
        owner: who wants to change them; empty: nobody in particular.
        events: the events of the document that changed it, the newest first.
    """
    left = {path: parse_path(path) for path in paths}
    found: dict[str, str] = {}
    for event in events:
        if not left or not event.mask:
            break
        if event.owner:
            changed = [() if each == "*" else parse_path(each) for each in event.mask]
            touched = [path for path, parsed in left.items() if any(overlap(parsed, each) for each in changed)]
            found |= {path: event.owner for path in touched if event.owner != owner}
            left = {path: parsed for path, parsed in left.items() if path not in touched}
    return found


def overlap(one: Path, other: Path) -> bool:
    """Whether a path is, contains or is inside another one."""
    return all(ours == theirs for ours, theirs in zip(one, other, strict=False))

"""Plans: the settings of a document that a mask names, whatever the values are that come with it.

Masks repeat, so the plans of short ones are cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from topicpolicies.masks import Path, PathError, parse_path

from ..errors import Violation
from ..policies import documents
from ..policies.documents import EXTRA_PREFIX, FIELDS, GROUPS, MAPS, Document, Setting
from . import masks
from .masks import Mask

T = TypeVar("T")
_REMEMBERED = 4_096
_REMEMBERED_LENGTH = 1_024
"""Most characters and paths, added up, of a mask that is cached: long ones would take too much memory."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A mask, read and sorted by the settings that it names."""

    mask: Mask
    """The valid paths."""
    paths: tuple[str, ...]
    """The canonical texts of the valid paths; ``("*",)`` replaces the document."""
    violations: tuple[Violation, ...]
    """What is wrong with the other paths."""
    whole: bool
    """Whether the mask is ``*``."""
    by_setting: Mapping[Setting, Mask]
    """The named settings, each with the paths that name it or leaves of it."""
    settings: frozenset[Setting]
    """The named settings: the keys of ``by_setting``."""
    partial: frozenset[Setting]
    """The settings of which only some leaves are named."""
    families: frozenset[str]
    """The map fields that are named without a key: all their entries are replaced."""
    ready: Mask
    """The paths without those of partial settings: values whose completion does not depend on the document."""
    objects: Mask
    """The paths that name whole objects or whole maps."""


def paths_of(setting: Setting) -> Mask:
    """Returns the paths that together name all of a setting."""
    name, separator, key = setting.partition("/")
    if separator:
        return ((name, key),)
    return tuple((field,) for field, group in GROUPS.items() if group == name) or ((name,),)


def touched_by(paths: tuple[str, ...], head: Document | None, document: Document | None) -> Sequence[Setting]:
    """Returns the settings that the fold takes from the document of an operation; those that the document lacks are removed from the head.

    For ``*`` these are all settings of both, except those that only a newer broker knows. Paths of a newer sidecar are followed as far as
    this version can; a text that is not a path names nothing.
    """
    whole, settings, families = _targets_of(paths)
    if not (whole or families):
        return settings
    either = dict.fromkeys([*(head or ()), *(document or ())])
    if whole:
        return [setting for setting in either if not setting.startswith(EXTRA_PREFIX)]
    return [*settings, *(setting for setting in either if documents.family(setting) in families and setting not in settings)]


def _plan(paths: tuple[str, ...]) -> Plan:
    mask, violations = masks.read(paths)
    by_setting: dict[Setting, list[Path]] = {}
    families = frozenset(path[0] for path in mask if len(path) == 1 and path[0] in MAPS)
    for path in mask:
        if path and path[0] not in families:
            by_setting.setdefault(_setting(path), []).append(path)
    maps = {(name,) for name in MAPS}
    whole = {setting for setting, named in by_setting.items() if all(masks.covers(named, path) for path in paths_of(setting))}
    partial = frozenset(by_setting.keys() - whole)
    return Plan(
        mask,
        masks.texts(mask),
        violations,
        () in mask,
        {setting: tuple(named) for setting, named in by_setting.items()},
        frozenset(by_setting),
        partial,
        families,
        tuple(path for path in mask if not path or path[0] in families or _setting(path) not in partial),
        tuple(path for path in mask if path in maps or masks.object_at(path)),
    )


def _targets(paths: tuple[str, ...]) -> tuple[bool, tuple[Setting, ...], frozenset[str]]:
    """Returns whether the paths name the whole document, the settings that they name, and the map fields that they name without a key."""
    settings: dict[Setting, None] = {}
    families: set[str] = set()
    for text in paths:
        try:
            path = parse_path(text)
        except PathError:
            continue
        if not path:
            return True, (), frozenset()
        if path[0] not in FIELDS:
            settings[EXTRA_PREFIX + _camel(path[0])] = None
        elif path[0] in MAPS and len(path) == 1:
            families.add(path[0])
        else:
            settings[_setting(path)] = None
    return False, tuple(settings), frozenset(families)


def _camel(name: str) -> str:
    """Returns a field's name in camel case, as in Avro: settings of a newer broker have such names."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _setting(path: Path) -> Setting:
    return documents.setting_of(path[0], path[1] if path[0] in MAPS else None)


def _with_cache(function: Callable[[tuple[str, ...]], T]) -> Callable[[tuple[str, ...]], T]:
    """Returns a function of a mask's paths with a cache, for short masks."""
    cached = functools.lru_cache(_REMEMBERED)(function)

    def of(paths: tuple[str, ...]) -> T:
        return (cached if len(paths) + len("".join(paths)) <= _REMEMBERED_LENGTH else function)(paths)

    return of


plan_of = _with_cache(_plan)
"""Returns the plan of a request's paths."""
_targets_of = _with_cache(_targets)

"""Permissions by a file (TOML), which is read again when it changes (``files``). docs/security.md has an example.

``change`` and ``watch`` include ``read``: an update's answer, and a watch's beginning, contain documents. What is not granted is denied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import files
from ..config.address import is_pattern, matching
from ..files import Reloader
from .caller import EVERYTHING, NOTHING, Granted, Permission

_EVERYBODY = _ALL = "*"
_REMEMBERED = 10_000
_INCLUDED = {Permission.CHANGE: Permission.READ, Permission.WATCH: Permission.READ}
_WORDS = ", ".join(each.value for each in Permission)


class Grant(NamedTuple):
    """The permissions of some roles in some namespaces."""

    roles: frozenset[str]
    namespaces: re.Pattern[str]
    permissions: Granted


class Contents(NamedTuple):
    """The contents of a file. ``superusers``: the roles that may do everything."""

    superusers: frozenset[str] = frozenset()
    grants: tuple[Grant, ...] = ()

    def permissions(self, role: str, namespace: str) -> Granted:
        """Returns the permissions of a role in a namespace."""
        if not role:
            return NOTHING
        if role in self.superusers:
            return EVERYTHING
        granted = (
            grant.permissions
            for grant in self.grants
            if (role in grant.roles or _EVERYBODY in grant.roles) and grant.namespaces.fullmatch(namespace)
        )
        return NOTHING.union(*granted)


class RolesFile:
    """Grants by a file, which ``reloader`` reads again."""

    def __init__(self, path: Path, reloader: Reloader) -> None:
        """Reads the file, and has ``reloader`` read it again when it changes; if it is wrong then, the former contents stay in force.

        Raises:
            RuntimeError: the file can't be used; the error lists everything that is wrong with it.
        """
        reloader.follow("authorization file", path, lambda content: parse(content.decode()), self._take)

    def granted(self, role: str, namespace: str) -> Granted:
        """Returns the permissions of a role in a namespace (``grants.Granting``)."""
        return self._permissions(role, namespace)

    def _take(self, contents: Contents) -> None:
        self._permissions = lru_cache(_REMEMBERED)(contents.permissions)


def parse(text: str) -> Contents:
    """Parses a file's text.

    Raises:
        ValueError: the text is no TOML, or something is wrong with it; the error lists all problems, each with its place.
    """
    document = files.toml(text)
    problems: list[str] = []
    _known(document, ("superusers", "grants"), "", problems)
    superusers = _texts(document, "superusers", "", problems)
    if _EVERYBODY in superusers:
        problems.append('superusers has "*", which would let every caller do everything: name the roles')
    grants = document.get("grants", [])
    if not isinstance(grants, list):
        problems.append("grants is not a list of tables: write [[grants]]")
        grants = []
    found = tuple(_grant(grant, f"grants[{index}]", problems) for index, grant in enumerate(grants))
    if problems:
        raise ValueError("; ".join(problems))
    return Contents(frozenset(superusers), found)


def _grant(grant: object, place: str, problems: list[str]) -> Grant:
    if not isinstance(grant, dict):
        problems.append(f"{place} is not a table: write [[grants]]")
        return Grant(frozenset(), matching(()), NOTHING)
    _known(grant, Grant._fields, f"{place}.", problems)
    problems += [f"{place} has no {name}" for name in Grant._fields if name not in grant]
    patterns = _texts(grant, "namespaces", f"{place}.", problems)
    for index, text in enumerate(patterns):
        if text != _ALL and not is_pattern(text):
            problems.append(f'{place}.namespaces[{index}] is "{text}": write tenant/namespace, with * for any characters, or * alone')
    permissions: set[Permission] = set()
    for index, word in enumerate(_texts(grant, "permissions", f"{place}.", problems)):
        try:
            permissions.add(Permission(word))
        except ValueError:
            problems.append(f'{place}.permissions[{index}] is "{word}": it may be one of {_WORDS}')
    permissions.update(_INCLUDED[each] for each in tuple(permissions) if each in _INCLUDED)
    roles = _texts(grant, "roles", f"{place}.", problems)
    return Grant(frozenset(roles), matching(patterns), frozenset(permissions))


def _known(table: Mapping[str, Any], names: tuple[str, ...], before: str, problems: list[str]) -> None:
    problems += [f"{before}{name} is not a known key" for name in sorted(set(table) - set(names))]


def _texts(table: Mapping[str, Any], name: str, before: str, problems: list[str]) -> list[str]:
    """Returns a list of texts of a table, none of them empty."""
    given = table.get(name, [])
    if not isinstance(given, list):
        problems.append(f"{before}{name} is not a list")
        return []
    wrong = [index for index, each in enumerate(given) if not isinstance(each, str) or not each]
    problems += [f"{before}{name}[{index}] is not a text, or empty" for index in wrong]
    return [each for each in given if isinstance(each, str) and each]

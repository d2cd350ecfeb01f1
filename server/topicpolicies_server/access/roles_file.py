"""Who may do what, by a file (TOML), which is read again when it changes.

::

    superusers = ["admin"]                                # they may do everything, everywhere

    [[grants]]
    roles = ["reader", "dashboard"]                       # "*" is whoever has shown who he is
    namespaces = ["acme/*", "public/default"]             # "*" stands for any characters but the slash; "*" alone is all
    permissions = ["read", "watch"]                       # of read, watch, change, history, secrets

``change`` and ``watch`` include ``read``: an update's answer, and what a watch begins with, is a document. What nobody granted is denied.

============  =============================================  ============================================================
the file      what is in force                               what is told
============  =============================================  ============================================================
as it was     what was                                       nothing
another, good it                                             a line
another, bad  what was                                       all that is wrong with it, once
gone          what was                                       that, once
============  =============================================  ============================================================
"""

from __future__ import annotations

import asyncio
import logging
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..core.reasons import Reason
from ..logs.change_log import LogError
from ..tasks import Kept
from .authority import Permission

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""How often it is looked whether the file has changed."""
MOST_BYTES = 4 << 20
"""A larger file is not read."""
_EVERYBODY = "*"
_PATTERN = re.compile(r"\*|[-=:.\w*]+/[-=:.\w*]+", re.ASCII)
_REMEMBERED = 10_000
"""Pairs of a role and a namespace whose permissions are remembered."""
_ALL = frozenset(Permission)
_NONE: frozenset[Permission] = frozenset()
_INCLUDED = {Permission.CHANGE: Permission.READ, Permission.WATCH: Permission.READ}
_WORDS = ", ".join(each.value for each in Permission)


class Grant(NamedTuple):
    """What some roles may do in some namespaces."""

    roles: frozenset[str]
    namespaces: tuple[re.Pattern[str], ...]
    permissions: frozenset[Permission]


class Contents:
    """What a file says. It does not change."""

    def __init__(self, superusers: frozenset[str], grants: tuple[Grant, ...]) -> None:
        """``superusers``: may do everything."""
        self.superusers = superusers
        self.grants = grants
        self._known: dict[tuple[str, str], frozenset[Permission]] = {}

    def permissions(self, role: str, namespace: str) -> frozenset[Permission]:
        """What a role may do in a namespace."""
        asked = (role, namespace)
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[asked] = self._found(role, namespace)
        return found

    def _found(self, role: str, namespace: str) -> frozenset[Permission]:
        if not role:
            return _NONE
        if role in self.superusers:
            return _ALL
        granted = (
            grant.permissions
            for grant in self.grants
            if (role in grant.roles or _EVERYBODY in grant.roles) and any(each.fullmatch(namespace) for each in grant.namespaces)
        )
        return _NONE.union(*granted)


class RolesFile:
    """Decides by a file (``authority.Roles``). It belongs to the event loop that starts it."""

    def __init__(self, path: Path, *, look_seconds: float = LOOK_SECONDS) -> None:
        """``path``: of the file, which ``start`` reads."""
        self._path = path
        self._seconds = look_seconds
        self._seen: object = None
        """The file's stamp when it was read last, or why it could not be."""
        self._contents = Contents(frozenset(), ())
        self._looking = Kept("the look at the authorization file", self._look)

    async def start(self) -> None:
        """Reads the file, and looks from now on whether it has changed.

        Raises:
            LogError: it can't be used; the error says all that is wrong with it.
        """
        try:
            self._seen, text = await asyncio.to_thread(_read, self._path)
            self._contents = parse(text)
        except (OSError, ValueError) as error:
            raise LogError(Reason.AUTHORIZATION_UNKNOWN, f'The authorization file "{self._path}" can\'t be used: {error}.') from error
        self._looking.start()

    def at_once(self, role: str, namespace: str, permission: Permission) -> bool:
        """Whether a role may."""
        return permission in self._contents.permissions(role, namespace)

    async def may(self, role: str, namespace: str, permission: Permission) -> bool:
        """Whether a role may."""
        return self.at_once(role, namespace, permission)

    async def look(self) -> None:
        """Reads the file again, if it has changed. What is wrong with it is told once; until it is mended, what it said before holds."""
        stamp: object = None
        try:
            stamp = await asyncio.to_thread(_stamp, self._path)
            if stamp == self._seen:
                return
            stamp, text = await asyncio.to_thread(_read, self._path)
            self._contents, self._seen = parse(text), stamp
        except OSError as error:
            self._tell(error.strerror or str(error), error.strerror or str(error))
        except ValueError as error:
            self._tell(stamp, str(error))
        else:
            _LOG.info('the authorization file "%s" was read anew', self._path)

    async def close(self) -> None:
        """Looks no more."""
        await self._looking.stop()

    def _tell(self, seen: object, problem: str) -> None:
        if seen != self._seen:
            self._seen = seen
            _LOG.error('the authorization file "%s" can\'t be used, and what it said before holds: %s', self._path, problem)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self.look()


def parse(text: str) -> Contents:
    """Reads a file's text.

    Raises:
        ValueError: it is no TOML, or something is wrong with it; the error says all of that, each with its place.
    """
    document = tomllib.loads(text)
    problems: list[str] = []
    _known(document, ("superusers", "grants"), "", problems)
    superusers = _texts(document, "superusers", "", problems)
    if _EVERYBODY in superusers:
        problems.append('superusers has "*", and would let everybody do everything: name the roles')
    grants = document.get("grants", [])
    if not isinstance(grants, list):
        problems.append("grants is no list of tables: write [[grants]]")
        grants = []
    found = tuple(_grant(grant, f"grants[{index}]", problems) for index, grant in enumerate(grants))
    if problems:
        raise ValueError("; ".join(problems))
    return Contents(frozenset(superusers), found)


def _grant(grant: object, place: str, problems: list[str]) -> Grant:
    if not isinstance(grant, dict):
        problems.append(f"{place} is no table: write [[grants]]")
        return Grant(frozenset(), (), _NONE)
    _known(grant, Grant._fields, f"{place}.", problems)
    problems += [f"{place} has no {name}" for name in Grant._fields if name not in grant]
    patterns = _texts(grant, "namespaces", f"{place}.", problems)
    for index, text in enumerate(patterns):
        if not _PATTERN.fullmatch(text):
            problems.append(f'{place}.namespaces[{index}] is "{text}": write tenant/namespace, with * for any characters, or * alone')
    permissions: set[Permission] = set()
    for index, word in enumerate(_texts(grant, "permissions", f"{place}.", problems)):
        try:
            permissions.add(Permission(word))
        except ValueError:
            problems.append(f'{place}.permissions[{index}] is "{word}": it may be one of {_WORDS}')
    permissions.update(_INCLUDED[each] for each in tuple(permissions) if each in _INCLUDED)
    roles = _texts(grant, "roles", f"{place}.", problems)
    return Grant(frozenset(roles), tuple(map(_compiled, patterns)), frozenset(permissions))


def _known(table: Mapping[str, Any], names: tuple[str, ...], before: str, problems: list[str]) -> None:
    problems += [f"{before}{name} means nothing" for name in sorted(set(table) - set(names))]


def _texts(table: Mapping[str, Any], name: str, before: str, problems: list[str]) -> list[str]:
    """A list of texts, none of them empty."""
    given = table.get(name, [])
    if not isinstance(given, list):
        problems.append(f"{before}{name} is no list")
        return []
    wrong = [index for index, each in enumerate(given) if not isinstance(each, str) or not each]
    problems += [f"{before}{name}[{index}] is no text, or an empty one" for index in wrong]
    return [each for each in given if isinstance(each, str) and each]


def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern == _EVERYBODY:
        return re.compile(".*")
    return re.compile("[^/]*".join(map(re.escape, pattern.split("*"))))


def _stamp(path: Path) -> object:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[object, str]:
    """Its stamp, and its text. The stamp is taken first: what changes meanwhile is read again."""
    stamp = _stamp(path)
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return stamp, raw.decode()

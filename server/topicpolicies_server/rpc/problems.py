"""Reads the fields of requests, and collects their violations so that a request is refused with all of them at once.

Sizes are checked before anything is built from a field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from functools import lru_cache
from typing import NamedTuple, TypeVar

from topicpolicies.v1 import policies_pb2

from ..core.errors import PolicyError, Violation, invalid
from ..core.names import PolicyKey, Scope, parse_topic
from ..core.reasons import ViolationReason

MOST_VERSION = 256
MOST_ACTOR = 256
MOST_REASON = 1_024
MOST_TOKEN = 8_192
DEFAULT_PAGE, MOST_PAGE = 100, 1_000
"""Entries of a page: unless the request names a size, and at most."""
_T = TypeVar("_T")


class Problems:
    """Collects the violations of one request."""

    def __init__(self, at: str = "") -> None:
        """``at``: the prefix of field names, for a request inside another one (``changes[3].update.``)."""
        self._at = at
        self._violations: list[Violation] = []

    def add(self, field: str, reason: ViolationReason, description: str) -> None:
        """Notes a violation."""
        self._violations.append(Violation(self._at + field, reason, description))

    def note(self, error: PolicyError) -> None:
        """Notes the violations of an error; an error without violations is raised again."""
        if not error.violations:
            raise error
        self._violations += [violation._replace(field=self._at + violation.field) for violation in error.violations]

    def gather(self, read: Callable[[str, str], _T], text: str, field: str) -> _T | None:
        """Returns what ``read`` makes of a field's text; None if it raises violations, which are noted."""
        try:
            return read(text, field)
        except PolicyError as error:
            self.note(error)
            return None

    def text(self, text: str, field: str, most: int) -> str:
        """Returns a text; "" if it has more than ``most`` characters, which is noted."""
        if len(text) > most:
            self.add(field, ViolationReason.TOO_LONG, f"{field} has {len(text):,} characters; at most {most:,} are allowed.")
            return ""
        return text

    def few(self, elements: Sized, field: str, most: int) -> bool:
        """Returns whether a repeated field has at most so many elements; otherwise that is noted."""
        if len(elements) <= most:
            return True
        self.add(field, ViolationReason.TOO_MANY_ELEMENTS, f"{field} has {len(elements):,} elements; at most {most:,} are allowed.")
        return False

    def version(self, version: str, field: str) -> str:
        """Returns a version; one that can't be a version is noted. "" means that none is named."""
        if len(version) > MOST_VERSION or not version.isascii():
            self.add(field, ViolationReason.MALFORMED_VERSION, f"{field} is not a version of this service.")
        return version

    def page_size(self, size: int) -> int:
        """Returns how many entries a page may have. A size above ``MOST_PAGE`` is reduced, not refused (AIP-158)."""
        if size < 0:
            self.add("page_size", ViolationReason.OUT_OF_BOUNDS, f"page_size must be 0 or more, not {size}.")
        return min(size, MOST_PAGE) or DEFAULT_PAGE

    def __len__(self) -> int:
        return len(self._violations)

    def check(self) -> None:
        """Raises INVALID_ARGUMENT if anything was noted."""
        if self._violations:
            raise invalid(*self._violations)


class Topic(NamedTuple):
    """A topic: its full name, its namespace, and its policy keys."""

    full: str
    namespace: str
    keys: tuple[PolicyKey, ...]
    """The policy keys in the order of their scopes' numbers, which begin with 1."""
    is_system_topic: bool
    """Whether it is one of Pulsar's own, whose policies can only be read and deleted."""

    def key(self, scope: Scope) -> PolicyKey:
        """Returns the policy key of a scope: the same object for all requests while the topic is cached."""
        return self.keys[scope - 1]


def read_topic(text: str, problems: Problems, field: str = "topic") -> Topic | None:
    """Reads a topic; None if its name is invalid, which is noted."""
    try:
        return _known_topic(text, field)
    except PolicyError as error:
        problems.note(error)
        return None


@lru_cache(maxsize=4096)
def _known_topic(text: str, field: str) -> Topic:
    name = parse_topic(text, field)
    full = str(name)
    return Topic(full, name.namespace, tuple(PolicyKey(full, scope) for scope in Scope), name.is_system_topic)


def read_scope(number: int, problems: Problems, field: str = "scope") -> Scope:
    """Reads a scope; unset means LOCAL, as for ``pulsar-admin``."""
    if number == policies_pb2.SCOPE_UNSPECIFIED:
        return Scope.LOCAL
    try:
        return Scope(number)
    except ValueError:
        problems.add(field, ViolationReason.UNKNOWN_SCOPE, f"{number} is not a scope: use SCOPE_LOCAL or SCOPE_GLOBAL.")
        return Scope.LOCAL


def read_scopes(numbers: Sequence[int], problems: Problems) -> frozenset[Scope]:
    """Reads a list of scopes; an empty one means all."""
    if not numbers or not problems.few(numbers, "scopes", len(Scope)):
        return frozenset(Scope)
    found: set[Scope] = set()
    for index, number in enumerate(numbers):
        field = f"scopes[{index}]"
        if number == policies_pb2.SCOPE_UNSPECIFIED:
            problems.add(field, ViolationReason.UNKNOWN_SCOPE, "Name SCOPE_LOCAL or SCOPE_GLOBAL, or leave scopes empty for both.")
            continue
        known = len(problems)
        scope = read_scope(number, problems, field)
        if len(problems) > known:
            continue
        if scope in found:
            problems.add(field, ViolationReason.REPEATED_SCOPE, f"{scope.name} is named twice: name each scope once.")
        found.add(scope)
    return frozenset(found)

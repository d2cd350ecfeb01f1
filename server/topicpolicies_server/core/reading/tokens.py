"""Resume tokens, so that a watch that goes on misses nothing: what a watcher wants, and where it stands.

To clients a token is an opaque text. It is not signed, and grants nothing. A position in the history (``WatchHistory``) is the number of an
entry in this server's record, in digits of fixed width so that string order is the order of the record, and behind it such a text: another
server that follows the same log goes on from that.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterable
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from ..names import PolicyKey, Scope
from ..policies.events import Position
from .cell import Head
from .view import HeadPlace

MOST_TEXT = 65_536
"""The most characters of a token's text: a log may have 1,024 partitions."""
_FORM = "1"
_DIGITS = 16


class Mode(enum.IntEnum):
    """Which changes a watcher that falls behind still gets. The numbers are those of ``topicpolicies.v1.WatchMode``."""

    LATEST = 1
    EVERY = 2


class Token(NamedTuple):
    """A place in a namespace's log: the log's identity, and a position per partition."""

    log: str
    positions: tuple[Position, ...]
    left_out: str = ""
    """Names the topics that were left out because their policies are disabled; empty: none were."""

    def widened(self, partitions: int) -> Token:
        """Returns the same place for a log that has at least so many partitions by now."""
        return self._replace(positions=(*self.positions, *[""] * (partitions - len(self.positions))))

    def reaches(self, other: Token) -> bool:
        """Returns whether this place is at or after another place of the same log in every partition."""
        return all(theirs <= mine for mine, theirs in zip_longest(self.positions, other.positions, fillvalue=""))

    def furthest(self, other: Token) -> Token:
        """Returns the place with the greater position of two places of the same log in each partition."""
        pairs = zip_longest(self.positions, other.positions, fillvalue="")
        return self._replace(positions=tuple(max(pair) for pair in pairs))

    def moved(self, heads: Iterable[Head]) -> Token:
        """Returns the place after some changes, which are in the order of the log."""
        token = self
        for head in {head.partition: head for head in heads if head.placed is not None}.values():
            token = token.at(head.partition, head.position)
        return token

    def at(self, partition: int, position: Position) -> Token:
        """Returns the place after an event of a partition."""
        positions = list(self.widened(partition + 1).positions)
        positions[partition] = max(positions[partition], position)
        return self._replace(positions=tuple(positions))

    def is_before(self, head: Head | HeadPlace) -> bool:
        """Returns whether a change stands after this place."""
        return head.partition >= len(self.positions) or head.position > self.positions[head.partition]


NOTHING_READ = Token("", (), "*")
"""The place of a client that sees nothing of a namespace's log, because its topic policies are disabled. A watch that resumes from it
begins anew."""


@lru_cache(256)
def write(token: Token) -> str:
    """Returns a token as a text; "" if that would be longer than ``MOST_TEXT``."""
    content = "\0".join((_FORM, token.left_out, token.log, *token.positions))
    text = base64.urlsafe_b64encode(content.encode()).decode()
    return text if len(text) <= MOST_TEXT else ""


def read(text: str) -> Token:
    """Reads a token.

    Raises:
        ValueError: the text is none.
    """
    if len(text) <= MOST_TEXT:
        form, left_out, log, *positions = base64.b64decode(text, b"-_", validate=True).decode().split("\0")
        if form == _FORM:
            return Token(log, tuple(positions), left_out)
    raise ValueError("not a token of this service")


def write_position(number: int, token: Token) -> str:
    """Returns the position behind an entry of the history; ``number`` 0: before every entry."""
    return f"{number:0{_DIGITS}x}{write(token)}"


def read_position(text: str) -> Token:
    """Returns the place of a position in the log.

    Raises:
        ValueError: the text is no position.
    """
    int(text[:_DIGITS], 16)
    return read(text[_DIGITS:])


class Selection(NamedTuple):
    """The policy keys of a namespace that a watcher wants."""

    topics: frozenset[str] | None
    """The full names of the wanted topics; None: all topics."""
    scopes: frozenset[Scope] = frozenset(Scope)

    def includes(self, key: PolicyKey) -> bool:
        """Returns whether a policy key is wanted."""
        return key.scope in self.scopes and (self.topics is None or key.topic in self.topics)

    def keys(self) -> list[PolicyKey] | None:
        """Returns the wanted keys in order; None: all topics are wanted."""
        if self.topics is None:
            return None
        return [PolicyKey(topic, scope) for topic in sorted(self.topics) for scope in sorted(self.scopes)]


class OutOfRange(Exception):
    """A watcher can't resume from a token, and must start over with a snapshot.

    The token is of another log, older than the horizon, or ahead of a log that this sidecar alone writes.

    Attributes:
        older: whether the token is of this log, but too old: the history may have the changes since.
    """

    def __init__(self, why: str, *, older: bool = False) -> None:
        super().__init__(why)
        self.older = older


class Lagged(Exception):
    """A watcher is behind: it must resume from where it stands (``Watcher.resume_from``), or begin anew.

    EVERY: changes that it is owed have left the ring, or may be gone as the view was replaced. LATEST: deletions that it is owed are
    forgotten, or a head was corrected under a version that readers do not take for newer (``WatchHub.publish``).
    """


class Replaced(Exception):
    """The log that was watched has been replaced by another one: begin with a snapshot."""

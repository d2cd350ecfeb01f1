"""How much all namespaces of a server may keep in memory together.

Policy keys are counted, and the bytes that they take, by estimate (``memory_of``). Where there is no room, namespaces that nobody uses are
closed, the idlest first. If that is not enough, no namespace is loaded for the first time, and no update makes a key;
what is loaded goes on being served, and takes what others write. So more may be kept than may be, which is told:

=====  ==================================================  =====  ================================================================
state  what happens                                        next   what is done
=====  ==================================================  =====  ================================================================
ROOM   more is kept than may be                            ROOM   what is idle is given up, as much as it takes
ROOM   the same, and nothing is idle                       OVER   one line in the log
OVER   a thousandth more is kept than at the last try      OVER   what has become idle is given up
OVER   a hundredth less is kept than may be                ROOM   one line in the log
=====  ==================================================  =====  ================================================================

A try looks at every namespace, which would be too much for each event of a busy one; and at the border keys come and go. The namespace
that has grown is not given up for itself, however idle: it might not be loaded again.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable

from ..core.errors import Kind
from ..core.reasons import Reason
from ..logs.change_log import LogError

_LOG = logging.getLogger(__name__)
KEY_BYTES = 800
"""What a key takes besides its document: its name, its places in the orders of its view, and what the fold keeps of it."""
DOCUMENT_BYTES = 3
"""What each byte of a serialized document takes: a document has the names of its settings too, and brokers may have shown another one."""
_TRY_AGAIN = 1_000
"""A further try to make room is worth it when so manieth a part of the most has been added."""
_ROOM_AGAIN = 100
"""There is room again when so manieth a part of the most is free."""


class State(enum.Enum):
    """Whether more is kept than may be, as the server's log was told."""

    ROOM = enum.auto()
    OVER = enum.auto()


def memory_of(keys: int, size: int) -> int:
    """Bytes that so many policy keys take in memory, by estimate.

    Measured with documents of 8 to 1,400 bytes it is 0.9 to 1.2 times what they take once nobody has to do with them; 0.6 times where a
    repair is due, so that two documents are kept.

    Args:
        keys: policy keys, absent documents included.
        size: bytes of their documents, serialized.
    """
    return keys * KEY_BYTES + size * DOCUMENT_BYTES


class Capacity:
    """What is kept in memory, and how much it may be."""

    def __init__(self, most_keys: int, most_bytes: int, evict: Callable[[str], bool] = lambda _: False) -> None:
        """Nothing is kept.

        Args:
            most_keys: policy keys that may be kept.
            most_bytes: bytes that they may take in memory, by estimate.
            evict: gives up what is idle, a part of it, at once, but for a namespace that is named. Returns False when there is nothing.
        """
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self._evict = evict
        self.keys = 0
        """Policy keys that are kept."""
        self.documents = 0
        """Bytes of documents that are kept, serialized."""
        self._state = State.ROOM
        self._tried = (0, 0)
        """In OVER: the keys and bytes that were kept after the last try to make room."""

    @property
    def bytes(self) -> int:
        """What is kept takes so many bytes in memory, by estimate."""
        return memory_of(self.keys, self.documents)

    def is_over(self) -> bool:
        """Whether more is kept than may be."""
        return self.keys > self._most_keys or self.bytes > self._most_bytes

    def has_room_for(self, keys: int, size: int) -> bool:
        """Whether so many more keys, with so many bytes of documents, may be kept, as it is."""
        return self.keys + keys <= self._most_keys and memory_of(self.keys + keys, self.documents + size) <= self._most_bytes

    def add(self, keys: int, size: int) -> None:
        """So many more keys are kept, with so many bytes of documents; less, where it is negative."""
        self.keys += keys
        self.documents += size
        if self._state is State.OVER and self._has_some_room():
            self._state = State.ROOM
            _LOG.warning("there is room for policy keys and documents again: %s", self._told())

    def relieve(self, name: str) -> None:
        """What is loaded may have grown, by what others write: what is idle is given up for it. That it is not enough is told, once.

        Args:
            name: what has grown last.
        """
        if not self.is_over() or (self._state is State.OVER and not self._is_worth_a_try()):
            return
        while self._evict(name):
            if not self.is_over():
                return
        self._tried = self.keys, self.bytes
        if self._state is State.ROOM:
            self._state = State.OVER
            _LOG.warning(
                "more is in memory than may be, and nothing of it is idle: %s. %s has grown last. What is loaded is served on, with what"
                " others write; other namespaces, and updates that would make a policy key, are refused until there is room",
                self._told(),
                name,
            )

    def has_room(self) -> bool:
        """Whether another key may be kept. What is idle is given up for it."""
        while self.keys >= self._most_keys or self.bytes >= self._most_bytes:
            if not self._evict(""):
                return False
        return True

    def is_exceeded(self) -> bool:
        """Whether more is kept than may be, although what is idle was given up."""
        return self.is_over() and not self.has_room()

    def refusal(self, what: str) -> LogError:
        """RESOURCE_EXHAUSTED: there is no room for ``what``."""
        if self.keys >= self._most_keys:
            full, option = f"{self.keys:,} policy keys of at most {self._most_keys:,} are in memory", "max_loaded_keys"
        else:
            full, option = (
                f"keys and documents take {self.bytes:,} bytes of memory of at most {self._most_bytes:,}",
                "max_loaded_document_bytes",
            )
        sentence = f"There is no room for {what}: {full}. Ask another server, or raise {option} of this one."
        return LogError(Reason.TOO_MANY_NAMESPACES, sentence, kind=Kind.RESOURCE_EXHAUSTED)

    def _is_worth_a_try(self) -> bool:
        keys, size = self._tried
        return self.keys > keys + self._most_keys // _TRY_AGAIN or self.bytes > size + self._most_bytes // _TRY_AGAIN

    def _has_some_room(self) -> bool:
        free_keys, free_bytes = self._most_keys - self.keys, self._most_bytes - self.bytes
        return free_keys >= self._most_keys // _ROOM_AGAIN and free_bytes >= self._most_bytes // _ROOM_AGAIN

    def _told(self) -> str:
        keys = f"{self.keys:,} policy keys of at most {self._most_keys:,} (max_loaded_keys)"
        return f"{keys}, {self.bytes:,} bytes of memory of at most {self._most_bytes:,} (max_loaded_document_bytes)"


class Share:
    """What one view has in memory, as far as the capacity knows of it."""

    def __init__(self, capacity: Capacity | None) -> None:
        """Nothing. ``capacity``: of which it is a share; None: anything may be kept."""
        self._capacity = capacity
        self._counted = (0, 0)

    def count(self, keys: int, size: int) -> bool:
        """So many keys are kept, with so many bytes of documents. Returns whether that is news to the capacity."""
        if self._capacity is None or self._counted == (keys, size):
            return False
        self._capacity.add(keys - self._counted[0], size - self._counted[1])
        self._counted = keys, size
        return True

    def take_over(self, other: Share) -> None:
        """What another share has is this one's."""
        self._counted, other._counted = other._counted, (0, 0)

    def give_back(self) -> None:
        """Nothing is kept, nor counted any more."""
        self.count(0, 0)
        self._capacity = None

    def has_room_for(self, keys: int, size: int) -> bool:
        """Whether so many keys may be kept, and so many bytes more than are counted."""
        return self._capacity is None or self._capacity.has_room_for(keys - self._counted[0], size)

    def refusal(self, what: str) -> LogError | None:
        """Why there is no room for ``what``; None: there is."""
        return self._capacity.refusal(what) if self._capacity is not None and self._capacity.is_exceeded() else None

"""How much all namespaces of a server may keep in memory together.

Policy keys are counted, and the bytes of their serialized documents: memory is a few times as much. Where there is no room, namespaces
that nobody uses are closed, the idlest first. If that is not enough, no namespace is loaded for the first time, and no update makes a key;
what is loaded goes on being served, and takes what others write.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.errors import Kind
from ..core.reasons import Reason
from ..logs.change_log import LogError


class Capacity:
    """What is kept in memory, and how much it may be."""

    def __init__(self, most_keys: int, most_bytes: int, evict: Callable[[], bool] = lambda: False) -> None:
        """Nothing is kept.

        Args:
            most_keys: policy keys that may be kept.
            most_bytes: bytes of serialized documents that may be kept.
            evict: gives up what is idle, a part of it, at once. Returns False when there is nothing.
        """
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self._evict = evict
        self.keys = 0
        """Policy keys that are kept."""
        self.bytes = 0
        """Bytes of documents that are kept."""

    def add(self, keys: int, size: int) -> None:
        """So much more is kept; less, where it is negative."""
        self.keys += keys
        self.bytes += size

    def has_room(self) -> bool:
        """Whether another key may be kept. What is idle is given up for it."""
        while self.keys >= self._most_keys or self.bytes >= self._most_bytes:
            if not self._evict():
                return False
        return True

    def is_exceeded(self) -> bool:
        """Whether more is kept than may be, although what is idle was given up."""
        return (self.keys > self._most_keys or self.bytes > self._most_bytes) and not self.has_room()

    def refusal(self, what: str) -> LogError:
        """RESOURCE_EXHAUSTED: there is no room for ``what``."""
        if self.keys >= self._most_keys:
            full, option = f"{self.keys:,} policy keys of at most {self._most_keys:,} are in memory", "max_loaded_keys"
        else:
            full, option = f"{self.bytes:,} bytes of documents of at most {self._most_bytes:,} are in memory", "max_loaded_document_bytes"
        sentence = f"There is no room for {what}: {full}. Ask another server, or raise {option} of this one."
        return LogError(Reason.TOO_MANY_NAMESPACES, sentence, kind=Kind.RESOURCE_EXHAUSTED)

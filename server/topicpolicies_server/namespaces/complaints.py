"""Why namespaces could not be loaded, as the server's log was told: it is told once, however often it is tried, and by whom.

A namespace that fails and that nobody watches is forgotten after each try, so what was told of it is kept here.
"""

from __future__ import annotations

from collections import OrderedDict

_MOST = 1_000
"""Namespaces whose last complaint is kept; beyond that the oldest is forgotten, and told again."""


class Complaints:
    """The last failure of each namespace, until it is loaded."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()

    def is_new(self, name: str, message: str) -> bool:
        """Takes a failure. Whether it is another one than the last that was told of this namespace."""
        known = self._last.get(name)
        self._last[name] = message
        self._last.move_to_end(name)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)
        return message != known

    def loaded(self, name: str) -> None:
        """A namespace was loaded: its next failure is a new one."""
        self._last.pop(name, None)

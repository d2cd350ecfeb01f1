"""The last failure to load each namespace, so that the server's log has it once, however often it is repeated.

A namespace that fails and that nothing uses is forgotten after each attempt, so its failure is kept here.
"""

from __future__ import annotations

from collections import OrderedDict

_MOST = 1_000
"""Namespaces of which the last failure is kept; beyond that the oldest is forgotten, and would be logged again."""


class LoadFailures:
    """The last failure of each namespace, until it is loaded."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()

    def is_new(self, name: str, message: str) -> bool:
        """Takes a failure. Returns whether it differs from the last one of this namespace."""
        known = self._last.get(name)
        self._last[name] = message
        self._last.move_to_end(name)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)
        return message != known

    def loaded(self, name: str) -> None:
        """Notes that a namespace was loaded: its next failure is a new one."""
        self._last.pop(name, None)

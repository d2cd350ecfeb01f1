"""Logs unforeseen errors: one line for each, and the traceback only for the first from each place in the code.

A client that meets such an error retries, and a traceback each time would bury everything else in the log.
"""

from __future__ import annotations

import logging

_LOG = logging.getLogger(__name__)
_LONGEST = 300
"""The most characters of an error's ``repr`` in a line."""
_MOST_PLACES = 1_000

_Place = tuple[str, str, int]


class Failures:
    """Logs errors, and remembers whose tracebacks are in the log already."""

    def __init__(self) -> None:
        self._known: set[_Place] = set()

    def log(self, what: str, error: BaseException) -> None:
        """Logs an error.

        Args:
            what: what failed, as the beginning of a sentence.
            error: the error.
        """
        place = _place(error)
        known = place in self._known
        if not known:
            if len(self._known) >= _MOST_PLACES:
                self._known.clear()
            self._known.add(place)
        where = f"{place[1]}:{place[2]}"
        again = "; its traceback is already in this log" if known else ""
        _LOG.error("%s failed: %s, at %s%s", what, repr(error)[:_LONGEST], where, again, exc_info=None if known else error)


def _place(error: BaseException) -> _Place:
    """Returns the type of an error, and the file and line that raised it."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return type(error).__qualname__, "?", 0
    return type(error).__qualname__, innermost.tb_frame.f_code.co_filename, innermost.tb_lineno

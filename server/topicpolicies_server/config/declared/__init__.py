"""The rows of the table of options, a module for each section."""

from __future__ import annotations

from collections.abc import Iterator

from ..option import Option
from . import authorization, callers, change_log, checkpoints, history, limits, network, output, repairs, telemetry


def declared() -> Iterator[Option]:
    """Returns all options, in the order in which they are shown."""
    for section in (change_log, network, callers, authorization, history, checkpoints, repairs, output, telemetry):
        yield from section.OPTIONS
    yield from limits.limits()

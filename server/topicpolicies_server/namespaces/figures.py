"""The figures of a namespace that operators see, as of one moment. Other threads may ask for them: everything is only read."""

from __future__ import annotations

from typing import NamedTuple

from .life import Life, Serving
from .updates import Updates
from .usage import Usage


class Figures(NamedTuple):
    """The figures of one namespace."""

    serves: bool
    """Whether its view answers from a log that is open."""
    chains: int
    """Policy keys with something in flight."""
    depth: int
    """Events in flight of the key that has the most."""
    waiting: int
    """Requests that wait: for the log to be read or to have a writer, or to be computed or confirmed."""
    unread: int
    """Events that count by proof, and that the log's reader has not delivered yet: how far the reader is behind."""
    unproven: int
    """Events that the log has acknowledged, and that wait for the reader because nothing proves what is before them."""
    confirmed_ms: int
    """As of when the view is known to be complete, in milliseconds since 1970; 0: the namespace is not watched, so the log is not asked."""


def figures(life: Life, updates: Updates, usage: Usage, confirmed_ms: int) -> Figures:
    """Returns the figures of a namespace with these parts.

    Args:
        life: its state.
        updates: its requests.
        usage: what uses it.
        confirmed_ms: as of when its view is known to be complete.
    """
    state, sequencer = life.state, updates.sequencer
    readback = state.follower.readback if isinstance(state, Serving) else None
    return Figures(
        isinstance(state, Serving),
        sequencer.chains,
        sequencer.depth,
        updates.arrived + sequencer.waiting,
        readback.unread if readback is not None else 0,
        readback.waiting if readback is not None else 0,
        confirmed_ms if usage.is_watched() else 0,
    )

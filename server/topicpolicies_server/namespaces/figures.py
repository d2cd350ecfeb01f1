"""What is shown of a namespace to operators, as it is at a moment. Other threads may ask: everything is only read."""

from __future__ import annotations

from typing import NamedTuple

from .life import Life, Serving
from .updates import Updates
from .usage import Usage


class Figures(NamedTuple):
    """One namespace."""

    serves: bool
    """Whether it answers from a log that is open."""
    chains: int
    """Policy keys with something in flight."""
    depth: int
    """Events in flight of the key that has the most."""
    waiting: int
    """Changes that wait: for the log to be read or to have a writer, or to be computed or confirmed."""
    unread: int
    """Events that count by proof, and that the log's reader has not delivered yet: how far it is behind."""
    unproven: int
    """Events that the log has acknowledged, and that wait for its reader."""
    warm: int
    """Cells of the view that are kept as they are, rather than frozen."""
    confirmed_ms: int
    """As of when all that was written is known, in milliseconds since 1970; 0: nobody watches, so nobody asks."""


def figures(life: Life, updates: Updates, usage: Usage, confirmed_ms: int) -> Figures:
    """What is shown of a namespace with these parts.

    Args:
        life: what it is doing.
        updates: what is asked of it.
        usage: who uses it.
        confirmed_ms: as of when its watchers are told everything.
    """
    state, view, sequencer = life.state, life.view, updates.sequencer
    readback = state.follower.readback if isinstance(state, Serving) else None
    return Figures(
        isinstance(state, Serving),
        sequencer.chains,
        sequencer.depth,
        updates.arrived + sequencer.waiting,
        readback.unread if readback is not None else 0,
        readback.waiting if readback is not None else 0,
        view.live if view is not None else 0,
        confirmed_ms if usage.is_watched() else 0,
    )

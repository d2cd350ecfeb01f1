"""The cost of following a log for the sidecar alone: events per second of processor time, in one thread, without a broker and a library.

``bench.following`` measures it on prepared messages; beside it stands taking these messages, and nothing more.
"""

from __future__ import annotations

import argparse
import gc

from bench import following

from .figure import Figure, Measured
from .scale import Say, Scale

KINDS = {"sidecars": "sidecar", "brokers": "broker"}
FIGURES = tuple(
    Figure(f"taking-{name}", f"following a log, {name}' events, of processor time alone", "taking the same messages", "/s")
    for name in KINDS
)
_KEYS = 1_000


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both kinds of events, round by round."""
    options = argparse.Namespace(events=scale.followed, keys=min(_KEYS, scale.followed))
    gc.set_threshold(*following.COLLECTING)
    found: dict[str, Measured] = {}
    for name, kind in KINDS.items():
        ours: list[float] = []
        limits: list[float] = []
        for number in range(scale.rounds):
            say(f"round {number + 1} of {scale.rounds}, {name}' events")
            for stage, rates in ((following.taken, limits), (following.followed, ours)):
                gc.unfreeze()
                gc.collect()
                gc.freeze()
                rates.append(scale.followed / stage(kind, options))
        found[f"taking-{name}"] = Measured(ours, limits)
    return found

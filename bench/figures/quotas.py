"""The delay of a caller's changes beside another caller that requests as much as it can, at its limit.

The limit of this figure is the delay beside a caller that requests no more than its limit: allowed changes cost others what they cost, and
requests beyond that are to cost others nothing. Both others call several times in a round, in turn, and the delays beside each are taken
together: the 99th percentile of a single turn is its third-longest delay.
"""

from __future__ import annotations

import statistics

from bench import quotas

from .figure import Figure, Measured, Want
from .scale import Say, Scale

_NOTHING = Want(at_most=1.1)
FIGURES = (
    Figure("quotas-delay", "delay beside a caller at its limit, 32 at once, p50", "beside one that asks for no more", "ms", _NOTHING),
    Figure("quotas-tail", "delay beside a caller at its limit, 32 at once, p99", "beside one that asks for no more", "ms", _NOTHING),
)
_TURNS = 4
"""Turns of each of the other callers per round."""
_TIMES = 2
"""How many times as long as other loads a turn takes, so that a round has 800 changes of the polite caller beside each."""


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures beside both others in turn, and without another caller, on one server."""
    ours, limit, alone = list[quotas.Measured](), list[quotas.Measured](), list[quotas.Measured]()
    seconds = _TIMES * scale.seconds
    with quotas.server(quotas.LIMIT) as program:
        for number in range(scale.rounds):
            say(f"round {number + 1} of {scale.rounds}")
            seen: dict[str, list[quotas.Observation]] = {quotas.WAITS: [], quotas.MODEST: []}
            for turn in range(_TURNS):
                for kind in seen if (number + turn) % 2 else reversed(seen):
                    seen[kind].append(quotas.observe(program, quotas.KINDS[kind][1], seconds))
            ours.append(quotas.measured(seen[quotas.WAITS]))
            limit.append(quotas.measured(seen[quotas.MODEST]))
            alone.append(quotas.measured([quotas.observe(program, "", seconds)]))
    p50, p99 = (statistics.median(each) for each in zip(*((each.p50_ms, each.p99_ms) for each in alone), strict=True))
    note = f"beside nobody p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    return {
        "quotas-delay": Measured([each.p50_ms for each in ours], [each.p50_ms for each in limit], note),
        "quotas-tail": Measured([each.p99_ms for each in ours], [each.p99_ms for each in limit]),
    }

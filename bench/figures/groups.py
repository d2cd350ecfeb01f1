"""The groups of figures that are measured together; each runs in its own processes, for a bounded time.

``python -m bench.figures.groups NAME SCALE`` measures a group, and prints what it found as JSON. All of its processes belong to one process
group, which is killed at the end or when the time is over, so a program that hangs costs one group, not the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import uvloop

from . import costs, crowd, following, history, memory, plugin, starting, updates, watching
from .figure import Figure, Measured, Scale

_ROOT = Path(__file__).parents[2]
_SAID = 300
"""How many characters of a program's last output are reported as a reason."""


class Group(NamedTuple):
    """The figures of one measurement."""

    name: str
    figures: Sequence[Figure]
    measure: Callable[[Scale], Mapping[str, Measured]]
    most_seconds: float
    """The group is ended after this time; none of its figures counts as measured then."""
    broker: bool = False
    """Whether the group needs a broker."""


GROUPS = (
    Group("updates", updates.FIGURES, updates.measure, 300),
    Group("costs", costs.FIGURES, costs.measure, 300),
    Group("start", starting.FIGURES, starting.measure, 600),
    Group("memory", memory.FIGURES, memory.measure, 300),
    Group("deliveries", watching.DELIVERY_FIGURES, watching.measure_deliveries, 300),
    Group("snapshot", watching.SNAPSHOT_FIGURES, watching.measure_snapshot, 600),
    Group("crowd", crowd.FIGURES, crowd.measure, 600),
    Group("history", history.FIGURES, history.measure, 300),
    Group("plugin", plugin.FIGURES, plugin.measure, 300),
    Group("updates-pulsar", updates.PULSAR_FIGURES, updates.measure_pulsar, 400, broker=True),
    Group("start-pulsar", starting.PULSAR_FIGURES, starting.measure_pulsar, 900, broker=True),
    Group("following", following.FIGURES, following.measure, 600, broker=True),
)


def supervised(group: Group, scale: Scale) -> dict[str, Measured]:
    """Measures a group in processes of its own. Figures that could not be measured have the reason."""
    paths = os.pathsep.join(map(str, (_ROOT, _ROOT / "server", _ROOT / "clients/python", _ROOT / "clients/spark")))
    command = [sys.executable, "-m", "bench.figures.groups", group.name, json.dumps(scale._asdict())]
    with tempfile.TemporaryFile("w+", errors="replace") as told, tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": scratch}
        process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=told, text=True, start_new_session=True
        )
        try:
            printed, _ = process.communicate(timeout=group.most_seconds)
            if process.returncode == 0:
                return {name: Measured(**measured) for name, measured in json.loads(printed.splitlines()[-1]).items()}
            told.seek(0)
            missing = " ".join(told.read().split())[-_SAID:] or f"it ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            missing = f"it took more than {group.most_seconds:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return {figure.name: Measured(missing=missing) for figure in group.figures}


if __name__ == "__main__":
    chosen, amounts = sys.argv[1:]
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    found = next(each for each in GROUPS if each.name == chosen).measure(Scale(**json.loads(amounts)))
    print(json.dumps({name: measured._asdict() for name, measured in found.items()}))

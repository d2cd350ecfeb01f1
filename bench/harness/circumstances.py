"""When, where and with what a run was made, for its report."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bench.figures.conditions import here

_ROOT = Path(__file__).parents[2]


class Circumstances(NamedTuple):
    """What a reader must know to make a run again."""

    date: str
    """When it ended, in UTC."""
    seed: int
    version: str
    """The project's version."""
    commit: str
    """The commit, with a plus if files differ from it; empty: not known."""
    machine: str

    def __str__(self) -> str:
        return f"{self.date}, seed {self.seed}, version {self.version}{f' ({self.commit})' if self.commit else ''}, {self.machine}"


def circumstances(seed: int, spark: str) -> Circumstances:
    """Returns the circumstances of a run that ends now. ``spark``: Spark's version."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    machine = f"{here().machine}, Spark {spark}"
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    return Circumstances(now, seed, version("topicpolicies-server"), described.stdout.strip(), machine)

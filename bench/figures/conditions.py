"""The machine on which figures are measured, and whether it did other work before."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from . import etcd
from .scale import Say

QUIET = 1.0
"""The highest load average over one minute of a machine that does nothing else."""
_PAUSE_SECONDS = 5.0


class Conditions(NamedTuple):
    """The conditions on which figures depend."""

    cores: int
    processor: str
    memory_gb: float
    system: str
    python: str
    disk: str
    """The file system on which the measurements write."""
    etcd: str
    """The version of etcd; empty: it is not installed."""
    load: float
    """The load average of the minute before."""

    @property
    def quiet(self) -> bool:
        """Whether the machine did no other work."""
        return self.load <= QUIET

    @property
    def machine(self) -> str:
        """The machine in one line."""
        hardware = f"{self.cores} cores ({self.processor}), {self.memory_gb:.0f} GB"
        return f"{hardware}; {self.system}, {self.disk}, Python {self.python}"

    @property
    def line(self) -> str:
        """The conditions in one line."""
        state = "quiet" if self.quiet else "BUSY"
        parts = (
            self.machine,
            f"etcd {self.etcd}" if self.etcd else "no etcd",
            f"load average {self.load:.1f} before: {state}",
        )
        return "; ".join(parts)


def here() -> Conditions:
    """Returns the present conditions of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return Conditions(
        os.cpu_count() or 1,
        _processor(),
        memory,
        system,
        platform.python_version(),
        _disk(Path(tempfile.gettempdir())),
        etcd.version(),
        os.getloadavg()[0],
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _disk(path: Path) -> str:
    """Returns the kind of file system that a folder is on."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(len(mount[1]), mount[2]) for mount in mounts if path.resolve().is_relative_to(mount[1])]
    return max(holding, default=(0, "?"))[1]


def await_quiet(
    patience_seconds: float, say: Say, load: Callable[[], float] = lambda: os.getloadavg()[0], sleep: Callable[[float], None] = time.sleep
) -> bool:
    """Waits until the machine does nothing else, which its load average shows with a delay. Returns whether that happened in time."""
    waited = 0.0
    while (now := load()) > QUIET and waited < patience_seconds:
        say(f"the load average is {now:.1f}; waiting for {QUIET:g}")
        sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    return load() <= QUIET

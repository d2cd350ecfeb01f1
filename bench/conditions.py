"""The machine on which figures are measured, and whether it did other work before."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

QUIET = 1.0
"""The highest load average over one minute of a machine that does nothing else."""
_PAUSE_SECONDS = 5.0


def date() -> str:
    """Returns the date in UTC."""
    return datetime.now(UTC).date().isoformat()


def machine() -> str:
    """Returns the machine in one line: processors, memory, system, the file system on which is measured, and Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    here = Path(tempfile.gettempdir()).resolve()
    disk = max(((len(mount), kind) for mount, kind in mounts if here.is_relative_to(mount)), default=(0, "?"))[1]
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return f"{os.cpu_count()} cores ({processor}), {memory:.0f} GB; {system}, {disk}, Python {platform.python_version()}"


def load() -> str:
    """Returns the load average of the minute before in words."""
    average = os.getloadavg()[0]
    return f"load average {average:.1f} before: {'quiet' if average <= QUIET else 'BUSY'}"


def await_quiet(patience_seconds: float) -> bool:
    """Waits until the machine does nothing else, which its load average shows with a delay. Returns whether that happened in time."""
    until = time.monotonic() + patience_seconds
    if os.getloadavg()[0] > QUIET:
        print(f"The load average is {os.getloadavg()[0]:.1f}; waiting for {QUIET:g}, at most {patience_seconds:g} s", file=sys.stderr)
    while os.getloadavg()[0] > QUIET and time.monotonic() < until:
        time.sleep(_PAUSE_SECONDS)
    return os.getloadavg()[0] <= QUIET

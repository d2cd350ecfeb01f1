"""Runs each group of figures in its own processes, for a bounded time.

A group runs as ``python -m bench.figures.supervising NAME SCALE``. It reports what it does, and at the end what it found, as lines of JSON
on its standard output. All of its processes belong to one process group, which is killed when the time is over, so a program that hangs
costs one group, not the run; their temporary files are removed with it. A group that ended badly counts as not measured, with the reason. A
group does not outlive the run, however that ends: the run holds the other end of the group's standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from .catalog import GROUPS, Group
from .figure import Measured
from .scale import Say, Scale

_ROOT = Path(__file__).parents[2]
_SAID = 300
"""How many characters of a program's last output are reported as a reason."""


def supervised(
    group: Group, scale: Scale, say: Say, *, most_seconds: float | None = None, command: tuple[str, ...] = ()
) -> dict[str, Measured]:
    """Measures a group. Figures that could not be measured have the reason.

    Args:
        group: the group.
        scale: how much is measured.
        say: called with what is being measured.
        most_seconds: how long the group may take; by default its own bound.
        command: runs in place of the group.
    """
    paths = [str(_ROOT), str(_ROOT / "server"), str(_ROOT / "clients/python")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    arguments = command or (sys.executable, "-m", "bench.figures.supervising", group.name, json.dumps(scale._asdict()))
    seconds = group.most_seconds if most_seconds is None else most_seconds
    with tempfile.TemporaryFile("w+", errors="replace") as told, tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen(
            arguments,
            cwd=_ROOT,
            env={**environment, "TMPDIR": scratch},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            start_new_session=True,
        )
        over = threading.Event()

        def end() -> None:
            over.set()
            _end(process)

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            found = _listen(process.stdout, say)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its process id is not reused before its group is ended
        finally:
            timer.cancel()
            timer.join()
            _end(process)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        told.seek(0)
        said = told.read().strip()
    if found is not None:
        return found
    missing = (
        f"it took more than {seconds:g} s" if over.is_set() else said.rpartition("\n")[2][-_SAID:] or f"it ended with {process.returncode}"
    )
    return {figure.name: Measured(missing=missing) for figure in group.figures}


def _listen(lines: IO[str] | None, say: Say) -> dict[str, Measured] | None:
    """Passes on what is being measured. Returns what was found, if that was reported."""
    found = None
    for line in lines or ():
        try:
            told = json.loads(line)
        except ValueError:
            continue  # other output of a library
        if isinstance(told, Mapping) and "now" in told:
            say(str(told["now"]))
        elif isinstance(told, Mapping) and "found" in told:
            found = {name: Measured(**measured) for name, measured in told["found"].items()}
    return found


def _end(process: subprocess.Popen[str]) -> None:
    """Kills the remaining processes of a group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end_with_the_run() -> None:
    """Kills this process's group when no process holds the other end of standard input any more."""
    while os.read(0, 1):  # not `sys.stdin`, whose lock must be free when the interpreter ends
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Measures one group in this process, and reports the result."""
    name, scale = sys.argv[1:]

    def tell(**what: object) -> None:
        print(json.dumps(what), flush=True)

    threading.Thread(target=_end_with_the_run, daemon=True).start()
    group = next(each for each in GROUPS if each.name == name)
    found = group.measure(Scale(**json.loads(scale)), lambda now: tell(now=now))
    tell(found={each: measured._asdict() for each, measured in found.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())

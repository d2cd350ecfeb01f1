"""A group that hangs or fails is reported as unmeasured, affects no other group, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.figures.catalog import Group
from bench.figures.figure import Figure, Measured
from bench.figures.scale import QUICK, Say, Scale
from bench.figures.supervising import supervised


def _never(_: Scale, __: Say) -> Mapping[str, Measured]:
    raise AssertionError("it runs in a process of its own")


GROUP = Group("group", [Figure("one", "one", "", "s"), Figure("two", "two", "", "s")], _never, 20)


def run(program: str, most_seconds: float = 20) -> tuple[dict[str, Measured], list[str]]:
    progress: list[str] = []
    return supervised(GROUP, QUICK, progress.append, most_seconds=most_seconds, command=(sys.executable, "-c", program)), progress


def test_the_results_of_a_group_are_returned_and_its_progress_is_passed_on() -> None:
    found, progress = run(
        "print('a remark'); print('{\"now\": \"round 1\"}'); print('[1]');"
        'print(\'{"found": {"one": {"ours": [1.5], "limit": [], "note": "n", "missing": ""}}}\')'
    )
    assert found == {"one": Measured([1.5], [], "n")}
    assert progress == ["round 1"]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "it ended with 3"),
        ("print('{\"now\": \"round 1\"}'); raise ValueError('of the broker')", "ValueError: of the broker"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with -9"),
    ],
)
def test_the_figures_of_a_group_that_fails_are_missing_with_the_reason(program: str, reason: str) -> None:
    found, _ = run(program)
    assert found == {"one": Measured(missing=reason), "two": Measured(missing=reason)}


@pytest.mark.timeout(120)
def test_a_group_that_hangs_is_ended_with_all_processes_that_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = (
        "import pathlib, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"path = pathlib.Path({str(file)!r}); path.with_suffix('.new').write_text(str(child.pid)); path.with_suffix('.new').rename(path);"
        "time.sleep(600)"
    )
    found, _ = run(program, most_seconds=5)
    assert found["one"].missing == "it took more than 5 s"
    assert file.exists(), "the group had started a process"
    child = int(file.read_text())
    _await(lambda: not _lives(child))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.timeout(180)
def test_a_group_does_not_outlive_the_run(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    group = (
        "import pathlib, os, threading, time;"
        "from bench.figures.supervising import _end_with_the_run;"
        "threading.Thread(target=_end_with_the_run, daemon=True).start();"
        f"path = pathlib.Path({str(file)!r}); path.with_suffix('.new').write_text(str(os.getpid())); path.with_suffix('.new').rename(path);"
        "time.sleep(600)"
    )
    program = (
        "import sys;"
        "from bench.figures.supervising import supervised; from bench.figures.catalog import GROUPS; from bench.figures.scale import QUICK;"
        f"supervised(GROUPS[0], QUICK, print, command=(sys.executable, '-c', {group!r}))"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (root, root / "server", root / "clients/python")))}
    run = subprocess.Popen([sys.executable, "-c", program], cwd=root, env=environment)
    try:
        _await(file.exists)
        run.kill()
        run.wait()
        child = int(file.read_text())
        _await(lambda: not _lives(child))
    finally:
        run.kill()
        run.wait()


def _await(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)

"""Test processes that are forked from the one that has collected are what xdist would have started; with programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="each process collects elsewhere"),
]
_ROOT = Path(__file__).resolve().parents[2]
_BEGIN = """
import os
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
with (HERE / "imported").open("a") as imported:
    imported.write(f"{os.getpid()}\\n")


def note(tmp_path):
    with (HERE / "noted").open("a") as noted:
        noted.write(f"{os.environ['PYTEST_XDIST_WORKER']} {os.getpid()} {tmp_path.parent}\\n")
"""


def _run(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    (folder / "test_module.py").write_text(_BEGIN + module)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {"PYTHONPATH": str(_ROOT)}
    options = (
        "-p",
        "tests.stretches",
        "-p",
        "tests.once.plugin",
        "--numprocesses=2",
        "--dist=loadgroup",
        f"--basetemp={folder / 'temporary'}",
    )
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def test_tests_are_collected_once_and_run_by_processes_of_different_numbers_and_folders(tmp_path: Path) -> None:
    ran = _run(
        tmp_path,
        """
@pytest.mark.parametrize("number", range(8))
def test_noted(number, tmp_path):
    assert threading.main_thread().native_id == threading.get_native_id() == os.getpid()
    note(tmp_path)
    deadline = time.monotonic() + 30
    while len({line.split()[1] for line in (HERE / "noted").read_text().splitlines()}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
""",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 passed" in ran.stdout
    assert len(_lines(tmp_path / "imported")) == 1
    noted = _lines(tmp_path / "noted")
    assert len(noted) == 8
    assert {(name, folder) for name, _, folder in noted} == {
        (name, str(tmp_path / "temporary" / f"popen-{name}")) for name in ("gw0", "gw1")
    }
    assert len({process for _, process, _ in noted}) == 2


def test_what_a_test_prints_is_told_with_it_alone(tmp_path: Path) -> None:
    ran = _run(
        tmp_path,
        """
@pytest.mark.parametrize("number", range(8))
def test_printing(number):
    os.system(f"echo from a program of {number}")
    print(f"printed by {number}")
    assert number % 2 == 0
""",
    )
    assert ran.returncode == 1
    assert "4 failed, 4 passed" in ran.stdout
    parts = ran.stdout.split("____ test_printing[")[1:]
    assert len(parts) == 4
    for part in parts:
        number = part[0]
        told = [line for line in part.split("=====")[0].splitlines() if line.startswith(("from a program", "printed by"))]
        assert told == [f"from a program of {number}", f"printed by {number}"]


def test_a_process_that_crashes_is_told_and_another_takes_its_place(tmp_path: Path) -> None:
    ran = _run(
        tmp_path,
        """
@pytest.mark.parametrize("number", range(6))
def test_crashing(number, tmp_path):
    note(tmp_path)
    if number == 1:
        os._exit(3)
""",
    )
    assert ran.returncode == 1
    assert "crashed while running 'test_module.py::test_crashing[1]'" in ran.stdout
    assert "1 failed, 5 passed" in ran.stdout
    assert "gw2" in {name for name, _, _ in _lines(tmp_path / "noted")}
    assert len(_lines(tmp_path / "imported")) == 1


def test_a_module_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    ran = _run(tmp_path, "raise ValueError('no module')\n")
    assert ran.returncode != 0
    assert "ValueError: no module" in ran.stdout


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    ran = _run(tmp_path, "", "elsewhere")
    assert ran.returncode != 0
    assert "file or directory not found: elsewhere" in ran.stdout + ran.stderr


def test_processes_are_told_what_each_is_configured_with(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        """
class Telling:
    def pytest_configure_node(self, node):
        node.workerinput["told"] = "by the one that runs all"


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.was_told = config.workerinput["told"]
    else:
        config.pluginmanager.register(Telling())
"""
    )
    ran = _run(tmp_path, "def test_told(pytestconfig):\n    assert pytestconfig.was_told == 'by the one that runs all'\n")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout

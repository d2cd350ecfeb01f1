"""Test processes that are forked from the collecting process behave like those that xdist starts, tested with runs of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
_INTERRUPTIBLE = """
import signal, sys
import pytest
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background
sys.exit(pytest.main())
"""


def _command(folder: Path, module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command that runs a module's tests, and its environment."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    (folder / "test_module.py").write_text(_BEGIN + module)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {"PYTHONPATH": str(_ROOT)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others take longer to import than these tests run
    options = (
        "-p",
        "xdist.plugin",
        "-p",
        "tests.stretches",
        "-p",
        "tests.ending",
        "-p",
        "tests.once.plugin",
        "--numprocesses=2",
        "--dist=loadgroup",
        f"--basetemp={folder / 'temporary'}",
    )
    return [sys.executable, "-m", "pytest", *options, *arguments], environment


def _run(folder: Path, module: str, *arguments: str, within: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = _command(folder, module, *arguments)
    environment |= variables
    return subprocess.run(command, cwd=folder / within, env=environment, capture_output=True, text=True, timeout=60, check=False)


def _left(session: int) -> list[str]:
    """Returns the processes of a session that have not ended."""
    listed = subprocess.check_output(["ps", "-e", "-o", "sid=,pid=,stat=,args="], text=True)
    return [line for line in listed.splitlines() if line.split()[0] == str(session) and not line.split()[2].startswith("Z")]


def _ended(folder: Path, module: str, number: signal.Signals, *, whom: str) -> tuple[int, str]:
    """Sends a signal when the module is ready for it, and returns the exit status and the output. Asserts that nothing is left behind."""
    command, environment = _command(folder, module)
    command[1:3] = ["-c", _INTERRUPTIBLE]
    (folder / "made").mkdir()
    environment["TMPDIR"] = str(folder / "made")
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        _await(lambda: (folder / "now").exists() or process.poll() is not None, "the moment of the signal")
        if whom == "all":
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        status = process.wait(30)
        _await(lambda: not _left(process.pid), "the end of all processes", 30)
    finally:
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
    assert not list((folder / "made").iterdir()), "no temporary file is left behind"
    return status, (folder / "output").read_text()


def _await(happened: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def test_tests_are_collected_once_and_run_by_processes_with_numbers_and_folders_of_their_own(tmp_path: Path) -> None:
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


def test_the_output_of_a_test_is_reported_with_that_test_only(tmp_path: Path) -> None:
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
        lines = [line for line in part.split("=====")[0].splitlines() if line.startswith(("from a program", "printed by"))]
        assert lines == [f"from a program of {number}", f"printed by {number}"]


def test_a_crashed_process_is_reported_and_replaced(tmp_path: Path) -> None:
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


def test_a_module_that_can_not_be_imported_is_reported(tmp_path: Path) -> None:
    ran = _run(tmp_path, "raise ValueError('no module')\n")
    assert ran.returncode != 0
    assert "ValueError: no module" in ran.stdout


@pytest.mark.parametrize("end", ["os._exit(7)", "os.kill(os.getpid(), 9)"])
def test_a_module_that_ends_the_collecting_process_is_reported_without_a_traceback(tmp_path: Path, end: str) -> None:
    ran = _run(tmp_path, f"{end}\n")
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(
        r"ERROR: the process that collects the tests has ended, with (7|-9), before it had all of them", ran.stdout + ran.stderr
    )
    assert "Traceback" not in ran.stdout + ran.stderr


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    ran = _run(tmp_path, "", "elsewhere")
    assert ran.returncode != 0
    assert "file or directory not found: elsewhere" in ran.stdout + ran.stderr


def test_test_processes_receive_the_input_that_plugins_configure(tmp_path: Path) -> None:
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


def test_arguments_are_relative_to_the_folder_in_which_pytest_is_called(tmp_path: Path) -> None:
    (tmp_path / "within").mkdir()
    (tmp_path / "within" / "test_within.py").write_text(
        "from pathlib import Path\ndef test_folder():\n    assert Path.cwd() == Path(__file__).parent\n"
    )
    for arguments in (["test_within.py"], ["."], []):
        ran = _run(tmp_path, "def test_elsewhere():\n    raise AssertionError\n", *arguments, within="within")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "1 passed" in ran.stdout


def test_very_many_arguments_are_passed_on(tmp_path: Path) -> None:
    ran = _run(
        tmp_path, "def test_one():\n    pass\n", *[f"--deselect=test_module.py::test_{'other' * 20}_{number}" for number in range(1200)]
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_a_long_path_of_the_temporary_folder_is_accepted(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    ran = _run(tmp_path, "def test_one():\n    pass\n", TMPDIR=str(folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("whom", ["all", "the first"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_collection_ends_at_once_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, whom: str) -> None:
    began = time.monotonic()
    status, output = _ended(tmp_path, '(HERE / "now").touch()\ntime.sleep(40)\ndef test_one():\n    pass\n', number, whom=whom)
    assert time.monotonic() - began < 30
    assert status == 2
    assert "KeyboardInterrupt" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("whom", ["all", "the first"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_tests_tear_their_fixtures_down(tmp_path: Path, number: signal.Signals, whom: str) -> None:
    module = """
@pytest.fixture
def made():
    yield
    (HERE / f"taken down {os.getpid()}").touch()


@pytest.mark.parametrize("number", range(4))
def test_one(made, number):
    (HERE / f"begun {os.getpid()}").touch()
    if len(list(HERE.glob("begun *"))) == 2:
        (HERE / "now").touch()
    time.sleep(60)
"""
    status, output = _ended(tmp_path, module, number, whom=whom)
    assert status == 2
    assert len(list(tmp_path.glob("taken down *"))) == 2
    assert "Traceback" not in output

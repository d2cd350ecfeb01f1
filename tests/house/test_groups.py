"""The tests of a group run in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import order

_TESTS = """
import os
import time
from pathlib import Path
import pytest

END = time.monotonic() + 60

def ran(name):
    Path(__file__).with_name(f"{name}-{os.getpid()}").touch()

@pytest.mark.xdist_group("some")
@pytest.mark.parametrize("number", range(40))
def test_of_a_group(number):
    ran("together")

@pytest.mark.parametrize("number", range(40))
def test_of_none(number):
    ran("apart")
    # On a busy machine one process may run all of these before the other has run its group.
    while len(list(Path(__file__).parent.glob("apart-*"))) < 2 and time.monotonic() < END:
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_the_tests_of_a_group_run_in_one_process_and_others_in_several(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses=2", "--dist=loadgroup", str(tmp_path)]
    assert "80 passed" in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert len(list(tmp_path.glob("together-*"))) == 1
    assert len(list(tmp_path.glob("apart-*"))) == 2


def test_a_run_that_would_split_groups_is_refused(request: pytest.FixtureRequest) -> None:
    item = request.node
    order.refuse_if_split([item])
    item.add_marker(pytest.mark.xdist_group("some"))
    with pytest.raises(pytest.UsageError, match=r"does not read the group of .*test_a_run_that"):
        order.refuse_if_split([item])


@pytest.mark.slow
def test_without_xdist_tests_of_groups_run_like_others(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "test_some.py").write_text("import pytest\n@pytest.mark.xdist_group('some')\ndef test_of_a_group():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.order", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in ran.stdout, ran.stdout


@pytest.mark.slow
def test_the_last_failures_are_found_again_with_and_without_xdist(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(
        "import pytest\nfrom pathlib import Path\n"
        "@pytest.mark.xdist_group('some')\n@pytest.mark.parametrize('number', range(3))\n"
        "def test_of_a_group(number):\n    assert number != 1 or Path(__file__).with_name('mended').exists()\n"
        "def test_of_none():\n    raise AssertionError\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.stretches", "-p", "tests.once.plugin", "-p", "tests.order", *options]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout

    several = ("--numprocesses=2", "--dist=loadgroup")
    output = run(*several)
    assert "2 failed, 2 passed" in output
    assert "FAILED test_some.py::test_of_a_group[1] - " in output
    assert "2 failed" in run("--lf", *several)
    assert "2 failed" in run("--lf")
    (tmp_path / "mended").touch()
    assert "1 failed, 1 passed" in run("--lf", *several)
    assert "1 failed in" in run("--lf")

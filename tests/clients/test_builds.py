"""Builds for tests are made once, by the process that needs them first, and a finished build is used without waiting."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from proto.tools import ROOT
from tests.builds import Build

_SECONDS = 20


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICPOLICIES_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with a source file, and in it an excluded folder for the output."""
    (tmp_path / "sources" / "target").mkdir(parents=True)
    (tmp_path / "sources" / "one").write_text("1")
    return tmp_path / "sources"


def _build(sources: Path) -> tuple[Callable[[], None], list[str]]:
    """Returns a function that makes a build, and a list of the source's content at each build."""
    built: list[str] = []
    build = Build(sources / "target" / "built", [sources], without=["target"])
    return lambda: build.make(lambda: built.append((sources / "one").read_text())), built


def test_a_build_is_made_again_only_if_a_source_changes_or_its_output_is_missing(sources: Path) -> None:
    make, built = _build(sources)
    make()
    make()
    assert built == ["1"]
    (sources / "target" / "output").write_text("what is built is no source")
    make()
    assert built == ["1"]
    (sources / "one").write_text("2")
    make()
    (sources / "two").write_text("another")
    make()
    (sources / "target" / "built").unlink()
    make()
    assert built == ["1", "2", "2", "2"]


def test_a_failed_build_is_made_again(sources: Path) -> None:
    make, built = _build(sources)
    make()
    (sources / "one").write_text("2")

    def fail() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        Build(sources / "target" / "built", [sources], without=["target"]).make(fail)
    (sources / "one").write_text("1")
    make()
    assert built == ["1", "1"]


def test_concurrent_processes_make_a_build_once(sources: Path) -> None:
    program = f"""
import time
from pathlib import Path
from tests.builds import Build
def build():
    with open({str(sources / "target" / "times")!r}, "a") as times:
        times.write("begun\\n")
    time.sleep(0.2)
Build(Path({str(sources / "target" / "built")!r}), [Path({str(sources)!r})], without=["target"]).make(build)
assert Path({str(sources / "target" / "times")!r}).read_text() == "begun\\n"
"""
    processes = [subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) for _ in range(3)]
    assert [process.wait(_SECONDS) for process in processes] == [0, 0, 0]


def test_a_finished_build_is_used_without_waiting_for_the_lock(sources: Path) -> None:
    make, built = _build(sources)
    make()
    done = threading.Event()

    def need() -> None:
        make()
        done.set()

    with Build(sources / "target" / "built", [sources], without=["target"]).alone():
        threading.Thread(target=need, daemon=True).start()
        assert done.wait(_SECONDS)
    assert built == ["1"]

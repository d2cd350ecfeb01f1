"""A command in a process that is forked after the imports has the same output as one in a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.cli import programs
from tests.cli.conftest import TOPIC, A, Terminal

pytestmark = pytest.mark.slow


def unforked(arguments: tuple[str | bytes, ...], environment: dict[str, str], stdin: bytes, stdout: IO[bytes] | None) -> programs.Ended:
    done = subprocess.run(
        [sys.executable, "-m", "topicpolicies_server", *arguments],
        env={**environment, "PYTHONPATH": ":".join(sys.path)},
        input=stdin,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    return programs.Ended(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("arguments", "stdin", "stdout"),
    [
        (("get", TOPIC, "--output", "json"), b"", ""),
        (("update", TOPIC, b"replication_clusters=\xff"), b"", ""),
        (("get", TOPIC), b"", "/dev/full"),
        (("plan", "-f", "FILE", "--topics", "-"), b"\xff", ""),
        (("nonsense", "--output", "json"), b"", ""),
        (("list", A, "--server", "127.0.0.1:1", "--timeout", "0.1"), b"", ""),
    ],
    ids=["answered", "not UTF-8", "no space", "standard input", "wrong usage", "no server"],
)
def test_a_forked_command_has_the_output_and_the_exit_code_of_a_new_process(
    recorded: Terminal, tmp_path: Path, arguments: tuple[str | bytes, ...], stdin: bytes, stdout: str
) -> None:
    recorded.write(A, "orders", 1)
    file = tmp_path / "file.yaml"
    file.write_text("version: 1\npolicies: []\n")
    given = tuple(str(file) if argument == "FILE" else argument for argument in arguments)
    with Path(stdout or "/dev/null").open("wb") as full:
        ended, wanted = (run(given, recorded.environment, stdin, full if stdout else None) for run in (forked, unforked))
    assert ended == wanted
    assert ended.stdout or ended.stderr


def forked(arguments: tuple[str | bytes, ...], environment: dict[str, str], stdin: bytes, stdout: IO[bytes] | None) -> programs.Ended:
    return programs.run(arguments, environment, stdin=stdin, stdout=stdout)


def test_a_forked_server_that_can_not_start_has_its_exit_code_and_error(tmp_path: Path) -> None:
    ended = programs.run(["serve", "--data", str(tmp_path / "none" / "p.db"), "--listen", "127.0.0.1:0"], {})
    assert ended.returncode in (2, 9) and ended.stderr.startswith(("Usage", "Error: "))


def test_a_forked_command_that_does_not_end_in_time_is_killed_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "_SECONDS", 1)
    programs._forking.cache_clear()
    with pytest.raises(TimeoutError):
        programs.run(["serve", "--data", str(tmp_path / "p.db"), "--listen", "127.0.0.1:0"], {})
    monkeypatch.undo()
    assert programs.run(["version"], {}).returncode == 0

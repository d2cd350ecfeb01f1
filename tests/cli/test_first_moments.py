"""Signals that arrive while a program is still importing modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PROGRAM = """
import os, signal, sys

amid, number = sys.argv[1], getattr(signal, sys.argv[2])
del sys.argv[1:3]

class Amid:
    def find_spec(self, name, *_):
        if name == amid:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), number)
            print("amid", flush=True)

sys.meta_path.insert(0, Amid())
signal.signal(signal.SIGINT, signal.default_int_handler)  # SIGINT is ignored if the tests run in the background
from topicpolicies_server.__main__ import main
main()
"""


def signalled(amid: str, name: str, *arguments: str) -> tuple[int, str, str]:
    """Runs a program that gets a signal when it begins to import a module; returns its exit code and its output."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, amid, name, *arguments],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("amid", ["asyncio", "typer", "grpc", "topicpolicies_server.cli.server"])
def test_an_interrupt_during_the_imports_ends_the_program_without_a_traceback(amid: str) -> None:
    code, output, errors = signalled(amid, "SIGINT", "info")
    assert (code, errors) == (130, "")
    assert output in ("", "amid\n")


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_a_control_signal_during_the_imports_does_not_end_the_server(name: str, tmp_path: Path) -> None:
    code, output, errors = signalled("typer", name, "serve", "--data", str(tmp_path / "none" / "p.db"), "--listen", "nowhere.invalid:1")
    assert output == "amid\n"
    assert code in (2, 9) and errors


@pytest.mark.parametrize(("command", "verbosity", "wanted"), [("info", None, "NONE"), ("info", "INFO", "INFO"), ("serve", None, "unset")])
def test_grpc_is_silent_in_client_commands_unless_its_verbosity_is_set(command: str, verbosity: str | None, wanted: str) -> None:
    """Checks the value of ``GRPC_VERBOSITY`` at the import of gRPC."""
    report = 'print(os.environ.get("GRPC_VERBOSITY", "unset"), flush=True); os._exit(0)'
    amid = PROGRAM.replace("os.kill(os.getpid(), number)", report)
    ran = subprocess.run(
        [sys.executable, "-c", amid, "grpc", "SIGINT", command],
        env={"PYTHONPATH": os.pathsep.join(sys.path)} | ({"GRPC_VERBOSITY": verbosity} if verbosity else {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == f"{wanted}\n"

"""Signals that come while a program still imports what it needs."""

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
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background
from topicpolicies_server.entry import main
main()
"""


def signalled(amid: str, name: str, *arguments: str) -> tuple[int, str, str]:
    """The end of a program that gets a signal as it begins to import a module."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, amid, name, *arguments],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("amid", ["typer", "grpc", "topicpolicies_server.cli.calls.info"])
def test_an_interrupt_amid_the_imports_ends_the_program_without_a_traceback(amid: str) -> None:
    code, said, errors = signalled(amid, "SIGINT", "info")
    assert (code, errors) == (130, "")
    assert said in ("", "amid\n")


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_nobody_who_asks_for_something_ends_a_server_that_imports(name: str, tmp_path: Path) -> None:
    code, said, errors = signalled("typer", name, "serve", "--data", str(tmp_path / "none" / "p.db"), "--listen", "nowhere.invalid:1")
    assert said == "amid\n"
    assert code in (2, 9) and errors


@pytest.mark.parametrize(("command", "told", "wanted"), [("info", None, "NONE"), ("info", "INFO", "INFO"), ("serve", None, "unset")])
def test_grpc_is_silent_for_a_client_unless_it_is_told_to_speak(command: str, told: str | None, wanted: str) -> None:
    """What gRPC finds when it is imported."""
    said = 'print(os.environ.get("GRPC_VERBOSITY", "unset"), flush=True); os._exit(0)'
    amid = PROGRAM.replace("os.kill(os.getpid(), number)", said)
    ran = subprocess.run(
        [sys.executable, "-c", amid, "grpc", "SIGINT", command],
        env={"PYTHONPATH": os.pathsep.join(sys.path)} | ({"GRPC_VERBOSITY": told} if told else {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == f"{wanted}\n"

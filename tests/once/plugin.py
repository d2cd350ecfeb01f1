"""Makes xdist start its test processes as forks of the collecting process. Runs in the controlling process."""

from __future__ import annotations

import contextlib
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Generator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.once import asking, executed

_SECONDS = 60
"""How long the collecting process may take to end before it is killed."""
_PROGRAM = """
import json, sys
settings = json.loads(sys.stdin.buffer.readline())
sys.path[:] = settings["path"]
from tests.once import collected
collected.main(settings)
"""
"""The program of the collecting process, which works in the folder in which pytest was called, and receives its module path."""


class _Collected:
    """The collecting process, which accepts requests at an address."""

    def __init__(self, config: pytest.Config, given: dict[str, object]) -> None:
        """Starts the process. It listens at once, and answers when it has collected the tests."""
        self.has_answered = False
        settings = {
            "arguments": [str(each) for each in config.invocation_params.args],
            "input": given,
            "path": sys.path,
        }
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("")  # the system chooses an abstract name, which ends with the socket
            listening.listen()
            self.address = listening.getsockname()[1:].decode()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(listening.fileno())],
                cwd=config.invocation_params.dir,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
            )
        assert self._process.stdin is not None
        self._needed = self._process.stdin
        self._needed.write(json.dumps(settings).encode() + b"\n")
        self._needed.flush()

    def refuse_if_ended(self) -> None:
        """Explains why xdist got no answer.

        Raises:
            pytest.UsageError: the collecting process has ended.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(1)
            raise pytest.UsageError(f"the process that collects the tests has ended, with {status}, before it had all of them")

    def close(self) -> None:
        """Ends the process and its forks. Kills it if it has not forked yet."""
        self._needed.close()
        if not self.has_answered:
            self._process.kill()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Starting:
    """The hooks of xdist for test processes that are forked."""

    _collected: _Collected | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: list[Any]) -> None:
        """Starts the collecting process, with the input that every test process gets."""
        node = SimpleNamespace(workerinput={"workerid": "all", "workercount": len(specs), "testrunuid": "", "mainargv": sys.argv})
        config.hook.pytest_configure_node(node=node)
        self._collected = collected = _Collected(config, node.workerinput)
        config.add_cleanup(collected.close)
        for spec in specs:
            spec.python = shlex.join([sys.executable, "-I", "-S", asking.__file__, collected.address])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self) -> None:
        """Notes that a test process was forked."""
        assert self._collected is not None
        self._collected.has_answered = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionstart(self) -> Generator[None]:
        """Reports in a sentence if the collecting process has ended, as when a test module ends the process that imports it."""
        try:
            return (yield)
        except (EOFError, OSError):
            if self._collected is not None:
                self._collected.refuse_if_ended()
            raise

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_getremotemodule(self) -> ModuleType:
        """Returns the module that test processes execute in place of ``xdist.remote``."""
        return executed


def pytest_configure(config: pytest.Config) -> None:
    """Registers the hooks in the controlling process, if forks are possible."""
    if sys.platform == "linux" and config.getoption("dist", default="no") == "loadgroup" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Starting())

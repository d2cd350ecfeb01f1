"""Has xdist start its test processes by asking the one that has collected; in the process that runs all."""

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
"""By then a process has ended that nobody needs any more, or is ended."""
_PROGRAM = """
import json, sys
told = json.loads(sys.stdin.buffer.readline())
sys.path[:] = told["path"]
from tests.once import collected
collected.main(told)
"""
"""Finds its modules wherever it works: in the folder in which pytest was called."""


class _Collected:
    """The process that collects, for whoever asks at an address."""

    def __init__(self, config: pytest.Config, given: dict[str, object]) -> None:
        """Starts it; it listens from now on, and answers when it has collected."""
        self.has_answered = False
        told = {
            "arguments": [str(each) for each in config.invocation_params.args],
            "input": given,
            "path": sys.path,
        }
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("")  # the system chooses a name, which is in no folder and goes with the socket
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
        self._needed.write(json.dumps(told).encode() + b"\n")
        self._needed.flush()

    def refuse_if_ended(self) -> None:
        """Is to be asked when xdist did not get an answer.

        Raises:
            pytest.UsageError: it can't give any.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(1)
            raise pytest.UsageError(f"the process that collects the tests has ended, with {status}, before it had all of them")

    def close(self) -> None:
        """Lets it end, with those that were forked from it. Where it has not come so far it has nothing to end."""
        self._needed.close()
        if not self.has_answered:
            self._process.kill()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Starting:
    """What is asked by xdist where test processes are forked."""

    _collected: _Collected | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: list[Any]) -> None:
        """Starts the process that collects, with what every test process is told."""
        node = SimpleNamespace(workerinput={"workerid": "all", "workercount": len(specs), "testrunuid": "", "mainargv": sys.argv})
        config.hook.pytest_configure_node(node=node)
        self._collected = collected = _Collected(config, node.workerinput)
        config.add_cleanup(collected.close)
        for spec in specs:
            spec.python = shlex.join([sys.executable, "-I", "-S", asking.__file__, collected.address])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self) -> None:
        """A test process was forked."""
        assert self._collected is not None
        self._collected.has_answered = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionstart(self) -> Generator[None]:
        """Says in a sentence why no test process is there, where one of the tests has ended the one that imported it."""
        try:
            return (yield)
        except (EOFError, OSError):
            if self._collected is not None:
                self._collected.refuse_if_ended()
            raise

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_getremotemodule(self) -> ModuleType:
        """Sends a test process to what it has collected."""
        return executed


def pytest_configure(config: pytest.Config) -> None:
    """Forks where that is possible, and where this process runs all."""
    if sys.platform == "linux" and config.getoption("dist", default="no") == "loadgroup" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Starting())

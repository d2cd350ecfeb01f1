"""Has xdist start its test processes by asking the one that has collected; in the process that runs all."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.once import asking, executed

_SECONDS = 60
"""By then a process has ended that nobody needs any more, or is ended."""


class _Collected:
    """The process that collects, for whoever asks at an address."""

    def __init__(self, config: pytest.Config, given: dict[str, object]) -> None:
        """Starts it; it listens from now on, and answers when it has collected."""
        self._home = tempfile.TemporaryDirectory(prefix="collected-")
        self.address = str(Path(self._home.name) / "ask")
        told = {
            "arguments": [str(each) for each in config.invocation_params.args],
            "input": given,
            "path": sys.path,
        }
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.address)
            listening.listen()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.once.collected", str(listening.fileno()), json.dumps(told)],
                cwd=config.rootpath,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
            )

    def close(self) -> None:
        """Lets it end, with those that were forked from it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._home.cleanup()


class _Starting:
    """What is asked by xdist where test processes are forked."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: list[Any]) -> None:
        """Starts the process that collects, with what every test process is told."""
        node = SimpleNamespace(workerinput={"workerid": "all", "workercount": len(specs), "testrunuid": "", "mainargv": sys.argv})
        config.hook.pytest_configure_node(node=node)
        collected = _Collected(config, node.workerinput)
        config.add_cleanup(collected.close)
        for spec in specs:
            spec.python = shlex.join([sys.executable, "-I", "-S", asking.__file__, collected.address])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_getremotemodule(self) -> ModuleType:
        """Sends a test process to what it has collected."""
        return executed


def pytest_configure(config: pytest.Config) -> None:
    """Forks where that is possible, and where this process runs all."""
    if sys.platform == "linux" and config.getoption("dist", default="no") == "loadgroup" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Starting())

"""Commands as real processes that start with everything imported: imports are most of the cost of a command's process.

One process imports the whole program and is forked for each command. The fork has its own arguments, environment and streams, and exits as
the interpreter exits. ``test_programs`` shows that its output equals that of a new process; ``test_starting`` and ``test_serving`` start
new processes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

_SECONDS = 60
_FORKED = """
import importlib, json, os, pkgutil, signal, socket, sys

import topicpolicies_server
from topicpolicies_server.cli.app import main

for module in pkgutil.walk_packages(topicpolicies_server.__path__, "topicpolicies_server."):
    importlib.import_module(module.name)

asking = socket.socket(fileno=int(sys.argv[1]))
while True:
    asked, streams, _, _ = socket.recv_fds(asking, 1 << 20, 3)
    if not asked:
        os._exit(0)
    child = os.fork()
    if child == 0:
        break
    asking.send(str(child).encode())
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    asking.send(str(os.waitstatus_to_exitcode(status)).encode())
asking.close()
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:], environment = json.loads(asked)
os.environ.clear()
os.environ.update(environment)
main()
"""


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


class _Forking:
    """The process that has imported the command line, and runs one command at a time in a fork."""

    def __init__(self) -> None:
        self._asking, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking.settimeout(_SECONDS)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _FORKED, str(its.fileno())],
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                process_group=0,
            )
        atexit.register(self.end)

    def begin(self, arguments: Sequence[str | bytes], environment: Mapping[str, str], streams: Sequence[int]) -> int:
        """Starts a command; returns the id of its process."""
        request = [list(map(os.fsdecode, arguments)), dict(environment)]
        socket.send_fds(self._asking, [json.dumps(request).encode()], streams)
        return self._received()

    def code(self) -> int:
        """Waits until the command ends; returns its exit code, or the negative number of the signal that ended it."""
        return self._received()

    def _received(self) -> int:
        try:
            return int(self._asking.recv(100))
        except (OSError, ValueError):
            self.end()
            _forking.cache_clear()
            raise

    def end(self) -> None:
        """Kills the process and the command that it runs."""
        self._asking.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@functools.cache
def _forking() -> _Forking:
    return _Forking()


def run(arguments: Sequence[str | bytes], environment: Mapping[str, str], *, stdin: bytes = b"", stdout: IO[bytes] | None = None) -> Ended:
    """Runs a command until it ends.

    Args:
        arguments: without the name of the program.
        environment: all of it.
        stdin: the content of its standard input.
        stdout: the file for its standard output; None: the output is returned.

    Raises:
        OSError: the command did not end in time.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        streams = [each.fileno() for each in (given, stdout or output, errors)]
        forking = _forking()
        forking.begin(arguments, environment, streams)
        code = forking.code()
        output.seek(0)
        errors.seek(0)
        return Ended(code, output.read().decode(), errors.read().decode())


def interrupted(
    arguments: Sequence[str], environment: Mapping[str, str], stdout: IO[bytes], after: Callable[[], object], number: int = signal.SIGINT
) -> Ended:
    """Runs a command and sends it a signal once ``after`` returns. Its standard output is written to ``stdout`` and not returned.

    Args:
        arguments: without the name of the program.
        environment: all of it.
        stdout: the file for its standard output.
        after: waits for the moment of the signal.
        number: the signal.

    Raises:
        OSError: the command did not end in time.
    """
    with Path(os.devnull).open("rb") as nothing, tempfile.TemporaryFile() as errors:
        forking = _forking()
        process = forking.begin(arguments, environment, [nothing.fileno(), stdout.fileno(), errors.fileno()])
        after()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
        code = forking.code()
        errors.seek(0)
        return Ended(code, "", errors.read().decode())

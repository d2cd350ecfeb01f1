"""Commands and servers as real processes that start with everything imported: imports are most of what it costs to start one.

One process imports the whole program and is forked for each command. The fork has its own arguments, environment, folder and streams, and
exits as the interpreter exits. ``test_programs`` shows that its output equals that of a new process. ``test_starting``, ``test_serving``
and, among the promises, ``test_command_line`` and ``test_processes`` start new processes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Self

_SECONDS = 60
_FORKED = """
import contextlib, gc, importlib, json, os, pkgutil, select, signal, socket, sys

import topicpolicies_server
from topicpolicies_server.__main__ import main

for module in pkgutil.walk_packages(topicpolicies_server.__path__, "topicpolicies_server."):
    importlib.import_module(module.name)
for name in ("anyio._backends._asyncio", "httpcore", "sniffio", "uvloop"):  # imported when they are first used
    importlib.import_module(name)
gc.freeze()

asking, running = socket.socket(fileno=int(sys.argv[1])), {}
ended, waking = socket.socketpair()
waking.setblocking(False)
signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
signal.signal(signal.SIGCHLD, lambda *_: None)
while True:
    readable, _, _ = select.select([sys.stdin, asking, ended], [], [])
    if sys.stdin in readable:  # the tests have ended
        os.killpg(0, signal.SIGKILL)
    if ended in readable:
        ended.recv(1000)
        for child in list(running):
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                with running.pop(child) as answers, contextlib.suppress(OSError):  # nobody may wait for it any more
                    answers.send(str(os.waitstatus_to_exitcode(status)).encode())
    if asking in readable:
        answers, _ = asking.accept()
        asked, streams, _, _ = socket.recv_fds(answers, 1 << 20, 3)
        child = os.fork()
        if child == 0:
            break
        running[child] = answers
        answers.send(str(child).encode())
        for stream in streams:
            os.close(stream)
signal.set_wakeup_fd(-1)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
for each in (asking, ended, waking, answers, *running.values()):
    each.close()
for number, (stream, name) in enumerate(zip(streams, ("stdin", "stdout", "stderr"))):
    os.dup2(stream, number)
    os.close(stream)
    former = getattr(sys, name)
    setattr(sys, name, open(number, former.mode, 1 if name == "stderr" else -1, former.encoding, former.errors))
sys.argv[1:], environment, folder = json.loads(asked)
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
main()
"""
_PROGRAM = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
    asking.connect({path!r})
    socket.send_fds(asking, [json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()], [0, 1, 2])
    asking.recv(100)
    sys.exit(int(asking.recv(100)))
"""


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


class Process:
    """A command that was started; as a context, it is killed at the end. Its parent is the process that forks."""

    def __init__(self, answers: socket.socket) -> None:
        """``answers``: where its id comes from, and its exit code once it has ended."""
        self._answers = answers
        self.pid = self._answer()
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, or the negative number of the signal that ended it; None while it runs."""
        try:
            return self.wait(0)
        except BlockingIOError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Waits until it has ended, for ``timeout`` seconds; returns its exit code, or the negative number of the signal that ended it.

        Raises:
            TimeoutError: it did not end in time.
        """
        if self._code is None:
            self._answers.settimeout(timeout)
            self._code = self._answer()
            self._answers.close()
        return self._code

    def _answer(self) -> int:
        return int(self._answers.recv(100))

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Sends it SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it, and waits until it has ended."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


@functools.cache
def _forking() -> str:
    """Starts the process that imports the program; returns where it listens. It ends, and all commands with it, when this process ends."""
    folder = tempfile.mkdtemp()
    path = f"{folder}/asking"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        process = subprocess.Popen(
            [sys.executable, "-c", _FORKED, str(listening.fileno())],
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            process_group=0,
        )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return path


def start(
    arguments: Sequence[str | bytes],
    environment: Mapping[str, str],
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> Process:
    """Starts a command.

    Args:
        arguments: without the name of the program.
        environment: all of it.
        stdin: the file that it reads; None: it is empty.
        stdout: the file for its standard output.
        stderr: the file for its standard error.
    """
    request = [list(map(os.fsdecode, arguments)), dict(environment), str(Path.cwd())]
    answers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    answers.connect(_forking())
    with Path(os.devnull).open("rb") as nothing:
        socket.send_fds(answers, [json.dumps(request).encode()], [each.fileno() for each in (stdin or nothing, stdout, stderr)])
    return Process(answers)


def write_program(path: Path) -> None:
    """Writes a program that does for a shell what ``start`` does here; a shell can't interrupt it."""
    path.write_text(_PROGRAM.format(python=sys.executable, path=_forking()))
    path.chmod(0o700)


def run(arguments: Sequence[str | bytes], environment: Mapping[str, str], *, stdin: bytes = b"", stdout: IO[bytes] | None = None) -> Ended:
    """Runs a command until it ends.

    Args:
        arguments: without the name of the program.
        environment: all of it.
        stdin: the content of its standard input.
        stdout: the file for its standard output; None: the output is returned.

    Raises:
        TimeoutError: the command did not end in time, and was killed.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        with start(arguments, environment, stdin=given, stdout=stdout or output, stderr=errors) as process:
            code = process.wait(_SECONDS)
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
        TimeoutError: the command did not end in time, and was killed.
    """
    with tempfile.TemporaryFile() as errors:
        with start(arguments, environment, stdout=stdout, stderr=errors) as process:
            after()
            process.send_signal(number)
            code = process.wait(_SECONDS)
        errors.seek(0)
        return Ended(code, "", errors.read().decode())

"""Collects all tests as a test process of xdist does, and is forked for each one that is to run some.

``plugin`` starts it, and tells it how. What it would say to xdist until then is kept, and each process that is forked
says it. Nothing else may run in it when it is forked: its one Python thread waits for whoever asks. Libraries that have threads of their
own by then (numpy, pyarrow) know what to do when they are forked.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import execnet.gateway_base as gateways
import pytest
from _pytest.config import _prepareconfig

from tests.once import lent

if TYPE_CHECKING:
    import xdist.remote


class _Said:
    """Takes what is to be said to xdist before there is anybody to say it to; looks like a channel."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(execmodel=gateways.get_execmodel(lent.EXECUTING))
        self.events: list[object] = []

    def send(self, event: object) -> None:
        self.events.append(event)


class _Asked:
    """Forks for each that asks."""

    def __init__(self, listening: socket.socket) -> None:
        """Is to be made before pytest takes this process's input for something to capture."""
        self._listening = listening
        self._needed = os.dup(0)

    def forked(self) -> list[int]:
        """Returns in what was forked, with the input and output that it is to have.

        The process itself ends here: when its own input ends, and with the last one that was forked from it. Who asks then is gone as well.
        """
        children = []
        try:
            while self._is_asked():
                asking, _ = self._listening.accept()
                streams = self._streams(asking)
                if len(streams) == 2:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # newer Pythons warn of threads, also of those of libraries
                        child = os.fork()
                    if child == 0:
                        self._listening.close()
                        os.close(self._needed)
                        # Before 3.13 a forked process's one thread has the number of the process that it was forked from.
                        threading.current_thread()._set_native_id()  # type: ignore[attr-defined]
                        asking.detach()  # who asked waits for its end, which is that of this process
                        return streams
                    children.append(child)
                    for stream in streams:
                        os.close(stream)
                asking.close()
            for child in children:
                os.waitpid(child, 0)
        except KeyboardInterrupt:
            pass  # so are the others
        os._exit(0)

    def _is_asked(self) -> bool:
        """Waits until somebody asks, or nobody will."""
        ready, _, _ = select.select([self._listening.fileno(), self._needed], [], [])
        return self._needed not in ready

    def _streams(self, asking: socket.socket) -> list[int]:
        """What this user's program hands over; any program of the machine may know the socket's name."""
        _, user, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        return socket.recv_fds(asking, 16, 2)[1] if user == os.getuid() else []


class _Forks:
    """Stops the session of the collecting process where tests would be run; what is forked goes on."""

    def __init__(self, config: pytest.Config, asked: _Asked, said: _Said, interactor: xdist.remote.WorkerInteractor) -> None:
        self._config = config
        self._asked = asked
        self._said = said
        self._interactor = interactor
        self._is_forked = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Is before xdist's own, which runs what it is told."""
        self._fork()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Of tests that nobody waits for any more nothing is to be said; ``pytest.exit`` is."""
        if not self._is_forked and excinfo.errisinstance(KeyboardInterrupt):
            os._exit(pytest.ExitCode.INTERRUPTED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """If nothing could be collected each process says so."""
        if not self._is_forked:
            self._fork()

    def _fork(self) -> None:
        self._is_forked = True
        streams = self._asked.forked()
        capturing = self._config.pluginmanager.getplugin("capturemanager")
        assert capturing is not None
        # What is captured is kept in a file, of which each process needs one.
        capturing.stop_global_capturing()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        try:
            channel = lent.take()
        except (EOFError, OSError, KeyboardInterrupt):  # before anything was run
            os._exit(pytest.ExitCode.INTERRUPTED)
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
        self._become(channel)

    def _become(self, channel: Any) -> None:
        """Takes the number and the folder of a test process, and says what all have to say."""
        given, _, options, _ = channel.receive()
        self._config.workerinput.update(given)  # type: ignore[attr-defined]
        os.environ["PYTEST_XDIST_TESTRUNUID"] = given["testrunuid"]
        os.environ["PYTEST_XDIST_WORKER"] = given["workerid"]
        os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(given["workercount"])
        folders: pytest.TempPathFactory = self._config._tmp_path_factory  # type: ignore[attr-defined]
        folders._given_basetemp = Path(options["basetemp"]).absolute()
        self._config.option.basetemp = options["basetemp"]
        self._interactor.workerid = given["workerid"]
        self._interactor.testrunuid = given["testrunuid"]
        self._interactor.channel = channel
        for event in self._said.events:
            channel.send(event)


def main(told: dict[str, Any]) -> None:
    """Begins as ``xdist.remote`` does; the exit status is of no interest to anybody."""
    asked = _Asked(socket.socket(fileno=int(sys.argv[1])))
    said = _Said()
    try:
        config = _prepareconfig(told["arguments"], None)
        import xdist.remote  # noqa: PLC0415  # not before pytest has taken it for one of its plugins

        xdist.remote.setup_config(config, None)
        config._parser.prog = "pytest"
        config.workerinput = told["input"]  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]
        interactor = xdist.remote.WorkerInteractor(config, said)
        xdist.remote.interactor = interactor  # as where xdist executes that module
        config.pluginmanager.register(_Forks(config, asked, said, interactor))
        config.hook.pytest_cmdline_main(config=config)
    except KeyboardInterrupt:
        pass  # so are the others
    finally:
        lent.end()

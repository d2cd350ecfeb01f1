"""Collects all tests as a test process of xdist does, and is forked for each test process.

``plugin`` starts this process, and sends it the arguments. Its messages to xdist are kept, and each fork sends them. No other Python thread
may run when it is forked: its only one waits for requests. Libraries with threads of their own (numpy, pyarrow) handle forks themselves.
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


class _KeptMessages:
    """Has the interface of a channel, and keeps the messages to xdist until there is a channel."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(execmodel=gateways.get_execmodel(lent.EXECUTING))
        self.events: list[object] = []

    def send(self, event: object) -> None:
        self.events.append(event)


class _ForkServer:
    """Forks the process for each request."""

    def __init__(self, listening: socket.socket) -> None:
        """To be created before pytest captures this process's input."""
        self._listening = listening
        self._needed = os.dup(0)

    def forked(self) -> list[int]:
        """Returns in each fork, with the descriptors of its input and output.

        The collecting process itself does not return: it ends when its own input has ended and all forks have ended. Then there are no more
        requests.
        """
        children = []
        try:
            while self._has_request():
                asking, _ = self._listening.accept()
                streams = self._streams(asking)
                if len(streams) == 2:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # newer versions of Python warn of threads, also of libraries' threads
                        child = os.fork()
                    if child == 0:
                        self._listening.close()
                        os.close(self._needed)
                        # Before 3.13 the thread of a fork still has the native id of the process that was forked.
                        threading.current_thread()._set_native_id()  # type: ignore[attr-defined]
                        asking.detach()  # stays open until this process ends, for which the requester waits
                        return streams
                    children.append(child)
                    for stream in streams:
                        os.close(stream)
                asking.close()
            for child in children:
                os.waitpid(child, 0)
        except KeyboardInterrupt:
            pass  # the forks are interrupted too
        os._exit(0)

    def _has_request(self) -> bool:
        """Waits for a request. Returns False if there will be none, because the input has ended."""
        ready, _, _ = select.select([self._listening.fileno(), self._needed], [], [])
        return self._needed not in ready

    def _streams(self, asking: socket.socket) -> list[int]:
        """Returns the descriptors that a program of this user passes; programs of other users may know the socket's name too."""
        _, user, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        return socket.recv_fds(asking, 16, 2)[1] if user == os.getuid() else []


class _Forks:
    """Ends the session of the collecting process where tests would be run; the forks continue with it."""

    def __init__(self, config: pytest.Config, server: _ForkServer, kept: _KeptMessages, interactor: xdist.remote.WorkerInteractor) -> None:
        self._config = config
        self._server = server
        self._kept = kept
        self._interactor = interactor
        self._is_forked = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Forks before xdist's own hook runs tests."""
        self._fork()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ends without a report if the collection is interrupted; ``pytest.exit`` is reported."""
        if not self._is_forked and excinfo.errisinstance(KeyboardInterrupt):
            os._exit(pytest.ExitCode.INTERRUPTED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Forks if the collection failed, so that each test process reports this."""
        if not self._is_forked:
            self._fork()

    def _fork(self) -> None:
        self._is_forked = True
        streams = self._server.forked()
        capturing = self._config.pluginmanager.getplugin("capturemanager")
        assert capturing is not None
        # Captured output is kept in a file; each process needs its own.
        capturing.stop_global_capturing()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        try:
            channel = lent.take()
        except (EOFError, OSError, KeyboardInterrupt):  # before the first test
            os._exit(pytest.ExitCode.INTERRUPTED)
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
        self._become(channel)

    def _become(self, channel: Any) -> None:
        """Takes the number and the folder of a test process, and sends the kept messages."""
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
        for event in self._kept.events:
            channel.send(event)


def main(settings: dict[str, Any]) -> None:
    """Starts as ``xdist.remote`` does. The exit status is not used."""
    server = _ForkServer(socket.socket(fileno=int(sys.argv[1])))
    kept = _KeptMessages()
    try:
        config = _prepareconfig(settings["arguments"], None)
        import xdist.remote  # noqa: PLC0415  # only after pytest has registered it as a plugin

        xdist.remote.setup_config(config, None)
        config._parser.prog = "pytest"
        config.workerinput = settings["input"]  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]
        interactor = xdist.remote.WorkerInteractor(config, kept)
        xdist.remote.interactor = interactor  # as if xdist executed that module
        config.pluginmanager.register(_Forks(config, server, kept, interactor))
        config.hook.pytest_cmdline_main(config=config)
    except KeyboardInterrupt:
        pass  # the forks are interrupted too
    finally:
        lent.end()

"""One running broker of a version for all processes of a test run.

With xdist, tests run in several processes. The controlling process starts a broker when the first test asks for it, gives its address to
each test process, and closes it after all tests. Without xdist the test process itself does this.

| who | has | asks |
|---|---|---|
| the controlling process | ``Brokers``, and a ``BrokerDirectory`` for other processes | ``Brokers.of`` |
| a test process of xdist | ``RemoteBrokers``: the directory's address | the directory, over a Unix socket |
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import pytest

from tests.broker.jars import BrokerUnavailableError
from tests.broker.pulsar_broker import Broker, OwnBroker

_ADDRESS = "brokers"
_HEAP_MB = 1500
"""The namespaces of all processes are on one broker."""


class Brokers:
    """The brokers of a run, in the process that starts them."""

    def __init__(self) -> None:
        """Does not start a broker yet."""
        self._lock = threading.Lock()
        self._starting: dict[str, threading.Lock] = {}
        self._running: dict[str, OwnBroker] = {}

    def of(self, version: str) -> Broker:
        """Returns the running broker of a version, which is started once, at the first request of any thread.

        Raises:
            BrokerUnavailableError: the broker can't be run here.
        """
        with self._lock:
            starting = self._starting.setdefault(version, threading.Lock())
        with starting:
            if version not in self._running:
                self._running[version] = _started(version)
            return self._running[version]

    def close(self) -> None:
        """Closes all brokers."""
        for broker in self._running.values():
            broker.close()
        self._running.clear()


def _started(version: str) -> OwnBroker:
    broker = OwnBroker(version, heap_mb=_HEAP_MB)
    try:
        broker.start()
    except BaseException:
        broker.close()
        raise
    return broker


class BrokerDirectory:
    """Answers other processes with the addresses of brokers, in one thread per question, because an answer may include a broker's start."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._home = tempfile.TemporaryDirectory(prefix="brokers-")
        self._listener = Listener(str(Path(self._home.name) / "directory"), "AF_UNIX")
        self.address = str(self._listener.address)
        threading.Thread(target=self._listen, name="brokers of the run", daemon=True).start()

    def close(self) -> None:
        """Stops answering."""
        self._listener.close()
        self._home.cleanup()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                threading.Thread(target=self._answer, args=[self._listener.accept()], daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, OSError):  # the asking process has ended
            try:
                broker = self._brokers.of(connection.recv())
                answer: Broker | str = Broker(broker.version, broker.home, broker.ports, broker.security, pid=broker.pid)
            except BrokerUnavailableError as error:
                answer = str(error)
            connection.send(answer)


class RemoteBrokers:
    """The brokers that the controlling process has started."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._known: dict[str, Broker] = {}

    def of(self, version: str) -> Broker:
        """See ``Brokers.of``."""
        if version not in self._known:
            with Client(self._address, "AF_UNIX") as connection:
                connection.send(version)
                answer = connection.recv()
            if not isinstance(answer, Broker):
                raise BrokerUnavailableError(answer)
            self._known[version] = answer
        return self._known[version]


KEY = pytest.StashKey[Brokers | RemoteBrokers]()


class _Owner:
    """The plugin of the controlling process, which owns the brokers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._directory: BrokerDirectory | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Gives a test process the address of the directory."""
        if self._directory is None:
            self._directory = BrokerDirectory(self._brokers)
        node.workerinput[_ADDRESS] = self._directory.address

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        """Closes the brokers after all tests, before other plugins count what the brokers' logs have."""
        if self._directory is not None:
            self._directory.close()
        self._brokers.close()
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Gives every process its source of brokers."""
    address = getattr(config, "workerinput", {}).get(_ADDRESS)
    if address is not None:
        config.stash[KEY] = RemoteBrokers(address)
        return
    config.stash[KEY] = brokers = Brokers()
    config.pluginmanager.register(_Owner(brokers))

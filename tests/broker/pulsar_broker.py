"""A real Pulsar broker: ``OwnBroker`` is a child process, started on free loopback ports, with a data directory of its own.

Used by tests and by measurements. All files of a run are in the cache directory (``jars.cache``): the logs and configurations of the last
runs stay there, the data is removed when the broker is closed.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.broker import compacting, configuration
from tests.broker.admin import Admin
from tests.broker.configuration import SUPERUSER, Ports, Security
from tests.broker.jars import LATEST, BrokerUnavailableError, cache, class_archive, jars, java
from tests.suspending import suspend

_KEPT_RUNS = 10
_TAIL_LINES = 40
_POLL_S = 0.1


class Broker:
    """A running broker: its addresses and its clients. The process that started it stops it."""

    def __init__(self, version: str, home: Path, ports: Ports, security: Security, *, pid: int | None = None) -> None:
        """Does not start a broker.

        Args:
            version: the broker's release.
            home: its directory.
            ports: the ports on which it listens.
            security: how it authenticates clients.
            pid: the id of its process, if it runs.
        """
        self.version = version
        self.home = home
        self.log = home / "broker.log"
        self.ports = ports
        self.security = security
        self.pid = pid
        """The id of the process while it runs."""

    @property
    def service_url(self) -> str:
        """The URL for clients, without TLS."""
        return f"pulsar://127.0.0.1:{self.ports.service}"

    @property
    def admin_url(self) -> str:
        """The URL of the admin API, without TLS."""
        return f"http://127.0.0.1:{self.ports.web}"

    @property
    def service_url_tls(self) -> str:
        """The URL for clients with TLS, if there is an authority."""
        return f"pulsar+ssl://127.0.0.1:{self.ports.service_tls}"

    @property
    def admin_url_tls(self) -> str:
        """The URL of the admin API with TLS, if there is an authority."""
        return f"https://127.0.0.1:{self.ports.web_tls}"

    def token(self, role: str = SUPERUSER) -> str | None:
        """Returns a token for a role; None if the broker does not require tokens."""
        return None if self.security.tokens is None else self.security.tokens.token(role)

    def admin(self, role: str = SUPERUSER) -> Admin:
        """Returns a client of the admin API."""
        return Admin(self.admin_url, token=self.token(role))

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """Returns the end of the broker's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class OwnBroker(Broker):
    """A broker that belongs to this process, with its bookie and its metadata store in one Java process.

    It can be stopped, killed, paused and started again; ports and data stay the same until ``close``. It never outlives this process,
    however this process ends.
    """

    def __init__(
        self,
        version: str = LATEST,
        *,
        settings: Mapping[str, str] | None = None,
        security: Security | None = None,
        ports: Ports | None = None,
        heap_mb: int = 1000,
        plugins: Sequence[Path] = (),
        java_options: Sequence[str] = (),
    ) -> None:
        """Prepares a broker, but does not start it.

        Args:
            version: a release of ``jars.LOG4J_OF``.
            settings: lines of ``standalone.conf`` in addition to, or instead of, the default ones.
            security: tokens, TLS, or both; none by default.
            ports: the ports to listen on; free ports by default.
            heap_mb: the maximum of the Java heap, in MB; half as much may be used outside of it.
            plugins: further jars on the class path.
            java_options: further options of Java; without any, the classes are loaded from an archive if there is one.

        Raises:
            BrokerUnavailableError: Java, Maven or the jars are not available.
        """
        self._java = java()
        self._plugins = plugins
        self._given_options = java_options
        self._heap_mb = heap_mb
        self._be_of(version)
        super().__init__(version, _new_home(version), ports or Ports(), security or Security())
        (self.home / "tmp").mkdir()
        (self.home / "log4j2.xml").write_text(configuration.logging())
        (self.home / "standalone.conf").write_text(configuration.standalone_conf(self.home, self.ports, self.security, settings or {}))
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def start(self, *, wipe: bool = False, timeout_s: float = 120) -> None:
        """Starts the broker, and waits until it is ready: the admin API answers and ``public/default`` exists.

        Args:
            wipe: whether to remove the data of earlier starts of this object.
            timeout_s: how long to wait.

        Raises:
            BrokerUnavailableError: the broker ended or was not ready in time, and does not run; the message has the end of its log.
        """
        if self._process is not None:
            raise RuntimeError("this broker is running")
        arguments = configuration.command(
            self._java, self._java_options, self._class_path, self.home, self.ports, heap_mb=self._heap_mb, wipe=wipe
        )
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C in a terminal reaches the tests only, which then stop the broker.
            self._process = subprocess.Popen(
                arguments,
                cwd=self.home,
                env={name: value for name, value in os.environ.items() if not name.startswith("PULSAR_")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._watchdog = _watchdog(self.pid)
        try:
            self._await_ready(self._process, timeout_s)
        except BaseException:
            self.kill()
            raise

    def upgrade(self, version: str) -> None:
        """Makes the next start run another version on the same data. The broker must not be running.

        Raises:
            BrokerUnavailableError: the jars are not available.
        """
        if self._process is not None:
            raise RuntimeError("this broker is running")
        self._be_of(version)

    def stop(self, *, timeout_s: float = 30) -> None:
        """Shuts the broker down, or kills it if that takes too long; does nothing if it does not run."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """Ends the broker at once (SIGKILL), as a crash would; does nothing if it does not run."""
        self._end(signal.SIGKILL, 10)

    def pause(self) -> None:
        """Suspends the process: its connections stay open, but nothing is answered."""
        if self._process is None:
            raise RuntimeError("this broker is not running")
        suspend(self._process.pid)

    def resume(self) -> None:
        """Resumes a paused process (SIGCONT)."""
        if self._process is None:
            raise RuntimeError("this broker is not running")
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the broker and removes its data; its log is kept until later runs replace it."""
        self.kill()
        compacting.count(self.log)
        for part in ("data", "tmp"):
            shutil.rmtree(self.home / part, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _be_of(self, version: str) -> None:
        """Selects the classes of a version, from an archive if there is one."""
        self.version = version
        self._class_path = os.pathsep.join([f"{jars(version)}/*", *map(str, self._plugins)])
        archive, made = class_archive(version)
        self._java_options = list(self._given_options) or ([f"-XX:SharedArchiveFile={archive}"] if made.is_file() else [])

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        process, self._process = self._process, None
        watchdog, self._watchdog = self._watchdog, None
        self.pid = None
        if process is None or watchdog is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused process does not act on SIGTERM
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            watchdog.kill()
            watchdog.communicate()

    def _await_ready(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self.admin() as admin:
            while not admin.ready():
                if process.poll() is not None:
                    raise BrokerUnavailableError(f"The broker ended with {process.returncode}; the end of {self.log}:\n{self.tail()}")
                if time.monotonic() > deadline:
                    raise BrokerUnavailableError(f"The broker was not ready in {timeout_s:.0f} s; the end of {self.log}:\n{self.tail()}")
                time.sleep(_POLL_S)


def _watchdog(pid: int) -> subprocess.Popen[bytes]:
    """Starts a process that kills the broker when this process has ended, even by SIGKILL: only this process holds the pipe's other end."""
    script = f"read -r _; kill -KILL {pid} 2>/dev/null"
    return subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _new_home(version: str) -> Path:
    """Creates a directory for one broker, with this process's id in it; removes all but the newest directories of ended processes."""
    parent = cache() / "brokers"
    parent.mkdir(parents=True, exist_ok=True)
    abandoned = [home for home in parent.iterdir() if not _owned(home)]
    for home in sorted(abandoned, key=_changed, reverse=True)[_KEPT_RUNS:]:
        shutil.rmtree(home, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix=f"{version}-", dir=parent))
    (home / "owner").write_text(str(os.getpid()))
    return home


def _changed(home: Path) -> float:
    """Returns when a directory was changed, in seconds since 1970; 0 if another process has just removed it."""
    with contextlib.suppress(OSError):
        return home.stat().st_mtime
    return 0.0


def _owned(home: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((home / "owner").read_text()), 0)
        return True
    return False

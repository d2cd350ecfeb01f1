"""Builds the Java packages through Maven, once per state of their sources; for tests and measurements."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.broker.jars import ONLY_CENTRAL, BrokerUnavailableError, cache, java

_ROOT = Path(__file__).resolve().parents[1]
SOURCES = _ROOT / "clients" / "java"
"""The root of the Java packages."""
_DEFINITIONS = _ROOT / "proto" / "topicpolicies"
"""What the build makes the stubs of."""
_STAMP = SOURCES / "target" / "built"
"""Has the state of the sources of which everything in the output directories was built."""
_UNRESOLVED = re.compile(r"Could not (?:resolve|find artifact|transfer)|could not be resolved|Non-resolvable")


class BuildError(Exception):
    """Maven failed; the message has the end of what it said."""


def plugin_jar() -> Path:
    """The jar to put on a broker's class path.

    Raises:
        BrokerUnavailableError: Java or Maven is missing.
        BuildError: the build failed.
    """
    return _built("broker-plugin")


def example_jar() -> Path:
    """The example, with all that it needs.

    Raises:
        BrokerUnavailableError: Java or Maven is missing.
        BuildError: the build failed.
    """
    return _built("example")


def maven(*arguments: str, sources: Path = SOURCES, environment: Mapping[str, str] | None = None) -> str:
    """Runs Maven on Java packages, alone; what it said. What was built of other sources than today's is removed before.

    First with the settings of this machine, which may name a mirror; if something can't be resolved so, with every repository but Central
    closed.

    Args:
        arguments: Maven's.
        sources: the directory of the parent's ``pom.xml``.
        environment: what is added to this process's.

    Raises:
        BrokerUnavailableError: Java or Maven is missing.
        BuildError: it failed.
    """
    with _alone():
        if sources == SOURCES and not _current():
            _STAMP.unlink(missing_ok=True)
            arguments = ("clean", *arguments)
        return _maven(*arguments, sources=sources, environment=environment)


def _maven(*arguments: str, sources: Path = SOURCES, environment: Mapping[str, str] | None = None) -> str:
    java()
    program = shutil.which("mvn")
    if program is None:
        raise BrokerUnavailableError("Maven (mvn) is missing: it builds the Java packages.")
    command = [program, "--batch-mode", "--no-transfer-progress", "--strict-checksums", f"--file={sources}", *arguments]
    done = _run(command, environment)
    if done.returncode and _UNRESOLVED.search(done.stdout):
        empty = _home() / "empty"
        empty.mkdir(exist_ok=True)
        settings = _home() / "settings.xml"
        settings.write_text(ONLY_CENTRAL.format(empty=empty.as_uri()))
        done = _run([*command, f"--settings={settings}"], environment)
    if done.returncode:
        raise BuildError("\n".join(done.stdout.splitlines()[-60:]))
    return done.stdout


def _run(command: list[str], environment: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _built(module: str) -> Path:
    jar = SOURCES / module / "target" / f"topicpolicies-{module}-0.1.0.jar"
    with _alone():
        if not (jar.is_file() and _current()):
            wanted = _fingerprint()
            _STAMP.unlink(missing_ok=True)
            _maven("--quiet", "-DskipTests", "clean", "package")
            _STAMP.parent.mkdir(exist_ok=True)
            _STAMP.write_text(wanted)
    return jar


def _current() -> bool:
    return _STAMP.is_file() and _STAMP.read_text() == _fingerprint()


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for root in (SOURCES, _DEFINITIONS):
        for path in sorted(root.rglob("*")):
            if path.is_file() and "target" not in path.relative_to(root).parts:
                digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _home() -> Path:
    home = cache() / "java"
    home.mkdir(parents=True, exist_ok=True)
    return home


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One build at a time, whichever process wants it: Maven's output directories are shared."""
    with (_home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""Builds the Java packages through Maven, once for each state of their sources, for tests and measurements."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.broker.jars import ONLY_CENTRAL, BrokerUnavailableError, cache, java
from tests.builds import Build

_ROOT = Path(__file__).resolve().parents[1]
SOURCES = _ROOT / "clients" / "java"
"""The root of the Java packages."""
_DEFINITIONS = _ROOT / "proto" / "topicpolicies"
"""The definitions from which the build generates the stubs."""
_BUILD = Build(SOURCES / "target" / "built", [SOURCES, _DEFINITIONS, Path(__file__)], without=["target"])
"""The build of everything in the output directories: jars and compiled tests."""
_UNRESOLVED = re.compile(r"Could not (?:resolve|find artifact|transfer)|could not be resolved|Non-resolvable")


class BuildError(Exception):
    """Maven failed; the message has the end of its output."""


def plugin_jar() -> Path:
    """Returns the jar for a broker's class path.

    Raises:
        BrokerUnavailableError: Java or Maven is missing.
        BuildError: the build failed.
    """
    return _built("broker-plugin")


def example_jar() -> Path:
    """Returns the jar of the example, with its dependencies.

    Raises:
        BrokerUnavailableError: Java or Maven is missing.
        BuildError: the build failed.
    """
    return _built("example")


def own_tests(*modules: str, environment: Mapping[str, str]) -> str:
    """Runs the tests of modules, and returns Maven's output.

    Args:
        modules: the modules, including those that they need.
        environment: variables to add to this process's environment.

    Raises:
        BrokerUnavailableError: Java or Maven is missing.
        BuildError: the build or a test failed.
    """
    _BUILD.make(_package)
    with _BUILD.alone():
        # The build is current. The option makes the compiler compare the times of sources only; otherwise it compiles everything again,
        # because a module's dependency is a jar in one build and a directory in another.
        options = ["-Dmaven.compiler.useIncrementalCompilation=false", f"--projects={','.join(modules)}"]
        return _maven(*options, "test", environment=environment)


def _maven(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Runs Maven, and returns its output.

    It runs with the machine's own settings, which may name a mirror; if an artifact can't be resolved, it runs again with Central only.
    """
    java()
    program = shutil.which("mvn")
    if program is None:
        raise BrokerUnavailableError("Maven (mvn) is missing: it builds the Java packages.")
    command = [program, "--batch-mode", "--no-transfer-progress", "--strict-checksums", f"--file={SOURCES}", *arguments]
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
    # Maven and the processes of the tests run for seconds: a garbage collector without threads does less work for them.
    options = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -XX:+UseSerialGC".strip()
    variables = {**os.environ, "JDK_JAVA_OPTIONS": options, **(environment or {})}
    return subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _built(module: str) -> Path:
    _BUILD.make(_package)
    return SOURCES / module / "target" / f"topicpolicies-{module}-0.1.0.jar"


def _package() -> None:
    _maven("--quiet", "-DskipTests", "clean", "package")


def _home() -> Path:
    home = cache() / "java"
    home.mkdir(parents=True, exist_ok=True)
    return home

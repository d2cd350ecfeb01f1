"""The jars of brokers are resolved once, and errors name what is missing."""

from pathlib import Path

import pytest

from tests.broker import jars
from tests.broker.jars import BrokerUnavailableError


@pytest.fixture
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with an empty path and an empty cache; returns the directory on the path."""
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(jars.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tools


def _install(tools: Path, name: str, script: str) -> None:
    (tools / name).write_text(f"#!/bin/sh\n{script}\n")
    (tools / name).chmod(0o755)


@pytest.mark.usefixtures("empty_machine")
def test_an_unknown_version_is_refused_without_java_or_maven() -> None:
    with pytest.raises(BrokerUnavailableError, match=r"Pulsar 1\.2\.3 is not among"):
        jars.jars("1.2.3")


def test_if_maven_fails_it_is_run_again_with_central_only_and_the_error_has_the_end_of_its_log(empty_machine: Path) -> None:
    _install(empty_machine, "java", """echo 'openjdk version "17"' >&2""")
    _install(empty_machine, "mvn", """echo "told: $@"; exit 1""")
    with pytest.raises(BrokerUnavailableError, match=r"told: .*--settings="):
        jars.jars()


def test_jars_are_resolved_once_and_again_if_one_is_missing(empty_machine: Path) -> None:
    runs = empty_machine / "runs"
    _install(empty_machine, "java", """echo 'openjdk version "17"' >&2""")
    _install(
        empty_machine,
        "mvn",
        f"""
        echo run >> {runs}
        for argument in "$@"; do case $argument in -DoutputDirectory=*) lib=${{argument#*=}};; esac; done
        /bin/mkdir -p $lib
        : > $lib/a.jar; : > $lib/b.jar
        """,
    )
    lib = jars.jars()
    assert jars.jars() == lib
    assert runs.read_text().count("run") == 1
    (lib / "a.jar").unlink()
    jars.jars()
    assert runs.read_text().count("run") == 2
    assert {found.name for found in lib.iterdir()} == {"a.jar", "b.jar"}

"""The jars of brokers are resolved once, and errors name what is missing."""

from pathlib import Path

import pytest

from tests.broker import archive, jars
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
def test_the_error_names_missing_java() -> None:
    with pytest.raises(BrokerUnavailableError, match=r"JDK 17 or newer is missing: no java on the path"):
        jars.java()


def test_old_java_is_refused_with_its_own_version_line(empty_machine: Path) -> None:
    _install(empty_machine, "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    with pytest.raises(BrokerUnavailableError, match=r'says openjdk version "11.0.2"'):
        jars.java()


def test_java_home_takes_precedence_over_the_path(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(empty_machine, "java", """echo 'openjdk version "17.0.1"' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(empty_machine / "nowhere"))
    with pytest.raises(BrokerUnavailableError, match="in JAVA_HOME"):
        jars.java()
    monkeypatch.delenv("JAVA_HOME")
    assert jars.java() == empty_machine / "java"


def test_the_error_names_missing_maven(empty_machine: Path) -> None:
    _install(empty_machine, "java", """echo 'openjdk version "21"' >&2""")
    with pytest.raises(BrokerUnavailableError, match=r"Maven \(mvn\) is missing"):
        jars.jars()


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


@pytest.mark.usefixtures("empty_machine")
def test_the_command_fails_with_the_reason_if_no_broker_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert archive.main() == 1
    assert "JDK 17 or newer is missing" in capsys.readouterr().err

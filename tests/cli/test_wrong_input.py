"""Bytes that are not UTF-8, invalid files, and output that can't be written cause a sentence and an exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import programs
from tests.cli.conftest import TOPIC, A, Terminal

pytestmark = pytest.mark.slow
BYTES = b"x\xff"


def run(terminal: Terminal, *arguments: str | bytes, stdout: str = "/dev/null", stdin: bytes = b"") -> tuple[int, str]:
    """Runs a command as a real process; returns its exit code and its standard error."""
    with Path(stdout).open("wb") as file:
        ended = programs.run(arguments, terminal.environment, stdin=stdin, stdout=file)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", b"public/a/" + BYTES),
        ("update", TOPIC, b"replication_clusters=" + BYTES),
        ("update", TOPIC, b"--unset=" + BYTES),
        ("update", TOPIC, "max_producer_per_topic=1", "--reason", BYTES),
        ("update", TOPIC, "max_producer_per_topic=1", "--actor", BYTES),
        ("list", BYTES),
        ("watch", BYTES),
        ("history", A, "--by", BYTES),
        ("health", "--service", BYTES),
        ("get", TOPIC, "--server", BYTES),
        ("serve", "--pulsar", BYTES),
        (BYTES,),
    ],
)
def test_arguments_that_are_not_utf_8_are_wrong_usage(terminal: Terminal, arguments: tuple[str | bytes, ...]) -> None:
    code, errors = run(terminal, *arguments)
    assert (code, "Traceback" in errors) == (2, False), errors
    assert "Error: " in errors
    code, errors = run(terminal, *arguments, "--output", "json")
    assert (code, json.loads(errors)["error"]["reason"]) == (2, "USAGE")


def test_half_of_a_surrogate_pair_in_json_is_refused(terminal: Terminal) -> None:
    code, error = terminal.failing("update", TOPIC, 'replication_clusters=["\\ud800"]')
    assert (code, error["violations"][0]["reason"]) == (2, "WRONG_VALUE")
    code, error = terminal.failing("update", TOPIC, 'subscription_policies={"\\ud800": {}}')
    assert (code, error["violations"][0]["reason"]) == (2, "WRONG_VALUE")


def test_files_that_are_not_utf_8_are_reported_with_the_line(terminal: Terminal, tmp_path: Path) -> None:
    wrong, right = tmp_path / "wrong.yaml", tmp_path / "right.yaml"
    wrong.write_bytes(b"version: 1\npolicies:\n  - topic: public/a/\xff\n")
    right.write_text("version: 1\npolicies: []\n")
    for command in ("plan", "apply"):
        result = terminal.run(command, "-f", str(wrong))
        assert (result.exit_code, result.stderr) == (2, "Error: wrong.yaml:3: Byte 0xff is not UTF-8.\n")
        result = terminal.run(command, "-f", str(right), "--topics", str(wrong))
        assert (result.exit_code, result.stderr) == (2, "Error: wrong.yaml:3: Byte 0xff is not UTF-8.\n")
    errors = run(terminal, "plan", "-f", str(right), "--topics", "-", stdin=BYTES)
    assert errors == (2, "Error: standard input:1: Byte 0xff is not UTF-8.\n")
    errors = run(terminal, "plan", "-f", "-", stdin=b"version: 1\npolicies: []\n")
    assert errors == (0, "Everything is as declared.\n")
    assert run(terminal, "plan", "-f", "-", stdin=BYTES) == (2, "Error: standard input:1: Byte 0xff is not UTF-8.\n")
    assert run(terminal, "plan", "-f", "-", "--topics", "-")[0] == 2
    result = terminal.run("watch", A, "--until-synced", "--resume-file", str(wrong))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "Error: wrong.yaml:3: Byte 0xff is not UTF-8.\n")


def test_half_of_a_surrogate_pair_in_a_file_is_refused_with_its_line(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "half.yaml"
    lines = [
        "version: 1",
        'namespaces: ["a/\\ud800"]',
        "policies:",
        '  - {topic: "public/a/\\ud800", set: {}}',
        '  - {topic: public/a/t, set: {replication_clusters: ["\\ud800"]}}',
        '  - {topic: public/a/t, set: {"\\ud800": 1}}',
    ]
    file.write_text("\n".join(lines))
    code, error = terminal.failing("plan", "-f", str(file))
    assert code == 2
    assert [each["field"] for each in error["violations"]] == [f"half.yaml:{line}" for line in (2, 4, 5, 6)]
    assert terminal.run("plan", "-f", str(file)).stderr.startswith("Error: there are 4 problems.")


def test_a_single_problem_of_a_file_is_reported_with_its_line(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("version: 1\npolicies:\n  - topic: public/a/t\n    set: {max_producers: 1}\n")
    result = terminal.run("plan", "-f", str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: one.yaml:4: ")
    file.write_text("version: 1\npolicies: [\n")
    assert terminal.run("plan", "-f", str(file)).stderr.startswith("Error: one.yaml:3: ")
    topics = tmp_path / "topics"
    topics.write_text("public/a/t\npublic/t\n")
    file.write_text("version: 1\npolicies: []\n")
    assert terminal.run("plan", "-f", str(file), "--topics", str(topics)).stderr.startswith("Error: topics:2: ")


@pytest.mark.parametrize("arguments", [("plan",), ("apply",), ("plan", "--topics")])
def test_a_missing_file_is_wrong_usage(terminal: Terminal, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file, missing = tmp_path / "right.yaml", str(tmp_path / "none.yaml")
    file.write_text("version: 1\npolicies: []\n")
    command, *options = arguments
    files = ["-f", str(file), *options, missing] if options else ["-f", missing]
    result = terminal.run(command, *files)
    assert result.exit_code == 2
    assert "none.yaml' does not exist" in result.stderr


@pytest.mark.parametrize("option", ["-f", "--topics"])
def test_a_name_that_no_file_can_have_is_reported_in_a_sentence(terminal: Terminal, tmp_path: Path, option: str) -> None:
    file = tmp_path / "right.yaml"
    file.write_text("version: 1\npolicies: []\n")
    for command in ("plan", "apply"):
        code, errors = run(terminal, command, *((option, "x" * 300) if option == "-f" else ("-f", str(file), option, "x" * 300)))
        assert code == 2 and errors.endswith(f"Path '{'x' * 300}' does not exist.\n")


def test_export_to_a_dash_writes_to_standard_output(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    terminal.write(A, "orders", 1)
    for form in ("table", "json"):
        assert terminal.run("export", A, "-f", "-", "--output", form).stdout == terminal.run("export", A, "--output", form).stdout != ""
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("list", A),
        ("get", TOPIC),
        ("update", TOPIC, "max_producer_per_topic=2"),
        ("export", A),
        ("export", A, "-f", "/dev/full"),
        ("history", A),
        ("info",),
        ("health",),
        ("version",),
        ("--help",),
    ],
)
def test_output_that_can_not_be_written_is_reported_as_an_error(recorded: Terminal, arguments: tuple[str, ...]) -> None:
    recorded.write(A, "orders", 1)
    for form in ((), ("--output", "json")):
        code, errors = run(recorded, *arguments, *form, stdout="/dev/full")
        sentence = json.loads(errors)["error"]["message"] if form else errors
        assert (code, errors.count("\n")) == (1, 1), errors
        assert "No space left on device" in sentence


def test_a_name_with_a_line_end_of_unicode_survives_export_and_edit(
    recorded: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.json("update", TOPIC, "subscription_policies.`a\x85b`.dispatch_rate.dispatch_throttling_rate_in_msg=4")
    before = recorded.json("get", TOPIC)["policies"]
    file = tmp_path / "policies.yaml"
    file.write_text(recorded.run("export", A).stdout)
    assert recorded.run("plan", "-f", str(file), "--prune").exit_code == 0
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "max_producer_per_topic: 3" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    assert recorded.run("edit", TOPIC).exit_code == 0
    assert recorded.json("get", TOPIC)["policies"] == before | {"max_producer_per_topic": 3}


def test_export_as_json_declares_the_same_as_yaml(recorded: Terminal, tmp_path: Path) -> None:
    recorded.json("update", f"{A}/t", "subscription_policies.`\U0001f600 \x7f\u2028`.dispatch_rate.dispatch_throttling_rate_in_msg=4")
    recorded.json("update", TOPIC, "retention_policies.retention_time_in_minutes=10", "retention_policies.retention_size_in_mb=100")
    exported = recorded.json("export", A)
    assert exported["version"] == 1 and exported["namespaces"] == [A]
    assert {"topic": TOPIC, "set": {"retention_policies": {"retention_time_in_minutes": 10, "retention_size_in_mb": 100}}} in exported[
        "policies"
    ]
    file = tmp_path / "policies.json"
    assert json.loads(recorded.run("export", A, "--output", "json", "-f", str(file)).stderr)["note"] == f"wrote {file}: 2 documents"
    assert json.loads(file.read_text()) == exported
    for form in ((), ("--output", "json")):
        file.write_text(recorded.run("export", A, *form).stdout)
        assert recorded.run("plan", "-f", str(file), "--prune").exit_code == 0

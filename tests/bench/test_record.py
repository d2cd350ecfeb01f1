"""The figures of a document are recorded from the output of its commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.blocks import DOCUMENT, commands_of
from bench.record import record
from dev import is_measurement

ECHO = "python3 -c 'print(\"one  \"); print(6 * 7)'"
MISSED = "python3 -c 'print(\"not reached\"); raise SystemExit(1)'"
BROKEN = "python3 -c 'print(6 * 7); raise SystemExit(3)'"
SILENT = "python3 -c pass"


def document(path: Path, *commands: str) -> Path:
    blocks = [f"Before {number}.\n\n<!-- measured: {command} -->\nold {number}\n<!-- end -->\n" for number, command in enumerate(commands)]
    path.write_text("# Title\n\n" + "\n".join(blocks) + "\nAfter.\n")
    return path


def test_a_block_gets_the_output_of_its_command_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    path = document(tmp_path / "figures.md", ECHO, MISSED)
    assert record(path, []) == 0
    text = path.read_text()
    assert "\none\n42\n```\n<!-- end -->" in text and "\nnot reached\n```\n<!-- end -->" in text
    assert "old" not in text and " cores, load average " in text
    assert text.startswith("# Title\n\nBefore 0.\n") and text.endswith("<!-- end -->\n\nAfter.\n") and "Before 1.\n" in text
    assert commands_of(text) == [ECHO, MISSED]
    assert record(path, []) == 0  # the command can be repeated


def test_a_command_that_fails_or_prints_nothing_leaves_its_block_unchanged(tmp_path: Path) -> None:
    path = document(tmp_path / "figures.md", BROKEN, SILENT, ECHO)
    assert record(path, []) == 2
    text = path.read_text()
    assert "old 0" in text and "old 1" in text and "old 2" not in text and text.count("42") == 1


def test_only_commands_that_contain_a_given_word_are_run(tmp_path: Path) -> None:
    path = document(tmp_path / "figures.md", ECHO, MISSED)
    assert record(path, ["raise"]) == 0
    assert "old 0" in path.read_text() and "old 1" not in path.read_text()


def test_every_command_in_the_benchmarks_of_the_documentation_can_be_run() -> None:
    commands = commands_of(DOCUMENT.read_text())
    assert commands and len(set(commands)) == len(commands)
    words = [command.removeprefix("python3 dev.py bench").split()[:1] for command in commands]
    assert all(command.startswith("python3 dev.py bench") for command in commands)
    assert [word for word in words if word and not is_measurement(word[0])] == []


@pytest.mark.parametrize(
    "name", ["figures", "harness", "plots", "record", "keys", "streaming", "deliveries", "snapshot", "plugin", "audit_scale"]
)
def test_the_measurements_of_bench_can_be_run_by_name(name: str) -> None:
    assert is_measurement(name)


@pytest.mark.parametrize("name", ["", "--logs", "load", "framing", "nothing", "../dev", "harness/targets", "__init__"])
def test_a_name_of_something_else_is_not_a_measurement(name: str) -> None:
    assert not is_measurement(name)

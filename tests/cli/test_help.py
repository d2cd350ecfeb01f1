"""The help of every command in 80 columns: nothing is cut off, and no Python types are shown."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from topicpolicies_server.cli.app import COMMANDS, app
from topicpolicies_server.cli.exits import ExitCode
from topicpolicies_server.cli.verbs import VERBS

WIDEST_EXAMPLE = 90
"""The width of an example with the path of a nested setting, which can't be folded. Paragraphs and tables fit 80 columns."""


def help_of(*command: str) -> str:
    shown = CliRunner().invoke(app, [*command, "--help"], terminal_width=80, prog_name="topicpolicies")
    assert shown.exit_code == 0
    return shown.stdout


def test_the_sentence_of_every_command_is_listed_in_full() -> None:
    listed = help_of().partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert {line.split()[0] for line in listed} == COMMANDS.keys()
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("command", ["", *COMMANDS, *VERBS])
def test_help_fits_80_columns_and_shows_no_python_types(command: str) -> None:
    shown = help_of(*([command] if command else []))
    examples = shown.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert [line for line in shown.splitlines() if len(line) > (WIDEST_EXAMPLE if line in examples else 80)] == []
    assert not re.search(r"<(str|path|file|int|float|list)", shown.partition("Examples:\n")[0] + shown.partition("Arguments:")[2])


def test_exit_codes_are_listed_once_for_all_commands() -> None:
    listed = help_of().partition("Exit codes:\n")[2].splitlines()
    assert [int(line.split()[0]) for line in listed if line[2:3].isdigit()] == list(ExitCode)
    assert "Exit codes" not in help_of("get")

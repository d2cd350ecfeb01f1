"""The rooms of the command line: what shows knows no command, what calls a server none that runs one, and the ground no room."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicpolicies_server.cli.commands import WHERE

CLI = Path(__file__).parents[2] / "server" / "topicpolicies_server" / "cli"
BELOW = {
    "": set[str](),
    "showing": {""},
    "calls": {"", "showing"},
    "declaring": {"", "showing"},
    "serving": {"", "showing"},
    "doctor": {"", "showing", "serving"},
}
"""What each room may import from; "" is the ground."""


def rooms_imported(path: Path) -> Iterator[str]:
    """The rooms from which a module imports, its own not counted."""
    room = path.parent.relative_to(CLI).as_posix().removeprefix(".")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = [*path.relative_to(CLI).parts[:-1]][: (2 if room else 1) - node.level] if node.level <= (2 if room else 1) else None
            if above is not None:
                first = [*above, *(node.module or node.names[0].name).split(".")][0]
                found = first if (CLI / first).is_dir() else ""
                if found != room:
                    yield found


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: path.relative_to(CLI).as_posix())
def test_no_room_imports_one_above_it(path: Path) -> None:
    room = path.parent.relative_to(CLI).as_posix().removeprefix(".")
    if path.name != "__main__.py":
        assert set(rooms_imported(path)) <= BELOW[room]


def test_the_commands_know_all_rooms() -> None:
    modules = [where.partition(":")[0] for where in WHERE.values()]
    assert {module.partition(".")[0] for module in modules if "." in module} == BELOW.keys() - {"", "showing"}


def test_a_command_is_imported_when_it_is_asked_for_and_not_before() -> None:
    script = "import sys; from topicpolicies_server.cli.app import app, Commands; Commands()['version']; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = {module.removeprefix("topicpolicies_server.cli.") for module in ran.stdout.split()}
    assert "version" in imported
    assert not imported & {where.partition(":")[0] for name, where in WHERE.items() if name != "version"}

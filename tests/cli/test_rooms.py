"""The imports between the rooms of the command line: each room imports only from the rooms that it may depend on.

Code that shows values does not know commands, commands that call a server do not know those that run one, and modules outside rooms
import from no room.
"""

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
"""The rooms that each room may import from; "" stands for the modules outside rooms."""


def rooms_imported(path: Path) -> Iterator[str]:
    """Yields the other rooms from which a module imports."""
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
def test_a_module_imports_only_from_rooms_that_its_room_may_depend_on(path: Path) -> None:
    room = path.parent.relative_to(CLI).as_posix().removeprefix(".")
    if path.name != "__main__.py":
        assert set(rooms_imported(path)) <= BELOW[room]


def test_every_room_except_showing_has_a_command() -> None:
    modules = [where.partition(":")[0] for where in WHERE.values()]
    assert {module.partition(".")[0] for module in modules if "." in module} == BELOW.keys() - {"", "showing"}


def test_a_command_is_imported_only_when_it_is_used() -> None:
    script = "import sys; from topicpolicies_server.cli.app import app, Commands; Commands()['version']; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = {module.removeprefix("topicpolicies_server.cli.") for module in ran.stdout.split()}
    assert "version" in imported
    assert not imported & {where.partition(":")[0] for name, where in WHERE.items() if name != "version"}

"""The rooms of the command line: what shows knows no command, what calls a server none that runs one, and the ground no room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    if path.name not in ("app.py", "__main__.py"):
        assert set(rooms_imported(path)) <= BELOW[room]


def test_the_application_knows_all_rooms() -> None:
    assert set(rooms_imported(CLI / "app.py")) == {"calls", "declaring", "serving", "doctor"}

"""The rooms of the server: their modules are short, and the page about them names all of them, and only functions that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.test_layers import CORE, SERVER

_ROOT = Path(__file__).resolve().parents[2]
_SERVER = _ROOT / "server" / "topicpolicies_server"
_PAGE = (_ROOT / "docs" / "architecture.md").read_text()

MOST = 349
"""The most lines of a module."""
_STEP = re.compile(r"^\| [^|]+ \| `([\w/]+)` \| `(?:(\w+)\.)?(\w+)` \|$", re.MULTILINE)
"""A row of the table that describes the way of an update."""


def too_long(root: Path) -> dict[str, int]:
    """Returns the modules with too many lines."""
    counted = {path.relative_to(root).as_posix(): len(path.read_text().splitlines()) for path in root.rglob("*.py")}
    return {name: lines for name, lines in counted.items() if lines > MOST}


def defined(module: Path, owner: str, name: str) -> bool:
    """Whether a module defines a function, or, if ``owner`` is given, that class of it defines the method."""
    within: list[ast.stmt] = ast.parse(module.read_text()).body
    if owner:
        within = [each for node in within if isinstance(node, ast.ClassDef) and node.name == owner for each in node.body]
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in within)


def test_no_module_of_the_server_is_too_long() -> None:
    assert too_long(_SERVER) == {}


def test_a_planted_module_that_is_too_long_is_reported(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "long.py").write_text("pass\n" * (MOST + 1))
    (tmp_path / "core" / "short.py").write_text("pass\n" * MOST)
    assert too_long(tmp_path) == {"core/long.py": MOST + 1}


_MAPPED = (
    "core/changes",
    "core/chains",
    "core/fold",
    "core/policies",
    "core/reading",
    "logs/pulsar",
    "logs/pulsar/reading",
    "namespaces",
    "rpc",
)
"""Packages whose docstring lists their modules, in the order in which to read them."""
_ENTRY = re.compile(r"^- (``\w+``(?:, ``\w+``)*): \S", re.MULTILINE)
"""An item of such a list: one module, or several that belong together."""


def off_the_map(folder: Path) -> set[str]:
    """Returns modules that are missing in the list of a package's docstring, do not exist, or are listed twice."""
    entries = _ENTRY.findall(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")
    named = [name for entry in entries for name in re.findall(r"\w+", entry)]
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}
    return there.symmetric_difference(named) | {name for name in named if named.count(name) > 1}


@pytest.mark.parametrize("folder", _MAPPED)
def test_the_docstring_of_a_package_lists_its_modules(folder: str) -> None:
    assert off_the_map(_SERVER / folder) == set()


def test_a_module_that_is_not_listed_or_does_not_exist_is_reported(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("fold.py", "fresh.py", "inner/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "__init__.py").write_text('"""The fold.\n\n- ``fold``: it\n- ``fold``: again\n- ``gone``: what was here\n"""\n')
    assert off_the_map(tmp_path) == {"fold", "fresh", "gone", "inner"}


def test_the_page_names_every_folder_of_the_server_and_no_other() -> None:
    there = {path.parent.relative_to(_SERVER).as_posix() for path in _SERVER.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    section = _PAGE.partition("\n## Rooms\n")[2].partition("<details>")[0]
    assert set(re.findall(r"^\| `([\w/]+)` \|", section, re.MULTILINE)) == there - {"."}


def out_of_order(page: str) -> list[str]:
    """Returns the rooms that come after one of a higher layer on the page."""
    section = page.partition("\n## Rooms\n")[2].partition("<details>")[0]
    found, highest = [], (-1, -1)
    for room in re.findall(r"^\| `([\w/]+)` \|", section, re.MULTILINE):
        outer, _, inner = room.partition("/")
        height = (_height(SERVER, outer), _height(CORE, inner) if outer == "core" and inner else -1)
        found += [room] if height < highest else []
        highest = max(highest, height)
    return found


def _height(layers: Sequence[Sequence[str]], name: str) -> int:
    (height,) = (number for number, layer in enumerate(layers) if name in layer)
    return height


def test_the_rooms_on_the_page_have_the_order_of_their_layers() -> None:
    assert out_of_order(_PAGE) == []


def test_a_room_that_comes_after_one_of_a_higher_layer_is_reported() -> None:
    row = "| `access` | who calls, and what the caller may do |\n"
    assert row in _PAGE
    without = _PAGE.replace(row, "")
    core = without.replace("| `core/rules`", "| `core/reading` | |\n| `core/rules`")
    assert out_of_order(core) == ["core/rules", "core/changes", "core/fold"]
    assert out_of_order(without.replace("| `history`", f"{row}| `history`")) == ["history", "checkpoints", "health", "cluster"]


def test_the_functions_on_the_way_of_an_update_exist() -> None:
    steps = _STEP.findall(_PAGE.partition("\n## The way of an update\n")[2].partition("\n## ")[0])
    assert len(steps) > 10
    assert [step for step in steps if not defined(_SERVER / f"{step[0]}.py", step[1], step[2])] == []


@pytest.mark.parametrize(("owner", "name"), [("Updates", "no_such"), ("NoSuch", "submit"), ("", "submit")])
def test_a_function_that_does_not_exist_is_reported(owner: str, name: str) -> None:
    assert defined(_SERVER / "namespaces" / "updates.py", "Updates", "submit")
    assert not defined(_SERVER / "namespaces" / "updates.py", owner, name)

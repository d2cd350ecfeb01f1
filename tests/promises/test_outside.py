"""The gate looks from outside: it imports nothing of the server, and its table names tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def imports(path: Path) -> Iterator[str]:
    """Yields the full names that a module imports, and each package above them, as Python runs those too."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(filter(None, [above, node.module]))
            found = [name, *(f"{name}.{each.name}" for each in node.names)]
        for name in found:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def of_tests(name: str) -> Path | None:
    """Returns the file of a module of the tests, if it is one."""
    path = ROOT / Path(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((each for each in candidates if name.split(".", maxsplit=1)[0] == "tests" and each.is_file()), None)


def test_nothing_of_the_server_is_imported_not_even_through_helpers() -> None:
    seen: set[Path] = set()
    wrong: list[str] = []
    waiting = [*HERE.rglob("*.py")]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in imports(path):
            if name.split(".")[0] == "topicpolicies_server":
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
            helper = of_tests(name)
            if helper is not None:
                waiting.append(helper)
    assert len(seen) > len([*HERE.glob("*.py")]), "no helper was found"
    assert not wrong


def test_only_one_module_beside_the_bare_stubs_knows_the_messages_of_the_service() -> None:
    modules = [path for path in HERE.rglob("*.py") if path.parent.name != "bare_stubs"]
    knowing = {path.name for path in modules for name in imports(path) if "service_pb2" in name or "errors_pb2" in name}
    assert knowing == {"api.py"}


def test_the_table_names_every_file_and_only_tests_that_exist() -> None:
    table = (HERE / "README.md").read_text()
    named = {each for each in re.findall(r"`([^`]+)`", table) if each.rpartition("/")[2].startswith("test_")}
    there = {
        node.name
        for path in HERE.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    files = {str(path.relative_to(HERE)) for path in HERE.rglob("test_*.py")}
    assert len(named) > 100
    assert not named - there - files
    unnamed = {file for file in files - named - {"test_outside.py"} if not file.startswith("plugin/")}
    assert not {file for file in unnamed if not any(f"def {name}(" in (HERE / file).read_text() for name in named)}

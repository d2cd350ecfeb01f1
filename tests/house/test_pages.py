"""The pages name only files, modules of the server and tests that exist."""

from __future__ import annotations

import collections
import functools
import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SERVER = "server/topicpolicies_server"
_ROOMS = sorted(path.name for path in (_ROOT / _SERVER).iterdir() if (path / "__init__.py").exists())

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
_MODULE = re.compile(rf"(?<![\w/.-])((?:{'|'.join(_ROOMS)})(?:/[a-z_]+)+)(?:\.py)?\b")
_TEST_FILE = re.compile(r"`(tests/[\w/]+)(?:\.py)?`")
_TEST = re.compile(r"`(test_\w+)`")

pytestmark = pytest.mark.skipif(shutil.which("git") is None or not (_ROOT / ".git").exists(), reason="not a git checkout")


@functools.cache
def _files() -> frozenset[str]:
    """Returns every tracked file, and every folder that has one."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    names = {name for name in listed if name and (_ROOT / name).is_file()}
    return frozenset(names | {str(folder) for name in names for folder in PurePosixPath(name).parents})


@functools.cache
def _tests() -> frozenset[str]:
    """Returns the names of all tests in Python."""
    found = (re.findall(r"^\s*(?:async )?def (test_\w+)", (_ROOT / name).read_text(), re.MULTILINE) for name in _files() if _is_test(name))
    return frozenset(test for each in found for test in each)


def _is_test(name: str) -> bool:
    return name.endswith(".py") and (name.startswith("tests/") or "/test" in name)


def _there(name: str) -> bool:
    return name in _files() or f"{name}.py" in _files()


def _stale(page: str, text: str) -> list[str]:
    """Returns the names in a page of files, modules and tests that do not exist."""
    folder = _ROOT / PurePosixPath(page).parent
    links = [link for link in _LINK.findall(text) if not (folder / link).exists()]
    modules = [module for module in _MODULE.findall(text) if not _there(f"{_SERVER}/{module}") and not _there(f"tests/{module}")]
    files = [file for file in _TEST_FILE.findall(text) if not _there(file)]
    return links + modules + files + [test for test in _TEST.findall(text) if test not in _tests()]


def test_every_file_module_and_test_that_a_page_names_exists() -> None:
    pages = [name for name in _files() if name.endswith(".md")]
    assert len(pages) > 15 and len(_tests()) > 1000
    assert {page: stale for page in pages if (stale := _stale(page, (_ROOT / page).read_text()))} == {}


def _doubled(text: str) -> list[str]:
    """Returns the beginnings of rows of tables and of list items that are there twice, as merges leave them."""
    counted = collections.Counter(line[:60] for line in text.splitlines() if re.match(r"(\| (?!what )|- ).{40}", line))
    return [beginning for beginning, times in counted.items() if times > 1]


@pytest.mark.parametrize("page", ["CHANGELOG.md", "docs/bugs.md"])
def test_no_row_or_list_item_is_there_twice(page: str) -> None:
    assert _doubled((_ROOT / page).read_text()) == []


def test_a_list_item_that_is_there_twice_is_reported() -> None:
    point = "- A point of a list, which has as many letters as it takes to be one.\n"
    assert _doubled(point + "- Another point of the same list, with as many letters as well.\n" + point) == [point.strip()[:60]]


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("see [the rules](rulez.md#levels)", ["rulez.md"]),
        ("`core/fold/folt.py` reads", ["core/fold/folt"]),
        ("──▶ rpc/nobody ──▶", ["rpc/nobody"]),
        ("| `tests/core/gone.py` |", ["tests/core/gone"]),
        ("| `test_that_was_renamed` |", ["test_that_was_renamed"]),
        ("[rules](rules.md), `core/fold/fold.py`, `namespaces/life`, `tests/core/fold`, [outside](https://example.org/x.md)", []),
    ],
)
def test_a_name_of_nothing_that_exists_is_reported(text: str, stale: list[str]) -> None:
    assert _stale("docs/page.md", text) == stale

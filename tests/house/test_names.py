"""What the pages, and the docstrings of the server, name of the code exists: folders, modules, classes, members and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SERVER = _ROOT / "server" / "topicpolicies_server"
_FOLDERS = (_ROOT, _SERVER, _ROOT / "tests" / "promises")
_PAGES = ["README.md", "CONTRIBUTING.md", "tests/promises/README.md", *(f"docs/{page.name}" for page in _ROOT.glob("docs/*.md"))]
_CODE = ("server/**/*.py", "clients/python/**/*.py", "clients/spark/**/*.py", "tests/**/*.py", "bench/**/*.py", "proto/**/*.proto")
_PROSE = re.compile(r'"""(.*?)"""|#[^\n]*', re.DOTALL)
_BLOCK = re.compile(r"(?ms)^```.*?^```$")
_QUOTED = re.compile(r"`([^`\n]+?)(?:\(.*?\))?`")
_PATH = re.compile(r"(\w+)/[\w./-]*")
_NAME = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+|_?[a-z]+(?:_[a-z]+)+")
_MEMBER = re.compile(r"([A-Z][A-Za-z]*[a-z])\.([a-z_0-9]+)")
"""Members with capital letters are Pulsar's, in Java."""
_CLASS = re.compile(r"(?m)^class (\w+)(?:\[.*?\])?(?:\((.*?)\))?:.*\n((?:[ \t]+.*\n|\n)*)")
_DEFINED = re.compile(r"(?m)\bdef (\w+)|^    (\w+)(?=:| =)|\bself\.(\w+)(?=: [^=\n]+ =| =)")
_ABOUT_CODE = ("docs/architecture.md", "docs/testing.md", "docs/writers.md")
"""The pages whose single words are checked too; those of the others are mostly names of Pulsar, Prometheus and other programs."""
_ELSEWHERE = {"MergeMessage", "DispatchRateImpl.normalize", "Remembered._make", "clients/go/v0.1.0"}
"""Methods of Protobuf, of Pulsar and of every ``NamedTuple``, and a tag."""


@cache
def _sources() -> dict[Path, str]:
    """Returns the code of every module, without docstrings and comments, and the definitions in Protobuf."""
    texts = {path: path.read_text() for pattern in _CODE for path in _ROOT.glob(pattern) if path != Path(__file__)}
    return {path: _PROSE.sub("", text) if path.suffix == ".py" else text for path, text in texts.items()}


@cache
def _words() -> set[str]:
    return {word for text in _sources().values() for word in re.findall(r"\w+", text)}


@cache
def _classes() -> dict[str, list[tuple[str, set[str]]]]:
    """Returns the bases, as they are written, and the members of the classes of Python by name."""
    found: dict[str, list[tuple[str, set[str]]]] = {}
    for path, text in _sources().items():
        for name, bases, body in _CLASS.findall(text) if path.suffix == ".py" else ():
            found.setdefault(name, []).append((bases, {"".join(names) for names in _DEFINED.findall(body)}))
    return found


def _has(name: str, member: str) -> bool:
    """Whether a class, or a base of it, has a member; of a class of another language, whether both are words of the code."""
    if name not in _classes():
        return {name, member} <= _words()
    return any(
        member in members or any(_has(base, member) for base in re.findall(r"\w+", bases) if base in _classes())
        for bases, members in _classes()[name]
    )


def _dead(text: str, *, words: bool) -> Iterator[str]:
    """Yields the names between backquotes that exist nowhere. ``words``: also names that are one word; metrics are tested elsewhere."""
    for quoted in _QUOTED.findall(text):
        if quoted in _ELSEWHERE:
            continue
        if (path := _PATH.fullmatch(quoted)) and any((root / path[1]).is_dir() for root in _FOLDERS):
            alive = any((root / f"{quoted}{suffix}").exists() for root in _FOLDERS for suffix in ("", ".py"))
        elif member := _MEMBER.fullmatch(quoted):
            alive = _has(*member.groups())
        else:
            alive = not words or not _NAME.fullmatch(quoted) or quoted.startswith("topicpolicies_") or quoted in _words()
        if not alive:
            yield quoted


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_names_only_what_exists(page: str) -> None:
    assert list(_dead(_BLOCK.sub("", (_ROOT / page).read_text()), words=page in _ABOUT_CODE)) == []


def test_the_docstrings_of_the_server_name_only_what_exists() -> None:
    found = {}
    for path in _SERVER.rglob("*.py"):
        dead = [name for text in _PROSE.findall(path.read_text()) for name in _dead(text, words=False)]
        if dead:
            found[path.name] = dead
    assert found == {}


@pytest.mark.parametrize("name", ["core/chains/gone", "tests/core/gone.py", "View.gone", "GoneClass.take", "GoneClass", "gone_function"])
def test_a_name_that_exists_nowhere_is_found(name: str) -> None:
    there = "`core/chains/sequencer`, `tests/core/fold`, `View.fold`, `View`, `ActiveKeys`, `a word`"
    assert list(_dead(f"{there}, `{name}`, ``{name}``", words=True)) == [name, name]

"""The lock files have pinned and hashed packages, agree with each other, and meet pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).resolve().parents[2]
_LOCKS = sorted((_ROOT / "requirements").glob("*.txt"))
_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+))? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")

with (_ROOT / "pyproject.toml").open("rb") as _file:
    _NAME = tomllib.load(_file)["project"]["name"]

Pins = dict[str, str]


def _pins(text: str) -> Pins:
    """Returns the pinned versions.

    Raises:
        ValueError: a line is neither a comment nor a pin with hashes, but an index, for example.
    """
    pins: Pins = {}
    hashes = {"": 1}
    name = ""
    for line in text.splitlines():
        if found := _PIN.fullmatch(line):
            name = found["name"]
            pins[name] = found["version"]
            hashes[name] = 0
        elif _HASH.fullmatch(line):
            hashes[name] += 1
        elif not line.lstrip().startswith("#"):
            raise ValueError(f"not a pin with hashes: {line}")
    if bare := [name for name, count in hashes.items() if not count]:
        raise ValueError(f"no hashes: {', '.join(bare)}")
    return pins


def _unmet(wanted: list[str], pins: Pins) -> list[str]:
    """Returns the requirements that a lock file does not meet, except those of the project itself, which are its extras."""
    requirements = [Requirement(text) for text in wanted]
    return [
        str(requirement)
        for requirement in requirements
        if requirement.name != _NAME and not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), "0"))
    ]


def _project() -> dict[str, list[str]]:
    """Returns the dependencies: of the base under ``""``, of the extras, and of the build under ``build``."""
    with (_ROOT / "pyproject.toml").open("rb") as file:
        toml = tomllib.load(file)
    return {
        "": toml["project"]["dependencies"],
        **toml["project"]["optional-dependencies"],
        "build": toml["build-system"]["requires"],
    }


@pytest.mark.parametrize("lock", _LOCKS, ids=lambda path: path.name)
def test_every_line_is_a_pin_with_hashes(lock: Path) -> None:
    assert len(_pins(lock.read_text())) > 3


@pytest.mark.parametrize(
    ("lock", "parts"),
    [("server", ["", "cli", "server"]), ("dev", ["", "cli", "server", "spark", "dev", "build"]), ("build", ["build"])],
)
def test_a_lock_meets_the_requirements_of_the_project(lock: str, parts: list[str]) -> None:
    project = _project()
    pins = _pins((_ROOT / "requirements" / f"{lock}.txt").read_text())
    assert {part: _unmet(project[part], pins) for part in parts} == {part: [] for part in parts}


def test_the_locks_pin_the_same_versions() -> None:
    dev, *others = (_pins((_ROOT / "requirements" / f"{name}.txt").read_text()) for name in ("dev", "server", "build"))
    for pins in others:
        assert pins.items() <= dev.items()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("--index-url https://example.org/simple\n", "not a pin"),
        ("grpcio>=1 \\\n", "not a pin"),
        ("grpcio==1.85.1 \\\n    # via x\n", "no hashes: grpcio"),
        ("grpcio @ https://example.org/grpcio.whl\n", "not a pin"),
    ],
)
def test_a_planted_fault_in_a_lock_is_reported(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        _pins(text)


def test_a_dependency_missing_from_a_lock_is_reported() -> None:
    assert _unmet(["grpcio>=1.85", "Typer", f"{_NAME}[cli]"], {"grpcio": "1.84.0", "typer": "1"}) == ["grpcio>=1.85"]
    assert _unmet(["rich>=13"], {}) == ["rich>=13"]

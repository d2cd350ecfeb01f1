"""The names under which the packages are published: ``coordinates.toml`` has them, and this changes everything else to them.

``--check`` changes nothing, and fails if something has another name. A name that a merge has brought back is changed too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

if not __package__:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from proto import descriptors, places, tools
from proto.tools import ToolMissingError

FILE = tools.ROOT / "coordinates.toml"
_BASELINE = "proto/baseline.binpb"
_SKIPPED = {".git", ".venv", ".cache", "node_modules", "target", "dist", "build", "__pycache__"}
_SKIPPED_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi", ".pb.go", "_pb.ts")
"""Generated code."""
_OWN = {FILE.name, "test_coordinates.py"}
"""Files that have names of their own: what is wanted, and the test of this."""
_FORMS = {
    "go.module": r"[a-z0-9-]+(?:\.[a-z0-9-]+)+(?:/[\w.~-]+)*",
    "java.group": r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*",
    "java.package": r"[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*",
    "typescript.name": r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*",
    "python.distribution": r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?",
}
_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_SOURCES = re.compile(r"(?P<root>.*/src/(?:main|test)/java/)(?:(?P<package>.*)/)?[^/]+\.java")


class Stale(NamedTuple):
    """Something that has another name than it should."""

    place: str
    """A file, perhaps with a line."""
    what: str
    """A part of a sentence about it."""


def wanted(file: Path = FILE) -> dict[str, str]:
    """The names, by their keys, such as ``go.module``.

    Raises:
        ValueError: one is missing, too many or malformed; the message says which.
    """
    tables = tomllib.loads(file.read_text())
    names = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    if names.keys() != _FORMS.keys():
        raise ValueError(f"{file.name} does not have exactly {', '.join(_FORMS)}.")
    for key, form in _FORMS.items():
        if not isinstance(names[key], str) or not re.fullmatch(form, names[key]):
            raise ValueError(f"{file.name}: {key} can't be {names[key]!r}.")
    return names


def stale(root: Path, names: Mapping[str, str]) -> list[Stale]:
    """All that has another name than it should."""
    found: list[Stale] = []
    seen: Counter[places.Declaration] = Counter()
    for path, text in _texts(root):
        for declaration, value, line in places.declared(path, text):
            seen[declaration] += 1
            if value != names[declaration.name]:
                found.append(Stale(f"{path}:{line}", f'{declaration.name} is "{value}" here, not "{names[declaration.name]}"'))
        found += _misplaced(path, text, names["java.package"])
    found += [Stale(each.files, f"nothing here says what {each.name} is") for each in places.DECLARATIONS if not seen[each]]
    if _rebased(root, names) is not None:
        found.append(Stale(_BASELINE, "the last release has other options"))
    return found


def rename(root: Path, names: Mapping[str, str]) -> list[str]:
    """Changes all files but those that are generated, and moves the Java packages; the paths of what has changed."""
    texts = dict(_texts(root))
    others = {
        (declaration.name, value)
        for path, text in texts.items()
        for declaration, value, _ in places.declared(path, text)
        if value != names[declaration.name]
    }
    changed = []
    for path, before in texts.items():
        after = before
        for name, old in sorted(others):
            after = places.renamed(path, after, name, old, names[name])
        if after != before:
            (root / path).write_text(after)
            changed.append(path)
    changed += _moved(root, names["java.package"])
    if (baseline := _rebased(root, names)) is not None:
        (root / _BASELINE).write_bytes(baseline)
        changed.append(_BASELINE)
    return changed


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    """The text files of the project, by path, in order."""
    for directory, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _SKIPPED and not (Path(directory) / name).is_symlink())
        for name in sorted(files):
            path = Path(directory) / name
            if name not in _OWN and not name.endswith(_SKIPPED_SUFFIXES) and path.is_file():
                raw = path.read_bytes()
                if b"\0" not in raw:
                    yield path.relative_to(root).as_posix(), raw.decode(errors="surrogateescape")


def _misplaced(path: str, text: str, package: str) -> Iterator[Stale]:
    """A Java source of ours whose package is not its directory, or is in none of the rooms."""
    at, said = _SOURCES.fullmatch(path), _PACKAGE.search(text)
    if at is None or said is None or not path.startswith("clients/java/"):
        return
    if not re.match(rf"{re.escape(package)}\.(?:{'|'.join(places.ROOMS)})\b", said[1]):
        yield Stale(path, f"the package {said[1]} is none of {package}.{{{','.join(places.ROOMS)}}}")
    elif at["package"] != said[1].replace(".", "/"):
        yield Stale(path, f"the package {said[1]} is elsewhere")


def _moved(root: Path, package: str) -> Iterator[str]:
    """Moves Java sources of ours to the directories of their packages."""
    for path, text in list(_texts(root)):
        if any(each.what.endswith(" is elsewhere") for each in _misplaced(path, text, package)):
            at, said = _SOURCES.fullmatch(path), _PACKAGE.search(text)
            assert at is not None
            assert said is not None
            target = f"{at['root']}{said[1].replace('.', '/')}/{Path(path).name}"
            (root / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(root / path, root / target)
            _prune((root / path).parent, root / at["root"])
            yield target


def _prune(directory: Path, root: Path) -> None:
    """Removes a directory in which nothing is any more, and those above it up to ``root``."""
    while directory != root and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def _rebased(root: Path, names: Mapping[str, str]) -> bytes | None:
    """The last release's definitions with these names: what is published elsewhere is the same API. None if they have them already."""
    baseline = FileDescriptorSet.FromString((root / _BASELINE).read_bytes())
    before = baseline.SerializeToString(deterministic=True)
    for file in descriptors.ours(baseline):
        file.options.go_package = f"{names['go.module']}/topicpolicies/v1;{file.options.go_package.rpartition(';')[2]}"
        file.options.java_package = f"{names['java.package']}.v1"
    after = baseline.SerializeToString(deterministic=True)
    return after if after != before else None


def _ordered(root: Path, changed: list[str]) -> None:
    """Has Go's own tool order the imports again, whose paths have changed."""
    sources = [str(root / path) for path in changed if path.endswith(".go")]
    if sources:
        subprocess.run([str(Path(tools.go()).resolve().with_name("gofmt")), "-w", *sources], check=True)  # noqa: S603 - our own files


def main() -> int:
    """Changes or compares; 1 if something has another name, or the code can't be generated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    try:
        names = wanted()
        if not check:
            changed = rename(tools.ROOT, names)
            _ordered(tools.ROOT, changed)
            print(f"{len(changed)} files have other names now" if changed else "all names are as they should be")
            status = subprocess.run([sys.executable, str(tools.ROOT / "proto" / "generate.py")], check=False).returncode  # noqa: S603
            if status:
                return 1
    except (ToolMissingError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    found = stale(tools.ROOT, names)
    for each in found:
        print(f"{each.place}: {each.what}")
    if found:
        print("\nNot everything has the names of coordinates.toml; run: python3 dev.py coordinates", file=sys.stderr)
    elif check:
        print("all names are as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

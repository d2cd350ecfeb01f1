"""The programs of other languages that generating and testing need, pinned, and found or refused with a sentence that says what to do.

Standard library only: ``python -m proto.tools`` has the generators at hand before anything of Python is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TYPESCRIPT = ROOT / "clients" / "typescript"
GO_GENERATORS = {
    "go": ("google.golang.org/protobuf/cmd/protoc-gen-go", "v1.36.12"),
    "go-grpc": ("google.golang.org/grpc/cmd/protoc-gen-go-grpc", "v1.6.2"),
}
"""By the names that protoc has for them: package and version."""
_GO_TOOLS = ROOT / ".cache" / "go-tools"
_GO_NEEDED = (1, 24)
_NODE_NEEDED = (20, 0)
_STAMP = TYPESCRIPT / "node_modules" / ".installed"


class ToolMissingError(Exception):
    """A program is not to be had here; the message says what to do."""


def go() -> str:
    """The ``go`` command.

    Raises:
        ToolMissingError: there is none, or an older one.
    """
    return _program("go", ("version",), _GO_NEEDED, "the Go client is generated, built and tested with it")


def go_tool(package: str, version: str) -> Path:
    """A generator written in Go, installed once from its module, whose checksum ``go`` compares with the public record.

    Raises:
        ToolMissingError: it can't be installed.
    """
    directory = _GO_TOOLS / f"{package.rpartition('/')[2]}-{version}"
    program = directory / package.rpartition("/")[2]
    if not program.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_GO_TOOLS) as beside:  # whoever is interrupted leaves no half of a program in its place
            environment = {**os.environ, "GOBIN": beside, "GOFLAGS": "-mod=mod"}
            done = _quietly((go(), "install", f"{package}@{version}"), ROOT, environment)
            if done.returncode != 0:
                raise ToolMissingError(f"go could not install {package}@{version}:\n{done.stdout[-2000:]}")
            (Path(beside) / program.name).replace(program)
    return program


def node() -> str:
    """The ``node`` command.

    Raises:
        ToolMissingError: there is none, or an older one.
    """
    return _program("node", ("--version",), _NODE_NEEDED, "the TypeScript client is generated, built and tested with it")


def node_modules() -> Path:
    """The directory of installed packages of the TypeScript client; they are installed when the lock file names others.

    Raises:
        ToolMissingError: Node or npm is missing, or npm failed.
    """
    node()
    wanted = _packages(TYPESCRIPT / "package-lock.json")
    if not _STAMP.exists() or _STAMP.read_text() != wanted:
        npm = shutil.which("npm")
        if npm is None:
            raise ToolMissingError("npm is missing; it comes with Node and installs what the TypeScript client is built with.")
        done = _quietly((npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"), TYPESCRIPT)
        if done.returncode != 0:
            raise ToolMissingError(f"npm could not install what {TYPESCRIPT / 'package-lock.json'} says:\n{done.stdout[-2000:]}")
        _STAMP.write_text(wanted)
    return _STAMP.parent


def _packages(lock: Path) -> str:
    """What changes with the packages that a lock file names, and not with the name of the package that they are for."""
    named = json.loads(lock.read_text())
    named.pop("name", None)
    named["packages"][""].pop("name", None)
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def _program(name: str, question: Sequence[str], needed: tuple[int, int], purpose: str) -> str:
    wanted = ".".join(map(str, needed))
    program = shutil.which(name)
    if program is None:
        raise ToolMissingError(f"{name} is missing ({wanted} or newer): {purpose}. Install it and put it on the path.")
    said = _quietly((program, *question), ROOT).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < needed:
        raise ToolMissingError(f"{program} is too old: {wanted} or newer is needed, and it says {said.strip()!r}.")
    return program


def _quietly(command: Sequence[str], directory: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command; what it says on either channel is its output."""
    return subprocess.run(  # noqa: S603 - commands of this file only
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main() -> int:
    """Has all generators of other languages at hand; 1 if one is not to be had."""
    with ThreadPoolExecutor() as threads:
        had = [threads.submit(node_modules), *(threads.submit(go_tool, *generator) for generator in GO_GENERATORS.values())]
    missing = [str(error) for error in (each.exception() for each in had) if error is not None]
    for problem in missing:
        print(problem, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

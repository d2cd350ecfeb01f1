"""The programs of other languages that generating and testing need, pinned, and found or refused with a sentence that says what to do."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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
    wanted = hashlib.sha256((TYPESCRIPT / "package-lock.json").read_bytes()).hexdigest()
    if not _STAMP.exists() or _STAMP.read_text() != wanted:
        npm = shutil.which("npm")
        if npm is None:
            raise ToolMissingError("npm is missing; it comes with Node and installs what the TypeScript client is built with.")
        done = _quietly((npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"), TYPESCRIPT)
        if done.returncode != 0:
            raise ToolMissingError(f"npm could not install what {TYPESCRIPT / 'package-lock.json'} says:\n{done.stdout[-2000:]}")
        _STAMP.write_text(wanted)
    return _STAMP.parent


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

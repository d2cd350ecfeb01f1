"""The builds of the Go and TypeScript clients, and Rust's cargo, with the errors that they end with if something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from proto.tools import ROOT, TYPESCRIPT, go, node, node_modules

GO = ROOT / "clients" / "go"
RUST = ROOT / "clients" / "rust"
_TELLS = re.compile(r"FAIL|_test\.go:|DATA RACE|^panic|ERROR")
"""What a line has that tells what failed."""
_TAP_FAILURE = re.compile(r"^not ok .*\n(?:  .*\n)*", re.MULTILINE)
"""What TAP says about a test that failed."""


def go_program(package: str, directory: Path) -> Path:
    """Builds a program of the Go module.

    Raises:
        ToolMissingError: Go is missing.
        AssertionError: it does not compile.
    """
    program = directory / package.rpartition("/")[2]
    run([go(), "build", "-buildvcs=false", "-o", str(program), f"./{package}"], GO)
    return program


def typescript_program(name: str) -> list[str]:
    """Compiles the TypeScript package, and gives the command that runs one of its programs.

    Raises:
        ToolMissingError: Node or npm is missing.
        AssertionError: it does not compile.
    """
    run([node(), str(node_modules() / "typescript" / "bin" / "tsc"), "--project", str(TYPESCRIPT / "tsconfig.json")], TYPESCRIPT)
    return [node(), str(TYPESCRIPT / "dist" / name)]


def cargo() -> str:
    """Rust's ``cargo``, with all crates at hand.

    Raises:
        AssertionError: it is missing, or crates are.
    """
    program = shutil.which("cargo")
    assert program is not None, "cargo is missing: install Rust 1.88 or later, with rustup"
    fetched = subprocess.run(
        [program, "fetch"], cwd=RUST, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
    )
    why = f"crates are missing: run `cargo fetch` in clients/rust, where crates can be fetched\n{fetched.stderr[-2000:]}"
    assert fetched.returncode == 0, why
    return program


def run(command: Sequence[str], directory: Path, *, seconds: float = 280) -> str:
    """Runs a command, with our interpreter for the servers that it starts; what it said on either channel.

    Raises:
        AssertionError: it failed; with the end of what it said.
    """
    done = subprocess.run(
        command,
        cwd=directory,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    told = "\n".join(_failures(done.stdout))
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{told[:4000]}\n...\n{done.stdout[-4000:]}"
    return done.stdout


def _environment() -> dict[str, str]:
    """Ours, but Java is given no options by it: of those it speaks, where only a program's own words are wanted."""
    variables = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    return {**variables, "TOPICPOLICIES_PYTHON": sys.executable}


def _failures(said: str) -> Iterator[str]:
    """The lines that tell what failed."""
    yield from (line for line in said.splitlines() if _TELLS.search(line))
    yield from _TAP_FAILURE.findall(said)

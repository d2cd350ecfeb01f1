"""The builds of the Go and TypeScript clients, cargo for the Rust client, and their errors if a program or package is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from proto.tools import ROOT, TYPESCRIPT, go, node, node_modules
from tests.broker.jars import java
from tests.builds import Build

GO = ROOT / "clients" / "go"
RUST = ROOT / "clients" / "rust"
GO_OPTIONS = ("-race", "-buildvcs=false", "-gcflags=all=-l", "-ldflags=-s -w")
"""Options of Go's builds. Everything is built for the race detector, so that packages are not also compiled without it.

Without inlining and debug information, builds are a quarter less work, and the race detector still sees every access.
"""
_GO_PROGRAMS = ROOT / ".cache" / "go-programs"
_GO_BUILD = Build(_GO_PROGRAMS / "built", [GO, Path(__file__)])
_DIST = TYPESCRIPT / "dist"
_COMPILED = ("src", "test", "example", "tsconfig.json", "package.json", "package-lock.json")
_TYPESCRIPT_BUILD = Build(_DIST / "built", [*(TYPESCRIPT / name for name in _COMPILED), Path(__file__)])
_TELLS = re.compile(r"FAIL|_test\.go:|DATA RACE|^panic|ERROR")
"""Matches lines that name a failure."""
_TAP_FAILURE = re.compile(r"^not ok .*\n(?:  .*\n)*", re.MULTILINE)
"""Matches the report of a failed test in TAP."""


def go_program(package: str) -> Path:
    """Returns the path of a program of the Go module. Builds all programs of the module at once.

    Raises:
        ToolMissingError: Go is missing.
        AssertionError: the programs do not compile.
    """
    _GO_BUILD.make(_build_go)
    return _GO_PROGRAMS / package.rpartition("/")[2]


def go_build(out: Path, what: str) -> None:
    """Builds a program, or all programs of several packages, in the Go module.

    Args:
        out: the path of the program, or the folder for several.
        what: a file, or packages.

    Raises:
        ToolMissingError: Go is missing.
        AssertionError: it does not compile.
    """
    run([go(), "build", *GO_OPTIONS, "-o", str(out), what], GO, seconds=500)


def _build_go() -> None:
    _GO_PROGRAMS.mkdir(parents=True, exist_ok=True)
    go_build(_GO_PROGRAMS, "./...")


def typescript_program(name: str) -> list[str]:
    """Returns the command for one of the programs of the TypeScript package, which is compiled as a whole.

    Raises:
        ToolMissingError: Node or npm is missing.
        AssertionError: it does not compile.
    """
    _TYPESCRIPT_BUILD.make(_compile_typescript)
    return [node(), str(_DIST / name)]


def _compile_typescript() -> None:
    packages = node_modules()
    shutil.rmtree(_DIST, ignore_errors=True)  # removes the output of sources that no longer exist
    run([node(), str(packages / "typescript" / "bin" / "tsc"), "--project", str(TYPESCRIPT / "tsconfig.json")], TYPESCRIPT)


def java_program(*arguments: str) -> list[str]:
    """Returns the command for a short Java program: without the second compiler, and with the garbage collector that has no threads.

    Raises:
        BrokerUnavailableError: Java is missing.
    """
    return [str(java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments]


def cargo() -> str:
    """Fetches all crates; returns the path of ``cargo``.

    Raises:
        AssertionError: cargo or a crate is missing.
    """
    program = shutil.which("cargo")
    assert program is not None, "cargo is missing: install Rust 1.88 or later, with rustup"
    fetched = subprocess.run(
        [program, "fetch"], cwd=RUST, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
    )
    why = f"crates are missing: run `cargo fetch` in clients/rust, where crates can be fetched\n{fetched.stderr[-2000:]}"
    assert fetched.returncode == 0, why
    return program


@functools.cache
def linting() -> dict[str, str]:
    """Returns variables that make cargo lint this project's crates as it builds them and deny warnings, as ``cargo clippy -- -D warnings``.

    A separate lint would check all dependencies again, which is half as much work as to build them. The other variables make a build cheap
    that no later build reuses.

    Raises:
        AssertionError: clippy is missing.
    """
    found = subprocess.run(["rustc", "--print", "sysroot"], cwd=RUST, capture_output=True, text=True, check=True, timeout=60)
    driver = Path(found.stdout.strip()) / "bin" / "clippy-driver"
    assert driver.exists(), "cargo clippy is missing: install it with `rustup component add rustfmt clippy`"
    return {
        "RUSTC_WORKSPACE_WRAPPER": str(driver),
        "CLIPPY_ARGS": "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        "CARGO_INCREMENTAL": "0",  # no later build needs the incremental data
        "CARGO_PROFILE_DEV_CODEGEN_UNITS": "1",  # crates are built in parallel; 256 units for each crate are more work
        "CARGO_PROFILE_DEV_BUILD_OVERRIDE_CODEGEN_UNITS": "1",
    }


def run(command: Sequence[str], directory: Path, *, seconds: float = 500) -> str:
    """Runs a command; returns its standard output and error. Servers that it starts run in this interpreter, and cargo lints its builds.

    Raises:
        AssertionError: the command failed; the message has the failures and the end of its output.
    """
    done = subprocess.run(
        command,
        cwd=directory,
        env={**_environment(), **(linting() if Path(command[0]).stem == "cargo" else {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    failures = "\n".join(_failures(done.stdout))
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{failures[:4000]}\n...\n{done.stdout[-4000:]}"
    return done.stdout


def _environment() -> dict[str, str]:
    """Returns this environment without Java's options: Java prints a line about them, which is not the program's output."""
    variables = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    return {**variables, "TOPICPOLICIES_PYTHON": sys.executable}


def _failures(output: str) -> Iterator[str]:
    """Yields the parts of the output that name a failure."""
    yield from (line for line in output.splitlines() if _TELLS.search(line))
    yield from _TAP_FAILURE.findall(output)

"""The builds of the Go and TypeScript clients, and Rust's cargo, with the errors that they end with if something is missing."""

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
"""Everything in Go is built for the race detector: what programs and tests are made of is compiled once, and not once more without it.

Nothing is inlined, and there is nothing for debuggers: that is a quarter less work, and each access is still one that is watched.
"""
_GO_PROGRAMS = ROOT / ".cache" / "go-programs"
_GO_BUILD = Build(_GO_PROGRAMS / "built", [GO, Path(__file__)])
_DIST = TYPESCRIPT / "dist"
_COMPILED = ("src", "test", "example", "tsconfig.json", "package.json", "package-lock.json")
_TYPESCRIPT_BUILD = Build(_DIST / "built", [*(TYPESCRIPT / name for name in _COMPILED), Path(__file__)])
_TELLS = re.compile(r"FAIL|_test\.go:|DATA RACE|^panic|ERROR")
"""What a line has that tells what failed."""
_TAP_FAILURE = re.compile(r"^not ok .*\n(?:  .*\n)*", re.MULTILINE)
"""What TAP says about a test that failed."""


def go_program(package: str) -> Path:
    """A program of the Go module; all are built at once.

    Raises:
        ToolMissingError: Go is missing.
        AssertionError: they do not compile.
    """
    _GO_BUILD.make(_build_go)
    return _GO_PROGRAMS / package.rpartition("/")[2]


def go_build(out: Path, what: str) -> None:
    """Builds a program, or all of several packages, in the Go module.

    Args:
        out: the program, or the folder of several.
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
    """The command that runs one of the programs of the TypeScript package, which is compiled as a whole.

    Raises:
        ToolMissingError: Node or npm is missing.
        AssertionError: it does not compile.
    """
    _TYPESCRIPT_BUILD.make(_compile_typescript)
    return [node(), str(_DIST / name)]


def _compile_typescript() -> None:
    packages = node_modules()
    shutil.rmtree(_DIST, ignore_errors=True)  # what was compiled of a source that is gone goes too
    run([node(), str(packages / "typescript" / "bin" / "tsc"), "--project", str(TYPESCRIPT / "tsconfig.json")], TYPESCRIPT)


def java_program(*arguments: str) -> list[str]:
    """The command that runs a Java program of a few seconds: without the second compiler, and with the collector that has no threads.

    Raises:
        BrokerUnavailableError: Java is missing.
    """
    return [str(java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments]


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


@functools.cache
def linting() -> dict[str, str]:
    """What has cargo lint this project's crates as it builds them, and deny warnings: as ``cargo clippy -- -D warnings`` does it.

    Linting alone has all crates that they need checked, and that is half as much work as building them. The rest makes one build cheap,
    which nobody builds on.

    Raises:
        AssertionError: clippy is missing.
    """
    found = subprocess.run(["rustc", "--print", "sysroot"], cwd=RUST, capture_output=True, text=True, check=True, timeout=60)
    driver = Path(found.stdout.strip()) / "bin" / "clippy-driver"
    assert driver.exists(), "cargo clippy is missing: install it with `rustup component add rustfmt clippy`"
    return {
        "RUSTC_WORKSPACE_WRAPPER": str(driver),
        "CLIPPY_ARGS": "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        "CARGO_INCREMENTAL": "0",  # what is built once needs no record of how to build it again
        "CARGO_PROFILE_DEV_CODEGEN_UNITS": "1",  # crates are built side by side; a crate in 256 parts is more work
        "CARGO_PROFILE_DEV_BUILD_OVERRIDE_CODEGEN_UNITS": "1",
    }


def run(command: Sequence[str], directory: Path, *, seconds: float = 280) -> str:
    """Runs a command, with our interpreter for the servers that it starts; what it said on either channel. What cargo builds it lints.

    Raises:
        AssertionError: it failed; with the end of what it said.
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

#!/usr/bin/env python3
"""The one way in, for users and developers: ``python3 dev.py demo`` shows the sidecar at work, ``python3 dev.py test`` tests all of it.

Everything is installed from lock files with hashes into ``.venv`` beside this file, anew if one of them has changed. Standard library only.
Older Pythons must be able to read this file as far as the sentence that refuses them.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("Python 3.11 or newer is needed; this is Python {}.{}.".format(*sys.version_info))

ROOT = Path(__file__).resolve().parent
CLIENT = ROOT / "clients" / "python"
REQUIREMENTS = ROOT / "requirements"
VENV = ROOT / ".venv"
PROGRAMS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = PROGRAMS / "python"
STAMP = VENV / "installed"
"""Says for which lock files the environment was made."""

# PySpark is published as a source archive only. Its jars are archives themselves, which are not compressed once more.
BUILT = ("--only-binary=:all:", "--no-binary=pyspark", "--config-settings=--build-option=--compression=stored")

LICENSE = re.compile(r"licen[cs]e|copying|notice", re.IGNORECASE)
"""Matches the names of files of licenses."""

Command = tuple[str | Path, ...]
LINT: dict[str, Command] = {
    "lint": (PROGRAMS / "ruff", "check"),
    "format": (PROGRAMS / "ruff", "format", "--check"),
    "types": (PROGRAMS / "mypy",),
    "generated code": (PYTHON, "proto/generate.py", "--check"),
    "Protobuf lint": (PYTHON, "proto/buf.py", "lint"),
    "Protobuf compatibility": (PYTHON, "proto/buf.py", "breaking"),
}
# Compiles the tests once; test processes that begin at the same time would each do that.
COLLECTION: dict[str, Command] = {"tests can be collected": (PYTHON, "-m", "pytest", "--collect-only", "-qqq")}
BROKERS: dict[str, Command] = {"brokers": (PYTHON, "-m", "tests.broker.archive")}
FAST = "not broker and not slow and not evidence"
"""Selects the tests of `check`."""
PROCESSES = 4
"""Of tests: more than processors, because many wait for brokers, other programs or the clock; more would make tests miss deadlines."""
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, as Linux has one
FILES_BYTES = 8 << 30
"""Room for the temporary files of a run of tests, with some to spare."""


def demo(arguments: list[str]) -> int:
    """Start a server on an embedded log, show concurrent updates and a watch, and leave it serving: --once, --clients, --updates..."""
    install("server")
    return become(PROGRAMS / "topicpolicies", "demo", *arguments)


def test(arguments: list[str]) -> int:
    """Everything: lint, types, definitions, all tests (JDK 17, Maven, Go, Node). Takes arguments of pytest."""
    install("dev")
    return inspect({**BROKERS, **LINT, **COLLECTION}) or pytest(*arguments)


def check(arguments: list[str]) -> int:
    """The fast part: lint, types, definitions, and the tests that need no broker. Takes arguments of pytest."""
    install("dev")
    return inspect({**LINT, **COLLECTION}) or pytest("-m", FAST, *arguments)


def evidence(arguments: list[str]) -> int:
    """What `test` leaves out: more seeds and kills, the rendered chart, the bill of materials, and the example in Rust (1.88)."""
    install("dev")
    return inspect(BROKERS) or pytest("-m", "evidence", *arguments)


def matrix(arguments: list[str]) -> int:
    """With another Python (`matrix 3.13`): the tests of `check`, and the wheels with each extra alone. Takes arguments of pytest."""
    if not arguments or arguments[0].startswith("-"):
        sys.exit("Name a Python: a version that uv finds or can install, such as 3.13, or the path of its program.")
    install("dev")
    python = programs("dev", into="matrix", python=arguments.pop(0), sources=BUILT) / "python"
    editable = ("--no-deps", "--no-build-isolation", f"--editable={CLIENT}", f"--editable={ROOT}")
    run(PROGRAMS / "uv", "pip", "install", "--quiet", "--no-config", f"--python={python}", *editable, must=True)
    keep_compiled()
    wheels = run(python, "-m", "pytest", "-m", "evidence", "tests/house/test_extras.py")
    return run(python, "-m", "pytest", f"--numprocesses={PROCESSES}", "-m", FAST, *arguments) or wheels


def lint(_: list[str]) -> int:
    """Lint, types, definitions and the committed code that they generate; no tests."""
    install("dev")
    return inspect(LINT)


def generate(arguments: list[str]) -> int:
    """Generate the committed code of the Protobuf definitions; with --baseline, take them as the release to be compatible with."""
    install("dev")
    if arguments == ["--baseline"]:
        return become(PYTHON, "proto/buf.py", "baseline", folder=ROOT)
    return become(PYTHON, "proto/generate.py", *arguments, folder=ROOT)


def lock(arguments: list[str]) -> int:
    """Write the lock files anew after a change of pyproject.toml; with --upgrade, take the newest versions."""
    install("dev")
    dev = f"--constraints={REQUIREMENTS / 'dev.txt'}"  # what is tested is what is installed
    return (
        pin("dev", "pyproject.toml", "--extra=dev", *arguments)
        or pin("server", "pyproject.toml", "--extra=server", "--extra=telemetry", dev)
        or pin("build", "requirements/build.in", dev)
        or pin("release", "requirements/release.in", dev)
        or pin("site", "requirements/site.in", dev)
    )


def release(arguments: list[str]) -> int:
    """Write what goes with an image to dist, or another folder: sbom.cdx.json (CycloneDX) and NOTICE, of the packages in it."""
    install("server")
    folder = Path(arguments[0] if arguments else ROOT / "dist").absolute()
    folder.mkdir(exist_ok=True)
    (folder / "NOTICE").write_text("\n".join(notices()), encoding="utf-8")
    made = ("--pyproject=pyproject.toml", "--output-reproducible", f"--output-file={folder / 'sbom.cdx.json'}", REQUIREMENTS / "server.txt")
    return run(programs("release") / "python", "-W", "ignore", "-m", "cyclonedx_py", "requirements", *made)


def site(arguments: list[str]) -> int:
    """Build a site of the documentation in dist/site; a link that leads nowhere fails. Takes arguments of `mkdocs build`."""
    install("server")
    return run(programs("site") / "python", "-m", "mkdocs", "build", "--strict", "--clean", *arguments)


def broker(arguments: list[str]) -> int:
    """Run a real Pulsar broker in the foreground: --version, --port, --web-port, --set; see .venv/bin/python -m tests.broker --help."""
    install("dev")
    return become(PYTHON, "-m", "tests.broker", *arguments, folder=ROOT)


def bench(arguments: list[str]) -> int:
    """Measure: `bench figures` every figure beside its limit, `bench` updates, `bench harness`...; `bench record`: into the docs."""
    install("dev")
    module = f"bench.{arguments.pop(0)}" if arguments and not arguments[0].startswith("-") else "bench"
    return become(PYTHON, "-m", module, *arguments, folder=ROOT)


COMMANDS = {
    command.__name__: command for command in (demo, test, check, evidence, matrix, lint, generate, lock, release, site, broker, bench)
}


def pin(name: str, *arguments: str) -> int:
    """Resolves requirements for all platforms into one lock file."""
    options = ["--quiet", "--universal", "--python-version=3.11", "--generate-hashes", "--no-emit-index-url"]
    options.append("--no-emit-package=topicpolicies")  # the client is in this repository
    out = f"--output-file={REQUIREMENTS / name}.txt"
    return run(PROGRAMS / "uv", "pip", "compile", *options, "--custom-compile-command=python3 dev.py lock", out, *arguments)


def programs(name: str, *, into: str = "", python: str | Path = PYTHON, sources: Command = ("--only-binary=:all:",)) -> Path:
    """Makes an environment of what a lock file names, apart from ``.venv``; returns the folder of its programs.

    ``into``: its name, if not that of the lock file. ``sources``: which packages may be built.
    """
    tools = ROOT / ".cache" / (into or name)
    packages = ("--require-hashes", *sources, f"--requirement={REQUIREMENTS / name}.txt")
    run(PROGRAMS / "uv", "venv", "--quiet", "--clear", "--no-config", f"--python={python}", tools, must=True)
    run(PROGRAMS / "uv", "pip", "install", "--quiet", "--no-config", f"--python={tools}", *packages, must=True)
    return tools / PROGRAMS.name


def notices() -> Iterator[str]:
    """Yields the name, version, license and the license's texts of each package in ``.venv`` that the server's lock file names."""
    locked = set(re.findall(r"(?m)^([\w.-]+)==", (REQUIREMENTS / "server.txt").read_text()))
    yield "Topic policies for Apache Pulsar, licensed under the Apache License 2.0. An environment of the server also has these packages.\n"
    found = metadata.distributions(path=[sysconfig.get_path("purelib", vars={"base": str(VENV)})])
    for name, each in sorted((re.sub(r"[-_.]+", "-", each.name).lower(), each) for each in found):
        if name in locked:
            about = each.metadata.json
            classified = [line.rpartition(" :: ")[2] for line in about.get("classifier", ()) if line.startswith("License :: ")]
            said = about.get("license_expression") or ", ".join(classified) or about.get("license", "see its text")
            yield f"{'=' * 100}\n{name} {each.version}: {str(said).splitlines()[0]}\n"
            texts = [file for file in each.files or () if ".dist-info" in str(file) and LICENSE.match(file.name)]
            yield from (file.read_text(encoding="utf-8") for file in texts)


def pytest(*arguments: str) -> int:
    """Runs tests in several processes; tests/conftest.py says which of them run in one."""
    keep_compiled()
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > FILES_BYTES:
        os.environ.setdefault("TMPDIR", str(MEMORY))  # elsewhere each commit of a log waits for a disk
    print("== tests", flush=True)
    return become(PYTHON, "-m", "pytest", f"--numprocesses={PROCESSES}", *arguments, folder=ROOT)


def keep_compiled() -> None:
    """Has compiled modules kept, also where the environment says to keep none, as that of many containers does."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def inspect(steps: Mapping[str, Command]) -> int:
    """Runs steps, three at a time, and prints the output of those that fail; returns 1 if one did."""
    keep_compiled()
    failed = []
    with ThreadPoolExecutor(max_workers=3) as threads:
        for name, (status, output, seconds) in zip(steps, threads.map(output_of, steps.values()), strict=True):
            print(f"== {name}: {'FAILED' if status else 'in order'} ({seconds:.1f} s)\n{output if status else ''}", end="", flush=True)
            failed += [name] if status else []
    if failed:
        print(f"\nNot in order: {', '.join(failed)} (see above)", file=sys.stderr)
    return 1 if failed else 0


def output_of(command: Command) -> tuple[int, str, float]:
    """Runs a command; returns its exit status, its output on both channels, and its time in seconds."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return done.returncode, done.stdout, time.monotonic() - began


def install(profile: str) -> None:
    """Has ``.venv`` contain what the lock file of a profile (`server` or `dev`) names, and this project in place."""
    installed = STAMP.read_text() if STAMP.is_file() and PYTHON.exists() else ""
    if installed in {wanted(profile), wanted("dev")}:  # `dev` contains all of `server`, in the same versions
        return
    print(f"== installing requirements/{profile}.txt into .venv", file=sys.stderr, flush=True)
    run(sys.executable, "-m", "venv", "--clear", VENV, must=True)
    pip = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    run(*pip, "--require-hashes", "--only-binary=:all:", f"--requirement={REQUIREMENTS / 'build.txt'}", must=True)
    packages = ("--require-hashes", *BUILT, f"--requirement={REQUIREMENTS / profile}.txt")
    # uv is several times as fast. It does not know the settings of pip, such as those of a mirror.
    if run(PROGRAMS / "uv", "pip", "install", "--quiet", "--no-config", f"--python={PYTHON}", *packages):
        run(*pip, *packages, must=True)
    run(*pip, "--no-deps", "--no-build-isolation", f"--editable={CLIENT}", f"--editable={ROOT}", must=True)
    STAMP.write_text(wanted(profile))


def wanted(profile: str) -> str:
    """Returns a hash of what an environment depends on; programs in it name its path."""
    digest = hashlib.sha256(f"{profile} {sys.version_info[:2]} {VENV}".encode())
    for path in (ROOT / "pyproject.toml", CLIENT / "pyproject.toml", REQUIREMENTS / "build.txt", REQUIREMENTS / f"{profile}.txt"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def run(*command: str | Path, must: bool = False) -> int:
    """Runs a command in the project's folder; returns its exit status, or ends this program with it if the command ``must`` succeed."""
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if must and status:
        sys.exit(f"This failed: {' '.join(map(str, command))}")
    return status


def become(program: Path, *arguments: str, folder: Path | None = None) -> int:
    """Becomes another program, in ``folder`` if one is given, so that signals reach it; on Windows, runs it."""
    os.chdir(folder or Path.cwd())
    if os.name != "nt":
        sys.stdout.flush()
        os.execv(program, [str(program), *arguments])
    return subprocess.run([program, *arguments], check=False).returncode


def main() -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="dev.py", description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, command in COMMANDS.items():
        help_ = command.__doc__
        commands.add_parser(name, help=help_, description=help_, allow_abbrev=False)
    chosen, rest = parser.parse_known_args()
    try:
        return COMMANDS[chosen.command](rest)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The one way in, for users and developers: ``python3 dev.py demo`` shows the sidecar at work, ``python3 dev.py test`` tests all of it.

Everything is installed from lock files with hashes into ``.venv`` beside this file, and only when a lock file has changed. Standard library
only. Older Pythons must be able to read this file as far as the sentence that refuses them.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("Python 3.11 or newer is needed; this is Python {}.{}.".format(*sys.version_info))

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PROGRAMS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = PROGRAMS / "python"
STAMP = VENV / "installed.json"
PLACE = "place"
"""The path of ``.venv``, in the stamp. Programs in it name that path: a copy that stands elsewhere uses the former."""
REQUIREMENTS = ROOT / "requirements"

# What is installed for whom, in this order. `dev` contains all that `server` has, in the same versions.
PROFILES = {"server": ("build", "server"), "dev": ("dev",)}
# PySpark is published as a source archive only; it holds the same jars that a wheel would. They are archives themselves: to compress them
# once more, into the wheel that is made and unpacked here, is half of the work and makes nothing smaller.
BUILT = ("--no-binary=pyspark", "--config-settings=--build-option=--compression=stored")
INDEXES = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_CONFIG_FILE", "PIP_PROXY"}
"""In these pip is told where packages come from."""
BROKERS = ("4.2.4", "4.0.0")
NOTHING_IS_MISSING_S = 3.0
"""Brokers that could not be run by then are being resolved, or never will be for another reason than a program that is missing."""
MEMORY = Path("/dev/shm")  # noqa: S108 - nothing is made in it but a folder with a name of its own
"""A file system in memory, as Linux has one."""
FILES_BYTES = 8 << 30
"""Room for the temporary files of a run of tests, with some to spare."""
PATIENCE_S = 10.0
"""So long a command that was interrupted by Ctrl-C may take to end before it is told once more; three times that, and it is killed."""

Command = tuple[str | Path, ...]
Steps = dict[str, Command]
"""Commands by what they are called."""
RUNNING: set[subprocess.Popen[Any]] = set()
"""What we have started."""
INTERRUPTED = threading.Event()


class Failure(Exception):
    """Ends the command; the message says why."""


class Interruption(KeyboardInterrupt):
    """Ends the command, because of a signal, whose number it has."""


def main(arguments: list[str]) -> int:
    """Runs one command; what it answers is the exit status."""
    parser = argparse.ArgumentParser(prog="dev.py", description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, run in COMMANDS.items():
        commands.add_parser(name, help=run.__doc__, add_help=False)
    chosen, rest = parser.parse_known_args(arguments[:1])
    if chosen.command not in WITH_HELP and {"-h", "--help"} & set(arguments[1:]):
        print(f"usage: dev.py {chosen.command} [ARGUMENT]...\n\n{COMMANDS[chosen.command].__doc__}")
        return 0
    try:
        return COMMANDS[chosen.command](rest + arguments[1:])
    except Failure as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 1
    except Interruption as interruption:
        return 128 + int(interruption.args[0])
    except KeyboardInterrupt:
        return 130


def demo(arguments: list[str]) -> int:
    """Start a server on an embedded log, show concurrent updates and a watch, and leave it serving."""
    install("server")
    return hand_over(PROGRAMS / "topicpolicies", "demo", *arguments, folder=Path.cwd())


def test(arguments: list[str]) -> int:
    """Everything: lint, types, definitions, and all tests, with real brokers and in all languages (JDK 17, Maven, Go, Node, Rust)."""
    install_brokers()
    # Brokers, builds and Spark are waited for, too: of four processes the processors were idle for a quarter of the time, of six never.
    return verify("-m", "not evidence", *arguments, beside=ARCHIVING, waiting=4)


def check(arguments: list[str]) -> int:
    """The fast part: lint, types, definitions, and the tests that need no broker."""
    install("dev")
    return verify("-m", "not broker and not slow and not evidence", *arguments, waiting=4)


def evidence(arguments: list[str]) -> int:
    """More seeds, worlds and kills, which promise what `test` promises of fewer; with --parts, more still."""
    install_brokers()
    return examine("-m", "evidence", "--parts=5", *arguments)


def lint(_: list[str]) -> int:
    """Lint, types, definitions and the committed code that they generate; no tests."""
    install("dev")
    return 1 if inspect(INSPECTIONS) else 0


def generate(arguments: list[str]) -> int:
    """Generate the committed code of the Protobuf definitions; with --baseline, take them as the release to be compatible with."""
    install("dev")
    if arguments == ["--baseline"]:
        return run(PYTHON, "proto/buf.py", "baseline")
    return run(PYTHON, "proto/generate.py", *arguments)


def lock(arguments: list[str]) -> int:
    """Write the lock files anew after a change of pyproject.toml; with --upgrade, take the newest versions."""
    install("dev")
    dev = REQUIREMENTS / "dev.txt"
    # The others are held to the versions of `dev`, so that what is tested is what is installed.
    return (
        pin("pyproject.toml", "--extra=dev", f"--output-file={dev}", *arguments)
        or pin(
            "pyproject.toml", "--extra=server", "--extra=telemetry", f"--output-file={REQUIREMENTS / 'server.txt'}", f"--constraints={dev}"
        )
        or pin("requirements/build.in", f"--output-file={REQUIREMENTS / 'build.txt'}", f"--constraints={dev}")
    )


def pin(*arguments: str) -> int:
    """Resolves requirements for all platforms into one lock file."""
    options = ("--quiet", "--universal", "--python-version=3.11", "--generate-hashes", "--no-emit-index-url")
    return run(PROGRAMS / "uv", "pip", "compile", *options, "--custom-compile-command=python3 dev.py lock", *arguments)


def broker(arguments: list[str]) -> int:
    """Run a real Pulsar broker in the foreground: --version, --port, --web-port."""
    install("dev")
    return hand_over(PYTHON, "-m", "tests.broker", *arguments)


def bench(arguments: list[str]) -> int:
    """Measure: `bench figures` every figure beside its limit, `bench` updates, `bench harness`...; `bench record`: into the docs."""
    install("dev")
    if arguments[:1] and is_measurement(arguments[0]):
        return hand_over(PYTHON, "-m", f"bench.{arguments[0]}", *arguments[1:])
    return hand_over(PYTHON, "-m", "bench", *arguments)


COMMANDS = {command.__name__: command for command in (demo, test, check, evidence, lint, generate, lock, broker, bench)}
WITH_HELP = ("demo", "broker", "bench")
"""Commands whose programs have help of their own; the others would install and run all that they stand for first."""


def is_measurement(name: str) -> bool:
    """Whether ``bench/`` has a program of this name: a folder that can be run, or a module."""
    module = ROOT / "bench" / f"{name}.py"
    runs = module.is_file() and '__name__ == "__main__"' in module.read_text()
    return name.isidentifier() and (runs or (ROOT / "bench" / name / "__main__.py").is_file())


def verify(*arguments: str, beside: Steps | None = None, waiting: int = 2) -> int:
    """Inspects, and makes what tests need beside that, then tests; what failed before the tests is said again after them."""
    keep_what_is_compiled()
    failed = inspect((beside or {}) | INSPECTIONS | ({} if (ROOT / "tests" / "__pycache__").is_dir() else COMPILING))
    status = examine(*arguments, waiting=waiting)
    if failed:
        raise Failure(f"Not in order: {', '.join(failed)} (see above).")
    return status


def keep_what_is_compiled() -> None:
    """All test processes, of all runs, read the same tests, which are compiled once, also where the environment says to keep nothing."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as that of many containers does


def examine(*arguments: str, waiting: int = 2) -> int:
    """Runs tests in several processes, of which so many are taken to wait at a time."""
    keep_what_is_compiled()
    heading("tests")
    # Some tests stay together in one process (`xdist_group`), such as those that use what one of them has built. Many wait
    # for brokers, other programs or the clock most of their time: there are more processes than processors.
    processes = min(os.cpu_count() or 1, 2) + waiting
    with files_in_memory():
        return run(PYTHON, "-m", "pytest", f"--numprocesses={processes}", "--dist=loadgroup", "--costs", *arguments)


@contextlib.contextmanager
def files_in_memory() -> Iterator[None]:
    """Has what is run keep its temporary files in memory where there is room for them: each commit of a log waits for a disk otherwise."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < FILES_BYTES:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tp-", dir=MEMORY, ignore_cleanup_errors=True) as folder:  # short, as paths of sockets must be
        Path(folder).chmod(0o755)  # as the folder of all temporary files is: some tests are about files that others can reach
        os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            del os.environ["TMPDIR"]


# The short ones come first: they are told at once.
INSPECTIONS: Steps = {
    "lint": (PROGRAMS / "ruff", "check"),
    "format": (PROGRAMS / "ruff", "format", "--check"),
    "Protobuf lint": (PYTHON, "proto/buf.py", "lint"),
    "Protobuf compatibility": (PYTHON, "proto/buf.py", "breaking"),
    "types": (PROGRAMS / "mypy",),
    "generated code": (PYTHON, "proto/generate.py", "--check"),
}
# Has the tests compiled, and what they import. Test processes that begin at the same time would each do that for themselves.
COMPILING: Steps = {"tests to be collected": (PYTHON, "-m", "tests.collecting")}
# Of the older version fewer brokers start in a run than an archive would pay for.
ARCHIVING: Steps = {"broker archive": (PYTHON, "-m", "tests.broker.archive", BROKERS[0])}


def inspect(inspections: Steps) -> list[str]:
    """Lint, types and definitions, three at a time, told in their order; which of them are not in order."""
    failed = []
    # Three take long in a fresh clone: types, tests that are compiled, and generators, of which some are downloaded first.
    with ThreadPoolExecutor(max_workers=3) as threads:
        for name, (status, told, seconds) in zip(inspections, threads.map(look, inspections.values()), strict=True):
            heading(name)
            print(told, end="")
            if status:
                failed.append(name)
            print("not in order" if status else f"in order ({seconds:.1f} s)", flush=True)
    return failed


def look(command: Command) -> tuple[int, str, float]:
    """Runs a command: its exit status, what it said on either channel, and how many seconds it took."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as told:
        status = run(*command, told=told)
        told.seek(0)
        return status, told.read(), time.monotonic() - began


def install(profile: str) -> None:
    """Makes ``.venv`` hold what a profile's lock files say, and this project in place; at once if it does already."""
    installed = read_stamp()
    if installed.get(PLACE) == str(VENV) and any(installed.get(name) == fingerprint(name) for name in {profile, "dev"}):
        return
    with generators() if profile == "dev" else contextlib.nullcontext():
        install_profile(profile)


def install_profile(profile: str) -> None:
    """Makes ``.venv`` hold what a profile's lock files say, and this project in place."""
    # What is there of an interrupted installation looks like a good one, to pip and uv as well, though files of it are missing.
    installing = ROOT / ".cache" / "installing"
    interrupted = installing.exists()
    installing.parent.mkdir(exist_ok=True)
    installing.touch()
    moved = read_stamp().get(PLACE, str(VENV)) != str(VENV)
    try:
        make_venv(anew=interrupted or moved)
        install_into_venv(profile)
    except Failure:
        installing.unlink()
        raise
    installing.unlink()


def install_into_venv(profile: str) -> None:
    """Installs what a profile's lock files say, and this project, into the ``.venv`` that is there."""
    STAMP.unlink(missing_ok=True)
    # Modules are compiled when they are imported first: most of what is installed never is.
    pip = (PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile")
    for name in PROFILES[profile]:
        file = REQUIREMENTS / f"{name}.txt"
        count = sum(1 for line in file.read_text().splitlines() if "==" in line)
        heading(f"installing {count} packages of requirements/{name}.txt")
        install_locked(file, pip)
    heading("installing topicpolicies in place")
    quietly(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    STAMP.write_text(json.dumps({PLACE: str(VENV), profile: fingerprint(profile)}))


@contextlib.contextmanager
def generators() -> Iterator[None]:
    """Has the generators of other languages fetched beside Python's packages; the inspection that needs them says what is not to be had."""
    nothing = subprocess.DEVNULL
    with started(sys.executable, "-m", "proto.tools", stdin=nothing, stdout=nothing, stderr=nothing):
        yield


def install_locked(file: Path, pip: Command) -> None:
    """Installs what a lock file says: by uv and pip side by side, or by pip alone."""
    locked = (*pip, "--require-hashes", "--only-binary=:all:")
    began = time.monotonic()
    if install_side_by_side(file, locked):
        print(f"done ({time.monotonic() - began:.0f} s)", flush=True)
    else:
        quietly(*locked, *BUILT, "--requirement", file)


def install_side_by_side(file: Path, locked: Command) -> bool:
    """Installs uv, if a lock file has it, and with it nearly all else in a quarter of pip's time; whether that was done.

    It is not tried where pip was told of indexes in its own way, which uv does not know. Whatever keeps uv from installing, pip can try.
    """
    entries = re.findall(r"(?m)^([\w.-]+)((?:\[|==)(?:.|\n )*)", file.read_text())
    locks_both = {"uv", "pyspark"} <= {name for name, _ in entries}
    if not locks_both or INDEXES & os.environ.keys() or "index" in look((PYTHON, "-m", "pip", "config", "list"))[1]:
        return False
    with tempfile.TemporaryDirectory() as folder:

        def part(called: str, *, has: Callable[[str], bool]) -> Command:
            chosen = Path(folder) / called
            chosen.write_text("\n".join(name + rest for name, rest in entries if has(name)))
            return "--no-deps", "--requirement", chosen

        if look((*locked, *part("uv", has="uv".__eq__)))[0]:
            return False
        uv = (PROGRAMS / "uv", "pip", "install", "--no-config", "--no-cache", "--python", PYTHON, "--require-hashes", "--only-binary=:all:")
        others = part("others", has=lambda name: name not in {"uv", "pyspark"})
        with ThreadPoolExecutor() as threads:
            both = threads.map(look, [(*uv, *others), (*locked, *BUILT, *part("pyspark", has="pyspark".__eq__))])
        return not any(status for status, _, _ in both)


def install_brokers() -> None:
    """Has brokers to test with, or refuses to test without; and what the profile `dev` has."""
    resolve = [sys.executable, "-m", "tests.broker.jars", *BROKERS]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as told:
        with started(*resolve, stdout=told, stderr=subprocess.STDOUT) as brokers:
            # Both wait for the network most of their time. Where Java or Maven is missing nothing is installed.
            with contextlib.suppress(subprocess.TimeoutExpired):
                brokers.wait(NOTHING_IS_MISSING_S)
            if not brokers.returncode:
                install("dev")
        heading("brokers")
        told.seek(0)
        print(told.read(), end="", file=sys.stderr if brokers.returncode else sys.stdout, flush=True)
    if brokers.returncode:
        raise Failure("The tests run against real Pulsar brokers, and none can be run here; nothing was tested.")


def make_venv(*, anew: bool) -> None:
    """A virtual environment of this Python's version; one of another version is replaced, and any if it is to be made ``anew``."""
    version = "import sys; print(sys.version_info[:2])"
    try:
        found = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = ""
    if found == str(sys.version_info[:2]) and not anew:
        return
    heading("making .venv")
    quietly(sys.executable, "-m", "venv", "--clear", VENV)


def fingerprint(profile: str) -> str:
    """What an installation depends on: the lock files, the project's metadata, the Python."""
    digest = hashlib.sha256(f"{profile} {sys.version_info[:2]}".encode())
    for path in [ROOT / "pyproject.toml", *(REQUIREMENTS / f"{name}.txt" for name in PROFILES[profile])]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp() -> dict[str, str]:
    """Which profiles were installed, with their fingerprints, and where."""
    try:
        stamp: dict[str, str] = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp


def heading(text: str) -> None:
    """Says what comes next."""
    print(f"== {text}", flush=True)


def run(*command: str | Path, told: IO[str] | None = None) -> int:
    """Runs a command in the project's directory, with our input and output, or with a file for what it says."""
    with started(*command, stdout=told, stderr=told and subprocess.STDOUT) as process:
        return process.wait()


@contextlib.contextmanager
def started(*command: str | Path, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Starts a command in the project's directory. It has ended behind this, in its own way, also where we are interrupted."""
    process = subprocess.Popen(command, cwd=ROOT, **options)
    RUNNING.add(process)
    if INTERRUPTED.is_set():  # meanwhile, and it was not told
        process.terminate()
    try:
        yield process
    finally:
        process.wait()
        RUNNING.discard(process)


def listen() -> None:
    """Has signals end what runs before they end us; those that are ignored, as behind ``nohup``, stay so."""
    for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """Ctrl-C reaches from a terminal all that run, who are not told twice unless they do not end; another signal reaches us alone."""
    patience = PATIENCE_S if number == signal.SIGINT and not INTERRUPTED.is_set() else 0.0
    INTERRUPTED.set()
    for seconds, end in ((patience, subprocess.Popen.terminate), (3 * PATIENCE_S, subprocess.Popen.kill)):
        timer = threading.Timer(seconds, tell, [end])
        timer.daemon = True
        timer.start()
    raise Interruption(number)


def tell(end: Callable[[subprocess.Popen[Any]], None]) -> None:
    """Tells all that run."""
    for process in RUNNING.copy():
        end(process)


def quietly(*command: str | Path) -> None:
    """Runs a command that talks too much: its newest line on a terminal, all of it if it fails."""
    began = time.monotonic()
    lines = []
    with started(*command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process, process.stdout or io.StringIO() as said:
        for line in said:
            lines.append(line)
            if sys.stdout.isatty():
                print(f"\r\x1b[K{line.strip()[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    if process.returncode:
        raise Failure("".join(lines) + f"This failed: {' '.join(map(str, command))}")
    print(f"done ({time.monotonic() - began:.0f} s)", flush=True)


def hand_over(program: Path, *arguments: str, folder: Path = ROOT) -> int:
    """Becomes another program, so that signals reach it; where that cannot be, runs it. It works in ``folder``."""
    os.chdir(folder)
    if os.name != "nt":
        sys.stdout.flush()
        os.execv(program, [str(program), *arguments])
    return subprocess.run([program, *arguments], check=False).returncode


if __name__ == "__main__":
    listen()
    sys.exit(main(sys.argv[1:]))

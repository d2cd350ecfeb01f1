"""Measures the figures of ``docs/benchmarks.md`` again, and writes them there.

    python3 dev.py bench record                 everything; needs JDK 17 and Maven, and a machine that does nothing else
    python3 dev.py bench record plugin harness  only the commands that have one of these words
    python3 dev.py bench record --list          the commands, without running them

A block has the output of its command (``bench/blocks.py``), and the plots that are drawn from it (``bench/plots.py``).

A command has no time limit. If it fails, its block stays as it is; if it exits with 1, it has missed a target, and its output says so.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.blocks import DOCUMENT, commands_of, with_body
from bench.plots import write

_ROOT = Path(__file__).parents[1]
_MISSED = 1
_WIDTH = "150"


class Printed(NamedTuple):
    """The output of a command, its exit status, and the conditions of the run."""

    text: str
    status: int
    conditions: str


def replaced(document: str, command: str, printed: Printed) -> str:
    """Returns the document with a command's block renewed."""
    lines = [line.rstrip() for line in printed.text.strip("\n").splitlines()]
    return with_body(document, command, "\n".join(["```text", printed.conditions, "", *lines, "```", ""]))


def run(command: str) -> Printed:
    """Runs the command of a block; its progress goes to the terminal."""
    words = shlex.split(command)
    if words[0] == "python3":
        words[0] = sys.executable
    load = os.getloadavg()[0]
    began = time.monotonic()
    environment = {**os.environ, "COLUMNS": _WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    ran = subprocess.run(words, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    day = datetime.now(UTC).date().isoformat()
    took = time.monotonic() - began
    conditions = f"{day}, {os.cpu_count()} cores, load average {load:.1f} before, Python {sys.version.split()[0]}; took {took:.0f} s"
    return Printed(ran.stdout, ran.returncode, conditions)


def record(path: Path, words: Sequence[str]) -> int:
    """Measures the commands that have one of the words; all commands if there are no words.

    Returns:
        The number of commands that failed.
    """
    failed = 0
    chosen = [command for command in commands_of(path.read_text()) if not words or any(word in command for word in words)]
    for number, command in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {command}", file=sys.stderr, flush=True)
        printed = run(command)
        if printed.status not in (0, _MISSED) or not printed.text.strip():
            failed += 1
            print(f"It ended with {printed.status}; its block stays as it is.", file=sys.stderr)
            continue
        path.write_text(replaced(path.read_text(), command, printed))
        write(path)
    return failed


def main() -> int:
    """Measures and writes. Returns 1 if a command failed or no command has one of the words."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only commands with one of these words")
    parser.add_argument("--list", action="store_true", help="show the commands")
    options = parser.parse_args()
    commands = [each for each in commands_of(DOCUMENT.read_text()) if not options.words or any(word in each for word in options.words)]
    if options.list or not commands:
        print("\n".join(commands) or "No command has one of these words.")
        return 0 if commands else 1
    return 1 if record(DOCUMENT, options.words) else 0


if __name__ == "__main__":
    sys.exit(main())

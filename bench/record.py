"""Measures the figures of ``docs/benchmarks.md`` again, and writes them there.

    python3 dev.py bench record                 everything; needs JDK 17 and Maven, etcd, and a machine that does nothing else
    python3 dev.py bench record fan-out mixed   only the commands that have one of these words
    python3 dev.py bench record --list          the commands, without running them

A block of the page stands between two comments, the first of which names its command: ``<!-- measured: COMMAND -->`` and ``<!-- end -->``.
If a command fails, its block stays as it is; if it exits with 1, it has missed a target, and its output says so.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from bench import conditions

_ROOT = Path(__file__).parents[1]
DOCUMENT = _ROOT / "docs/benchmarks.md"
_BLOCK = re.compile(r"(?P<begin><!-- measured: (?P<command>[^\n]+?) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.DOTALL)
_MISSED = 1
_PATIENCE_SECONDS = 600.0


def run(command: str) -> str:
    """Runs the command of a block, when the machine is quiet. Returns the block's new content: a table, or a text as it is.

    Raises:
        RuntimeError: the machine stayed busy, or the command failed.
    """
    if not conditions.await_quiet(_PATIENCE_SECONDS):
        raise RuntimeError("The machine is busy; the block stays as it is.")
    environment = {**os.environ, "COLUMNS": "150", "NO_COLOR": "1", "TERM": "dumb"}
    words = [sys.executable, *shlex.split(command)[1:]]
    ran = subprocess.run(words, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    printed = "\n".join(line.rstrip() for line in ran.stdout.strip("\n").splitlines())
    if ran.returncode not in (0, _MISSED) or not printed:
        raise RuntimeError(f"It ended with {ran.returncode}; the block stays as it is.")
    return f"{printed}\n" if "\n| " in printed else f"```text\n{printed}\n```\n"


def main() -> int:
    """Measures and writes. Returns 1 if a command failed or no command has one of the words."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only commands with one of these words")
    parser.add_argument("--list", action="store_true", help="show the commands")
    options = parser.parse_args()
    commands = [match["command"] for match in _BLOCK.finditer(DOCUMENT.read_text())]
    commands = [each for each in commands if any(word in each for word in options.words or [""])]
    failed = not commands
    for command in commands:
        print(command, file=sys.stdout if options.list else sys.stderr, flush=True)
        if not options.list:
            try:
                write(command, run(command))
            except RuntimeError as error:
                print(error, file=sys.stderr)
                failed = True
    return 1 if failed else 0


def write(command: str, body: str) -> None:
    """Replaces the content of a command's block."""
    document = DOCUMENT.read_text()
    DOCUMENT.write_text(
        _BLOCK.sub(lambda match: match["begin"] + (body if match["command"] == command else match["body"]) + match["end"], document)
    )


if __name__ == "__main__":
    sys.exit(main())

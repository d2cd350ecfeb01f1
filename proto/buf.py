"""Has buf judge the definitions: ``lint``, ``breaking`` (against the last release), and ``baseline``, which makes them the last release.

buf by itself finds imports in its own registry only. So it is given an image that protoc made, in which everything that is imported is;
``buf.yaml`` has it judge this project's part alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

if not __package__:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from proto import descriptors

BASELINE = descriptors.PROTO / "baseline.binpb"
"""The definitions of the last release, without comments."""
_CONFIGURATION = descriptors.PROTO / "buf.yaml"
_BUF = Path(sys.executable).with_name("buf")
_CANNOT = 1
"""How this ends when the definitions do not compile. buf ends with 100 when it has found something."""


def lint(definitions: Path = descriptors.PROTO) -> int:
    """Judges form, names and comments; buf's exit status, and on standard output what it has found."""
    return _judge("lint", definitions)


def breaking(definitions: Path = descriptors.PROTO, baseline: Path = BASELINE) -> int:
    """Judges what a user of the last release would stumble over, as ``lint`` does."""
    return _judge("breaking", definitions, "--against", str(baseline))


def baseline(definitions: Path = descriptors.PROTO, out: Path = BASELINE) -> int:
    """Takes the definitions as the release to be compatible with."""
    image = descriptors.read(definitions)
    for file in image.file:
        file.ClearField("source_code_info")
    out.write_bytes(image.SerializeToString(deterministic=True))
    return 0


def _judge(command: str, definitions: Path, *options: str) -> int:
    with tempfile.TemporaryDirectory() as directory:
        image = Path(directory) / "image.binpb"
        image.write_bytes(descriptors.read(definitions).SerializeToString())
        judged = [str(_BUF), command, str(image), "--config", str(_CONFIGURATION), *options]
        return subprocess.run(judged, check=False).returncode  # noqa: S603 - a program of this environment


def main() -> int:
    """Runs one command; its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = {command.__name__: command for command in (lint, breaking, baseline)}
    parser.add_argument("command", choices=commands)
    parser.add_argument("definitions", nargs="?", type=Path, default=descriptors.PROTO, help="their root, by default this directory")
    chosen = parser.parse_args()
    try:
        return commands[chosen.command](chosen.definitions)
    except ValueError as error:
        print(error, file=sys.stderr)
        return _CANNOT


if __name__ == "__main__":
    sys.exit(main())

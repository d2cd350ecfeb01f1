"""What Helm, Kubernetes and Compose make of the files in ``deploy``, by their own code: the program in ``checker``, built once.

A build without compiled packages takes about a minute, so its tests are slow ones.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from proto.tools import ROOT, go
from tests.builds import Build

DEPLOY = ROOT / "deploy"
BUILD_SECONDS = 600
_HERE = Path(__file__).parent / "checker"
_PROGRAM = ROOT / ".cache" / "deploy-checker" / "checker"
_BUILD = Build(_PROGRAM.with_name("built"), [_HERE, Path(__file__)])
_OPTIONS = ("-buildvcs=false", "-gcflags=all=-N -l", "-ldflags=-s -w")
"""Not optimized, and without debug information: a third less work."""


def check(*arguments: str | Path) -> Any:
    """Returns what the checker prints.

    Raises:
        AssertionError: it finds a fault, which the message names; or it does not compile.
        ToolMissingError: Go is missing.
    """
    _BUILD.make(_build)
    done = subprocess.run([_PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _build() -> None:
    _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    command = [go(), "build", *_OPTIONS, "-o", str(_PROGRAM), "."]
    done = subprocess.run(command, cwd=_HERE, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]

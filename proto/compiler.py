"""Protobuf's compiler, and where it finds the definitions and those that they import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path


def definitions(root: Path) -> list[str]:
    """The definitions below a root, by their paths from there, in order."""
    return sorted(path.relative_to(root).as_posix() for path in (root / "topicpolicies").rglob("*.proto"))


def imported() -> tuple[Path, ...]:
    """Where the definitions are that ours import: Protobuf's own, and ``google.rpc``."""
    return Path(str(resources.files("grpc_tools") / "_proto")), Path(str(resources.files("google.rpc") / "status.proto")).parents[2]


def compiled(root: Path, options: Sequence[str], files: Sequence[str]) -> bool:
    """Runs protoc on definitions below a root, or on those that they import; whether they compile. If not, standard error says why."""
    paths = [f"--proto_path={path}" for path in (root, *imported())]
    command = [sys.executable, "-m", "grpc_tools.protoc", *paths, *options, *files]  # it ends processes that have many threads
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603

"""The definitions as they are, and a copy of them to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proto import descriptors
from proto.documented import Enum, File, file
from proto.reasons import Reason, reasons


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the definitions, to spoil."""
    return shutil.copytree(descriptors.PROTO, tmp_path / "proto")


@pytest.fixture(scope="session")
def files() -> list[File]:
    """What the definitions say."""
    return [file(each) for each in descriptors.ours(descriptors.read())]


@pytest.fixture(scope="session")
def promised(files: list[File]) -> dict[str, Reason]:
    """What the comments of the definition promise, by reason."""
    (enum,) = [each for each_file in files for each in each_file.types if isinstance(each, Enum) and each.name == "ErrorReason"]
    return {reason.name: reason for reason in reasons(enum)}

"""The Protobuf definitions, and a copy of them that tests may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proto import descriptors
from proto.documented import Enum, File, file
from proto.reasons import Reason, reasons


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the definitions, which tests may change."""
    return shutil.copytree(descriptors.PROTO, tmp_path / "proto")


@pytest.fixture(scope="session")
def files() -> list[File]:
    """The documented definitions."""
    return [file(each) for each in descriptors.ours(descriptors.read())]


@pytest.fixture(scope="session")
def promised(files: list[File]) -> dict[str, Reason]:
    """The promises in the comments of the definition, by reason."""
    (enum,) = [each for each_file in files for each in each_file.types if isinstance(each, Enum) and each.name == "ErrorReason"]
    return {reason.name: reason for reason in reasons(enum)}

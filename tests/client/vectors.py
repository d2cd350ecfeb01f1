"""The examples in ``clients/vectors``, which the tests of all clients run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).parents[2] / "clients" / "vectors"


def examples(file: str) -> list[dict[str, Any]]:
    """Returns the examples of a file of ``clients/vectors``."""
    found: list[dict[str, Any]] = json.loads((_DIRECTORY / file).read_text())
    return found


def name(example: dict[str, Any]) -> str:
    """Returns the name of an example, as its id in pytest."""
    return str(example["name"])

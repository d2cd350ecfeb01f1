"""What is wrong with files that a configuration names."""

from __future__ import annotations

from pathlib import Path


def unreadable(what: str, path: Path) -> list[str]:
    """Why a file can't be read; empty if it can."""
    try:
        with path.open("rb"):
            return []
    except OSError as error:
        return [f'The {what} file "{path}" can\'t be read: {error.strerror or error}.']

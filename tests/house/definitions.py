"""Planted errors in definitions."""

from __future__ import annotations

from pathlib import Path


def spoil(definitions: Path, file: str, before: str, after: str) -> None:
    """Replaces a text, which must be there, in one file of the definitions below a root."""
    path = definitions / "topicpolicies" / "v1" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))

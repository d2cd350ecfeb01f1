"""The blocks of ``docs/benchmarks.md``: the output of a command between two comments, the first of which names the command.

    <!-- measured: python3 dev.py bench plugin -->
    ...
    <!-- end -->

A block that was not measured yet is empty.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs/benchmarks.md"
_BLOCK = re.compile(r"(?P<begin><!-- measured: (?P<command>[^\n]+?) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.DOTALL)


def commands_of(document: str) -> list[str]:
    """Returns the commands of a document's blocks, in order."""
    return [match["command"] for match in _BLOCK.finditer(document)]


def bodies(document: str) -> dict[str, str]:
    """Returns the content of each block of a document, by command."""
    return {match["command"]: match["body"] for match in _BLOCK.finditer(document)}


def with_body(document: str, command: str, body: str) -> str:
    """Returns the document with the content of a command's block replaced."""
    return _BLOCK.sub(lambda match: match["begin"] + body + match["end"] if match["command"] == command else match[0], document)

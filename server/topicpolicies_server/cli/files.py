"""Files that the command line names, and standard input: reads UTF-8, with errors that name the file."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc import StatusCode

from topicpolicies import InvalidArgument, Violation

STANDARD_INPUT = STANDARD_OUTPUT = Path("-")
"""What the option of a file says for a stream."""


def name_of(path: Path) -> str:
    """Returns the name of a file in errors."""
    return "standard input" if path == STANDARD_INPUT else path.name


def read_text(path: Path) -> str:
    """Returns the text of a file; ``-``: of standard input.

    Raises:
        InvalidArgument: the content is not UTF-8; the error names the line.
        OSError: the file can't be read.
    """
    content = sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise wrong(Violation(f"{name_of(path)}:{line}", "NOT_UTF8", f"Byte 0x{content[error.start]:02x} is not UTF-8.")) from None


def wrong(*violations: Violation) -> InvalidArgument:
    """Returns an error about the content of a file; the message has the place of each problem."""
    message = " ".join(f"{violation.field}: {violation.description}" for violation in violations)
    return InvalidArgument(message, code=StatusCode.INVALID_ARGUMENT, reason="INVALID_REQUEST", violations=violations)

"""Files that the command line names, and standard input: reads and writes UTF-8, with errors that name the file."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topicpolicies import InvalidArgument, Violation

STANDARD_INPUT = STANDARD_OUTPUT = Path("-")
"""What the option of a file says for a stream."""


@contextmanager
def naming(name: object) -> Iterator[None]:
    """Adds a name to an OSError of the body that has none. An OSError without a name counts as one of the output (``writing``)."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(name)) from None


def name_of(path: Path) -> str:
    """Returns the name of a file in errors."""
    return "standard input" if path == STANDARD_INPUT else path.name


def read_text(path: Path) -> str:
    """Returns the text of a file; ``-``: of standard input.

    Raises:
        InvalidArgument: the content is not UTF-8; the error names the line.
        OSError: the file can't be read.
    """
    name = name_of(path)
    with naming(name):
        content = _standard_input() if path == STANDARD_INPUT else path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        from topicpolicies import Violation  # noqa: PLC0415

        raise wrong(Violation(f"{name}:{line}", "NOT_UTF8", f"Byte 0x{content[error.start]:02x} is not UTF-8.")) from None
    return text


def _standard_input() -> bytes:
    if sys.stdin is None:  # Python's value for a stream that was closed before the program started
        raise OSError(errno.EBADF, "it is closed")
    return sys.stdin.buffer.read()


def wrong(*violations: Violation) -> InvalidArgument:
    """Returns an error about the content of a file; the message has the place of each problem."""
    from grpc import StatusCode  # noqa: PLC0415

    from topicpolicies import InvalidArgument  # noqa: PLC0415

    message = " ".join(f"{violation.field}: {violation.description}" for violation in violations)
    return InvalidArgument(message, code=StatusCode.INVALID_ARGUMENT, reason="INVALID_REQUEST", violations=violations)


def write_text(path: Path, text: str) -> None:
    """Writes a text to a file.

    Raises:
        OSError: the file can't be written.
    """
    with naming(path):
        path.write_text(text, encoding="utf-8")

"""Files that the command line names, and standard input: texts in UTF-8, and errors that say which file it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from grpc import StatusCode

from topicpolicies import InvalidArgument, Violation

STANDARD_INPUT = Path("-")


@contextmanager
def naming(name: object) -> Iterator[None]:
    """Lets errors of reading and writing say of what; without a name they are errors of the output."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(name)) from None


def name_of(path: Path) -> str:
    """How errors name a file."""
    return "standard input" if path == STANDARD_INPUT else path.name


def check_there(path: Path | None, option: str) -> None:
    """Looks for a file that an option names.

    Raises:
        typer.BadParameter: it is not there.
    """
    if path is not None and path != STANDARD_INPUT and not path.exists():
        raise typer.BadParameter(f"File '{path}' does not exist.", param_hint=option)


def read_text(path: Path, reason: str = "NOT_UTF8") -> str:
    """The text of a file, or of standard input.

    Args:
        path: the file; ``-``: standard input.
        reason: the reason of an error about its bytes.

    Raises:
        InvalidArgument: it is not UTF-8; the error names the line.
        OSError: it can't be read.
    """
    name = name_of(path)
    with naming(name):
        content = sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise wrong(reason, Violation(f"{name}:{line}", reason, f"Byte 0x{content[error.start]:02x} here is not UTF-8.")) from None
    return text


def wrong(reason: str, *violations: Violation) -> InvalidArgument:
    """An error about a file; its message says where each problem is."""
    message = " ".join(f"{violation.field}: {violation.description}" for violation in violations)
    return InvalidArgument(message, code=StatusCode.INVALID_ARGUMENT, reason=reason, violations=violations)


def write_text(path: Path, text: str) -> None:
    """Writes a file.

    Raises:
        OSError: it can't be written.
    """
    with naming(path):
        path.write_text(text, encoding="utf-8")

"""Output: its encoding, and how a command ends when the disk is full or the terminal is gone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .exits import ExitCode, report_other
from .settings import Output


@contextmanager
def writing(output: Output) -> Iterator[None]:
    r"""Ends the command with a message on standard error if its output can't be written. An OSError with a file name is not handled.

    JSON is written as UTF-8, whatever the locale. In tables, characters that the locale's encoding lacks are escaped: ``\u65e5``.

    Raises:
        SystemExit: the output can't be written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if output is Output.JSON else None, errors="backslashreplace")
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        with suppress(OSError):
            report_other("OUTPUT", f"The output can't be written: {error.strerror or error}.", output)
        _give_up()
        sys.exit(ExitCode.ERROR)


def check_output(output: Output) -> None:
    """Ends the command before it has done anything if the process has no standard output (``COMMAND >&-``).

    Raises:
        SystemExit: there is none.
    """
    if sys.stdout is None:
        report_other("OUTPUT", "Standard output is closed, so nothing was done. To discard the output, redirect it to /dev/null.", output)
        sys.exit(ExitCode.ERROR)


def _give_up() -> None:
    """Discards output that is still buffered, which Python would try to write again when it exits."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
            continue
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), stream.fileno())

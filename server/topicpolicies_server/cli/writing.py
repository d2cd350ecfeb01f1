"""Output that can't be written: how a command ends whose disk is full or whose terminal is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .exits import ExitCode, tell_other
from .settings import Output


@contextmanager
def writing(output: Output) -> Iterator[None]:
    """Tells on standard error that the output can't be written, and ends the command. Errors of files have a name, and pass.

    Raises:
        SystemExit: it can't be.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        with suppress(OSError):
            tell_other("OUTPUT", f"The output can't be written: {error.strerror or error}.", output)
        _give_up()
        sys.exit(ExitCode.ERROR)


def _give_up() -> None:
    """Lets what is still to be written, which Python would try again at its end, go nowhere."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
            continue
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), stream.fileno())

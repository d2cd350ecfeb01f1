"""The file from which a watch goes on: a place that covers what was written, and nothing more."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import typer

from topicpolicies import ResumeToken

from ..files import naming, read_text


class ResumeFile:
    """The place of a watch, in a file or, without one, nowhere."""

    def __init__(self, path: Path | None) -> None:
        """Tries the directory, so that a watch does not begin whose place can't be kept.

        Raises:
            typer.BadParameter: nothing can be written there.
        """
        self._path = path
        self._reached: ResumeToken | None = None
        if path is not None:
            try:
                self._replace(None)
            except OSError as error:
                raise typer.BadParameter(f"{path} can't be written: {error.strerror}.", param_hint="--resume-file") from None

    def load(self) -> ResumeToken | None:
        """Where to go on; None: at the beginning.

        Raises:
            InvalidArgument: the file is something else.
        """
        if self._path is None or not self._path.exists():
            return None
        return ResumeToken.loads(read_text(self._path, "MALFORMED_TOKEN"))

    def reached(self, token: ResumeToken) -> None:
        """All up to there was written, and flushed."""
        self._reached = token

    def save(self) -> None:
        """Keeps the place that was reached, if it is another than what is kept."""
        if self._path is None or self._reached is None or not self._reached.namespaces:
            return
        with naming(self._path):
            self._replace(self._reached.dumps() + "\n")
        self._reached = None

    def _replace(self, text: str | None) -> None:
        """Replaces the file as a whole: whoever reads it finds the old token or the new one. None: only tries."""
        assert self._path is not None
        handle, name = tempfile.mkstemp(dir=self._path.absolute().parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text or "")
                file.flush()
                os.fsync(file.fileno())
            if text is not None:
                Path(name).replace(self._path)
        finally:
            Path(name).unlink(missing_ok=True)

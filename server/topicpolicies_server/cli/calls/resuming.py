"""The file of ``watch --resume-file``: the place from which the watch continues, which covers just the output that was written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import typer

from topicpolicies import InvalidArgument, ResumeToken, Violation

from ..files import name_of, naming, read_text, wrong

_MALFORMED = "MALFORMED_TOKEN"


class ResumeFile:
    """Keeps the place of a watch in a file; without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        """Checks that the directory can be written, so that no watch begins whose place can't be kept.

        Raises:
            typer.BadParameter: the directory can't be written.
        """
        self._path = path
        self._reached: ResumeToken | None = None
        if path is not None:
            try:
                self._replace(None)
            except OSError as error:
                raise typer.BadParameter(f"{path} can't be written: {error.strerror}.", param_hint="--resume-file") from None

    def load(self) -> ResumeToken | None:
        """Returns the place from which to continue; None: the watch begins anew.

        Raises:
            InvalidArgument: the content of the file is no place of a watch.
            OSError: the file can't be read.
        """
        if self._path is None or not self._path.exists():
            return None
        text = read_text(self._path, _MALFORMED)
        try:
            return ResumeToken.loads(text)
        except InvalidArgument:
            told = "The file has no place of a watch: name another one, or remove it to begin with the present documents."
            raise wrong(_MALFORMED, Violation(name_of(self._path), _MALFORMED, told)) from None

    def reached(self, token: ResumeToken) -> None:
        """Notes the place up to which all output is written and flushed."""
        self._reached = token

    def save(self) -> None:
        """Writes the place that was reached, if there is a new one."""
        if self._path is None or self._reached is None or not self._reached.namespaces:
            return
        with naming(self._path):
            self._replace(self._reached.dumps() + "\n")
        self._reached = None

    def _replace(self, text: str | None) -> None:
        """Replaces the file atomically: a reader finds the old token or the new one. ``None``: only checks that files can be made there."""
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

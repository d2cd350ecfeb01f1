"""Follows a watch, and keeps its place in the file of ``--resume-file``, which covers just the output that was written."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import typer

from topicpolicies import Violation, Watch

from ..files import name_of, naming, read_text, wrong
from ..interrupts import deferring


class ResumeFile:
    """Keeps the place of a watch in a file; without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        """Checks that the directory can be written, so that no watch begins whose place can't be kept.

        Raises:
            typer.BadParameter: the directory can't be written.
        """
        self._path = path
        self._reached: dict[str, str] = {}
        if path is not None:
            try:
                self._replace(None)
            except OSError as error:
                raise typer.BadParameter(f"{path} can't be written: {error.strerror}.", param_hint="--resume-file") from None

    def load(self) -> dict[str, str]:
        """Returns the tokens from which to continue, by namespace; none: the watch begins anew.

        Raises:
            InvalidArgument: the content of the file is no place of a watch.
            OSError: the file can't be read.
        """
        if self._path is None or not self._path.exists():
            return {}
        text = read_text(self._path)
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(token, str) for token in found.values()):
            told = "The file has no place of a watch: name another one, or remove it to begin with the present documents."
            raise wrong(Violation(name_of(self._path), "MALFORMED_TOKEN", told))
        return found

    def reached(self, tokens: dict[str, str]) -> None:
        """Notes the place up to which all output is written and flushed."""
        self._reached = tokens

    def save(self) -> None:
        """Writes the place that was reached, if there is one."""
        if self._path is not None and self._reached:
            with naming(self._path):
                self._replace(json.dumps(self._reached) + "\n")

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


def follow(watch: Watch[Any], place: ResumeFile, show: Callable[[Any], object]) -> None:
    """Shows the events of a watch until it ends, or until Ctrl-C, and keeps its place.

    An interrupt ends the stream and not this thread, which may be in the middle of gRPC's code.

    Raises:
        typer.Exit: Ctrl-C.
        TopicPoliciesError: the watch ended with an error.
    """
    with watch as events, deferring(Thread(target=watch.close, daemon=True).start) as interrupted:
        try:
            for event in events:
                show(event)
                place.reached(events.resume_tokens)
                if event.WhichOneof("content") == "bookmark":
                    place.save()
        finally:
            place.save()
    if interrupted():
        raise typer.Exit

"""The progress of all workers: beside its records, each has a file with one byte for every operation that is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_FILE = "_done."
"""How the names of the files begin: with an underscore, so that nobody takes them for records."""


def done_file(directory: Path, worker: int) -> BinaryIO:
    """Opens a worker's file, anew."""
    directory.mkdir(parents=True, exist_ok=True)
    return (directory / f"{_FILE}{worker}").open("wb", buffering=0)


class ProgressBar(Progress):
    """The bar on the terminal, which looks at the files twice a second."""

    def __init__(self, name: str) -> None:
        """``name``: of the target."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        super().__init__(*columns, console=Console(stderr=True), refresh_per_second=2)
        self._name = name

    @contextlib.contextmanager
    def stage(self, stage: str, operations: int = 1, directory: Path | None = None) -> Iterator[None]:
        """Shows a stage for as long as the context lasts; if it succeeds, the bar ends full. ``directory``: where the files are."""
        task = self.add_task(f"{self._name}: {stage}", total=operations, directory=directory)
        yield
        self.update(task, completed=operations)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Counts before the bar is drawn."""
        for task in self.tasks:
            directory: Path | None = task.fields["directory"]
            if directory is not None and not task.finished:
                self.update(task.id, completed=sum(file.stat().st_size for file in directory.glob(f"{_FILE}*")))
        return super().get_renderables()

"""Builds from sources for tests: made once for each state of the sources, by the first process that needs them; others wait for it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.broker.jars import cache

_ROOT = Path(__file__).resolve().parents[1]


class Build:
    """A build from sources, and a stamp with the state of the sources from which it was made.

    | state | condition | a process that needs the build |
    |---|---|---|
    | current | the stamp has the present state of the sources | uses it at once, also during other builds |
    | stale | there is no stamp, or one of another state | removes the stamp, builds, and writes a stamp; one process at a time |

    A build that fails leaves no stamp.
    """

    def __init__(self, stamp: Path, sources: Sequence[Path], *, without: Sequence[str] = ()) -> None:
        """Does not build yet.

        Args:
            stamp: a file in the build's output, which is removed with it.
            sources: files and folders, including the build's settings and the module that runs it.
            without: the names of folders that are not sources.
        """
        self._stamp = stamp
        self._sources = sources
        self._without = frozenset(without)

    def make(self, build: Callable[[], object]) -> None:
        """Makes the build current.

        Args:
            build: makes the build; its exceptions are passed on.
        """
        if self._current():
            return
        with self.alone():
            if not self._current():
                wanted = self._state()
                self._stamp.unlink(missing_ok=True)
                build()
                self._stamp.parent.mkdir(parents=True, exist_ok=True)
                self._stamp.write_text(wanted)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock of the build: no other process builds meanwhile."""
        locks = cache() / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(self._stamp).encode()).hexdigest()[:16]
        with (locks / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _current(self) -> bool:
        try:
            return self._stamp.read_text() == self._state()
        except FileNotFoundError:  # also if another process removes it now to build
            return False

    def _state(self) -> str:
        """Returns a hash of the sources."""
        digest = hashlib.sha256()
        for source in self._sources:
            for path in sorted(source.rglob("*") if source.is_dir() else [source]):
                if path.is_file() and not self._without.intersection(path.relative_to(source).parts):
                    digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

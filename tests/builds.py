"""What tests build of sources: once for each state of these, by whichever process needs it first. Others wait for that alone."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.broker.jars import cache

_ROOT = Path(__file__).resolve().parents[1]


class Build:
    """Something that is built of sources, and a stamp with the state of the sources of which it was built.

    | state | what is so | who needs it |
    |---|---|---|
    | current | the stamp has the state of today's sources | has it at once, also while somebody builds something else |
    | stale | there is no stamp, or one of other sources | removes the stamp, builds, and writes a stamp; one process at a time |

    A build that fails leaves no stamp.
    """

    def __init__(self, stamp: Path, sources: Sequence[Path], *, without: Sequence[str] = ()) -> None:
        """Builds nothing yet.

        Args:
            stamp: a file among what is built, which goes when that goes.
            sources: files and folders, those of the build's settings and the module that runs it among them.
            without: the names of folders that are no sources.
        """
        self._stamp = stamp
        self._sources = sources
        self._without = frozenset(without)

    def make(self, build: Callable[[], object]) -> None:
        """Has it current.

        Args:
            build: builds it; what it raises is raised.
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
        """Nobody builds it meanwhile."""
        locks = cache() / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(self._stamp).encode()).hexdigest()[:16]
        with (locks / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _current(self) -> bool:
        try:
            return self._stamp.read_text() == self._state()
        except FileNotFoundError:  # also if somebody removes it now, who builds
            return False

    def _state(self) -> str:
        """What of the sources tells whether they have changed."""
        digest = hashlib.sha256()
        for source in self._sources:
            for path in sorted(source.rglob("*") if source.is_dir() else [source]):
                if path.is_file() and not self._without.intersection(path.relative_to(source).parts):
                    digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

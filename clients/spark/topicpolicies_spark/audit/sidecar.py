"""A sidecar of one's own, for brokers beside which none runs: it reads their logs, writes nothing, and keeps a history."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_STOP_SECONDS = 60
_LOOK_SECONDS = 0.1


class NotStartedError(Exception):
    """The sidecar did not start; the message is what it printed."""


@contextmanager
def sidecar(options: Sequence[str]) -> Iterator[str]:
    """Runs a read-only sidecar on this machine; yields its address.

    Args:
        options: further options of ``topicpolicies serve``.

    Raises:
        NotStartedError: it did not start.
    """
    command = [sys.executable, "-m", "topicpolicies_server", "serve", "--read-only", "--listen", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory() as directory:
        printed = Path(directory) / "output"
        with printed.open("wb") as output:
            process = subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603
        try:
            while not (found := re.search(r"Listening on (\S+)$", printed.read_text(errors="replace"), re.MULTILINE)):
                if process.poll() is not None:
                    raise NotStartedError(printed.read_text(errors="replace").strip() or "The sidecar did not start.")
                time.sleep(_LOOK_SECONDS)
            yield found[1]
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

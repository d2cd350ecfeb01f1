"""A start is measured with the files that the server keeps beside the log, and without them, but never without the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.figures import starting
from bench.figures.scale import QUICK
from bench.harness.targets import Program


class _Server(Program):
    """A fake server, which uses processor time for some pauses until it is calm."""

    def __init__(self, folder: Path, busy: int = 0) -> None:
        super().__init__()
        self._folder = folder
        self._busy = busy
        self._used = 0.0
        self.asked = 0
        self.stopped = 0

    @property
    def processor_seconds(self) -> float:
        self.asked += 1
        if self.asked <= self._busy:
            self._used += 1.0
        return self._used

    def stop(self) -> None:
        self.stopped += 1


def test_files_beside_the_log_are_removed_before_a_start_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_PAUSE_SECONDS", 0.001)
    (tmp_path / "policies.db").touch()
    (tmp_path / "policies.db-wal").touch()
    starts: list[list[str]] = []

    def first_answer(program: Program, topic: str) -> float:
        starts.append(sorted(path.name for path in tmp_path.iterdir()))
        (tmp_path / "policies.db.kept").write_bytes(b"x" * 2_000_000)
        return float(len(starts))

    monkeypatch.setattr(starting, "first_answer", first_answer)
    server = _Server(tmp_path)
    start = starting._Start(server, "topic", tmp_path, frozenset({"policies.db", "policies.db-wal"}))
    found = starting._rounds(start, lambda: 0.5, QUICK, lambda _: None, starting.FIGURES)
    log = ["policies.db", "policies.db-wal"]
    assert starts == [log, [*log, "policies.db.kept"]] * QUICK.few_rounds
    assert server.stopped == 2 * QUICK.few_rounds
    kept, bare = (found[figure.name] for figure in starting.FIGURES)
    assert (kept.ours, bare.ours, kept.limit) == ([2.0, 4.0], [1.0, 3.0], [0.5, 0.5])
    assert "policies.db.kept (2.0 MB)" in kept.note and not bare.note


def test_the_measurement_waits_until_a_server_is_calm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_PAUSE_SECONDS", 0.001)
    server = _Server(tmp_path, busy=20)
    starting.calm(server)
    assert 20 < server.asked < 40


def test_the_wait_for_a_calm_server_ends_after_the_given_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(starting, "_PATIENCE_SECONDS", 0.05)
    server = _Server(tmp_path, busy=1_000_000)
    starting.calm(server)  # returns although the server is never calm
    assert server.asked > 1

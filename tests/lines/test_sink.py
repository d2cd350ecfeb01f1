"""Where log lines are written: each is written whole, and logging does not wait for the reader."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from topicpolicies_server.lines import sink as sink_module
from topicpolicies_server.lines.sink import Handler, Sink, UnwrittenError

PATIENCE = 20.0


class Pipe:
    """A pipe that is read only on request."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.reader: BinaryIO = os.fdopen(reading, "rb")

    def lines(self, until: bytes) -> list[bytes]:
        """Reads all lines up to and including ``until``."""
        found = []
        for line in self.reader:
            found.append(line.rstrip(b"\n"))
            if found[-1] == until:
                break
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe that is not read yet."""
    made = Pipe()
    yield made
    os.close(made.writing)
    made.reader.close()


def logger_to(handler: logging.Handler) -> logging.Logger:
    logger = logging.getLogger("a.logger")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [handler]
    return logger


def test_logging_does_not_wait_for_the_reader_and_lost_lines_are_counted(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "MOST", 100)
    handler = Handler(Sink(pipe.writing))
    logger = logger_to(handler)

    def log() -> None:
        for number in range(3_000):
            logger.info("%d %s", number, "x" * 1000)

    logging_thread = threading.Thread(target=log, daemon=True)
    logging_thread.start()
    logging_thread.join(PATIENCE)
    assert not logging_thread.is_alive() and handler.lost > 0
    read: list[bytes] = []
    reading = threading.Thread(target=lambda: read.extend(pipe.lines(b"the end")), daemon=True)
    reading.start()
    handler.flush()
    logger.info("the end")
    reading.join(PATIENCE)
    lost = sum(int(line.split()[0]) for line in read if line.endswith(b"than they could be written"))
    assert lost == handler.lost
    assert len([line for line in read if line.endswith(b"x")]) + lost == 3_000


def test_flushing_to_a_pipe_that_is_not_read_ends_after_a_bounded_time(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "_FLUSH_SECONDS", 0.1)
    handler = Handler(Sink(pipe.writing))
    logger_to(handler).info("x" * 1_000_000)
    flushing = threading.Thread(target=handler.flush, daemon=True)
    flushing.start()
    flushing.join(PATIENCE)
    assert not flushing.is_alive()
    pipe.lines(b"x" * 1_000_000)


def test_waiting_lines_are_written_by_the_flush_at_the_end_of_the_process(tmp_path: Path) -> None:
    file = (tmp_path / "lines").open("wb", buffering=0)
    with file:
        handler = Handler(Sink(file.fileno()))
        for number in range(2_000):
            logger_to(handler).info("%d", number)
        handler.flush()  # as logging does at the end of the process
    assert (tmp_path / "lines").read_text().split() == [str(number) for number in range(2_000)]


def test_no_line_is_lost_on_a_descriptor_that_was_set_to_non_blocking(pipe: Pipe) -> None:
    os.set_blocking(pipe.writing, False)
    lines = [b"%d" % number for number in range(50_000)]
    writing = threading.Thread(target=Sink(pipe.writing).write, args=(b"\n".join(lines) + b"\n",), daemon=True)
    writing.start()
    assert pipe.lines(b"49999") == lines
    writing.join(PATIENCE)


def test_a_partly_written_line_is_ended_before_the_next_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.write, 10

    def full(descriptor: int, raw: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(28, os.strerror(28))
        written = real(descriptor, raw[:room])
        room -= written
        return written

    with (tmp_path / "lines").open("wb", buffering=0) as file:
        sink = Sink(file.fileno())
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(UnwrittenError, match="No space") as caught:
                sink.put(b"first\nsecond\nthird\n")
            assert caught.value.lines == 1
            with pytest.raises(UnwrittenError) as caught:
                sink.put(b"fourth\n")
            assert caught.value.lines == 0
        sink.put(b"fifth\n")
        sink.put(b"sixth\n")
    assert (tmp_path / "lines").read_text() == "first\nseco\nfifth\nsixth\n"

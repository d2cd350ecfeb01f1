"""The record of calls is written in whole lines."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.ops.test_log import PATIENCE, Pipe
from topicpolicies_server.rpc.recordfile import Sink, UnwrittenError


def test_no_line_is_lost_on_a_descriptor_that_was_set_to_non_blocking() -> None:
    pipe = Pipe()
    os.set_blocking(pipe.writing, False)
    lines = [b"%d" % number for number in range(50_000)]
    writing = threading.Thread(target=Sink(pipe.writing).write, args=(b"\n".join(lines) + b"\n",), daemon=True)
    writing.start()
    assert pipe.lines(b"49999") == lines
    writing.join(PATIENCE)
    os.close(pipe.writing)
    pipe.reader.close()


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

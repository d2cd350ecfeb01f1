"""Log lines: every record is exactly one line, and logging does not wait for the reader."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.ops import log as log_module
from topicpolicies_server.ops.log import Json, Lines, Plain, write_all

PATIENCE = 100.0


def record(message: str, *, error: BaseException | None = None, **fields: object) -> logging.LogRecord:
    """Returns a log record with a fixed time and logger."""
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("a.logger", logging.WARNING, "file.py", 1, "%s", (message,), info)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    if fields:
        made.fields = fields
    return made


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text() | st.integers() | st.booleans(), max_size=5), st.text())
def test_any_record_is_one_ascii_line_that_can_be_parsed_back(fields: dict[str, Any], message: str) -> None:
    line = Json().format(record(message, **fields))
    assert line.isascii() and len(line.splitlines()) == 1
    own = {"ts": "2023-11-14T22:13:20.250Z", "level": "warning", "logger": "a.logger", "msg": message}
    assert json.loads(line) == {**fields, **own}


def test_a_traceback_is_in_its_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        line = Json().format(record("it failed", error=error))
    assert json.loads(line)["error"].splitlines()[-2:] == ["ValueError: two", "lines"]


@given(st.text())
def test_a_line_for_people_is_one_line_that_a_terminal_does_not_obey(message: str) -> None:
    line = Plain().format(record(message))
    assert line.isprintable()
    if message.isprintable():
        assert line.endswith(f" WARNING a.logger: {message}")


def test_no_line_of_a_traceback_looks_like_one_of_the_log() -> None:
    try:
        raise ValueError("two\n2026-01-01 00:00:00,000 ERROR a.logger: lines\x1b[31m\r2026")
    except ValueError as error:
        first, *others = Plain().format(record("it failed\n2026", error=error)).split("\n")
    assert first.endswith("it failed\\n2026")
    assert all(line.startswith("  ") and line.isprintable() for line in others)
    assert others[0] == "  Traceback (most recent call last):" and others[-2] == "  ValueError: two"


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "1970-01-01T00:00:00.000Z"), (1_700_000_000.9999, "2023-11-14T22:13:20.999Z")])
def test_times_are_formatted_in_utc_with_milliseconds(seconds: float, text: str) -> None:
    made = logging.makeLogRecord({"created": seconds, "msecs": seconds % 1 * 1000})
    assert json.loads(Json().format(made))["ts"] == text


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


def test_logging_does_not_wait_for_the_reader_and_lost_lines_are_counted(pipe: Pipe) -> None:
    handler = Lines(partial(write_all, pipe.writing), 100)
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
    assert lost and len([line for line in read if line.endswith(b"x")]) + lost == 3_000


def test_flushing_to_a_pipe_that_is_not_read_ends_after_a_bounded_time(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_FLUSH_SECONDS", 0.1)
    handler = Lines(partial(write_all, pipe.writing))
    logger_to(handler).info("x" * 1_000_000)
    flushing = threading.Thread(target=handler.flush, daemon=True)
    flushing.start()
    flushing.join(PATIENCE)
    assert not flushing.is_alive()
    pipe.lines(b"x" * 1_000_000)


def test_waiting_lines_are_written_by_the_flush_at_the_end_of_the_process(tmp_path: Path) -> None:
    file = (tmp_path / "lines").open("wb", buffering=0)
    with file:
        handler = Lines(partial(write_all, file.fileno()))
        for number in range(2_000):
            logger_to(handler).info("%d", number)
        handler.flush()  # as logging does at the end of the process
    assert (tmp_path / "lines").read_text().split() == [str(number) for number in range(2_000)]

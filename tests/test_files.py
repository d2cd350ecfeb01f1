"""Files that are read again while the process runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.eventually import eventually
from topicpolicies_server import files
from topicpolicies_server.config import TlsConfig
from topicpolicies_server.files import Reloader
from topicpolicies_server.logs.pulsar.credentials import TlsOptions, token_from_file
from topicpolicies_server.rpc.listening import read_pem

_SECONDS = 20


class Number:
    """A source whose value is a number in a file, and the values that were put in force."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_text("1")
        self.taken: list[int] = []
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return int(self.path.read_text())

    def add(self, reloader: Reloader) -> None:
        reloader.add("the number", [self.path], self.read, self.taken.append, self.read())


@pytest.fixture
async def reloader() -> AsyncIterator[Reloader]:
    made = Reloader(look_seconds=0.02)
    yield made
    await made.close()


@pytest.fixture
def number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Number:
    caplog.set_level(logging.INFO)
    return Number(tmp_path / "number")


async def test_a_changed_value_is_put_in_force_and_logged(reloader: Reloader, number: Number, caplog: pytest.LogCaptureFixture) -> None:
    number.add(reloader)
    reloader.start()
    number.path.write_text("2")
    await eventually(lambda: number.taken == [2])
    number.path.write_text(" 2 ")  # the same value
    number.path.write_text("3")
    await eventually(lambda: number.taken == [2, 3])
    assert [record.message for record in caplog.records] == [f"the number: read again from {number.path}, and in force"] * 2


@pytest.mark.parametrize("begins", ["", "1", "12"])
async def test_a_part_of_a_file_that_is_still_being_written_is_not_put_in_force(reloader: Reloader, number: Number, begins: str) -> None:
    def read() -> int:
        content = number.path.read_text()
        if content == begins:
            number.path.write_text("123")  # the writer continues
        return int(content or "0")

    number.path.write_text("7")
    reloader.add("the number", [number.path], read, number.taken.append, 7)
    reloader.start()
    number.path.write_text(begins)
    await eventually(lambda: bool(number.taken))
    assert number.taken == [123]


async def test_a_file_that_was_replaced_by_one_with_the_same_times_is_read(reloader: Reloader, number: Number) -> None:
    number.add(reloader)
    reloader.start()
    other = number.path.with_name("other")
    other.write_text("2")
    os.utime(other, ns=(number.path.stat().st_atime_ns, number.path.stat().st_mtime_ns))
    other.replace(number.path)
    await eventually(lambda: number.taken == [2])


async def test_a_file_that_does_not_change_is_not_read_again(reloader: Reloader, number: Number) -> None:
    number.add(reloader)
    reloader.start()
    await eventually(lambda: number.reads == 2)
    await asyncio.sleep(0.3)
    assert number.reads == 2


async def test_a_broken_file_leaves_the_former_value_in_force_and_is_logged_once(
    reloader: Reloader, number: Number, caplog: pytest.LogCaptureFixture
) -> None:
    number.add(reloader)
    reloader.start()
    number.path.write_text("no number")
    await eventually(lambda: bool(reloader.problems))
    reads = number.reads
    await eventually(lambda: number.reads > reads + 5)
    assert number.taken == []
    (line,) = (record.message for record in caplog.records)
    assert f"the number: {number.path}: " in line and "no number" in line and "the former content stays in force" in line
    number.path.write_text("1")
    await eventually(lambda: not reloader.problems)
    assert number.taken == []
    assert [record.message for record in caplog.records][1:] == [f"the number: the content of {number.path} is in force already"]


async def test_a_missing_file_leaves_the_former_value_in_force(reloader: Reloader, number: Number) -> None:
    number.add(reloader)
    reloader.start()
    number.path.unlink()
    await eventually(lambda: bool(reloader.problems))
    number.path.write_text("2")
    await eventually(lambda: number.taken == [2])
    assert reloader.problems == {}


async def test_a_value_that_can_not_be_put_in_force_is_tried_again(reloader: Reloader, number: Number) -> None:
    refused = True

    def take(value: int) -> None:
        if refused:
            raise ValueError("not now")
        number.taken.append(value)

    reloader.add("the number", [number.path], number.read, take, 1)
    reloader.start()
    number.path.write_text("2")
    await eventually(lambda: reloader.problems == {"the number": "not now"})
    refused = False
    await eventually(lambda: number.taken == [2])


async def test_a_requested_reload_logs_a_line_about_each_file_at_once(number: Number, caplog: pytest.LogCaptureFixture) -> None:
    reloader = Reloader(look_seconds=1_000)
    number.add(reloader)
    reloader.start()
    reloader.reload_now()
    await eventually(lambda: bool(caplog.records))
    number.path.write_text("2")
    reloader.reload_now()
    await eventually(lambda: number.taken == [2])
    number.path.write_text("?")
    for count in (3, 4):
        reloader.reload_now()
        await eventually(lambda expected=count: len(caplog.records) == expected)  # type: ignore[misc]  # bound at once
    await reloader.close()
    lines = [record.message for record in caplog.records]
    assert "is in force already" in lines[0] and "and in force" in lines[1]
    assert all("stays in force" in line for line in lines[2:])


async def test_a_requested_reload_waits_for_the_end_of_a_file_that_is_being_written(number: Number) -> None:
    reloader = Reloader(look_seconds=1_000)
    number.add(reloader)
    reloader.start()
    reloader.reload_now()
    number.path.write_text("12")
    await asyncio.sleep(0.03)
    number.path.write_text("123")
    await eventually(lambda: bool(number.taken))
    await reloader.close()
    assert number.taken == [123]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    options = TlsOptions(trust_certs=pipe)
    tls = TlsConfig(certificate_file=pipe, key_file=pipe)
    ways: list[Callable[[], object]] = [
        lambda: files.read(pipe),
        lambda: read_pem(tls),
        token_from_file(pipe),
        options.context,
    ]
    for way in ways:
        with pytest.raises(OSError, match="It is not a regular file"):
            way()
    with pytest.raises(IsADirectoryError):
        files.read(tmp_path)


async def test_a_folder_is_read_again_when_a_file_in_it_changes_appears_or_goes(reloader: Reloader, tmp_path: Path) -> None:
    taken: list[str] = []

    def content() -> str:
        return " ".join(each.read_text() for each in sorted(tmp_path.iterdir()))

    (tmp_path / "a").write_text("1")
    reloader.add("a folder", [tmp_path], content, taken.append, content())
    reloader.start()
    for change, expected in (
        (lambda: (tmp_path / "a").write_text("22"), "22"),
        (lambda: (tmp_path / "b").write_text("3"), "22 3"),
        ((tmp_path / "a").unlink, "3"),
    ):
        change()
        await eventually(lambda expected=expected: taken[-1:] == [expected])  # type: ignore[misc]

"""Acknowledged events are durable: a process that appends is killed repeatedly, and no acknowledged event is missing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.logs.recorder import Recorder
from topicpolicies_server.logs.sqlite import SqliteLog
from topicpolicies_server.logs.sqlite.file import position_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # a dozen processes per test, even on a busy machine

NAMESPACE = "acme/orders"
KILLS = 12


@dataclass
class Life:
    """What a process printed before it ended."""

    appended: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    failed: list[tuple[int, bool]] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    @property
    def in_flight(self) -> set[int]:
        return set(self.appended) - set(self.acknowledged) - {number for number, _ in self.failed}


class Nursery:
    """Starts processes that append, and kills them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def live(
        self, path: Path, *, keys: int = 5, compact: bool = False, file_limit: int = 0, kill_after: int = 0, delay: float = 0
    ) -> Life:
        """Runs one process. It is killed ``delay`` seconds after ``kill_after`` acknowledgements; if that is 0, it ends by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wanted = {"path": str(path), "keys": keys, "compact": compact, "file_limit": file_limit}
        self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
        life = Life()
        pid = 0
        async with asyncio.timeout(30):
            async for line in self._process.stdout:
                words = line.decode().split()
                match words[0]:
                    case "pid":
                        pid = int(words[1])
                    case "a":
                        life.appended.append(int(words[1]))
                    case "k":
                        life.acknowledged.append(int(words[1]))
                        if len(life.acknowledged) == kill_after:
                            asyncio.get_running_loop().call_later(delay, os.kill, pid, signal.SIGKILL)
                    case "f":
                        life.failed.append((int(words[1]), words[2] == "1"))
                    case "over":
                        return life
                    case _:
                        life.rest.append(line.decode().strip())
        raise AssertionError("the process ended")


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.logs.sqlite_child", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment
    )
    yield Nursery(process)
    assert process.stdin is not None
    process.stdin.close()
    assert await process.wait() == 0


async def what_is_there(path: Path) -> tuple[str, Recorder]:
    change_log = SqliteLog(path)
    recorder = Recorder()
    log = await change_log.open(NAMESPACE, recorder)
    await recorder.until_caught_up()
    await change_log.close()
    return log.identity, recorder


async def test_acknowledged_events_are_neither_missing_nor_repeated_nor_reordered_after_kills(tmp_path: Path, nursery: Nursery) -> None:
    path = tmp_path / "changes.db"
    chance = random.Random(4711)
    identities: set[str] = set()
    interrupted = 0
    there: list[int] = []
    for _ in range(KILLS):
        life = await nursery.live(path, kill_after=chance.randint(1, 120), delay=chance.random() * 0.01)
        assert life.failed == []
        assert life.rest == []
        identity, recorder = await what_is_there(path)
        identities.add(identity)
        before, there = there, [int(name) for name in recorder.ids()]
        assert there[: len(before)] == before
        assert there == list(range(len(there)))  # in order, none missing, none repeated
        assert set(life.acknowledged) <= set(there)
        assert life.acknowledged == list(range(len(before), len(before) + len(life.acknowledged)))
        assert [placed.position for placed in recorder.entries] == [position_of(number + 1) for number in there]
        assert set(there) <= set(before) | set(life.appended)
        interrupted += bool(life.in_flight)
    assert len(identities) == 1
    assert interrupted >= KILLS // 2  # kills did interrupt appends in flight
    assert len(there) > KILLS


async def test_kills_during_compaction_lose_no_newest_event_and_repeat_no_position(tmp_path: Path, nursery: Nursery) -> None:
    path = tmp_path / "changes.db"
    chance = random.Random(4711)
    positions: dict[str, str] = {}
    forgotten = 0
    for _ in range(KILLS):
        life = await nursery.live(path, keys=7, compact=True, kill_after=chance.randint(30, 200), delay=chance.random() * 0.05)
        _, recorder = await what_is_there(path)
        there = [int(name) for name in recorder.ids()]
        assert there == sorted(set(there))
        for key in range(7):
            acknowledged = [number for number in life.acknowledged if number % 7 == key]
            mine = [number for number in there if number % 7 == key]
            assert not acknowledged or mine[-1] >= acknowledged[-1]
            assert mine == list(range(mine[0], mine[-1] + 1, 7)) if mine else not acknowledged  # its newest events, without a gap
        for placed, name in zip(recorder.entries, recorder.ids(), strict=True):
            assert positions.setdefault(placed.position, name) == name
        forgotten += there[0] > 0
    assert forgotten > KILLS // 2  # compaction did run


async def test_a_write_refused_by_the_system_fails_with_a_known_outcome_and_stored_events_stay(tmp_path: Path, nursery: Nursery) -> None:
    path = tmp_path / "changes.db"
    life = await nursery.live(path, file_limit=200_000)
    assert life.in_flight == set()
    assert life.failed
    assert not any(outcome_unknown for _, outcome_unknown in life.failed)
    assert life.rest == [f"read {len(life.acknowledged)}"]
    _, recorder = await what_is_there(path)
    assert {int(name) for name in recorder.ids()} == set(life.acknowledged)
    assert len(recorder.entries) == len(life.acknowledged)
    again = await nursery.live(path, kill_after=200)
    assert again.acknowledged[0] == max(life.acknowledged) + 1

"""A seed gives the same run every time, in every process."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from typing import Any

import pytest

from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.rpc import requests
from topicpolicies_server.rpc.changes import TURN_SECONDS

from .loop import SimulatedLoop, Stuck
from .report import story
from .run import run

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("profile", ["embedded", "brokers", "exclusive-partitioned", "late-partitioned"])
def test_a_seed_gives_the_same_story_every_time(profile: str) -> None:
    assert story(run(profile, 7)) == story(run(profile, 7))


def test_a_story_does_not_depend_on_how_long_the_code_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, read, slowed = story(run("late-partitioned", 7)), requests.read_change, 0

    def slowly(*arguments: Any) -> tuple[str, Request]:
        nonlocal slowed
        if len(arguments) < 4:  # not of a batch
            return read(*arguments)
        slowed += 1
        if slowed <= 60:
            time.sleep(1.5 * TURN_SECONDS)
        return read(*arguments)

    monkeypatch.setattr(requests, "read_change", slowly)
    assert story(run("late-partitioned", 7)) == plain
    assert slowed > 5, "hardly any change came in a batch"


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["shared", "exclusive"])
def test_a_runs_own_command_gives_the_same_story_in_another_process(profile: str) -> None:
    one = run(profile, 8)
    module, *arguments = one.command.removeprefix("python -m ").split()
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    printed = subprocess.run([sys.executable, "-m", module, *arguments], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout == story(one) + "\n"


def test_a_run_that_can_never_end_fails_with_the_names_of_the_waiting_tasks() -> None:
    async def who_waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="who_waits_for_ever"):
        SimulatedLoop(random.Random(1)).run(who_waits_for_ever())


def test_a_callback_from_a_thread_is_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(lambda: None)

    with pytest.raises(AssertionError, match="thread"):
        SimulatedLoop(random.Random(1)).run(main())

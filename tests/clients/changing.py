"""The changers of all languages: programs that each change settings of their own in one document and print each change."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from proto.tools import ROOT
from tests.clients import changer
from tests.clients.toolchains import go_program, java_program, typescript_program
from tests.java_build import example_jar

_HERE = Path(__file__).parent


def commands() -> dict[str, list[str]]:
    """Builds the changers; returns the command of each, by language."""
    # Another process may be building them for other tests, Go's first. Here Go is not the first, so that both processes can build.
    return {
        "typescript": typescript_program("test/changer.js"),
        "java": java_program("-cp", str(example_jar()), str(_HERE / "java" / "Changer.java")),
        "go": [str(go_program("internal/changer"))],
        "python": [sys.executable, changer.__file__],
    }


async def changed(
    programs: dict[str, list[str]], target: str, topic: str, turns: int, variables: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Runs all changers at once; returns the lines that each printed, by language.

    Args:
        programs: the command of each changer, by language.
        target: the target of the clients.
        topic: the topic whose document they change.
        turns: how many changes each makes.
        variables: additional environment variables.
    """
    changers = {name: await _start([*command, target, topic, str(turns)], variables or {}) for name, command in programs.items()}
    try:
        for process in changers.values():
            assert await _line(process) == "ready"
        for process in changers.values():
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        return dict(zip(changers, await asyncio.gather(*map(_output, changers.values())), strict=True))
    finally:
        for process in changers.values():
            if process.returncode is None:
                process.kill()


async def _start(command: list[str], variables: Mapping[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), **variables}
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe, env=environment)


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def _output(process: asyncio.subprocess.Process) -> list[str]:
    """Waits until a changer ends; returns the lines that it printed."""
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().splitlines()

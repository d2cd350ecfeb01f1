"""The changers of all languages: programs that change one topic, each its own settings, and tell of every change."""

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
    """How each language's changer is started, by language; builds them."""
    # Another process may be building them for other tests, Go's first. The order is another one, so that both have something to build.
    return {
        "typescript": typescript_program("test/changer.js"),
        "java": java_program("-cp", str(example_jar()), str(_HERE / "java" / "Changer.java")),
        "go": [str(go_program("internal/changer"))],
        "python": [sys.executable, changer.__file__],
    }


async def changed(
    programs: dict[str, list[str]], target: str, topic: str, turns: int, variables: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Lets all begin at once, each with so many changes; the lines that each told, by language.

    Args:
        programs: how each is started, by language.
        target: the server.
        topic: what they change.
        turns: changes of each.
        variables: further variables of their environment.
    """
    changers = {name: await _start([*command, target, topic, str(turns)], variables or {}) for name, command in programs.items()}
    try:
        for process in changers.values():
            assert await _line(process) == "ready"
        for process in changers.values():
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        return dict(zip(changers, await asyncio.gather(*map(_told, changers.values())), strict=True))
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


async def _told(process: asyncio.subprocess.Process) -> list[str]:
    """Everything that a changer tells, to its end."""
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().splitlines()

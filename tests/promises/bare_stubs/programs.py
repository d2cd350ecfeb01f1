"""Runs the bare stubs of both languages as processes, and reads what they print."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.builds import Build
from tests.clients.toolchains import GO, go_build

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]
_CONFIG = _ROOT / "clients" / "service_config.json"
_BUILT = _ROOT / ".cache" / "bare-stub" / "stub"
_BUILD = Build(_BUILT.with_name("built"), [_HERE / "stub.go", GO / "go.mod", GO / "topicpolicies" / "v1"])
LANGUAGES = ("python", "go")


def _python() -> list[str]:
    return [sys.executable, str(_HERE / "stub.py")]


def _go() -> list[str]:
    _BUILT.parent.mkdir(parents=True, exist_ok=True)
    _BUILD.make(lambda: go_build(_BUILT, str(_HERE / "stub.go")))
    return [str(_BUILT)]


_COMMANDS = {"python": _python, "go": _go}


class Program:
    """A running stub. ``async with Program(...)`` starts and ends it."""

    def __init__(self, language: str, addresses: list[str], *arguments: str) -> None:
        """Does not start yet.

        Args:
            language: one of ``LANGUAGES``.
            addresses: the servers' addresses.
            arguments: the command and its arguments.
        """
        self._language = language
        self._arguments = [str(_CONFIG), ",".join(addresses), *arguments]
        self.lines: list[dict[str, Any]] = []
        """What it has printed."""
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Builds and starts it."""
        command = await asyncio.to_thread(_COMMANDS[self._language])
        self._process = await asyncio.create_subprocess_exec(
            *command,
            *self._arguments,
            env={**os.environ, "PYTHONPATH": str(_ROOT / "clients" / "python")},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Kills it, if it runs."""
        if self._process.returncode is None:
            self._process.kill()
        await self._reading

    async def until(self, met: Callable[[list[dict[str, Any]]], bool], seconds: float = 60) -> None:
        """Waits until its lines meet a condition.

        Raises:
            AssertionError: it has ended before.
        """
        async with asyncio.timeout(seconds):
            while not met(self.lines):
                assert not self._reading.done(), f"it has ended with {self._process.returncode}"
                self._news.clear()
                await self._news.wait()

    async def ended(self, seconds: float = 60) -> list[dict[str, Any]]:
        """Ends its standard input, waits until it has ended, and returns all lines."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(seconds):
            await self._reading
        assert self._process.returncode == 0
        return self.lines

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(json.loads(line))
            self._news.set()
        await self._process.wait()
        self._news.set()

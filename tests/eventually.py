"""Waits for what nothing reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def eventually(holds: Callable[[], Any], seconds: float = 100.0) -> None:
    """Waits until something holds that is not reported; ``holds`` may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.01)

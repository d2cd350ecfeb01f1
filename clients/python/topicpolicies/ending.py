"""How tasks are ended."""

from __future__ import annotations

import asyncio
from typing import Any


async def stop(task: asyncio.Task[Any] | None) -> None:
    """Cancels a task and waits for its end, however it ends."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, so that nobody is told that nobody did

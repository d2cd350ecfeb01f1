"""Checks whether a log is still the one that was opened: a topic that is deleted and created again has another creation time."""

from __future__ import annotations

from ....core.reasons import Reason
from ...change_log import LogError
from ..admin.topics import Layout, Topics


async def replaced(topics: Topics, layout: Layout, creation: str) -> LogError | None:
    """Returns what is wrong if the log is not the one any more that was created at ``creation``; None: it is still the same.

    Raises:
        LogError: the broker gave no answer.
    """
    name = f"The change log of {layout.namespace}"
    found = await topics.creation(layout)
    if creation in (found, ""):
        return None
    if not found:
        return LogError(Reason.LOG_DELETED, f"{name} was deleted.")
    return LogError(Reason.LOG_REPLACED, f"{name} was deleted and created again; it must be opened again.")

"""Checks whether a log is still the one that was opened, and still has what was read of it.

A topic that is deleted and created again has another creation time. A topic that is truncated, or of which a cursor is moved by hand, keeps
it, and loses entries: ledgers are deleted once the compaction's cursor has passed them, whoever moved it, and the compacted ledger is
forgotten. Brokers load nothing then. Compaction itself deletes ledgers too, but what it left over stands in its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.reasons import LogState, Reason
from ...change_log import LogError
from ..admin.topics import Layout, Topics, creation_of


async def replaced(topics: Topics, layout: Layout, creation: str, read: Sequence[int]) -> LogError | None:
    """Returns what is wrong if the log is not the one any more that was created at ``creation``, or lost what was read; None: all is well.

    Args:
        topics: the requests to the brokers; topics that lost something are added to ``Topics.emptied``.
        layout: the log's topics.
        creation: what distinguishes the log from those before and after it; "": not known.
        read: by topic, the ledger of the last entry that was read; -1: none was.

    Raises:
        LogError: the broker gave no answer.
    """
    name = f"The change log of {layout.namespace}"
    found = await topics.stored(layout)
    now = creation_of([each.creation for each in found])
    if creation not in (now, ""):
        if not now:
            return LogError(Reason.LOG_UNAVAILABLE, f"{name} was deleted.")
        return LogError(Reason.LOG_REPLACED, f"{name} was deleted and created again; it must be opened again.")
    emptied = False
    for topic, full_name, each, ledger in zip(layout.topics, layout.full_names, found, read, strict=True):
        if 0 <= ledger < each.first_ledger and (await topics.compaction(layout.namespace, topic)).ledger == -1:
            topics.emptied.add((full_name, each.creation))
            emptied = True
    if emptied:
        return LogError(LogState.LOST, f"{name} was emptied: its topic was truncated, or the like. What is left is read anew.")
    return None

"""Checks what the caller may do in a namespace, by requests that change nothing and whose answers are not kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from topicpolicies import TopicPoliciesError

from .checks import Check, Finding, failed, ok

if TYPE_CHECKING:
    from topicpolicies import AsyncClient

_CALL_SECONDS = 6.0
_DENIED = "PERMISSION_DENIED"
"""The reason of a request that the caller may not make. The server checks permissions first: any other reason means that the caller may."""
_NOT_ASKED = ("UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "INTERNAL")
"""Codes of calls that ended before the permission was checked."""
_WITHOUT = {"READ_ONLY": "the server is read-only", "HISTORY_OFF": "the server keeps no history"}
"""Reasons for which the server refuses every caller, each with an explanation."""


async def _asked(ask: Callable[[], Awaitable[object]]) -> str:
    """Returns the reason why a request is not permitted or not possible for any caller; "": it is permitted.

    Raises:
        TopicPoliciesError: the request ended before its permission was decided.
    """
    try:
        await ask()
    except TopicPoliciesError as error:
        if error.reason == _DENIED or error.reason in _WITHOUT:
            return error.reason
        if not error.reason or error.reason == "AUTHORIZATION_UNKNOWN" or error.code.name in _NOT_ASKED:
            raise
    return ""


def judged_permissions(reasons: dict[str, str]) -> Finding:
    """Judges what the caller may do. ``reasons``: by what was requested, the reason why it is refused; "": it is permitted."""
    may = [what for what, reason in reasons.items() if not reason]
    may_not = [what for what, reason in reasons.items() if reason == _DENIED]
    off = [f"{what} ({_WITHOUT[reason]})" for what, reason in reasons.items() if reason in _WITHOUT]
    told = [f"you may {', '.join(may) or 'do nothing'}"]
    if may_not:
        told.append(f"not: {', '.join(may_not)}")
    if off:
        told.append(f"off: {', '.join(off)}")
    sentence = "; ".join(told)
    return ok(sentence) if may or not may_not else failed(sentence)


def permission(client: AsyncClient, namespace: str) -> Check:
    """Returns the check of what the caller may do in a namespace."""

    async def listed() -> None:
        async for _ in client.list(namespace, page_size=1, timeout=_CALL_SECONDS):
            return

    async def dry_run() -> None:
        topic = f"persistent://{namespace}/topicpolicies-doctor"
        await client.update(topic, max_producer_per_topic=1, validate_only=True, timeout=_CALL_SECONDS)

    async def history() -> None:
        async for _ in client.history_pages(namespace=namespace, page_size=1, timeout=_CALL_SECONDS):
            return

    async def run() -> Finding:
        ways = {"read": listed, "change": dry_run, "list the history": history}
        try:
            return judged_permissions(dict(zip(ways, await asyncio.gather(*map(_asked, ways.values())), strict=True)))
        except TopicPoliciesError as error:
            return failed(f"{error.reason or error.code.name}: {error.message}", "Check the server's log for why it can't decide.")

    return Check(
        name=f"server.permissions {namespace}",
        holds=f"what you may do in {namespace} is known",
        why="Requests without the permission are refused.",
        run=run,
        remedy="Authenticate yourself (--token-file, --tls-certificate), and have your role allowed: see the server's --authorization.",
        needs=("server.service",),
        seconds=15,
    )

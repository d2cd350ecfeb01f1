"""Callers that name themselves in their metadata, and are believed: for tests of permissions, not of authentication."""

from __future__ import annotations

from typing import TypeAlias

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.rpc.calls import Call

Metadata: TypeAlias = tuple[tuple[str, str], ...]
PRINCIPAL_KEY, FOR_KEY = "tested-principal", "tested-for"


async def believe(call: Call) -> Caller:
    """Returns the caller that the metadata name: it verifies nothing."""
    pairs = {key: value for key, value in call.metadata if isinstance(value, str)}
    principal = pairs.get(PRINCIPAL_KEY, "")
    return Caller(principal, Way.TOKEN if principal else Way.NONE, pairs.get(FOR_KEY, ""))


def of(caller: str) -> Metadata:
    """Returns the metadata of a caller: a role, or two of them as ``proxy>role``; "": a caller without a name."""
    principal, _, role = caller.partition(">")
    named = ((PRINCIPAL_KEY, principal), (FOR_KEY, role))
    return tuple((key, value) for key, value in named if value)

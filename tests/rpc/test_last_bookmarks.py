"""The last bookmark of a watch when the server stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.documents import wire
from topicpolicies_server.core.reading.tokens import Mode, Token
from topicpolicies_server.rpc.watching import events
from topicpolicies_server.rpc.watching.policy_part import PolicyPart, WatchResources
from topicpolicies_server.rpc.watching.requests import Watch


class Common:
    """In place of what all namespaces have in common: what a part needs before it has a namespace."""

    def now(self) -> int:
        """Returns a time in milliseconds since 1970."""
        return 1_000


async def test_a_part_with_unsent_records_has_no_last_bookmark() -> None:
    token = Token("log", ("b1",))
    watch = Watch({"acme/orders": None}, frozenset(Scope), Mode.LATEST, {}, False, 10.0)
    part = PolicyPart(WatchResources(cast("Any", SimpleNamespace(common=Common())), wire), watch, "acme/orders", lambda: None)
    part._add_event(events.bookmark("acme/orders", token, 0, 0, synced=True))
    part._synced, part._resume_from = True, token
    assert part.last_bookmark() is None, "SYNCED has not been sent yet"
    assert len(list(part.take())) == 1
    assert part.last_bookmark() is not None

"""The last bookmark of a watch when the server stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.documents import wire
from topicpolicies_server.core.reading.tokens import Mode, Token
from topicpolicies_server.rpc.watching.part import Part, WatchResources
from topicpolicies_server.rpc.watching.requests import Watch


class Common:
    """In place of what all namespaces have in common: what a part needs before it has a namespace."""

    def now(self) -> int:
        """Returns a time in milliseconds since 1970."""
        return 1_000


async def test_a_part_with_unsent_records_has_no_last_bookmark() -> None:
    watch = Watch({"acme/orders": None}, frozenset(Scope), Mode.LATEST, {}, False, 10.0)
    part = Part(WatchResources(cast("Any", SimpleNamespace(common=Common())), wire), watch, "acme/orders", lambda: None)
    part.outbox.sync(Token("log", ("b1",)), 0)
    assert part.last_bookmark() is None, "SYNCED has not been sent yet"
    assert len(list(part.take())) == 1
    assert part.last_bookmark() is not None

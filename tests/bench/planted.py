"""Servers with a planted bug: ``python -m tests.bench.planted BUG serve ...``.

Each bug is a mistake that a developer could make; the rest of the server is the real one.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from topicpolicies.v1 import service_pb2
from topicpolicies_server.cli.app import main
from topicpolicies_server.core.chains import chain
from topicpolicies_server.core.chains.event import event_of
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Event, StampKind
from topicpolicies_server.core.reading.view import Head
from topicpolicies_server.core.reading.watch import Batch, Token, Watcher
from topicpolicies_server.namespaces.namespace import Namespace
from topicpolicies_server.rpc import answers

EVERY = 10
"""One in this many updates loses a setting."""
BEHIND_SECONDS = 0.05


def loses_an_update() -> None:
    """Sometimes an update writes a whole document in which another client's setting is missing."""
    original = event_of
    count = 0

    def planted(*arguments: Any) -> Event:
        nonlocal count
        event = original(*arguments)
        stamp = event.stamp
        assert stamp is not None
        if stamp.kind is not StampKind.UPDATE or not event.document:
            return event
        others = [name for name in event.document if not any(path.startswith(name.partition(".")[0]) for path in stamp.mask)]
        count += bool(others)
        if not others or count % EVERY:
            return event
        document = {name: value for name, value in event.document.items() if name != others[0]}
        return event._replace(document=document, stamp=stamp._replace(mask=("*",), reads={}, operands={}))

    chain.event_of = planted  # type: ignore[assignment, attr-defined]


def answers_before_read_back() -> None:
    """Updates are answered before the view from which reads are answered has them."""
    original = Namespace.get
    shown: dict[tuple[Namespace, PolicyKey], tuple[Head | None, Head | None, float]] = {}

    async def planted(self: Namespace, key: PolicyKey, at_least: str = "") -> Head | None:
        head, now = await original(self, key, at_least), time.monotonic()
        old, new, since = shown.get((self, key), (head, head, now))
        if new is not head:
            old, new, since = (new if now - since >= BEHIND_SECONDS else old), head, now
        if now - since >= BEHIND_SECONDS:
            old = new
        shown[self, key] = old, new, since
        return old

    Namespace.get = planted  # type: ignore[method-assign]


def reorders_a_watch() -> None:
    """The changes of each batch of a watch are in the wrong order."""
    original = Watcher.take

    def planted(self: Watcher, most: int) -> Batch:
        batch = original(self, most)
        return batch._replace(changes=batch.changes[::-1])

    Watcher.take = planted  # type: ignore[method-assign]


def drops_a_bookmark() -> None:
    """The bookmark after a snapshot is a TIMER bookmark instead of SYNCED."""
    original = answers.bookmark

    def planted(namespace: str, _kind: object, token: Token, confirmed_ms: int) -> bytes:
        return original(namespace, service_pb2.BOOKMARK_KIND_TIMER, token, confirmed_ms)

    answers.bookmark = planted  # type: ignore[assignment]


BUGS = {bug.__name__: bug for bug in (loses_an_update, answers_before_read_back, reorders_a_watch, drops_a_bookmark)}

if __name__ == "__main__":
    BUGS[sys.argv.pop(1)]()
    main()

"""The state that a client builds from a watch: entries, tokens, documents, states and staleness, by the examples of watch.json."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

import topicpolicies as tp
from tests.client.statuses import BROKEN
from tests.client.vectors import examples, name
from topicpolicies.v1 import service_pb2
from topicpolicies.watch_session import WatchSession


class _Copy:
    """A watch and its mirror, with a clock that the examples set."""

    def __init__(self, namespaces: list[str], mode: str) -> None:
        self.now = 0.0
        self._session = WatchSession(namespaces=namespaces, mode=tp.WatchMode(service_pb2.WatchMode.Value(mode)))
        self._mirror = tp.Mirror(namespaces, lambda: self.now)
        self._changes: list[list[str | None]] = []
        self._entries: list[str] = []
        self._mirror.listen(self._listen)
        self._connected = False

    def _listen(self, change: tp.Change) -> None:
        versions = [document.version if document is not None else None for document in (change.before, change.after)]
        self._changes.append([f"{change.topic} {change.scope.name}", *versions])

    def _take(self) -> None:
        for event in self._session.rest():
            self._mirror.apply(event)
            if isinstance(event, tp.Entry):
                self._entries.append(event.entry.position)

    def connect(self) -> dict[str, Any]:
        """Opens a stream; returns the tokens that are sent."""
        if self._connected:
            self._session.broke(BROKEN.error, self.now, 0.5)
            self._take()
        self._connected = True
        request = self._session.connect(self.now)
        self._take()
        return {namespace: _shown(token) for namespace, token in request.resume.items()}

    def receive(self, events: list[dict[str, Any]]) -> None:
        self._session.received(ParseDict({"events": events}, service_pb2.WatchPoliciesResponse()), self.now)
        self._take()

    def known(self, what: str, expected: Any, namespaces: list[str]) -> Any:
        """Returns one part of the state, in the form of the examples' expectations."""
        if what == "documents":
            return {f"{document.topic} {document.scope.name}": document.version for document in self._mirror}
        if what == "told":
            changes, self._changes = self._changes, []
            return changes
        if what == "entries":
            entries, self._entries = self._entries, []
            return entries
        if what == "tokens":
            return {namespace: _shown(token.message()) for namespace, token in self._session.token.namespaces.items()}
        if what == "synced":
            return sorted(filter(self._mirror.synced, namespaces))
        if what == "states":
            states = self._mirror.states.items()
            return dict.fromkeys(expected) | {namespace: [status.state.name, status.reason or None] for namespace, status in states}
        assert what == "staleness"
        ages = {namespace: self._mirror.staleness(namespace or None) for namespace in expected}
        return {namespace: None if age == float("inf") else age for namespace, age in ages.items()}


def _shown(token: service_pb2.WatchToken) -> dict[str, Any]:
    return {"log": "", "positions": [], **MessageToDict(token)}


@pytest.mark.parametrize("example", examples("watch.json"), ids=name)
def test_the_state_built_from_a_watch_is_that_of_the_example(example: dict[str, Any]) -> None:
    copy = _Copy(example["namespaces"], example.get("mode", "WATCH_MODE_LATEST"))
    for number, step in enumerate(example["steps"]):
        copy.now = step.get("at", copy.now)
        if "connect" in step:
            sent = {namespace: {"log": "", "positions": [], **token} for namespace, token in step["connect"].items()}
            assert copy.connect() == sent, number
        if "receive" in step:
            copy.receive(step["receive"])
        for what, expected in step.get("expect", {}).items():
            known = copy.known(what, expected, example["namespaces"])
            assert known == expected, (number, what)


def test_the_examples_cover_every_part_of_the_state() -> None:
    expected = {what for example in examples("watch.json") for step in example["steps"] for what in step.get("expect", {})}
    assert expected == {"documents", "told", "entries", "tokens", "synced", "states", "staleness"}

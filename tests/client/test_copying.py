"""A watch of the history (mode ENTRIES) over several logs, message by message: its token, and which entries it delivers."""

from __future__ import annotations

from topicpolicies import Entry, ResumeToken, WatchMode, WatchToken
from topicpolicies.v1 import service_pb2
from topicpolicies.watch_session import WatchSession

NAMESPACE = "acme/orders"


def session(token: WatchToken | None = None) -> WatchSession:
    resume = ResumeToken({NAMESPACE: token}) if token is not None else None
    made = WatchSession(namespaces=[NAMESPACE], mode=WatchMode.ENTRIES, token=resume)
    made.connect(0.0)
    return made


def take(made: WatchSession, *contents: service_pb2.Bookmark | service_pb2.HistoryEntry) -> list[str]:
    """Receives the contents as one message; returns the positions of the entries that the session delivers."""
    response = service_pb2.WatchPoliciesResponse()
    for content in contents:
        event = response.events.add(namespace=NAMESPACE)
        if isinstance(content, service_pb2.Bookmark):
            event.bookmark.CopyFrom(content)
        else:
            event.entry.CopyFrom(content)
    made.received(response, 0.0)
    return [event.entry.position for event in made.rest() if isinstance(event, Entry)]


def another_log(name: str) -> service_pb2.Bookmark:
    return service_pb2.Bookmark(kind=service_pb2.BOOKMARK_KIND_TIMER, token=service_pb2.WatchToken(log=name))


def entry(position: str) -> service_pb2.HistoryEntry:
    return service_pb2.HistoryEntry(position=position)


def test_the_token_before_the_watch_is_synced_is_the_position_of_the_last_entry() -> None:
    made = session()
    assert take(made, another_log("one"), entry("b1"), entry("b2")) == ["b1", "b2"]
    assert made.token == ResumeToken({NAMESPACE: WatchToken("one", ("b2",))})


def test_an_entry_of_another_log_with_a_delivered_position_is_delivered_too() -> None:
    made = session(WatchToken("one", ("b7",)))
    assert take(made, entry("b7"), entry("b8"), another_log("two"), entry("b1"), entry("b7")) == ["b8", "b1", "b7"]
    assert made.token == ResumeToken({NAMESPACE: WatchToken("two", ("b7",))})

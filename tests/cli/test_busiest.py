"""The busiest namespaces and topics, counted from the events of a watch, as lines for people and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rich.cells import cell_len

from topicpolicies import SCOPE_LOCAL, PolicyDocument, TopicPolicies, WatchEvent
from topicpolicies.v1.service_pb2 import (
    NAMESPACE_STATE_FAILED,
    NAMESPACE_STATE_LOADING,
    NAMESPACE_STATE_READY,
    Bookmark,
    NamespaceState,
    NamespaceStatus,
    PolicyChange,
    WatchReset,
)
from topicpolicies_server.cli.showing.busiest import Busiest

CLOCK = datetime(2026, 3, 1, 12, tzinfo=UTC)
A, B = "public/a", "public/b"


def synced(namespace: str) -> WatchEvent:
    return WatchEvent(namespace=namespace, bookmark=Bookmark(synced=True))


SYNCED = synced(A)


def status(namespace: str, state: NamespaceState.ValueType, message: str = "") -> WatchEvent:
    return WatchEvent(namespace=namespace, status=NamespaceStatus(state=state, message=message))


def change(namespace: str, topic: str, *, actor: str = "", reason: str = "") -> WatchEvent:
    document = PolicyDocument(topic=f"persistent://{namespace}/{topic}", scope=SCOPE_LOCAL, policies=TopicPolicies(), version="1")
    changed = PolicyChange(document=document)
    changed.origin.actor, changed.origin.reason = actor, reason
    changed.origin.publish_time.FromDatetime(CLOCK.replace(tzinfo=None))
    return WatchEvent(namespace=namespace, change=changed)


def counted(*events: WatchEvent, namespaces: tuple[str, ...] = (A, B)) -> Busiest:
    busiest = Busiest(namespaces)
    for event in events:
        busiest.apply(event, 100.0, CLOCK)
    return busiest


def shown(busiest: Busiest, width: int | None = 80, height: int | None = None, most: int = 20) -> list[str]:
    return busiest.lines(110.0, CLOCK + timedelta(seconds=10), most=most, width=width, height=height)


def test_changes_are_counted_by_namespace_and_topic_and_snapshots_are_not() -> None:
    snapshot = [change(A, "old")] * 5
    busiest = counted(*snapshot, SYNCED, *[change(A, "t", actor="bot", reason="too fast")] * 20, synced(B), change(B, "u"))
    found = busiest.json(110.0, CLOCK, most=20)
    assert [(each["namespace"], each["changes"]) for each in found["namespaces"]] == [(A, 20), (B, 1)]
    assert [(each["topic"], each["changes"]) for each in found["topics"]] == [(f"persistent://{A}/t", 20), (f"persistent://{B}/u", 1)]
    first = found["topics"][0]
    assert (first["actor"], first["reason"], first["last_time"]) == ("bot", "too fast", "2026-03-01T12:00:00.000Z")
    assert (found["changes"], found["seconds"], found["topics_let_go"], found["loading"]) == (21, 10.0, 0, [])
    lines = shown(busiest)
    assert "21 changes of 2 topics in 10 s; 2 namespaces" in lines[0]
    assert any(line.split()[1:2] == ["20"] and line.endswith("public/a/t  bot: too fast") for line in lines)


def test_lines_fit_the_terminal_whatever_the_names_are() -> None:
    events = [change(A, "t" * 200, actor="a" * 200, reason="why\n" * 50), change(A, "主题" * 60, actor="谁" * 50), change(A, "\x1b[31mred")]
    busiest = counted(SYNCED, *events, *(change(A, f"t{number}") for number in range(100)))
    for width in (40, 80, 81, 200):
        lines = shown(busiest, width)
        assert [line for line in lines if cell_len(line) > width] == []
        assert "\x1b" not in "".join(lines)
    for height in (5, 12, 24, 50):
        assert len(shown(busiest, height=height)) <= max(height - 1, 7)
    assert any("t" * 200 in line for line in shown(busiest, None, most=200)), "without a terminal, names are not cut"


def test_a_problem_is_shown_until_it_is_solved() -> None:
    busiest = counted(SYNCED, status(B, NAMESPACE_STATE_FAILED, "The log can't be read."))
    assert [line for line in shown(busiest) if line.startswith("!")] == ["! public/b is unavailable: The log can't be read."]
    busiest.apply(status(B, NAMESPACE_STATE_READY), 101.0, CLOCK)
    assert busiest.json(110.0, CLOCK, most=5)["problems"] == []
    busiest.apply(WatchEvent(namespace=A, reset=WatchReset(message="The log was replaced.")), 101.0, CLOCK)
    (remark,) = busiest.json(110.0, CLOCK, most=5)["problems"]
    assert remark.endswith("changes may be missing: The log was replaced.")


def test_of_many_namespaces_with_problems_only_five_are_named() -> None:
    names = tuple(f"public/n{number}" for number in range(100))
    busiest = counted(*(status(name, NAMESPACE_STATE_FAILED) for name in names), namespaces=names)
    problems = busiest.json(110.0, CLOCK, most=5)["problems"]
    assert len(problems) == 6 and problems[-1] == "and 95 other namespaces"


def test_the_view_is_settled_when_each_namespace_is_synced_or_failed() -> None:
    assert not counted().settled
    assert not counted(SYNCED, status(B, NAMESPACE_STATE_LOADING)).settled
    assert counted(SYNCED, status(B, NAMESPACE_STATE_FAILED)).settled
    assert counted(SYNCED, namespaces=(A,)).settled


def test_without_changes_the_last_line_says_so() -> None:
    assert shown(counted(SYNCED))[-1] == "Nothing has changed yet."
    assert shown(counted())[-1] == "Nothing has changed yet."


def test_a_change_without_an_actor_is_shown_with_its_reason_if_it_has_one() -> None:
    busiest = counted(SYNCED, change(A, "t"))
    assert shown(busiest)[-1].endswith("public/a/t")
    busiest.apply(change(A, "t", reason="why"), 101.0, CLOCK)
    assert shown(busiest)[-1].endswith("public/a/t  unknown: why")

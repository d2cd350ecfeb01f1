"""The lines of a watch for people: times of other days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from topicpolicies import SCOPE_LOCAL, PolicyDocument, TopicPolicies, WatchEvent
from topicpolicies.v1.events_pb2 import ChangeOrigin
from topicpolicies.v1.service_pb2 import PolicyChange
from topicpolicies_server.cli.events import line


def test_a_change_of_another_day_is_shown_with_its_date() -> None:
    now = datetime.now(UTC)
    for moment, form in ((now, "%H:%M:%S.%f"), (now - timedelta(days=2), "%Y-%m-%d %H:%M:%S.%f")):
        document = PolicyDocument(topic="persistent://public/a/t", scope=SCOPE_LOCAL, version="11", policies=TopicPolicies())
        change = PolicyChange(document=document, origin=ChangeOrigin())
        change.origin.publish_time.FromDatetime(moment)
        shown = line(WatchEvent(namespace="public/a", change=change), snapshot=True)
        assert shown is not None
        assert shown.startswith(f"{moment.astimezone().strftime(form)[:-3]}  = persistent://public/a/t LOCAL 11  "), shown

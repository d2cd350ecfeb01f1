"""The lines of a watch for people: the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from topicpolicies import SCOPE_LOCAL, PolicyDocument, TopicPolicies, WatchEvent
from topicpolicies.v1.events_pb2 import ChangeOrigin
from topicpolicies.v1.service_pb2 import PolicyChange
from topicpolicies_server.cli.rendering import line


def test_a_change_is_shown_with_its_local_date_and_time() -> None:
    now = datetime.now(UTC)
    for moment in (now, now - timedelta(days=2)):
        document = PolicyDocument(topic="persistent://public/a/t", scope=SCOPE_LOCAL, version="11", policies=TopicPolicies())
        change = PolicyChange(document=document, origin=ChangeOrigin())
        change.origin.publish_time.FromDatetime(moment)
        shown = line(WatchEvent(namespace="public/a", change=change), snapshot=True)
        assert shown is not None
        assert shown.startswith(f"{moment.astimezone().strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]}  = persistent://public/a/t LOCAL 11  "), shown

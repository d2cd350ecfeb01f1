"""What measurements need from a broker besides its change logs."""

from __future__ import annotations

from tests.broker.admin import Admin

_KEPT = {"deleteWhileInactive": False, "maxInactiveDurationSeconds": 3_600, "inactiveTopicDeleteMode": "delete_when_no_subscriptions"}


def topics_that_stay(admin_url: str, namespace: str, topics: int) -> None:
    """Creates topics that a broker does not delete although they have no producers or consumers."""
    with Admin(admin_url) as admin:
        admin.call("POST", f"namespaces/{namespace}/inactiveTopicPolicies", _KEPT)
        for number in range(topics):
            admin.create_topic(f"{namespace}/bench-{number}")

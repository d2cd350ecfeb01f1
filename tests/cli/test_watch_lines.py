"""The lines of a watch for people: times of other days, and addresses in errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from grpc import StatusCode

from topicpolicies import ActorStanding, Changed, Document, Interrupted, Mirror, Origin, Scope, TopicPolicies, Unavailable
from topicpolicies_server.cli.showing.json_forms import of_event
from topicpolicies_server.cli.showing.watch_lines import line


def test_a_change_of_another_day_is_shown_with_its_date() -> None:
    known = Mirror(["public/a"])
    now = datetime.now(UTC)
    for moment, form in ((now, "%H:%M:%S.%f"), (now - timedelta(days=2), "%Y-%m-%d %H:%M:%S.%f")):
        document = Document(topic="persistent://public/a/t", scope=Scope.LOCAL, version="11", policies=TopicPolicies())
        origin = Origin("", ActorStanding.UNKNOWN, "", "", None, "", moment, None)
        shown = line(Changed("public/a", document, "", None, 0, "", origin, snapshot=True), known)
        assert shown is not None
        assert shown.startswith(f"{moment.astimezone().strftime(form)[:-3]}  = persistent://public/a/t LOCAL 11  "), shown


def test_the_address_of_an_interruption_is_shown_unescaped() -> None:
    error = Unavailable("failed to connect: ipv6:%5B::1%5D:1: Connection refused", code=StatusCode.UNAVAILABLE)
    shown = line(Interrupted(error, 1, 0.1), Mirror(["public/a"]))
    assert shown is not None and shown.endswith("failed to connect: ipv6:[::1]:1: Connection refused")
    assert of_event(Interrupted(error, 1, 0.1))["interrupted"]["error"]["message"] == "failed to connect: ipv6:[::1]:1: Connection refused"

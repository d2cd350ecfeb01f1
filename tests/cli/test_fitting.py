"""Tables fit the width of the terminal, and no word of a setting's path is broken."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.core.policies import policies
from topicpolicies import SCOPE_LOCAL, PolicyDocument, TopicPolicies
from topicpolicies.masks import format_path
from topicpolicies.v1 import events_pb2, history_pb2
from topicpolicies.v1.events_pb2 import ChangeOrigin
from topicpolicies.v1.history_pb2 import HistoryEntry
from topicpolicies_server.cli.showing import entries
from topicpolicies_server.cli.showing.differences import between, show
from topicpolicies_server.cli.showing.fitting import WIDEST_LINE, Row, brief, broken, settings_rows
from topicpolicies_server.cli.showing.listing import listed
from topicpolicies_server.cli.showing.rendering import lines

TOPIC = "persistent://public/default/demo"


def terminal(width: int) -> tuple[Console, io.StringIO]:
    """Returns a console of this width, and its output."""
    printed = io.StringIO()
    return Console(file=printed, width=width, highlight=False, markup=False, emoji=False), printed


def demo_document(clients: int = 64) -> TopicPolicies:
    """Returns a document with the settings of about this number of subscriptions."""
    made = TopicPolicies(max_producer_per_topic=50, max_subscriptions_per_topic=400, message_ttl_in_seconds=50)
    for client in range(clients):
        if client % 8 and client > 13:
            rate = made.subscription_policies[f"client-{client:02}"].dispatch_rate
            rate.dispatch_throttling_rate_in_byte, rate.dispatch_throttling_rate_in_msg = -1, 50
    made.retention_policies.retention_time_in_minutes = 10
    return made


def document(settings: TopicPolicies | None) -> PolicyDocument:
    return PolicyDocument(topic=TOPIC, scope=SCOPE_LOCAL, version="3201", policies=settings)


def shown(settings: TopicPolicies, width: int) -> list[str]:
    console, printed = terminal(width)
    console.print(settings_rows(("setting", "value"), (Row(path, (value,)) for path, value in lines(settings)), console))
    return printed.getvalue().splitlines()


@given(policies(), st.integers(min_value=12, max_value=300))
def test_the_short_form_of_a_document_is_one_line_of_whole_settings(settings: TopicPolicies, room: int) -> None:
    text = brief(settings, room)
    every = list(lines(settings))
    assert len(text) <= max(min(room, WIDEST_LINE), len(f"{len(every)} settings"))
    assert "\n" not in text
    if every and not text.startswith(f"{len(every)} setting"):
        assert text.startswith(f"{format_path(every[0][0])}=")


def test_the_short_form_of_a_document_counts_the_settings_that_it_leaves_out() -> None:
    settings = demo_document()
    count = len(list(lines(settings)))
    assert brief(settings, 60) == f"max_producer_per_topic=50 and {count - 1} more"
    assert brief(settings, 20) == f"{count} settings"
    assert brief(TopicPolicies(max_producer_per_topic=5), 80) == "max_producer_per_topic=5"
    assert brief(TopicPolicies(max_producer_per_topic=5), 20) == "1 setting"
    assert brief(TopicPolicies(replication_clusters=["a" * 90]), 80) == f"replication_clusters={'a' * 23}…"
    assert brief(TopicPolicies(), 80) == "no settings"


@pytest.mark.parametrize(("width", "height"), [(80, 4), (120, 6), (10_000, 6)])
def test_a_list_has_one_line_of_settings_for_each_document(width: int, height: int) -> None:
    console, printed = terminal(width)
    listed([document(demo_document()), document(None)], console)
    written = printed.getvalue().splitlines()
    assert len(written) == height
    assert max(map(len, written)) <= min(width, 200)
    (line,) = [line for line in written if "max_producer_per_topic=50" in line]
    assert line.rstrip(" │").endswith(" more")
    assert sum(TOPIC in line for line in written) == 2


@pytest.mark.parametrize("width", [80, 60])
def test_a_path_that_is_too_long_is_broken_only_between_words(width: int) -> None:
    settings = demo_document()
    written = shown(settings, width)
    assert max(map(len, written)) <= width
    words = {word for path, _ in lines(settings) for word in path}
    cells = [line.split("│")[1].strip() for line in written if line.startswith("│")]
    assert {part for cell in cells for part in cell.replace("`", "").split(".") if part} == words
    if width == 80:  # a common beginning is shown once
        heading = "subscription_policies.`client-63`.dispatch_rate"
        at = cells.index(heading)
        assert cells[at + 1 : at + 3] == [".dispatch_throttling_rate_in_byte", ".dispatch_throttling_rate_in_msg"]


def test_paths_that_fit_are_shown_on_one_line() -> None:
    settings = demo_document()
    written = shown(settings, 120)
    assert sum(format_path(path) in line for line in written for path, _ in lines(settings)) == len(list(lines(settings)))
    assert len(written) == len(list(lines(settings))) + 4


@given(policies(), st.integers(min_value=40, max_value=200))
def test_every_document_is_shown_within_the_width(settings: TopicPolicies, width: int) -> None:
    assert max(map(len, shown(settings, width))) <= width


@pytest.mark.parametrize("width", [80, 40, 20])
def test_wide_characters_leave_room_for_the_values(width: int) -> None:
    settings = TopicPolicies()
    settings.subscription_policies["\u65e5\u672c\u8a9e" * 6].dispatch_rate.dispatch_throttling_rate_in_msg = 12345
    written = shown(settings, width)
    assert all(cell_len(line) <= width for line in written)
    cells = [line.split("│") for line in written if line.startswith("│")]
    assert "12345" in "".join(cell[2].strip() for cell in cells)
    assert "\u65e5\u672c\u8a9e" * 6 in "".join(cell[1].strip() for cell in cells)


@given(st.integers(1, 30), st.integers(20, 100))
def test_the_short_form_with_wide_characters_fits(count: int, room: int) -> None:
    assert cell_len(brief(TopicPolicies(replication_clusters=["\u65e5" * count]), room)) <= room


def test_differences_fit_the_width_and_break_no_word() -> None:
    console, printed = terminal(80)
    console.print(show(between(TopicPolicies(max_producer_per_topic=1), demo_document(16)), console))
    written = printed.getvalue()
    assert max(map(len, written.splitlines())) <= 80
    for word in ("subscription_policies.`client-15`.dispatch_rate", ".dispatch_throttling_rate_in_msg", "retention_time_in_minutes"):
        assert word in written


@given(st.text("ab. ,\u65e5", max_size=40), st.integers(2, 20))
def test_a_broken_text_fits_and_loses_nothing(text: str, width: int) -> None:
    found = broken(text, width)
    assert all(cell_len(line) <= width for line in found)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")


def test_a_change_in_the_history_fits_the_terminal_and_its_lines_are_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, printed = terminal(80)
    monkeypatch.setattr(entries, "console", lambda: shown)
    entry = HistoryEntry(kind=history_pb2.HISTORY_KIND_UPDATE, outcome=history_pb2.HISTORY_OUTCOME_APPLIED)
    entry.origin.MergeFrom(ChangeOrigin(actor="somebody", actor_standing=events_pb2.ACTOR_STANDING_UNAUTHENTICATED))
    for document in (entry.document, entry.previous):
        document.topic, document.scope, document.version = "persistent://public/default/orders-of-all", SCOPE_LOCAL, "16"
    entry.document.policies.MergeFrom(demo_document(2))
    entries.show_entry(entry)
    told = printed.getvalue().splitlines()
    assert max(map(len, told)) <= 80
    assert [line for line in told if line != line.rstrip()] == []
    assert told[1:3] == ["  LOCAL  version 16", "  update  by somebody (not authenticated)"]
    assert told[3:] and all(line.startswith("    ") for line in told[3:])
    assert told[3] == "    created: max_producer_per_topic=50, max_subscriptions_per_topic=400,"

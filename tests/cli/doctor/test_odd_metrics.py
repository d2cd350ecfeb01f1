"""The doctor with a metrics address that shows no metrics of a server, or only some: checks without their metrics are not ok."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from topicpolicies_server.cli.doctor.metrics import metrics
from topicpolicies_server.metrics import web


@contextmanager
def showing(shown: str) -> Iterator[str]:
    """The address of an HTTP server that responds with this text."""
    made = web.Web("127.0.0.1", 0, lambda _, respond: web.text(respond, HTTPStatus.OK, shown))
    try:
        yield f"127.0.0.1:{made.port}"
    finally:
        made.close()


@pytest.mark.parametrize(
    ("shown", "verdicts"),
    [
        ("", ["failed", "skipped", "skipped", "skipped"]),
        ("pulsar_topics_count 3\n", ["failed", "skipped", "skipped", "skipped"]),
        ('topicpolicies_ready{a="b NaN}\n\x01 topicpolicies_x nan nan\n', ["ok", "skipped", "skipped", "skipped"]),
        ("topicpolicies_repairs_due 2\ntopicpolicies_repairs_paused 0\n", ["ok", "skipped", "ok", "skipped"]),
        ("topicpolicies_repairs_due 2\ntopicpolicies_repairs_paused 1\n", ["ok", "skipped", "warning", "skipped"]),
        ("topicpolicies_history_failing 0\ntopicpolicies_unread_seconds 2.5\n", ["ok", "skipped", "skipped", "ok"]),
        ("topicpolicies_history_failing 1\ntopicpolicies_unread_seconds 301\n", ["ok", "skipped", "skipped", "warning"]),
    ],
)
async def test_checks_whose_metrics_are_missing_are_failed_or_skipped(shown: str, verdicts: list[str]) -> None:
    with showing(shown) as address:
        found = [await check.run() for check in metrics(address, {})]
    assert [each.level.value for each in found] == verdicts

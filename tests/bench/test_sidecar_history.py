"""Changes that the auditor's watch has missed are read from the history: the same changes, documents and links."""

from __future__ import annotations

import pytest

from bench.harness.plan import Plan
from bench.harness.records import Record
from bench.harness.scenarios import SCENARIOS
from bench.harness.targets import sqlite
from bench.harness.watching import AUDITOR, Watcher
from bench.harness.worker import work

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _by_version(records: list[Record], kind: str) -> dict[tuple[str | None, str | None], tuple[object, ...]]:
    return {
        (each.topic, each.version): (each.previous, each.document, each.request_id, each.position)
        for each in records
        if each.kind == kind and each.client == AUDITOR and each.position
    }


def test_the_history_has_the_same_changes_as_the_auditors_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    drain = Watcher.drain

    def drain_as_after_a_reset(watcher: Watcher) -> None:
        watcher.was_reset = True
        drain(watcher)

    monkeypatch.setattr(Watcher, "drain", drain_as_after_a_reset)
    scenario = SCENARIOS["mixed"].scaled(600, 4, 1)
    with sqlite() as target:
        plan = Plan(target=target.kind, address=target.address, namespace=target.namespace, prefix="recalled", scenario=scenario, workers=1)
        records = work(plan, 0, lambda: None)
    changes = _by_version(records, "change")
    assert len(changes) > 100 and any(document is None for _, document, *_ in changes.values()), "there are deletions too"
    assert _by_version(records, "head") == changes

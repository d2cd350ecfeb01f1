"""Every interleaving of a few changes by a sidecar and a broker: each wrong head is of a kind that the fold cannot prevent."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.core.fold.exhaustive import Search
from topicpolicies_server.core.fold import fold
from topicpolicies_server.core.fold.inference import Inference
from topicpolicies_server.core.policies.documents import Document, differing


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """Disables the garbage collector: a search keeps every state, and a collection among a million of them took a quarter of its time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("chained", [True, False], ids=["4.2.4", "4.0.0"])
@pytest.mark.parametrize(("sidecar", "broker", "states"), [(2, 1, 30_000), (1, 2, 15_000)])
def test_every_interleaving_of_three_changes_keeps_the_promises(sidecar: int, broker: int, states: int, chained: bool) -> None:
    search = Search(sidecar, broker, chained=chained)
    counts = search.run()
    assert not search.wrong, search.wrong[0]
    assert counts["states"] > states
    assert counts["stale"] > 0 and counts["repairs"] > 0 and counts["wrong, it changed nothing"] > 0


def test_always_taking_the_newest_raw_document_as_the_base_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def newest(document: Document, live: Document | None, *_: object) -> Inference:
        return Inference(differing(live, document), live)

    monkeypatch.setattr(fold, "infer", newest)
    search = Search(1, 1, chained=True)
    search.run()
    assert "nothing acknowledged is undone" in search.wrong[0]


LATE = "a newcomer saw a late repair of what compaction had left"
EXCUSED = {"wrong, it changed nothing", "wrong, ambiguous", "wrong, a broker was more than W behind"}


@pytest.mark.parametrize(("sidecar", "broker", "states", "late"), [(0, 2, 10_000, 5), (1, 1, 300_000, 100)])
@pytest.mark.timeout(300)
def test_every_interleaving_with_a_compaction_a_newcomer_and_late_repairs_keeps_the_promises(
    sidecar: int, broker: int, states: int, late: int
) -> None:
    search = Search(sidecar, broker, chained=False, joins=True)
    counts = search.run()
    assert not search.wrong, search.wrong[0]
    assert counts["states"] > states and counts[LATE] > late
    assert {what for what in counts if what.startswith("wrong")} <= EXCUSED


@pytest.mark.evidence
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chained", [True, False], ids=["4.2.4", "4.0.0"])
def test_every_interleaving_of_four_changes_keeps_the_promises(chained: bool) -> None:
    search = Search(2, 2, chained=chained)
    counts = search.run()
    assert not search.wrong, search.wrong[0]
    assert counts["states"] > 400_000 and counts["wrong, ambiguous"] > 0

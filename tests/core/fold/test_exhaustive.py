"""Every interleaving of a few changes by a sidecar and a broker: whatever is wrong is of a kind that cannot be promised."""

from __future__ import annotations

import pytest

from tests.core.fold.model.exhaustive import Search


@pytest.mark.parametrize("chained", [True, False], ids=["4.2.4", "4.0.0"])
@pytest.mark.parametrize(("sidecar", "broker", "states"), [(2, 1, 30_000), (1, 2, 15_000)])
def test_every_interleaving_of_three_changes(sidecar: int, broker: int, states: int, chained: bool) -> None:
    search = Search(sidecar, broker, chained=chained)
    counts = search.run()
    assert not search.wrong, search.wrong[0]
    assert counts["states"] > states
    assert counts["stale"] > 0 and counts["repairs"] > 0 and counts["wrong, it changed nothing"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chained", [True, False], ids=["4.2.4", "4.0.0"])
def test_every_interleaving_of_four_changes(chained: bool) -> None:
    search = Search(2, 2, chained=chained)
    counts = search.run()
    assert not search.wrong, search.wrong[0]
    assert counts["states"] > 400_000 and counts["wrong, ambiguous"] > 0

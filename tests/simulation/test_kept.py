"""The simulation finds a checkpoint that breaks the promises of sidecars that start from it."""

from __future__ import annotations

import pytest

from topicpolicies_server.checkpoints.keeper import Copy, Keeper
from topicpolicies_server.logs import rows

from .report import verdict
from .run import run

pytestmark = pytest.mark.simulation

SEEDS = 60
"""The most seeds that are run."""


def test_a_checkpoint_whose_position_is_one_event_too_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Keeper.begin

    def began(keeper: Keeper) -> Copy | None:
        copy = begin(keeper)
        if copy is None or not copy.header.positions[0]:
            return copy
        further = rows.position_of(rows.row_of(copy.header.positions[0]) + 1)
        return copy._replace(header=copy.header._replace(positions=(further,), anchors=("",)))

    monkeypatch.setattr(Keeper, "begin", began)
    assert any(verdict(run("kept", seed)) for seed in range(SEEDS))

"""Checkpoints in random runs; and the simulation finds one that breaks the promises of sidecars that start from it."""

from __future__ import annotations

import io

import pytest

from tests.core.test_view_copy import content
from topicpolicies_server.checkpoints import Checkpoint
from topicpolicies_server.checkpoints.file import dump, load
from topicpolicies_server.logs.sqlite import file as rows
from topicpolicies_server.namespaces.follower import Follower

from . import kept as simulated
from .report import verdict
from .run import run

pytestmark = pytest.mark.simulation

SEEDS = 60
"""The most seeds that are run."""


def test_a_checkpoint_whose_position_is_one_event_too_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Follower.checkpoint

    def too_far(follower: Follower) -> Checkpoint | None:
        found = whole(follower)
        if found is None or not found.place.start.positions[0]:
            return found
        further = rows.position_of(rows.row_of(found.place.start.positions[0]) + 1)
        return found._replace(place=found.place._replace(start=found.place.start._replace(positions=(further,), anchors=("",))))

    monkeypatch.setattr(Follower, "checkpoint", too_far)
    assert any(verdict(run("kept", seed)) for seed in range(SEEDS))


@pytest.mark.parametrize("profile", ["kept", "kept-compacted"])
def test_what_is_stored_is_what_is_restored(monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    same: list[bool] = []

    def dumped(checkpoint: Checkpoint, file: io.BytesIO) -> None:
        dump(checkpoint, file)
        restored = load(io.BytesIO(file.getvalue()), checkpoint.namespace, checkpoint.context)
        same.append(content(restored.view.copy()) == content(checkpoint.view) and restored.place == checkpoint.place)

    monkeypatch.setattr(simulated, "dump", dumped)
    for seed in range(5):
        assert not verdict(run(profile, seed))
    assert all(same) and len(same) > 10

"""Runs rest long enough at the end for every sidecar to read what it has not read yet."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from tests.memory_log.ledgers import LedgeredNamespace
from topicpolicies_server.core.policies.events import Action, Event

from .faults import SimulatedFaults
from .loop import SimulatedLoop
from .profile import PROFILES
from .run import rest_seconds
from .world import NAMESPACE, World, policy_key

pytestmark = pytest.mark.simulation

_PROFILE = replace(PROFILES["compacted"], sidecars=1, late=0.0, not_handed_over=0.0, guard=True)
"""Its only sidecar keeps the namespace loaded."""
_LONGEST_SECONDS = 30
"""Longer than it takes until the pauses between two requests do not grow any more."""


def test_a_run_rests_longer_than_a_reader_needs_that_had_no_answer_for_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = [silent for silent in range(1, _LONGEST_SECONDS) if not has_read_everything(silent, monkeypatch)]
    assert behind == []


def has_read_everything(silent: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Returns whether a sidecar has read everything when a run has rested.

    Args:
        silent: for how many seconds before that no request about a gap is answered; the gap is compacted and trimmed meanwhile.
        monkeypatch: keeps the answers back.
    """

    async def main() -> bool:
        world = World(_PROFILE, random.Random(1))
        (sidecar,), stored = world.sidecars, world.stored
        assert isinstance(stored, LedgeredNamespace)
        answered = True

        def delay(faults: SimulatedFaults, namespace: str) -> float | None:
            return 0.001 if answered else None

        monkeypatch.setattr(SimulatedFaults, "question_delay", delay)
        event = Event(policy_key(world.keys[0]), Action.UPDATE, {})
        world.storage.write(NAMESPACE, event)
        sidecar.start()
        await asyncio.sleep(1)
        assert sidecar.ready
        answered = False
        stored.ledgers[0].roll()
        world.storage.write(NAMESPACE, event)
        stored.ledgers[0].roll()
        await asyncio.sleep(silent)
        world.storage.compact(NAMESPACE)
        stored.tell()
        stored.trim()
        answered = True
        assert not sidecar.has_read_what_is_compacted(NAMESPACE)
        await asyncio.sleep(rest_seconds(_PROFILE))
        return sidecar.has_read_what_is_compacted(NAMESPACE)

    return SimulatedLoop(random.Random(1)).run(main())

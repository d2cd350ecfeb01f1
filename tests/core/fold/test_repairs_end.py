"""Sidecars that remember different requests of one key exchange them by repairs, and then stop.

A repair that follows another one is from a sidecar that has seen more of the key, or that has seen as much and remembers more requests; a
repair carries at most ``REMEMBERED_REQUESTS``. So the number of repairs is bounded by the number of different beginnings that sidecars have
seen, whatever they remember, and however long their repairs are in flight.
"""

from __future__ import annotations

import random

import pytest

from tests.core.fold.script import KEY, TTL, Script
from topicpolicies_server.core.fold.fold import restatement
from topicpolicies_server.core.fold.keystate import REMEMBERED_REQUESTS
from topicpolicies_server.core.policies.events import Event, Position, Remembered

SIDECARS = 5
HEAD = "000040"
"""The version that all sidecars have."""
APPLIED = tuple(Remembered(f"request-{number}", "digest", f"{number:06d}", f"{number - 1:06d}") for number in range(1, 41))


def sidecar(chance: random.Random, since: Position) -> Script:
    """Returns a sidecar with the head and some requests before it; one that has not seen the beginning may have one that never came."""
    script = Script()
    script.update({TTL: b"1"}, event_id="newest", request_id="request-40", remembered=APPLIED[-1 - REMEMBERED_REQUESTS : -1])
    state = script.state
    state.version, state.since, state.upto = HEAD, since, HEAD
    known = [each for each in APPLIED[:-1] if chance.random() < chance.choice((0.1, 0.3, 0.9))]
    if since and chance.random() < 0.5:
        known.append(Remembered(f"never came {chance.random()}", "digest", "000039", "000038"))
    state.remembered = (*known[1 - REMEMBERED_REQUESTS :], APPLIED[-1])
    state.repair_due = True
    script.log = [placed._replace(position=HEAD) for placed in script.log] * int(HEAD)
    return script


@pytest.mark.parametrize("at_once", [False, True], ids=["one at a time", "on their way at once"])
@pytest.mark.parametrize("beginnings", [("",), ("", "000010"), ("", "000010", "000020"), ("000010", "000020")], ids=" ".join)
def test_sidecars_that_remember_different_requests_agree_after_few_repairs(beginnings: tuple[Position, ...], at_once: bool) -> None:
    most = 0
    bound = len(beginnings) * REMEMBERED_REQUESTS * (SIDECARS if at_once else 1)
    for seed in range(100):
        chance = random.Random(seed)
        sidecars = [sidecar(chance, beginnings[number % len(beginnings)]) for number in range(SIDECARS)]
        repairs, published = 0, list[Event]()
        while published or any(each.due() for each in sidecars):
            due = [each for each in sidecars if each.due()]
            if due and (not published or (at_once and len(published) < SIDECARS and chance.random() < 0.6)):
                published.append(restatement(KEY, chance.choice(due).state, f"repair-{seed}-{repairs}"))
                repairs += 1
                continue
            event = published.pop(0)
            for each in sidecars:
                each.put(event)
            assert repairs <= bound, "repairs do not loop"
        newest = sidecars[0].log[-1].event
        assert newest is not None and newest.stamp is not None
        remembered = {each.request_id for each in newest.stamp.remembered}
        assert beginnings[0] or remembered <= {each.request_id for each in APPLIED}, (
            "a sidecar that has seen everything does not take over a request that never arrived"
        )
        for each in sidecars:
            assert {request.request_id for request in each.state.remembered} == remembered, (
                "in the end all remember the requests of the newest event"
            )
            assert (each.document, each.version) == ({TTL: b"1"}, HEAD)
        most = max(most, repairs)
    assert most > 1

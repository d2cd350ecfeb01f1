"""The idlest of very many namespaces is found without looking at all of them each time."""

from __future__ import annotations

import random
from typing import cast

import pytest

from topicpolicies_server.namespaces.idlest import FEW, LOOK_SECONDS, Idlest
from topicpolicies_server.namespaces.namespace import Namespace

MANY = 4 * FEW


class One:
    """A fake of a namespace that is in use or idle. It counts how often ``busy`` is read."""

    looks = 0

    def __init__(self, name: str, last_used: float) -> None:
        self.name = name
        self.last_used = last_used
        self.used = False

    @property
    def busy(self) -> bool:
        One.looks += 1
        return self.used

    def idle_since(self) -> float:
        """Returns the time of its last use."""
        return self.last_used


class Some:
    """Loaded namespaces, and a clock."""

    def __init__(self, count: int) -> None:
        One.looks = 0
        self.time = 0.0
        self.loaded: dict[str, One] = {}
        self.idlest = Idlest(cast("dict[str, Namespace]", self.loaded), lambda: self.time)
        for number in range(count):
            self.load(f"acme/{number}")

    def load(self, name: str) -> One:
        """Loads a namespace, which is idle from then on."""
        self.time += 1.0
        one = self.loaded[name] = One(name, self.time)
        self.idlest.add(cast("Namespace", one))
        return one

    def close(self, spared: str = "") -> str | None:
        """Closes the idlest namespace; returns its name."""
        found = self.idlest.find(spared)
        if found is not None:
            del self.loaded[found.name]
        return found.name if found is not None else None


@pytest.mark.parametrize("count", [5, MANY])
def test_the_idlest_namespace_is_the_one_unused_for_the_longest_time(count: int) -> None:
    some, chance = Some(count), random.Random(count)
    for number in range(3 * count):
        for one in chance.sample(list(some.loaded.values()), 2):
            some.time += 1.0
            one.last_used = some.time
        oldest = min(some.loaded.values(), key=One.idle_since)
        second = min((one for one in some.loaded.values() if one is not oldest), key=One.idle_since)
        spares = chance.random() < 0.3
        assert some.close(oldest.name if spares else "") == (second if spares else oldest).name
        some.load(f"acme/new{number}")
    assert len(some.loaded) == count and len(some.idlest) <= 2 * count + FEW + 1


def test_consecutive_new_namespaces_cause_few_looks_at_others() -> None:
    some = Some(MANY)
    for number in range(MANY):
        assert some.close() is not None
        some.load(f"acme/new{number}")
    assert MANY <= One.looks <= 2 * MANY, "each namespace is looked at about once"


def test_if_all_of_many_namespaces_are_in_use_they_are_looked_at_only_from_time_to_time() -> None:
    some = Some(MANY)
    for one in some.loaded.values():
        one.used = True
    assert [some.close() for _ in range(100)] == [None] * 100
    assert One.looks == MANY, "each is looked at once for all searches"
    one = some.loaded["acme/7"]
    one.used, one.last_used = False, some.time
    some.time += 1.01 * MANY * LOOK_SECONDS
    assert some.close() == one.name and some.close() is None


def test_if_all_of_a_few_namespaces_are_in_use_one_that_becomes_idle_is_found_at_once() -> None:
    some = Some(3)
    for one in some.loaded.values():
        one.used = True
    assert some.close() is None
    some.loaded["acme/1"].used = False
    assert some.close(spared="acme/1") is None and some.close() == "acme/1"


def test_namespaces_that_were_closed_otherwise_are_forgotten() -> None:
    some = Some(3)
    for number in range(20 * FEW):
        del some.loaded[some.load(f"acme/new{number}").name]
    assert len(some.idlest) <= FEW + 10
    assert [some.close() for _ in range(4)] == ["acme/0", "acme/1", "acme/2", None]

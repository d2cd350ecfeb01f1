"""The idlest of very many namespaces is found without looking at all of them each time."""

from __future__ import annotations

import random
from typing import cast

import pytest

from topicpolicies_server.namespaces.idlest import FEW, LOOK_SECONDS, Idlest
from topicpolicies_server.namespaces.namespace import Namespace

MANY = 4 * FEW


class FakeNamespace:
    """A fake of a namespace that is in use or idle. It counts how often ``busy`` is read."""

    looks = 0

    def __init__(self, name: str, last_used: float) -> None:
        self.name = name
        self.last_used = last_used
        self.used = False

    @property
    def busy(self) -> bool:
        FakeNamespace.looks += 1
        return self.used

    def idle_since(self) -> float:
        """Returns the time of its last use."""
        return self.last_used


class Namespaces:
    """Loaded namespaces, and a clock."""

    def __init__(self, count: int) -> None:
        FakeNamespace.looks = 0
        self.time = 0.0
        self.loaded: dict[str, FakeNamespace] = {}
        self.idlest = Idlest(cast("dict[str, Namespace]", self.loaded), lambda: self.time)
        for number in range(count):
            self.load(f"acme/{number}")

    def load(self, name: str) -> FakeNamespace:
        """Loads a namespace, which is idle from then on."""
        self.time += 1.0
        one = self.loaded[name] = FakeNamespace(name, self.time)
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
    namespaces, chance = Namespaces(count), random.Random(count)
    for number in range(3 * count):
        for one in chance.sample(list(namespaces.loaded.values()), 2):
            namespaces.time += 1.0
            one.last_used = namespaces.time
        oldest = min(namespaces.loaded.values(), key=FakeNamespace.idle_since)
        second = min((one for one in namespaces.loaded.values() if one is not oldest), key=FakeNamespace.idle_since)
        spares = chance.random() < 0.3
        assert namespaces.close(oldest.name if spares else "") == (second if spares else oldest).name
        namespaces.load(f"acme/new{number}")
    assert len(namespaces.loaded) == count and len(namespaces.idlest) <= 2 * count + FEW + 1


def test_consecutive_new_namespaces_cause_few_looks_at_others() -> None:
    namespaces = Namespaces(MANY)
    for number in range(MANY):
        assert namespaces.close() is not None
        namespaces.load(f"acme/new{number}")
    assert MANY <= FakeNamespace.looks <= 2 * MANY, "each namespace is looked at about once"


def test_if_all_of_many_namespaces_are_in_use_they_are_looked_at_only_from_time_to_time() -> None:
    namespaces = Namespaces(MANY)
    for one in namespaces.loaded.values():
        one.used = True
    assert [namespaces.close() for _ in range(100)] == [None] * 100
    assert FakeNamespace.looks == MANY, "each is looked at once for all searches"
    one = namespaces.loaded["acme/7"]
    one.used, one.last_used = False, namespaces.time
    namespaces.time += 1.01 * MANY * LOOK_SECONDS
    assert namespaces.close() == one.name and namespaces.close() is None


def test_if_all_of_a_few_namespaces_are_in_use_one_that_becomes_idle_is_found_at_once() -> None:
    namespaces = Namespaces(3)
    for one in namespaces.loaded.values():
        one.used = True
    assert namespaces.close() is None
    namespaces.loaded["acme/1"].used = False
    assert namespaces.close(spared="acme/1") is None and namespaces.close() == "acme/1"


def test_namespaces_that_were_closed_otherwise_are_forgotten() -> None:
    namespaces = Namespaces(3)
    for number in range(20 * FEW):
        del namespaces.loaded[namespaces.load(f"acme/new{number}").name]
    assert len(namespaces.idlest) <= FEW + 10
    assert [namespaces.close() for _ in range(4)] == ["acme/0", "acme/1", "acme/2", None]

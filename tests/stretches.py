"""Which process runs which tests: each goes on where it is, so that not all of them wait, or compute, at the same time.

Groups (``xdist_group``) are given out first, in the order of the tests, each to one process. The other tests are cut into a stretch for
each process, which runs it from its beginning; one that has come to the end of its own takes half of the longest that is left. What the
tests of a module share is then made by one process, seldom by two; and a room whose tests wait is run beside rooms whose tests compute.
From one queue all processes took tests of the same room, and so waited together.

It is used for ``--dist=loadgroup``, in the place of pytest-xdist's own scheduler.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import pytest
from xdist.workermanage import parse_tx_spec_config

_AT_HAND = 3
"""A process begins a test when it knows the next one: this many, and it waits for nobody when it has run one."""


class Process(Protocol):
    """What xdist knows of a test process."""

    @property
    def shutting_down(self) -> bool:
        """Whether it was told to end."""

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Has it run tests, behind those that it was given before."""

    def shutdown(self) -> None:
        """Has it end when it has run what it was given."""


class Stretches:
    """Places from 0, in order, that several take from: each goes on behind the one that it has taken last, for as long as it can."""

    def __init__(self, count: int, takers: int) -> None:
        """Cuts.

        Args:
            count: how many places there are.
            takers: how many will take. There may be others in the end.
        """
        cuts = [count * number // takers for number in range(takers + 1)]
        self._unowned = deque(filter(None, (range(*ends) for ends in pairwise(cuts))))
        self._owned: dict[object, range] = {}

    def __bool__(self) -> bool:
        """Whether any place is left."""
        return any(self._unowned) or any(self._owned.values())

    def take(self, taker: object) -> int:
        """One more place for somebody.

        Raises:
            IndexError: none is left.
        """
        mine = self._owned.get(taker) or (self._unowned.popleft() if self._unowned else self._half())
        self._owned[taker] = mine[1:]
        return mine[0]

    def _half(self) -> range:
        """The second half of the longest stretch, which is cut off."""
        owner, longest = max(self._owned.items(), key=lambda each: len(each[1]))
        middle = len(longest) // 2
        self._owned[owner] = longest[:middle]
        return longest[middle:]


class Scheduler:
    """Gives tests to processes; what xdist asks a scheduler for (``xdist.scheduler.Scheduling``)."""

    def __init__(self, processes: int) -> None:
        """Nobody has come yet.

        Args:
            processes: how many have to have collected the tests before any test is given out.
        """
        self._processes = processes
        self._collected = 0
        self._tests: list[str] | None = None
        self._together: deque[list[int]] = deque()
        self._singles: list[int] = []
        self._stretches: Stretches | None = None
        self._given: dict[Process, dict[int, None]] = {}
        """Which tests each process has not run yet, in their order."""

    @property
    def nodes(self) -> list[Process]:
        """Those who are there."""
        return list(self._given)

    @property
    def collection_is_completed(self) -> bool:
        """Whether as many as were to come have collected."""
        return self._collected >= self._processes

    @property
    def tests_finished(self) -> bool:
        """Whether all tests were given out, and no process has more than the one that it can't run without knowing that none follows."""
        return self.collection_is_completed and not self._is_any_left() and all(len(given) < 2 for given in self._given.values())

    @property
    def has_pending(self) -> bool:
        """Whether any test was not run yet."""
        return self._is_any_left() or any(self._given.values())

    def add_node(self, node: Process) -> None:
        """Somebody is there, and begins to collect."""
        self._given[node] = {}

    def add_node_collection(self, node: Process, collection: Sequence[str]) -> None:
        """Somebody has collected.

        Raises:
            pytest.UsageError: other tests than another one, or in another order.
        """
        self._collected += 1
        self._tests = self._tests or list(collection)
        if self._tests != list(collection):
            odd = sorted(set(self._tests) ^ set(collection)) or ["none, but in another order"]
            raise pytest.UsageError(f"two test processes have collected different tests: {', '.join(odd[:5])}")

    def schedule(self) -> None:
        """Gives out the first tests when all have collected, and some to whoever comes later."""
        if self._stretches is None:
            self._cut(self._tests or [])
        for count in range(1, _AT_HAND + 1):
            for node in self.nodes:
                self._supply(node, count)

    def mark_test_complete(self, node: Process, item_index: int, duration: float = 0) -> None:
        """Somebody has run a test, and gets another."""
        del self._given[node][item_index]
        self._supply(node)

    def remove_node(self, node: Process) -> str | None:
        """Somebody has ended: in the middle of a test, which is returned, if he has not run all. What he has not begun others run."""
        given = list(self._given.pop(node))
        if not given or self._tests is None:
            return None
        if given[1:]:
            self._together.appendleft(given[1:])
        for other in self.nodes:
            self._supply(other)
        return self._tests[given[0]]

    def mark_test_pending(self, item: str) -> None:
        """Nobody asks for this."""
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: Process, indices: Sequence[int]) -> None:
        """Nobody is asked to give tests back."""
        raise NotImplementedError

    def _cut(self, tests: list[str]) -> None:
        groups: dict[str, list[int]] = {}
        for index, name in enumerate(tests):
            if group := group_of(name):
                groups.setdefault(group, []).append(index)
            else:
                self._singles.append(index)
        self._together.extend(groups.values())
        self._stretches = Stretches(len(self._singles), self._processes)

    def _is_any_left(self) -> bool:
        return bool(self._together) or bool(self._stretches)

    def _supply(self, node: Process, count: int = _AT_HAND) -> None:
        """Gives somebody tests until he has so many, or tells him that there are none."""
        if node.shutting_down:
            return
        given = self._given[node]
        while len(given) < count and self._is_any_left():
            tests = self._next(node)
            given.update(dict.fromkeys(tests))
            node.send_runtest_some(tests)
        if not self._is_any_left():
            node.shutdown()

    def _next(self, node: Process) -> list[int]:
        if self._together:
            return self._together.popleft()
        assert self._stretches is not None
        return [self._singles[self._stretches.take(node)]]


def group_of(name: str) -> str:
    """The group that xdist has written behind a test's name, or nothing."""
    at = name.rfind("@")
    return name[at + 1 :] if at > name.rfind("]") else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Scheduler | None:
    """Takes the place of xdist's own."""
    return Scheduler(len(parse_tx_spec_config(config))) if config.getoption("dist") == "loadgroup" else None

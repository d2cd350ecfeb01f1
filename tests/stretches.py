"""Distributes tests over processes: each process runs consecutive tests, so that not all of them wait, or compute, at the same time.

Groups (``xdist_group``) are assigned first, in the order of the tests, each to one process. The other tests are cut into one stretch per
process, which runs it from its beginning; a process at the end of its stretch takes half of the longest one that is left. So what the tests
of a module share is made by one process, seldom by two, and a room whose tests wait is run at the same time as rooms whose tests compute.
With one queue, all processes took tests of the same room, and so waited at the same time.

This scheduler is used for ``--dist=loadgroup``, in place of pytest-xdist's own.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import pytest
from xdist.workermanage import parse_tx_spec_config

_AT_HAND = 3
"""How many tests a process has in advance. It runs a test only when it knows the next one, so with this many it need not wait."""


class Process(Protocol):
    """A test process, as xdist represents it."""

    @property
    def shutting_down(self) -> bool:
        """Whether it was asked to end."""

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Makes it run tests, after those that it was given before."""

    def shutdown(self) -> None:
        """Makes it end when it has run its tests."""


class Stretches:
    """Numbers from 0 that several takers take: each taker gets the number after its last one, as long as that is possible."""

    def __init__(self, count: int, takers: int) -> None:
        """Cuts the numbers into stretches.

        Args:
            count: how many numbers there are.
            takers: how many takers are expected. Others may come later.
        """
        cuts = [count * number // takers for number in range(takers + 1)]
        self._unowned = deque(filter(None, (range(*ends) for ends in pairwise(cuts))))
        self._owned: dict[object, range] = {}

    def __bool__(self) -> bool:
        """Whether a number is left."""
        return any(self._unowned) or any(self._owned.values())

    def take(self, taker: object) -> int:
        """Returns the next number for a taker.

        Raises:
            IndexError: no number is left.
        """
        mine = self._owned.get(taker) or (self._unowned.popleft() if self._unowned else self._half())
        self._owned[taker] = mine[1:]
        return mine[0]

    def _half(self) -> range:
        """Cuts off and returns the second half of the longest stretch."""
        owner, longest = max(self._owned.items(), key=lambda each: len(each[1]))
        middle = len(longest) // 2
        self._owned[owner] = longest[:middle]
        return longest[middle:]


class Scheduler:
    """Assigns tests to processes, with xdist's interface of schedulers (``xdist.scheduler.Scheduling``)."""

    def __init__(self, processes: int) -> None:
        """Has no processes yet.

        Args:
            processes: how many processes must have collected the tests before the first test is assigned.
        """
        self._processes = processes
        self._collected = 0
        self._tests: list[str] | None = None
        self._together: deque[list[int]] = deque()
        self._singles: list[int] = []
        self._stretches: Stretches | None = None
        self._given: dict[Process, dict[int, None]] = {}
        """The tests that each process was given and has not run yet, in order."""

    @property
    def nodes(self) -> list[Process]:
        """The present processes."""
        return list(self._given)

    @property
    def collection_is_completed(self) -> bool:
        """Whether all expected processes have collected the tests."""
        return self._collected >= self._processes

    @property
    def tests_finished(self) -> bool:
        """Whether all tests were assigned, and no process has more than one left, which it runs when it learns that none follows."""
        return self.collection_is_completed and not self._is_any_left() and all(len(given) < 2 for given in self._given.values())

    @property
    def has_pending(self) -> bool:
        """Whether a test was not run yet."""
        return self._is_any_left() or any(self._given.values())

    def add_node(self, node: Process) -> None:
        """Adds a process, which begins to collect."""
        self._given[node] = {}

    def add_node_collection(self, node: Process, collection: Sequence[str]) -> None:
        """Notes that a process has collected.

        Raises:
            pytest.UsageError: another process has collected other tests, or another order.
        """
        self._collected += 1
        self._tests = self._tests or list(collection)
        if self._tests != list(collection):
            odd = sorted(set(self._tests) ^ set(collection)) or ["none, but in another order"]
            raise pytest.UsageError(f"two test processes have collected different tests: {', '.join(odd[:5])}")

    def schedule(self) -> None:
        """Assigns the first tests when all processes have collected, and later some to each new process."""
        if self._stretches is None:
            self._cut(self._tests or [])
        for count in range(1, _AT_HAND + 1):
            for node in self.nodes:
                self._supply(node, count)

    def mark_test_complete(self, node: Process, item_index: int, duration: float = 0) -> None:
        """Notes that a process has run a test, and assigns another one to it."""
        del self._given[node][item_index]
        self._supply(node)

    def remove_node(self, node: Process) -> str | None:
        """Removes a process that has ended, assigns the tests that it has not begun to others, and returns the test that it was running."""
        given = list(self._given.pop(node))
        if not given or self._tests is None:
            return None
        if given[1:]:
            self._together.appendleft(given[1:])
        for other in self.nodes:
            self._supply(other)
        return self._tests[given[0]]

    def mark_test_pending(self, item: str) -> None:
        """Not used by xdist for this scheduler."""
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: Process, indices: Sequence[int]) -> None:
        """Not used: no process gives tests back."""
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
        """Assigns tests to a process until it has ``count``; makes it end if no test is left."""
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
    """Returns the group that xdist has appended to a test's name; "" if there is none."""
    at = name.rfind("@")
    return name[at + 1 :] if at > name.rfind("]") else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Scheduler | None:
    """Returns this scheduler in place of xdist's own."""
    return Scheduler(len(parse_tx_spec_config(config))) if config.getoption("dist") == "loadgroup" else None

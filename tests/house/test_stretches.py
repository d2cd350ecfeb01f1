"""The distribution of tests over processes: each group runs in one process, and a process without tests takes over a part of others'."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from tests.stretches import Scheduler, Stretches, group_of

_SINGLES = [f"tests/test_it.py::test_one[{number}]" for number in range(100)]
_GROUPS = [f"tests/test_it.py::test_{name}[{number}]@{name}" for name, size in (("many", 20), ("two", 2)) for number in range(size)]
_TESTS = [*_GROUPS, *_SINGLES]


class _Process:
    """A fake of xdist's test process, which runs a test only when it knows the next one, or that there is none."""

    def __init__(self) -> None:
        self.shutting_down = False
        self.given: list[int] = []
        self.ran: list[int] = []

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down
        self.given.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.given) > (0 if self.shutting_down else 1)

    def run_one(self) -> int:
        test = self.given.pop(0)
        self.ran.append(test)
        return test


def _started(count: int, tests: list[str]) -> tuple[Scheduler, list[_Process]]:
    scheduler = Scheduler(count)
    processes = [_Process() for _ in range(count)]
    for process in processes:
        scheduler.add_node(process)
        assert not scheduler.collection_is_completed
        scheduler.add_node_collection(process, tests)
    assert scheduler.collection_is_completed
    scheduler.schedule()
    return scheduler, processes


def _run(scheduler: Scheduler, choose: Callable[[list[_Process]], _Process]) -> None:
    """Runs all tests, one at a time."""
    while able := [each for each in scheduler.nodes if isinstance(each, _Process) and each.can_run]:
        assert scheduler.has_pending
        process = choose(able)
        scheduler.mark_test_complete(process, process.run_one())
    assert scheduler.tests_finished
    assert not scheduler.has_pending


@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("tests", [_TESTS, _SINGLES, _GROUPS, _TESTS[:1], _SINGLES[:4], []], ids=len)
def test_each_test_runs_once_whatever_the_speeds_of_the_processes(count: int, tests: list[str]) -> None:
    for seed in range(5):
        scheduler, processes = _started(count, tests)
        chance = random.Random(seed)
        speeds = {process: chance.random() ** 3 for process in processes}

        def faster(able: list[_Process], chance: random.Random = chance, speeds: dict[_Process, float] = speeds) -> _Process:
            return chance.choices(able, [speeds[each] for each in able])[0]

        _run(scheduler, faster)
        assert all(process.shutting_down for process in processes)
        assert sorted(test for process in processes for test in process.ran) == list(range(len(tests)))
        for group in {group_of(test) for test in tests} - {""}:
            assert sum(any(group_of(tests[test]) == group for test in process.ran) for process in processes) == 1


def test_groups_are_assigned_first_and_in_their_order() -> None:
    _, processes = _started(3, _TESTS)
    assert [_TESTS[process.given[0]] for process in processes] == [_GROUPS[0], _GROUPS[20], _SINGLES[0]]


def test_a_process_mostly_runs_consecutive_tests() -> None:
    scheduler, processes = _started(4, _SINGLES)
    _run(scheduler, random.Random(1).choice)
    parts = [1 + sum(then != now + 1 for now, then in pairwise(process.ran)) for process in processes]
    assert sum(parts) <= 4 * 6, "half of a stretch is taken each time, so this is rare"


def test_a_fast_process_takes_over_the_tests_of_a_slow_one() -> None:
    scheduler, processes = _started(2, _SINGLES)
    slow, fast = processes
    _run(scheduler, lambda able: fast if fast in able else slow)
    assert len(slow.ran) <= 3, "only the tests that it had in advance"
    assert len(fast.ran) >= 97


def test_tests_of_an_ended_process_run_elsewhere_except_the_one_at_which_it_ended() -> None:
    scheduler, (first, second) = _started(2, _TESTS)
    scheduler.mark_test_complete(first, first.run_one())
    assert scheduler.remove_node(first) == _TESTS[1]
    late = _Process()
    scheduler.add_node(late)
    scheduler.add_node_collection(late, _TESTS)
    scheduler.schedule()
    _run(scheduler, lambda able: able[-1])
    assert sorted([*first.ran, *second.ran, *late.ran]) == [0, *range(2, len(_TESTS))]
    assert scheduler.remove_node(second) is None


def test_a_run_ends_with_an_error_if_processes_collect_different_tests() -> None:
    scheduler = Scheduler(2)
    process, other = _Process(), _Process()
    scheduler.add_node(process)
    scheduler.add_node(other)
    scheduler.add_node_collection(process, _SINGLES)
    with pytest.raises(pytest.UsageError, match=r"different tests: tests/test_it.py::test_one\[99\]"):
        scheduler.add_node_collection(other, _SINGLES[:99])
    with pytest.raises(pytest.UsageError, match="in another order"):
        scheduler.add_node_collection(other, _SINGLES[::-1])


def test_each_number_is_taken_once_whichever_takers_come() -> None:
    for count in range(30):
        for takers in range(1, 6):
            stretches = Stretches(count, takers)
            chance = random.Random(count)
            taken = []
            while stretches:
                taken.append(stretches.take(chance.randrange(takers + 1)))
            assert sorted(taken) == list(range(count))


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("test_a.py::test_b", ""),
        ("test_a.py::test_b[x@y]", ""),
        ("test_a.py::test_b[x@y]@z", "z"),
        ("test_a.py::test_b@two words", "two words"),
    ],
)
def test_the_group_is_read_from_the_name_of_a_test(name: str, group: str) -> None:
    assert group_of(name) == group


def test_the_scheduler_is_registered_as_a_plugin(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("tests.stretches")

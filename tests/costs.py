"""What tests cost: processor time and time by room, printed at the end of a run.

``pytest --costs`` prints the table, with or without xdist; ``dev.py`` asks for it. A room is a folder below ``tests``. Processor time is
that of the test process and of the processes that it started and that ended with the test; brokers and other servers that serve a whole
session outlive the tests and are in no row.
"""

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

_KEY = "costs"


@dataclass
class _Cost:
    """What one phase of a test took, in seconds, or the sum of many."""

    tests: int = 0
    elapsed: float = 0.0
    own: float = 0.0
    children: float = 0.0


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Meter:
    """Measures each phase of each test; the report carries it, also from another process."""

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self._phase = (0.0, 0.0)

    def _measured(self) -> Iterator[None]:
        own, children = time.process_time(), _children()
        yield
        self._phase = (time.process_time() - own, _children() - children)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Measures what fixtures take."""
        yield from self._measured()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Measures the test itself."""
        yield from self._measured()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Measures what fixtures take to end."""
        yield from self._measured()

    @pytest.hookimpl(tryfirst=True, wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Hands the figures to the report."""
        report: pytest.TestReport = yield  # type: ignore[assignment]
        report.user_properties = [*report.user_properties, (_KEY, list(self._phase))]
        return report  # type: ignore[return-value]


class Table:
    """Sums the reports up and prints them."""

    def __init__(self) -> None:
        """No test has run yet."""
        self._rooms: dict[str, _Cost] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds one phase of one test to its room."""
        parts = report.nodeid.split("::")[0].split("/")
        cost = self._rooms.setdefault(parts[1] if len(parts) > 2 else "-", _Cost())
        cost.tests += report.when == "call"
        cost.elapsed += report.duration
        for own, children in (value for key, value in report.user_properties[-1:] if key == _KEY and isinstance(value, list)):
            cost.own += own
            cost.children += children

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints one line a room, the dearest first."""
        total = _Cost()
        terminalreporter.section("costs in seconds")
        terminalreporter.line(f"{'room':<14}{'tests':>7}{'time':>9}{'own cpu':>10}{'children':>10}")
        for name, cost in sorted(self._rooms.items(), key=lambda item: -item[1].elapsed):
            _line(terminalreporter, name, cost)
            total = _Cost(total.tests + cost.tests, total.elapsed + cost.elapsed, total.own + cost.own, total.children + cost.children)
        _line(terminalreporter, "all", total)


def _line(reporter: pytest.TerminalReporter, name: str, cost: _Cost) -> None:
    reporter.line(f"{name:<14}{cost.tests:>7}{cost.elapsed:>9.1f}{cost.own:>10.1f}{cost.children:>10.1f}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes ``--costs`` an option."""
    parser.addoption("--costs", action="store_true", help="print what the tests of each room cost, at the end")


def pytest_configure(config: pytest.Config) -> None:
    """Measures where tests run, and sums up where reports come together."""
    if not config.getoption("--costs"):
        return
    worker = hasattr(config, "workerinput")
    if worker or not config.getoption("numprocesses", default=None):
        config.pluginmanager.register(Meter())
    if not worker:
        config.pluginmanager.register(Table())

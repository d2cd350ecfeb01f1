"""The costs of tests: processor time and time by room, and of the most expensive modules, printed at the end of a run.

``pytest --costs`` prints the tables, with or without xdist; ``dev.py`` uses the option. A room is a folder below ``tests``. Processor time
is that of the test process and of the processes that it started and that ended with the test; brokers and other servers that serve a whole
session outlive the tests and are in no row.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

_KEY = "costs"
_MODULES = 25
"""How many modules are printed."""


@dataclass
class _Cost:
    """The times of one phase of a test, in seconds, or the sum of many."""

    tests: int = 0
    elapsed: float = 0.0
    own: float = 0.0
    children: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Adds one phase of one test."""
        self.tests += report.when == "call"
        self.elapsed += report.duration
        for own, children in (value for key, value in report.user_properties[-1:] if key == _KEY and isinstance(value, list)):
            self.own += own
            self.children += children


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Meter:
    """Measures each phase of each test; the report carries the times, also from another process."""

    def __init__(self) -> None:
        """Has measured nothing yet."""
        self._phase = (0.0, 0.0)

    def _measured(self) -> Iterator[None]:
        own, children = time.process_time(), _children()
        yield
        self._phase = (time.process_time() - own, _children() - children)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Measures the setup of fixtures."""
        yield from self._measured()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Measures the test itself."""
        yield from self._measured()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Measures the teardown of fixtures."""
        yield from self._measured()

    @pytest.hookimpl(tryfirst=True, wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Adds the times to the report."""
        report: pytest.TestReport = yield  # type: ignore[assignment]
        report.user_properties = [*report.user_properties, (_KEY, list(self._phase))]
        return report  # type: ignore[return-value]


class Tables:
    """Adds up the times of the reports, and prints them."""

    def __init__(self) -> None:
        """Has no reports yet."""
        self._rooms: dict[str, _Cost] = {}
        self._modules: dict[str, _Cost] = {}
        self._all = _Cost()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds one phase of one test to its room and its module."""
        module = report.nodeid.split("::")[0].removeprefix("tests/")
        room = module.partition("/")[0] if "/" in module else "-"
        for cost in (self._rooms.setdefault(room, _Cost()), self._modules.setdefault(module, _Cost()), self._all):
            cost.add(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints one line per room, the longest first, and one for each of the modules with the most processor time."""
        terminalreporter.section("costs in seconds")
        rooms = sorted(self._rooms.items(), key=lambda item: -item[1].elapsed)
        _print(terminalreporter, "room", [*rooms, ("all", self._all)])
        modules = sorted(self._modules.items(), key=lambda item: -(item[1].own + item[1].children))
        _print(terminalreporter, "module", modules[:_MODULES])


def _print(reporter: pytest.TerminalReporter, heading: str, rows: Sequence[tuple[str, _Cost]]) -> None:
    width = max(len(name) for name, _ in [(heading, None), *rows])
    reporter.line(f"{heading:<{width}}{'tests':>7}{'time':>9}{'own cpu':>10}{'children':>10}")
    for name, cost in rows:
        reporter.line(f"{name:<{width}}{cost.tests:>7}{cost.elapsed:>9.1f}{cost.own:>10.1f}{cost.children:>10.1f}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes ``--costs`` an option."""
    parser.addoption("--costs", action="store_true", help="print what the tests of each room and of the dearest modules cost, at the end")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the meter in processes that run tests, and the tables in the controlling process."""
    if not config.getoption("--costs"):
        return
    worker = hasattr(config, "workerinput")
    if worker or not config.getoption("numprocesses", default=None):
        config.pluginmanager.register(Meter())
    if not worker:
        config.pluginmanager.register(Tables())

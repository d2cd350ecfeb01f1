"""Brokers that compact all the time: with ``pytest --compact-every 1`` every broker of the run looks each second for logs to compact.

Otherwise brokers look once a minute, and tests that read a log themselves have it compacted on request only. The option overrides the
settings of tests and the policies of namespaces, except for tests that are marked ``stages_compaction``, whose results depend on the time
of one compaction. The number of compactions is reported at the end, and a run with brokers but without a compaction fails.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

_OPTION = "--compact-every"
_KEY = "compactions"
_DONE = "Commencing phase two of compaction"

_seconds: list[int] = []
_staged = False
"""Whether the present test is marked ``stages_compaction``."""
_counts: dict[Path, int] = {}


def forced() -> bool:
    """Whether brokers compact all the time in this run."""
    return bool(_seconds)


def exempt() -> bool:
    """Whether the namespaces of the present test may be compacted on request only."""
    return _staged or not forced()


def settings() -> Mapping[str, str]:
    """Returns lines of ``standalone.conf`` that override all others."""
    return {"brokerServiceCompactionMonitorIntervalInSeconds": str(_seconds[0])} if _seconds else {}


def count(log: Path) -> None:
    """Counts the compactions in the log of a broker that is closed."""
    if _seconds and log.exists():
        with log.open(errors="replace") as lines:
            _counts[log] = sum(_DONE in line for line in lines)


class _Sum:
    """Adds up the counts of a run's processes."""

    def __init__(self) -> None:
        self.brokers = self.compactions = 0

    def add(self, counts: list[int]) -> None:
        self.brokers += len(counts)
        self.compactions += sum(counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.add(getattr(node, "workeroutput", {}).get(_KEY, []))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.add(list(_counts.values()))
        if self.brokers and not self.compactions and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("compactions")
        terminalreporter.line(f"{self.compactions:,} compactions by {self.brokers} brokers")


class _Reporter:
    """Passes the counts of a test process to the controlling process."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.config.workeroutput[_KEY] = list(_counts.values())  # type: ignore[attr-defined]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes ``--compact-every`` an option."""
    parser.addoption(_OPTION, type=int, metavar="SECONDS", help="have all brokers compact all change logs again and again")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Notes whether the test is marked ``stages_compaction``, before its fixtures create namespaces."""
    global _staged  # noqa: PLW0603 (tests run one after the other)
    _staged = item.get_closest_marker("stages_compaction") is not None


def pytest_configure(config: pytest.Config) -> None:
    """Applies the option."""
    if seconds := config.getoption(_OPTION):
        _seconds[:] = [seconds]
        config.pluginmanager.register(_Reporter() if hasattr(config, "workerinput") else _Sum())

"""Brokers that compact all the time: ``pytest --compact-every 1`` has every broker of the run look each second for logs to compact.

Brokers look once a minute otherwise, and tests that read a log themselves have it compacted on request only. With the option no setting of
a test counts, and no policy of a namespace, but for tests that are marked ``stages_compaction``: what they show depends on the moment of
one compaction. How many compactions there were is told at the end, and a run with brokers in which there was none has failed.
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
"""Whether the test that runs now is about one compaction."""
_counts: dict[Path, int] = {}


def forced() -> bool:
    """Whether brokers compact all the time."""
    return bool(_seconds)


def exempt() -> bool:
    """Whether the namespaces of the test that runs now may be compacted on request only."""
    return _staged or not forced()


def settings() -> Mapping[str, str]:
    """Lines of ``standalone.conf`` that win over all others."""
    return {"brokerServiceCompactionMonitorIntervalInSeconds": str(_seconds[0])} if _seconds else {}


def count(log: Path) -> None:
    """Counts the compactions that the log of a broker tells of; called when the broker is closed."""
    if _seconds and log.exists():
        with log.open(errors="replace") as lines:
            _counts[log] = sum(_DONE in line for line in lines)


class _Sum:
    """Adds up what the processes of a run counted."""

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


class _Teller:
    """Hands the counts of one process to the process that runs them all."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.config.workeroutput[_KEY] = list(_counts.values())  # type: ignore[attr-defined]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes ``--compact-every`` an option."""
    parser.addoption(_OPTION, type=int, metavar="SECONDS", help="have all brokers compact all change logs again and again")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Looks whether the test is about one compaction, before its fixtures make namespaces."""
    global _staged  # noqa: PLW0603 (tests run one after the other)
    _staged = item.get_closest_marker("stages_compaction") is not None


def pytest_configure(config: pytest.Config) -> None:
    """Takes the option."""
    if seconds := config.getoption(_OPTION):
        _seconds[:] = [seconds]
        config.pluginmanager.register(_Teller() if hasattr(config, "workerinput") else _Sum())

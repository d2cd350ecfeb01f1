"""The order of tests: groups that share one process come first, those with brokers before the others.

A group (``xdist_group``) is assigned to one process as a whole: what its tests share, such as a broker with other settings or of an older
version, is then started once, not by each process. If a long group began last, all other processes would wait for its end. Within a group,
and outside of groups, tests have the order of their files.

pytest-xdist appends the group to a test's name (``test_it.py::test_one@group``). pytest does not know such a name when it collects tests,
so ``--lf`` would not find the failed tests of the last run. So the controlling process removes the group from the names in reports.

Some versions of pytest and pytest-xdist do not keep groups together. A run with them would only be slow, so it is refused.
"""

import pytest

from tests.stretches import group_of


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("xdist_group") is None:
        return 2
    return 0 if item.get_closest_marker("broker") else 1


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker if pytest-xdist, which declares it otherwise, is not there; all tests run in one process then."""
    if not config.pluginmanager.has_plugin("xdist"):
        config.addinivalue_line("markers", "xdist_group: tests of one group share a process")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the tests, with a stable sort. Marks tests of groups as failed if ``--lf`` knows them by their names without group."""
    items.sort(key=_rank)
    failed = getattr(config.pluginmanager.getplugin("lfplugin"), "lastfailed", {})
    failed.update({item.nodeid: True for item in items if without_group(item.nodeid) in failed})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Removes the group from the name of a test if the report is another process's."""
    if hasattr(report, "node"):
        report.nodeid = without_group(report.nodeid)


def without_group(name: str) -> str:
    """Returns a test's name without the group that xdist appends."""
    group = group_of(name)
    return name.removesuffix(f"@{group}") if group else name


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses to run if groups would be divided among processes."""
    if session.config.getoption("loadgroup", default=False):
        refuse_if_split(session.items)


def refuse_if_split(items: list[pytest.Item]) -> None:
    """Checks that the names of tests have their groups, which xdist reads from them.

    Raises:
        pytest.UsageError: a name does not have its group.
    """
    lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") is not None and "@" not in item.nodeid]
    if lost:
        raise pytest.UsageError(f"this pytest-xdist gives tests of one group to several processes: it does not read the group of {lost[0]}")

"""The order of tests: groups that share one process come first, those with brokers before the others.

A group (``xdist_group``) is given to one process as a whole: what its tests share, such as a broker with settings of its own or of an older
version, is then started once, and not by each process. A long group that begins last leaves all other processes waiting for its end.
The order of the tests of one group, and of all others, is that of their files.

pytest-xdist writes the group behind a test's name (``test_it.py::test_one@group``). Nobody who runs tests knows that name, nor does pytest
where it collects them: what failed in one run would not be found again by ``--lf`` in the next. So it is taken off where reports come
together.

Whether groups are kept depends on how pytest and pytest-xdist fit together. Where they do not, a run would only be slow, so it is refused.
"""

import pytest

from tests.stretches import group_of


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("xdist_group") is None:
        return 2
    return 0 if item.get_closest_marker("broker") else 1


def pytest_configure(config: pytest.Config) -> None:
    """Without pytest-xdist, which declares the mark, all tests are one process's."""
    if not config.pluginmanager.has_plugin("xdist"):
        config.addinivalue_line("markers", "xdist_group: tests of one group share a process")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the tests; the sort is stable. Those of groups have failed before if they did without the group's name."""
    items.sort(key=_rank)
    failed = getattr(config.pluginmanager.getplugin("lfplugin"), "lastfailed", {})
    failed.update({item.nodeid: True for item in items if without_group(item.nodeid) in failed})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Takes the group off, where the report is another process's."""
    if hasattr(report, "node"):
        report.nodeid = without_group(report.nodeid)


def without_group(name: str) -> str:
    """A test's name, without the group that xdist has written behind it."""
    group = group_of(name)
    return name.removesuffix(f"@{group}") if group else name


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses to run where groups would be given to several processes."""
    if session.config.getoption("loadgroup", default=False):
        refuse_if_split(session.items)


def refuse_if_split(items: list[pytest.Item]) -> None:
    """Looks whether xdist can tell from the names of tests to which groups they belong.

    Raises:
        pytest.UsageError: it can't.
    """
    lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") is not None and "@" not in item.nodeid]
    if lost:
        raise pytest.UsageError(f"this pytest-xdist gives tests of one group to several processes: it does not read the group of {lost[0]}")

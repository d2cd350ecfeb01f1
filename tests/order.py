"""The order of tests: groups that share one process come first, those with brokers before the others.

A group (``xdist_group``) is given to one process as a whole: what its tests share, such as a broker with settings of its own or of an older
version, is then started once, and not by each process. A long group that begins last leaves all other processes waiting for its end.
The order of the tests of one group, and of all others, is that of their files.
"""

import pytest


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("xdist_group") is None:
        return 2
    return 0 if item.get_closest_marker("broker") else 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the tests; the sort is stable."""
    items.sort(key=_rank)

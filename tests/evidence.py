"""Evidence by repetition: more seeds and histories of what other tests promise already.

What is marked ``evidence`` brings no promise of its own: a test beside it promises the same of the first seeds, and runs with all others.
``dev.py evidence`` runs these alone, in parts that test processes share, and ``--parts`` says how many: part 0 goes on where the first
seeds end, and each further part is as many seeds again.
"""

import pytest

_OPTION = "--parts"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes ``--parts`` an option."""
    parser.addoption(_OPTION, type=int, default=1, help="how many parts of what is marked `evidence` are run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that is marked takes a ``part``, and runs once for each."""
    if metafunc.definition.get_closest_marker("evidence"):
        metafunc.parametrize("part", range(metafunc.config.getoption(_OPTION)))


def seeds_of(part: int, first: int, size: int) -> range:
    """The seeds of one part.

    Args:
        part: which one, from 0.
        first: how many seeds another test runs: those before all parts.
        size: how many seeds a part has.
    """
    begin = first + part * size
    return range(begin, begin + size)

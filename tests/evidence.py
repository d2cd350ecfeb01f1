"""Evidence by repetition: further seeds of tests that run with other seeds already.

A test that is marked ``evidence`` makes no promise of its own: another test next to it checks the same with the first seeds, and runs with
all other tests. ``dev.py evidence`` runs only the marked tests, in parts that are distributed over the test processes. ``--parts`` is the
number of parts: part 0 begins where the first seeds end, and each further part has as many seeds.
"""

import pytest

_OPTION = "--parts"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes ``--parts`` an option."""
    parser.addoption(_OPTION, type=int, default=1, help="how many parts of what is marked `evidence` are run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes each marked test with ``part``."""
    if metafunc.definition.get_closest_marker("evidence"):
        metafunc.parametrize("part", range(metafunc.config.getoption(_OPTION)))


def seeds_of(part: int, first: int, size: int) -> range:
    """Returns the seeds of one part.

    Args:
        part: the number of the part, from 0.
        first: how many seeds the other test runs: those before all parts.
        size: how many seeds a part has.
    """
    begin = first + part * size
    return range(begin, begin + size)

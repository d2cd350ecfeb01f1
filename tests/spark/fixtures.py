"""One Spark session for all tests of a process: it takes some seconds to start."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two local cores, with the data source registered."""
    from bench.harness.session import session  # noqa: PLC0415 - a process whose tests need no Spark does not load it
    from topicpolicies_spark import register  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j's sockets are closed by its own threads, later
        with session("local[2]") as made:
            register(made)
            yield made

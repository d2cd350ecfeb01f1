"""One Spark session for all tests of the folder, because it takes some seconds to start."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    """Takes back the handler that a command of the audit sets."""
    usual = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, usual)


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """A session on two local cores, with the data source registered.

    It interprets expressions, does not divide a query's rows, and plans a query once: each of the tests' queries runs once, on a few rows,
    so generating and compiling Java for it, several tasks, and new plans between its stages would be more work than the query. Sessions in
    processes of their own (ingests, streams that are killed, clusters, commands) do all three.
    """
    from bench.harness.session import session  # noqa: PLC0415 - a process whose tests need no Spark does not load it
    from topicpolicies_spark import register  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j's sockets are closed by its own threads, later
        with session("local[2]") as made:
            made.conf.set("spark.sql.codegen.wholeStage", "false")
            made.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            made.conf.set("spark.sql.adaptive.enabled", "false")
            made.conf.set("spark.sql.shuffle.partitions", "1")
            made.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
            register(made)
            yield made

"""What all rooms share."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

pytest_plugins = [
    "tests.broker.compacting",
    "tests.broker.shared",  # before those who import it
    "tests.broker.fixtures",
    "tests.costs",
    "tests.ending",
    "tests.evidence",
    "tests.once.plugin",
    "tests.stretches",  # before those who import it
    "tests.order",
    "tests.spark.fixtures",
]

# How long one example takes says more about the machine than about the code; a test that hangs is ended by its timeout.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Brokers, Spark and builds live for seconds here, and half of their processor time is the second compiler's.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# PySpark starts Java by a fork that runs Python before it becomes Java. gRPC's own handlers of forks, of no use to whoever becomes another
# program, now and then ended that child in a process that had served calls before.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is made while tests are collected stays: to look for garbage in it took a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """The tests themselves are a quarter of a million objects that stay to the end: no collection of garbage looks through them again."""
    gc.freeze()

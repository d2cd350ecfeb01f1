"""Plugins and settings of all tests."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

pytest_plugins = [
    "tests.broker.compacting",
    "tests.broker.shared",  # before the modules that import it
    "tests.broker.fixtures",
    "tests.costs",
    "tests.ending",
    "tests.evidence",
    "tests.once.plugin",
    "tests.stretches",  # before the modules that import it
    "tests.order",
    "tests.spark.fixtures",
]

# The time of one example depends on the machine more than on the code; a test that hangs is ended by its timeout.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Brokers, Spark and builds run for seconds here, and the second compiler takes half of their processor time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# PySpark starts Java by a fork that runs Python before it executes Java. gRPC's handlers of forks, which such a child does not need,
# sometimes ended it if the process had served calls before.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Turns the garbage collector off during the collection: the objects made there stay, and examining them took a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Sets the collected tests aside from garbage collections: they are a quarter of a million objects that stay to the end."""
    gc.freeze()

"""Settings of all tests, and the fixtures of brokers."""

import gc
import os
import signal
from zlib import crc32

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

pytest_plugins = ["tests.broker.compacting", "tests.broker.shared", "tests.broker.fixtures"]

# The time of one example depends on the machine more than on the code; a test that hangs is ended by its timeout.
settings.register_profile("any machine", deadline=None, max_examples=50)
settings.load_profile("any machine")

# Brokers, Spark and builds run for seconds here, and the second compiler takes half of their processor time; a garbage collector with
# several threads, a fifth of the rest.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# PySpark starts Java by a fork that runs Python before it executes Java. gRPC's handlers of forks, which such a child does not need,
# sometimes ended it if the process had served calls before.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


def pytest_configure() -> None:
    """Has SIGTERM end a run as Ctrl-C does: fixtures are torn down, and what tests have started is ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection() -> None:
    """Turns the garbage collector off: the objects made by the collection stay, and examining them takes a fifth of its time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Turns the garbage collector on again, for objects that tests make."""
    gc.freeze()
    gc.enable()


ONE_PROCESS = ("tests/spark/", "tests/promises/plugin/", "tests/promises/exclusive/")
"""Folders whose tests all run in one process: they share a Spark session, or a broker with settings of its own."""


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives the tests of a file, or of one of ``ONE_PROCESS``, to one process: they may share a broker and change its clusters."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in ONE_PROCESS if nodeid.startswith(folder)), nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    """Has pytest-xdist distribute the tests as ``ByFile`` does."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mixes the files. The folders of one process come first, as they take longest, and short files last, so that no processor waits.

    Those of a folder often start brokers and other programs. All at once, these would be too many for the processors, and miss deadlines.
    """
    long = {_file(item) for item in items if item.get_closest_marker("broker") or item.get_closest_marker("slow")}

    def turn(item: pytest.Item) -> tuple[bool, float]:
        return not item.nodeid.startswith(ONE_PROCESS), crc32(_file(item).encode()) * (0.8 if _file(item) in long else 1.0)

    items.sort(key=turn)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]

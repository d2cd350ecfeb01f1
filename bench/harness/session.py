"""A Spark session for the harness, on any master: the audit's, with this project's modules on the executors."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession

from topicpolicies_spark.audit.session import session as session_of

_ROOT = Path(__file__).parents[2]
_FOLDERS = (_ROOT, _ROOT / "server", _ROOT / "clients/python", _ROOT / "clients/spark")
_PACKAGES = ("bench", "tests", "server/topicpolicies_server", "clients/python/topicpolicies", "clients/spark/topicpolicies_spark")


def slots_of(master: str) -> int:
    """Returns how many tasks a local master runs at once; 0: it is a cluster's, which is not known before it runs."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if local is None:
        return 0
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)


@contextlib.contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Runs a session, and stops it at the end. A local master runs a task once: a load that fails must not be made again.

    Executors on another machine get this project's modules as a zip file; their other needs are in ``requirements`` (the extra ``spark``).

    Args:
        master: ``local[2]``, or any cluster's.
    """
    slots = slots_of(master)
    path = os.pathsep.join([*map(str, _FOLDERS), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as directory, mock.patch.dict(os.environ, {"PYTHONPATH": path}):
        spark = session_of(f"local[{slots},1]" if slots else master)
        try:
            if not slots:
                spark.sparkContext.addPyFile(_archive(Path(directory)))
            yield spark
        finally:
            spark.stop()


def _archive(directory: Path) -> str:
    for package in (_ROOT / each for each in _PACKAGES):
        shutil.copytree(package, directory / "modules" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return shutil.make_archive(str(directory / "topicpolicies-modules"), "zip", directory / "modules")

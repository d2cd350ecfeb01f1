"""A Spark session for the harness, on any master."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[2]
_ROOTS = (_ROOT, _ROOT / "server", _ROOT / "clients/python", _ROOT / "clients/spark")
_PACKAGES = (
    _ROOT / "clients/python/topicpolicies",
    _ROOT / "clients/spark/topicpolicies_spark",
    _ROOT / "server/topicpolicies_server",
    _ROOT / "bench",
    _ROOT / "tests",
)


def slots_of(master: str) -> int:
    """Returns how many tasks a local master runs at once; 0: it is a cluster's, which is not known before it runs."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if local is None:
        return 0
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)


@contextlib.contextmanager
def session(master: str, memory: str = "1g") -> Iterator[SparkSession]:
    """Runs a session, and stops it at the end.

    Executors on another machine get this project's modules as a zip file; their other needs are in ``requirements`` (the extra ``spark``).

    Args:
        master: ``local[2]``, or any cluster's.
        memory: the driver's heap; the load itself is in Python's processes.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName("topic policies: load")
        .config("spark.driver.memory", memory)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
        .config("spark.log.level", "ERROR")
    )
    with tempfile.TemporaryDirectory() as directory, modules_of(local, Path(directory)) as archive:
        spark = builder.getOrCreate()
        try:
            spark.sparkContext.setLogLevel("ERROR")
            if archive is not None:
                spark.sparkContext.addPyFile(str(archive))
            yield spark
        finally:
            spark.stop()


@contextlib.contextmanager
def modules_of(local: bool, directory: Path) -> Iterator[Path | None]:
    """Makes this project's modules importable for executors: by their path on this machine, as an archive elsewhere."""
    if local:
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, _ROOTS), *filter(None, [before])])
        try:
            yield None
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
        return
    archive = directory / "topicpolicies-modules.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for package in _PACKAGES:
            for module in sorted(package.rglob("*")):
                if module.is_file() and "__pycache__" not in module.parts:
                    file.write(module, module.relative_to(package.parent))
    yield archive

"""A Spark session for the audit, local or on a cluster."""

from __future__ import annotations

import os
import re
import sys

from pyspark.sql import SparkSession

from .. import register

TASK_FAILURES = 4
"""How many failures of a task end the job, as on a cluster: a sidecar that is restarted refuses readers for a moment. A local master would
end the job at the first failure, unless its name says otherwise."""


def session(master: str, remote: str, memory: str) -> SparkSession:
    """Makes a session in which the data source is registered. The caller stops it.

    Args:
        master: ``local[2]``, or a cluster's master.
        remote: a Spark Connect server, such as ``sc://host:15002``, which is used instead of a master; empty: none.
        memory: the heap of the driver, such as ``1g``; not for a Connect server.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if remote:
        spark = SparkSession.builder.remote(remote).getOrCreate()
    else:
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        spark = (
            SparkSession.builder.master(retrying(master))
            .appName("topic policies: audit")
            .config("spark.driver.memory", memory)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        if master.startswith("local"):  # a cluster has a number of its own
            spark.conf.set("spark.sql.shuffle.partitions", "8")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register(spark)
    return spark


def retrying(master: str) -> str:
    """Returns a master that runs failed tasks again: for ``local[2]``, ``local[2,4]``. Clusters do so by themselves."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{local[1] or 1},{TASK_FAILURES}]" if local else master

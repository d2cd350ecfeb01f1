"""A Spark session for the audit, local or on a cluster."""

from __future__ import annotations

import os
import re
import sys

from pyspark.sql import SparkSession

from .. import register

TASK_FAILURES = 4
"""How often a task may fail, as on a cluster: a broker that hands a topic to another one refuses its readers for a moment. A local master
that does not say so itself gives up with the first failure."""


def session(master: str, remote: str, memory: str) -> SparkSession:
    """A session with the data source registered. Whoever made it stops it.

    Args:
        master: ``local[2]``, or a cluster's master.
        remote: a Spark Connect server, such as ``sc://host:15002``, instead of a master; empty: none.
        memory: the driver's heap where the driver runs here.
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
            .config("spark.sql.shuffle.partitions", "8")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register(spark)
    return spark


def retrying(master: str) -> str:
    """A master whose tasks are tried again: ``local[2]`` is ``local[2,4]`` then. Clusters do so by themselves."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{local[1] or 1},{TASK_FAILURES}]" if local else master

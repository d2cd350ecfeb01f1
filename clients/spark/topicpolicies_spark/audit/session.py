"""A Spark session for the audit, local or on a cluster."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from .. import register


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
            SparkSession.builder.master(master)
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

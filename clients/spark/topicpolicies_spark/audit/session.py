"""A Spark session for the audit, local or on a cluster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .. import register


def session(master: str = "local[2]", remote: str = "", memory: str = "1g", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Makes a session in which the data source is registered. The caller stops it.

    Args:
        master: ``local[2]``, or a cluster's master.
        remote: a Spark Connect server, such as ``sc://host:15002``, which is used instead of a master; empty: none.
        memory: the heap of the driver, such as ``1g``; not for a Connect server.
        conf: further settings of Spark, by name, such as ``spark.jars.packages``.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {"spark.sql.session.timeZone": "UTC"}
    if remote:
        builder = SparkSession.builder.remote(remote)
    else:
        builder = SparkSession.builder.master(retrying(master)).appName("topic policies: audit")
        settings |= {"spark.driver.memory": memory, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        settings["spark.log.level"] = "ERROR"
        if master.startswith("local"):  # a cluster has numbers of its own
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings["spark.sql.shuffle.partitions"] = "8"
    settings.update(conf or {})
    spark: SparkSession = builder.config(map=settings).getOrCreate()
    register(spark)
    return spark


def retrying(master: str) -> str:
    """Returns a local master that runs a task up to four times, as clusters do: a sidecar that is restarted refuses for a moment."""
    return re.sub(r"^local(?:\[(\d+|\*)\])?$", lambda local: f"local[{local[1] or 1},4]", master)

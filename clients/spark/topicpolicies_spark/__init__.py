"""Topic policies in Spark: the data source ``topic_policy_changes``, batch and streaming, over the history that a sidecar keeps.

    from topicpolicies_spark import register

    register(spark)
    spark.read.format("topic_policy_changes").option("address", "sidecar:6680").option("namespaces", "acme/orders").load()
    spark.readStream.format("topic_policy_changes")...

- ``options``: the options of the data source. ``source``: the classes that Spark calls; they divide a history into tasks and batches.
- ``histories``: reads a sidecar's history, over ``WatchHistory`` or from its file. ``rows``, ``documents``: events as rows.
- ``audit``: an archive of the changes, and questions about it, with a command line of its own.
- ``page``, ``plots``: the one style of all reports.

Every executor needs the package with its extra, ``pip install 'topicpolicies[spark]'``, and must reach the sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "topic_policy_changes"
"""The name of the data source, for ``format``."""

__all__ = ["NAME", "register"]


def register(spark: SparkSession) -> None:
    """Registers the data source with a session."""
    from .source import TopicPolicyChanges  # noqa: PLC0415 - workers that only read need no session

    spark.dataSource.register(TopicPolicyChanges)

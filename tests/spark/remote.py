"""A client of Spark Connect, in a process without a Spark of its own: ``python -m tests.spark.remote sc://... SIDECAR ARCHIVE``."""

from __future__ import annotations

import json
import sys

from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.questions import state, who
from topicpolicies_spark.audit.session import session


def main(remote: str, sidecar: str, archive: str) -> None:
    """Has the Spark server copy a sidecar's history into an archive, and prints the audit's results."""
    spark = session("", remote, "")
    try:
        options = {"address": sidecar, "namespaces": "public/default"}
        for _ in range(2):
            archives.ingest(spark, archive, options, every_seconds=None).awaitTermination()
        changes = archives.changes(spark, archive)
        documents = {row.topic: row.policies.max_producer_per_topic for row in state(changes).collect()}
        print(json.dumps({"documents": documents, "who": sorted({row.who for row in who(changes).collect()})}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A client of Spark Connect, in a process without a Spark of its own: ``python -m tests.spark.remote sc://... SIDECAR``."""

from __future__ import annotations

import json
import sys

from topicpolicies_spark import NAME
from topicpolicies_spark.audit.changes import who
from topicpolicies_spark.audit.session import session
from topicpolicies_spark.audit.state import state


def main(remote: str, sidecar: str) -> None:
    """Has the Spark server read a sidecar's history, and prints the audit's results."""
    spark = session("", remote, "")
    try:
        changes = spark.read.format(NAME).options(address=sidecar, namespaces="public/default").load()
        documents = {row.topic: row.policies.max_producer_per_topic for row in state(changes).collect()}
        print(json.dumps({"documents": documents, "who": sorted({row.who for row in who(changes).collect()})}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

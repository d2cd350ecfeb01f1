"""Longer runs: ``python -m tests.promises.shared --seconds 60``, each beside the same load of a naive second writer.

Ends with 1 if anything is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.broker.jars import LATEST, LOG4J_OF
from tests.broker.pulsar_broker import Broker, OwnBroker

from .run import Place, Report, beside_naive_writer, beside_sidecars


async def run(broker: Broker, options: argparse.Namespace) -> int:
    """Makes all runs, and returns how many of them lost something."""
    failed = 0
    for partitions in options.partitions:
        for topics in options.topics:
            with tempfile.TemporaryDirectory() as home:
                report = await beside_sidecars(Place(broker, topics=topics, partitions=partitions), options.seconds, Path(home))
            print(report, flush=True)
            failed += wrong(report)
            naive = await beside_naive_writer(Place(broker, topics=topics, partitions=partitions), options.seconds)
            print(naive, flush=True)
    return failed


def wrong(report: Report) -> bool:
    """Whether anything was lost or undone."""
    return any(report.lost.values()) or bool(report.undone)


def main() -> int:
    """Runs with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises.shared", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", choices=LOG4J_OF, default=LATEST)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load in each run")
    parser.add_argument("--topics", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--partitions", type=int, nargs="+", default=[0, 3], help="of the change log; 0 is a plain one")
    options = parser.parse_args()
    with OwnBroker(options.version) as broker:
        return 1 if asyncio.run(run(broker, options)) else 0


if __name__ == "__main__":
    sys.exit(main())

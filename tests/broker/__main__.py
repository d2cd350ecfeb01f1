"""A broker in the foreground, for developers: ``python -m tests.broker``. Its data is removed when it ends."""

import argparse
import signal
import sys
import threading
from dataclasses import replace
from types import FrameType

from tests.broker.configuration import Ports
from tests.broker.jars import LATEST, LOG4J_OF, BrokerUnavailableError
from tests.broker.pulsar_broker import OwnBroker


def main() -> int:
    """Runs a broker until Ctrl-C or SIGTERM. Returns 1 if no broker can be run here."""
    parser = argparse.ArgumentParser(prog="dev.py broker", description="Run a Pulsar broker until Ctrl-C.")
    parser.add_argument("--version", choices=LOG4J_OF, default=LATEST)
    parser.add_argument("--port", type=int, default=6650, help="of the service (default: 6650)")
    parser.add_argument("--web-port", type=int, default=8080, help="of the admin API (default: 8080)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a line of standalone.conf", dest="settings")
    options = parser.parse_args()
    settings = dict(line.split("=", 1) for line in options.settings)
    over = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        broker = OwnBroker(options.version, settings=settings, ports=replace(Ports(), service=options.port, web=options.web_port))
        print(f"starting Pulsar {broker.version}; its log: {broker.log}", flush=True)
        with broker:
            print(f"{broker.service_url} and {broker.admin_url}; Ctrl-C ends it", flush=True)
            over.wait()
    except BrokerUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

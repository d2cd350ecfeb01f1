"""The program ``topicpolicies``, before all that it imports, which takes a moment: signals are heeded from its beginning on."""

from __future__ import annotations

import os
import signal
import sys

from .outliving import ASKING, SERVERS, outlived


def main() -> None:
    """Runs it, under this name however it was started. Ctrl-C ends it with 130, SIGHUP ends no server, and gRPC is silent for a client."""
    if SERVERS.isdisjoint(sys.argv[1:]):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # each attempt that fails is told by gRPC too, amid the output
    else:
        for number in ASKING:
            signal.signal(number, outlived)  # until the server has them; see ``signals``
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    from .cli.app import main as run  # noqa: PLC0415

    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _leave(number: int, _frame: object) -> None:
    """Nothing was begun or written yet. What is imported is not told: an exception amid it shows as a traceback, or is lost."""
    os._exit(128 + number)

"""The entry point of the program ``topicpolicies``, and of ``python -m topicpolicies_server``.

It handles signals before it imports the rest of the program, which takes a while.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Runs the program. Ctrl-C exits with 130; SIGHUP, SIGUSR1 and SIGUSR2 don't end a server; a client silences gRPC's own output."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    from .process import SERVERS, ignore_control_signals  # noqa: PLC0415

    if SERVERS.isdisjoint(sys.argv[1:]):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would log each failed attempt to connect, amid the command's output
    else:
        ignore_control_signals()  # until the server installs its own handlers
    from .cli.app import main as run  # noqa: PLC0415

    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _leave(number: int, _frame: object) -> None:
    """Exits at once: nothing was begun or written yet. An exception raised amid an import would show as a traceback, or be lost."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()

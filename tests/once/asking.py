"""Stands for a test process where it is started: gives its streams to the process that has collected, and ends with what that forks.

It is run as a program, with the address and with what xdist appends for a Python. Who interrupts a run interrupts what was forked.
"""

import contextlib
import os
import signal
import socket
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ConnectionError), socket.socket(socket.AF_UNIX) as asked:
        asked.connect("\0" + sys.argv[1])
        socket.send_fds(asked, [b"fork"], [0, 1])
        for stream in (0, 1):
            os.close(stream)
        asked.recv(1)

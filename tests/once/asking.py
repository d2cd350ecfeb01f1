"""Takes the place of a test process that xdist starts: passes its streams to the collecting process, and ends with the fork.

This module is run as a program, with the address of the collecting process and the arguments that xdist appends for Python. It ignores
SIGINT, which the fork handles.
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

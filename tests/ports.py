"""Free ports of the loopback interface, for servers that need a configured port."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux takes the ports of outgoing connections, so that no connection can take a port between probe and use.
_PORTS = range(20_000, 32_000)
_CHANCE = random.SystemRandom()  # tests that seed the common generator alike would get the same ports in several processes
_given: set[int] = set()


def free_port() -> int:
    """Returns a port on which no process listens now; no port is returned twice."""
    for port in _CHANCE.sample(_PORTS, len(_PORTS)):
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError("every port is taken")

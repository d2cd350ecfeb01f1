"""Ports of the loopback interface, for servers that have to be told theirs."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux takes the ports of outgoing connections, so that none of those can take ours between probe and use.
_PORTS = range(20_000, 32_000)
_CHANCE = random.SystemRandom()  # some tests seed the common generator, and processes that draw alike would take the same ports
_given: set[int] = set()


def free_port() -> int:
    """A port on which nobody listens now; none is given twice."""
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

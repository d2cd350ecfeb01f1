"""Whether addresses can be listened on, asked of the system: gRPC tells that they can't in words of its own, and not why."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from ...config import Address


class NotBoundError(OSError):
    """Nothing can listen on an address; its text is the sentence."""


def check_addresses(addresses: list[Address]) -> None:
    """Looks whether all of the addresses can be listened on.

    Raises:
        NotBoundError: one can't be.
    """
    for address in addresses:
        refused = _refusal_of_socket(address.path) if address.path else _refusal_of_port(address.host, address.port)
        if refused:
            raise NotBoundError(f"nothing can listen on {address}: {refused}.")


_IN_USE = "another program listens there; stop that one, or name another address"
_HINTS = {
    errno.EACCES: "this user may not; name a port above 1023",
    errno.EADDRINUSE: _IN_USE,
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that it has",
}


def _refusal_of_port(host: str, port: int) -> str:
    """Why the system refuses a port, on all addresses of a host; empty if it does not."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return "nobody knows this host; name another address"
    refused: list[OSError] = []
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(place)
        except OSError as error:
            refused.append(error)
    if len(refused) < len(places):
        return ""
    first = next((each for each in refused if each.errno == errno.EADDRINUSE), refused[0])
    return _HINTS.get(first.errno or 0, f"{first.strerror}; name another address")


def _refusal_of_socket(path: str) -> str:
    """Why a Unix socket can't be listened on. One on which somebody listens is his: gRPC would take it from him without a word."""
    folder = Path(path).absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return "its directory is not there, or can't be written; name another path"
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(1)
        try:
            tried.connect(path)
        except (BlockingIOError, TimeoutError):
            return _IN_USE  # more want to connect than are let in
        except OSError:
            return ""  # nobody listens; what else is wrong with it is said when it is listened on
    return _IN_USE

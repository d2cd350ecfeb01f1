"""Checks by trial whether addresses can be listened on: when gRPC can't listen on one, its error does not say why."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from ...config import Address


class NotBoundError(OSError):
    """Nothing can listen on an address. The text is a sentence that says which and why."""


def check_addresses(addresses: list[Address]) -> None:
    """Checks that all of the addresses can be listened on.

    Raises:
        NotBoundError: one of them can't be.
    """
    for address in addresses:
        refused = _refusal_of_socket(address.path) if address.path else _refusal_of_port(address.host, address.port)
        if refused:
            raise NotBoundError(f"nothing can listen on {address}: {refused}.")


_IN_USE = "another program listens there; stop it, or name another address"
_HINTS = {
    errno.EACCES: "this user lacks the permission; name a port above 1023",
    errno.EADDRINUSE: _IN_USE,
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that it has",
}


def _refusal_of_port(host: str, port: int) -> str:
    """Returns why the port can't be bound on any address of the host; empty: it can be on one at least."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return "the host name can't be resolved; name another address"
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
    """Returns why a Unix socket can't be listened on; empty: nothing speaks against it.

    gRPC would silently replace the socket of another program that listens there.
    """
    folder = Path(path).absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return "its directory does not exist or can't be written; name another path"
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(1)
        try:
            tried.connect(path)
        except (BlockingIOError, TimeoutError):
            return _IN_USE  # a program listens, and its queue of connections is full
        except OSError:
            return ""  # no program listens; any other problem is reported when the server listens
    return _IN_USE

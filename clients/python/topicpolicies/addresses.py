"""Addresses of servers, in gRPC's syntax: finds hosts and ports, and recognizes this machine."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT_TARGET = "localhost:6680"
"""The address where the service listens by default."""
_UNIX = ("unix:", "unix-abstract:")
_SOCKETS = (*_UNIX, "vsock:")
_NAMES = ("dns:", "ipv4:", "ipv6:")
_PORT = 443
"""gRPC's default port, for an address that names none."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place that an address names: a host and a port, or a socket."""

    host: str
    port: int
    path: str = ""
    """The path or name of a socket that has no host and port; empty: it has."""
    scheme: str = "unix"
    """The kind of such a socket."""

    def __str__(self) -> str:
        if self.path:
            return f"{self.scheme}:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def places_of(address: str) -> tuple[Place, ...]:
    """Returns the places that an address names: one, or with a scheme such as ``ipv4:`` several, separated by commas.

    Raises:
        ValueError: the address is malformed; the message is a sentence that says how.
    """
    if address.startswith(_SOCKETS):
        scheme, _, path = address.partition(":")
        return (Place("", 0, path.removeprefix("//"), scheme),)
    rest = address.rpartition("/")[2] if "://" in address or address.startswith("dns:") else address
    for scheme in _NAMES:
        rest = rest.removeprefix(scheme)
    return tuple(_place(part.strip()) for part in rest.split(","))


def is_local(address: str) -> bool:
    """Returns whether an address names only places on this machine: loopback addresses, ``localhost`` or a Unix socket."""
    if address.startswith(_UNIX):
        return True
    try:
        return all(_is_loopback(place.host) for place in places_of(address))
    except ValueError:
        return False


def _place(part: str) -> Place:
    if part.count(":") > 1 and "[" not in part:
        try:
            return Place(str(ipaddress.IPv6Address(part)), _PORT)
        except ValueError:
            raise ValueError(f'"{part}" is not an address: write an IPv6 address with a port in brackets, such as [::1]:6680') from None
    try:
        parts = urlsplit(f"//{part}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = part, 0
    if port == 0 or part.endswith(":"):
        raise ValueError(f'"{part}" is not an address: a port is a number from 1 to 65535')
    if not host:
        raise ValueError(f'"{part}" has no host')
    return Place(host, _PORT if port is None else port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

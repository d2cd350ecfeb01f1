"""Addresses of servers, as gRPC takes them: which ones a target has, where each is, and whether that is this machine."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from .arguments import text
from .errors import Violation, invalid

DEFAULT_TARGET = "localhost:6680"
"""Where the service listens unless it was told otherwise."""
_SOCKETS = ("unix:", "unix-abstract:", "vsock:")
_NAMES = ("dns:", "ipv4:", "ipv6:")
_SCHEMES = (*_SOCKETS, *_NAMES)
_PORT = 443
"""What gRPC takes where an address names no port."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is looked for."""

    host: str
    port: int
    path: str = ""
    """Of a socket that has no host."""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_of(target: str) -> tuple[str, ...]:
    """The addresses in a target: several are separated by commas. What has a scheme is one, and gRPC's own business.

    Raises:
        InvalidArgument: it is no text, or a URL, which gRPC would take for a strange name.
    """
    if text(target, "target").startswith(("http://", "https://")):
        problem = f'The target must be an address, host:port, not a URL: "{target}".'
        raise invalid("MALFORMED_TARGET", Violation("target", "MALFORMED_TARGET", problem))
    if target.startswith(_SCHEMES) or "://" in target:
        return (target,)
    return tuple(part for part in map(str.strip, target.split(",")) if part) or (target,)


def places_of(address: str) -> tuple[Place, ...]:
    """The places that an address of gRPC's names: one, unless its scheme has several, separated by commas.

    Raises:
        ValueError: they can't be told; a sentence.
    """
    if address.startswith(_SOCKETS):
        return (Place("", 0, address.partition(":")[2].removeprefix("//")),)
    rest = address.rpartition("/")[2] if "://" in address or address.startswith("dns:") else address
    for scheme in _NAMES:
        rest = rest.removeprefix(scheme)
    return tuple(_place(part.strip()) for part in rest.split(","))


def is_local(address: str) -> bool:
    """Whether all that an address names is on this machine: loopback addresses, ``localhost`` or a Unix socket."""
    if address.startswith("unix:"):
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

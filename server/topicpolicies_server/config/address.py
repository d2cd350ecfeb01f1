"""The error of a wrong configuration; the address that a server listens on; URLs; patterns of namespaces."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from fnmatch import translate
from typing import NamedTuple
from urllib.parse import urlsplit

DEFAULT_PORT = 6680
"""The default port; none of Pulsar's own ports."""
DEFAULT_LISTEN = f"127.0.0.1:{DEFAULT_PORT}"
_UNIX = "unix:"
_PATTERN = re.compile(r"[-=:.\w*]+/[-=:.\w*]+", re.ASCII)


class ConfigError(ValueError):
    """A configuration is wrong; the error has all problems, a sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Address(NamedTuple):
    """An address to listen on: TCP, or a Unix socket."""

    host: str
    """A host name or IP address, without brackets; empty for a Unix socket."""
    port: int
    """0 lets the system choose."""
    path: str = ""
    """The path of a Unix socket; empty for TCP."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def unspecified(self) -> bool:
        """Whether the address is a wildcard (``0.0.0.0``, ``::``): all addresses of this machine, so that no client can connect to it."""
        try:
            return not self.path and ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Reads ``host:port``, ``[IPv6 address]:port`` or ``unix:/path``.

    Raises:
        ConfigError: the text is none of these.
    """
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        return Address("", 0, text.removeprefix(_UNIX))
    host, separator, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    valid = separator and host.strip("[]") and (bracketed or ":" not in host) and port.isascii() and port.isdigit()
    if not valid or int(port) > 65_535 or any(character.isspace() or character == "/" for character in host):
        raise ConfigError((f'"{text}" is not an address to listen on: write host:port, [IPv6 address]:port or unix:/path.',))
    return Address(host[1:-1] if bracketed else host, int(port))


def is_private(url: str) -> bool:
    """Whether the answer of a URL can't be changed on its way: the URL is https, or its host is this machine."""
    return is_url(url) and (url.startswith("https:") or Address(urlsplit(url).hostname or "", 0).loopback)


def is_url(text: str, *, schemes: tuple[str, ...] = ("https", "http"), hosts: bool = False) -> bool:
    """Whether a text is a URL with one of these schemes, without credentials. ``hosts``: one that only names hosts, with their ports."""
    scheme, _, rest = text.partition("://")
    try:
        parts = [urlsplit(f"//{each}") for each in (rest.rstrip("/").split(",") if hosts else [rest])]
        sound = all(each.hostname and each.port != 0 and each.username is None and not each.fragment for each in parts)
    except ValueError:
        return False
    return sound and scheme in schemes and not (hosts and any(each.port is None or each.path for each in parts))


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern of namespaces: ``tenant/namespace``, in which ``*`` stands for any characters but the slash."""
    return _PATTERN.fullmatch(text) is not None


def matching(patterns: Iterable[str]) -> re.Pattern[str]:
    """Returns what matches, as a whole, each name that one of some patterns means; Pulsar's former names of three parts match none."""
    return re.compile(f"(?!.*/.*/)(?:{'|'.join(map(translate, patterns)) or '(?!)'})")

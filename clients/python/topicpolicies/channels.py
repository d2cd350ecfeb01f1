"""How a client reaches the service: its address, TLS and the options of the connection."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import grpc

from . import traces
from .arguments import text
from .errors import Violation, invalid
from .stubs import Metadata

DEFAULT_TARGET = "localhost:6680"
"""Where the service listens unless it was told otherwise."""
ACTOR_KEY = "topicpolicies-actor"
"""The metadata that says who asks for a change."""
_SCHEMES = ("ipv4:", "ipv6:", "unix:", "unix-abstract:", "dns:", "vsock:")
StrPath: TypeAlias = str | os.PathLike[str]
Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or what gives the present one; it is asked for each call, and must not wait for long."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 30_000),  # a connection that died without a word is noticed
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.max_receive_message_length", 64 << 20),
)
"""The channel options that clients begin with; those that are handed in come after and win."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS of a connection. All files are PEM."""

    ca_file: StrPath | None = None
    """The authorities that the server's certificate is checked against; None: gRPC's own."""
    certificate_file: StrPath | None = None
    """The client's own certificate, if the server asks for one (mutual TLS)."""
    key_file: StrPath | None = None
    """Its private key."""
    server_name: str | None = None
    """The name that the server's certificate carries, where it differs from the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        """As gRPC takes it.

        Raises:
            OSError: a file can't be read.
        """
        return grpc.ssl_channel_credentials(
            Path(self.ca_file).read_bytes() if self.ca_file else None,
            Path(self.key_file).read_bytes() if self.key_file else None,
            Path(self.certificate_file).read_bytes() if self.certificate_file else None,
        )


def addresses_of(target: str) -> tuple[str, ...]:
    """The addresses in a target: several are separated by commas. What has a scheme is one, and gRPC's own business.

    Raises:
        InvalidArgument: it is no text, or a URL, which gRPC would take for a strange name.
    """
    if text(target, "target").startswith(("http://", "https://")):
        problem = f'The target is an address, host:port, and not a URL: "{target}".'
        raise invalid("MALFORMED_TARGET", Violation("target", "MALFORMED_TARGET", problem))
    if target.startswith(_SCHEMES) or "://" in target:
        return (target,)
    return tuple(part for part in map(str.strip, target.split(",")) if part) or (target,)


def credentials_for(target: str, tls: bool | Tls | None) -> grpc.ChannelCredentials | None:
    """The credentials for a target, and for wherever it sends the client; None: without TLS.

    Args:
        target: the address, or several.
        tls: whether and how; None: with TLS, unless all of the target is on this machine.
    """
    if tls is False or (tls is None and all(map(is_local, addresses_of(target)))):
        return None
    return (tls if isinstance(tls, Tls) else Tls()).credentials()


def options_for(tls: bool | Tls | None, options: Iterable[tuple[str, int | str]]) -> tuple[tuple[str, int | str], ...]:
    """The options of a channel."""
    name = tls.server_name if isinstance(tls, Tls) else None
    return (*OPTIONS, *((("grpc.ssl_target_name_override", name),) if name else ()), *options)


def metadata_for(actor: str, token: Token | None, metadata: Iterable[tuple[str, str]]) -> Callable[[], Metadata]:
    """What gives the metadata of a call.

    Raises:
        InvalidArgument: the actor can't be sent.
    """
    if actor and not (actor.isascii() and actor.isprintable() and actor == actor.strip()):
        problem = "The actor is sent as metadata: printable ASCII, without blanks around it. A change's own actor may be any text."
        raise invalid("MALFORMED_ACTOR", Violation("actor", "MALFORMED_ACTOR", problem))
    fixed = (*(((ACTOR_KEY, actor),) if actor else ()), *metadata)

    def current() -> Metadata:
        given = fixed if any(key == traces.PARENT_KEY for key, _ in fixed) else (*fixed, *traces.current())
        if token is None:
            return given
        return (*given, ("authorization", f"Bearer {token if isinstance(token, str) else token()}"))

    return current


def check_token(address: str, credentials: grpc.ChannelCredentials | None, token: Token | None) -> None:
    """Refuses to send a token where others can read it.

    Raises:
        InvalidArgument: the connection goes to another machine without TLS.
    """
    if token is not None and credentials is None and not all(map(is_local, addresses_of(address))):
        problem = f"A token is not sent to another machine ({address}) without TLS."
        raise invalid("TOKEN_IN_THE_CLEAR", Violation("token", "TOKEN_IN_THE_CLEAR", problem))


def is_local(target: str) -> bool:
    """Whether a target is on this machine: a loopback address, ``localhost`` or a Unix socket."""
    if target.startswith("unix:"):
        return True
    address = target.rpartition("://")[2].rpartition("/")[2] if "://" in target else target.removeprefix("dns:")
    host = address.rpartition(":")[0].strip("[]") if ":" in address else address
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
